//! A connection after its handshake.

use rustls::{
    ExtractedSecrets,
    client::ClientConnectionData,
    kernel::KernelConnection,
    pki_types::{CertificateDer, ServerName},
    server::ServerConnectionData,
};
use webpki::EndEntityCert;

use crate::{
    Error,
    protection::{
        HEADER_LEN, MAX_PLAINTEXT_LEN, OVERHEAD, Protection,
        content::{ALERT, APPLICATION_DATA, CHANGE_CIPHER_SPEC, HANDSHAKE},
        record_len,
    },
};

/// Records after which a key is updated. The limit for AES-GCM is 2^24.5 full-size records (RFC 8446 section 5.5).
const KEY_LIFETIME: u64 = 1 << 24;

/// Handshake type of a KeyUpdate (RFC 8446 section 4.6.3).
const KEY_UPDATE: u8 = 24;

/// Length of a record with a KeyUpdate, bytes.
const KEY_UPDATE_LEN: usize = 5 + OVERHEAD;

/// The source of new keys.
pub(crate) enum Keys {
    Client(Box<KernelConnection<ClientConnectionData>>),
    Server(Box<KernelConnection<ServerConnectionData>>),
}

/// An established connection, in both directions.
pub struct Session {
    sealing: Protection,
    opening: Protection,
    keys: Keys,
    chain: Vec<CertificateDer<'static>>,
    update_due: bool,
    key_lifetime: u64,
}

/// Result of [`Session::open`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Opened {
    /// The record is incomplete.
    Incomplete,
    /// A record was processed.
    Record {
        /// Length of the record, bytes.
        consumed: usize,
        /// Bytes written to the output, possibly none.
        written: usize,
    },
    /// The peer has closed its direction.
    Closed,
}

/// Longest output of [`Session::seal`] for `len` bytes.
#[must_use]
pub const fn sealed_len(len: usize) -> usize {
    len + len.div_ceil(MAX_PLAINTEXT_LEN) * OVERHEAD + KEY_UPDATE_LEN
}

impl Session {
    pub(crate) fn new(
        secrets: ExtractedSecrets,
        keys: Keys,
        chain: Vec<CertificateDer<'static>>,
    ) -> Result<Self, Error> {
        Ok(Self {
            sealing: Protection::new(secrets.tx)?,
            opening: Protection::new(secrets.rx)?,
            keys,
            chain,
            update_due: false,
            key_lifetime: KEY_LIFETIME,
        })
    }

    /// Whether `name` is a subject alternative name of the peer's certificate. (The handshake has verified its
    /// signature.)
    #[must_use]
    pub fn is_with(&self, name: &str) -> bool {
        self.chain.first().is_some_and(|certificate| is_certificate_of(certificate, name))
    }

    /// The peer's certificate chain, its own first.
    #[must_use]
    pub fn chain(&self) -> &[CertificateDer<'static>] {
        &self.chain
    }

    /// Writes `plain` as records to the start of `out`, which must have [`sealed_len`] bytes; returns their length.
    pub fn seal(&mut self, plain: &[u8], out: &mut [u8]) -> Result<usize, Error> {
        let mut at = self.renew_key(out)?;
        for content in plain.chunks(MAX_PLAINTEXT_LEN) {
            let space = out.get_mut(at..).ok_or(Error::NoRoom)?;
            at += self.sealing.seal(content, APPLICATION_DATA, space)?;
        }
        Ok(at)
    }

    /// Decrypts the record at the start of `sealed` into `out`, which must have at least [`MAX_PLAINTEXT_LEN`] + 256
    /// bytes.
    pub fn open(&mut self, sealed: &[u8], out: &mut [u8]) -> Result<Opened, Error> {
        let Some(len) = record_len(sealed)? else { return Ok(Opened::Incomplete) };
        let Some(record) = sealed.get(..len) else { return Ok(Opened::Incomplete) };
        if record.first() == Some(&CHANGE_CIPHER_SPEC) {
            // Middlebox compatibility (RFC 8446 section 5): ignored.
            return Ok(Opened::Record { consumed: len, written: 0 });
        }
        let (written, kind) = self.opening.open(record, out)?;
        match kind {
            APPLICATION_DATA => Ok(Opened::Record { consumed: len, written }),
            ALERT => closed(out.get(..written).unwrap_or_default()),
            HANDSHAKE => {
                self.post_handshake(out.get(..written).unwrap_or_default())?;
                Ok(Opened::Record { consumed: len, written: 0 })
            }
            found => Err(Error::Record {
                field: "content type",
                found: found.into(),
                expected: "data, alert or handshake",
            }),
        }
    }

    /// Sends a KeyUpdate and changes the sending key if the old one is exhausted or the peer has requested it.
    fn renew_key(&mut self, out: &mut [u8]) -> Result<usize, Error> {
        if !self.update_due && self.sealing.sequence() < self.key_lifetime {
            return Ok(0);
        }
        let message = [KEY_UPDATE, 0, 0, 1, 0];
        let len = self.sealing.seal(&message, HANDSHAKE, out)?;
        self.sealing = Protection::new(match &mut self.keys {
            Keys::Client(keys) => keys.update_tx_secret()?,
            Keys::Server(keys) => keys.update_tx_secret()?,
        })?;
        self.update_due = false;
        Ok(len)
    }

    /// Handles a KeyUpdate, the only message expected, alone in its record (RFC 8446 section 5.1).
    fn post_handshake(&mut self, message: &[u8]) -> Result<(), Error> {
        let &[KEY_UPDATE, 0, 0, 1, request @ (0 | 1)] = message else {
            let found = message.first().copied().unwrap_or(0).into();
            return Err(Error::Record { field: "handshake type", found, expected: "a KeyUpdate" });
        };
        self.opening = Protection::new(match &mut self.keys {
            Keys::Client(keys) => keys.update_rx_secret()?,
            Keys::Server(keys) => keys.update_rx_secret()?,
        })?;
        self.update_due |= request == 1;
        Ok(())
    }
}

/// A `close_notify` ends the stream; every other alert is an error (RFC 8446 section 6).
fn closed(alert: &[u8]) -> Result<Opened, Error> {
    match alert {
        [_, 0] => Ok(Opened::Closed),
        [_, description] => Err(Error::Alert(*description)),
        _ => Err(Error::Record { field: "alert length", found: alert.len() as u64, expected: "2" }),
    }
}

const _: () = assert!(HEADER_LEN < OVERHEAD);

/// Whether `name` is a subject alternative name of a certificate.
#[must_use]
pub fn is_certificate_of(certificate: &CertificateDer<'_>, name: &str) -> bool {
    let (Ok(certificate), Ok(name)) =
        (EndEntityCert::try_from(certificate), ServerName::try_from(name))
    else {
        return false;
    };
    certificate.verify_is_valid_for_subject_name(&name).is_ok()
}

#[cfg(test)]
mod tests;
