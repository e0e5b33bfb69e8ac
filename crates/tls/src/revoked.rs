//! Revoked certificates, by fingerprint.

use std::{collections::BTreeSet, fmt, sync::Arc};

use aws_lc_rs::digest::{SHA256, digest};
use rustls::{
    CertificateError, DigitallySignedStruct, DistinguishedName, Error, SignatureScheme,
    client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier},
    pki_types::{CertificateDer, ServerName, UnixTime},
    server::danger::{ClientCertVerified, ClientCertVerifier},
};

const LEN: usize = 32;

/// SHA-256 fingerprints of certificates.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Revoked(BTreeSet<[u8; LEN]>);

impl Revoked {
    /// Adds a fingerprint: 64 hexadecimal digits, with or without colons between bytes, as
    /// `openssl x509 -fingerprint -sha256` prints them after the `=`. Returns whether the text is valid.
    pub fn add(&mut self, text: &str) -> bool {
        let digits: String = text.chars().filter(|c| *c != ':').collect();
        let byte = |at: usize| {
            let pair = digits.get(2 * at..2 * at + 2)?;
            pair.bytes().all(|digit| digit.is_ascii_hexdigit()).then_some(())?;
            u8::from_str_radix(pair, 16).ok()
        };
        let bytes: Option<Vec<u8>> = (0..LEN).map(byte).collect();
        let bytes = bytes.filter(|_| digits.len() == 2 * LEN);
        let Some(fingerprint) = bytes.and_then(|bytes| bytes.try_into().ok()) else {
            return false;
        };
        self.0.insert(fingerprint);
        true
    }

    /// Whether a certificate (DER) is one of them.
    #[must_use]
    pub fn contains(&self, certificate: &[u8]) -> bool {
        !self.0.is_empty() && self.0.contains(digest(&SHA256, certificate).as_ref())
    }

    fn check(&self, first: &CertificateDer<'_>, rest: &[CertificateDer<'_>]) -> Result<(), Error> {
        let mut chain = std::iter::once(first).chain(rest);
        if chain.any(|certificate| self.contains(certificate)) {
            return Err(CertificateError::Revoked.into());
        }
        Ok(())
    }
}

/// Accepts what another verifier accepts, except revoked certificates.
#[derive(Debug)]
pub(crate) struct Unrevoked<V: fmt::Debug + ?Sized> {
    pub(crate) inner: Arc<V>,
    pub(crate) revoked: Arc<Revoked>,
}

/// The parts of a verifier that do not depend on the certificate, delegated to the inner verifier.
macro_rules! signatures_as_inside {
    () => {
        fn verify_tls12_signature(
            &self,
            message: &[u8],
            certificate: &CertificateDer<'_>,
            signed: &DigitallySignedStruct,
        ) -> Result<HandshakeSignatureValid, Error> {
            self.inner.verify_tls12_signature(message, certificate, signed)
        }

        fn verify_tls13_signature(
            &self,
            message: &[u8],
            certificate: &CertificateDer<'_>,
            signed: &DigitallySignedStruct,
        ) -> Result<HandshakeSignatureValid, Error> {
            self.inner.verify_tls13_signature(message, certificate, signed)
        }

        fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
            self.inner.supported_verify_schemes()
        }
    };
}

impl ServerCertVerifier for Unrevoked<dyn ServerCertVerifier> {
    fn verify_server_cert(
        &self,
        first: &CertificateDer<'_>,
        rest: &[CertificateDer<'_>],
        name: &ServerName<'_>,
        ocsp: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        self.revoked.check(first, rest)?;
        self.inner.verify_server_cert(first, rest, name, ocsp, now)
    }

    signatures_as_inside!();
}

impl ClientCertVerifier for Unrevoked<dyn ClientCertVerifier> {
    fn root_hint_subjects(&self) -> &[DistinguishedName] {
        self.inner.root_hint_subjects()
    }

    fn verify_client_cert(
        &self,
        first: &CertificateDer<'_>,
        rest: &[CertificateDer<'_>],
        now: UnixTime,
    ) -> Result<ClientCertVerified, Error> {
        self.revoked.check(first, rest)?;
        self.inner.verify_client_cert(first, rest, now)
    }

    signatures_as_inside!();
}

#[cfg(test)]
mod tests {
    use super::*;

    /// SHA-256 of the empty string (FIPS 180-4).
    const NOTHING: &str = "E3:B0:C4:42:98:FC:1C:14:9A:FB:F4:C8:99:6F:B9:24:\
                           27:AE:41:E4:64:9B:93:4C:A4:95:99:1B:78:52:B8:55";

    #[test]
    fn fingerprints_are_read_as_openssl_prints_them() {
        let mut revoked = Revoked::default();
        assert!(!revoked.contains(b""));
        assert!(revoked.add(NOTHING));
        assert!(revoked.add(&NOTHING.replace(':', "").to_lowercase()));
        assert_eq!(revoked.0.len(), 1);
        assert!(revoked.contains(b"") && !revoked.contains(b"a"));
        for wrong in ["", "E3", &NOTHING[3..], &NOTHING.replace("E3", "+3"), &"ä".repeat(32)] {
            assert!(!revoked.add(wrong), "{wrong}");
        }
    }
}
