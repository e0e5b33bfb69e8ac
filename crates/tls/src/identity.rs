//! Certificate and key of a gateway, and the verification of its peers.

use std::{
    fmt::{self, Display},
    path::Path,
    sync::Arc,
};

use ::aws_lc_rs::hmac::{self, HMAC_SHA256};
use rustls::{
    ClientConfig, RootCertStore, ServerConfig,
    client::{Resumption, WebPkiServerVerifier, danger::ServerCertVerifier},
    crypto::{CryptoProvider, aws_lc_rs},
    pki_types::{
        CertificateDer, PrivateKeyDer, ServerName,
        pem::{self, PemObject},
    },
    server::{NoServerSessionStorage, WebPkiClientVerifier, danger::ClientCertVerifier},
    version::TLS13,
};

use crate::revoked::{Revoked, Unrevoked};

/// TLS configuration of a gateway, as client and as server.
#[derive(Clone, Debug)]
pub struct Identity {
    pub(crate) client: Arc<ClientConfig>,
    pub(crate) server: Arc<ServerConfig>,
    clients: Arc<dyn ClientCertVerifier>,
    servers: Arc<dyn ServerCertVerifier>,
    secret: Secret,
}

/// The part of the other end in a handshake.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Peer<'a> {
    /// It connected.
    Client,
    /// We connected to the branch of this name.
    Server(&'a str),
}

/// Pseudorandom key extracted from the private key (RFC 5869 section 2.2).
#[derive(Clone)]
struct Secret(hmac::Key);

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret")
    }
}

/// A file of an identity.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Part {
    /// Own certificate.
    Certificate,
    /// Own private key.
    Key,
    /// Certificate of the authority.
    Authority,
}

impl Display for Part {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Certificate => "certificate",
            Self::Key => "private key",
            Self::Authority => "authority's certificate",
        })
    }
}

/// Why an identity cannot be loaded.
#[derive(Debug, thiserror::Error)]
pub enum IdentityError {
    /// A file cannot be read or does not contain the item.
    #[error("{part}: {source}")]
    File {
        /// The file.
        part: Part,
        /// The reason.
        source: pem::Error,
    },
    /// The content is invalid.
    #[error("{part}: {reason}")]
    Unusable {
        /// The file.
        part: Part,
        /// The reason.
        reason: String,
    },
}

impl IdentityError {
    /// The file that is at fault.
    #[must_use]
    pub fn part(&self) -> Part {
        match self {
            Self::File { part, .. } | Self::Unusable { part, .. } => *part,
        }
    }

    fn unusable(part: Part, reason: &impl ToString) -> Self {
        Self::Unusable { part, reason: reason.to_string() }
    }
}

impl Identity {
    /// Reads an identity from PEM files. Peers with a revoked certificate are rejected.
    pub fn load(
        certificate: &Path,
        key: &Path,
        ca: &Path,
        revoked: Revoked,
    ) -> Result<Self, IdentityError> {
        let chain = certificates(certificate, Part::Certificate)?;
        let key = PrivateKeyDer::from_pem_file(key)
            .map_err(|source| IdentityError::File { part: Part::Key, source })?;
        let mut roots = RootCertStore::empty();
        for root in certificates(ca, Part::Authority)? {
            roots.add(root).map_err(|e| IdentityError::unusable(Part::Authority, &e))?;
        }
        Self::new(&chain, &key, Arc::new(roots), Arc::new(revoked))
    }

    /// The same from PEM text: certificate chain, key, and the authority's certificate.
    pub fn from_pem(
        certificate: &[u8],
        key: &[u8],
        ca: &[u8],
        revoked: Revoked,
    ) -> Result<Self, IdentityError> {
        let read = |part, pem| {
            let read = CertificateDer::pem_slice_iter(pem).collect::<Result<Vec<_>, _>>();
            read.map_err(|source| IdentityError::File { part, source })
        };
        let chain = read(Part::Certificate, certificate)?;
        let key = PrivateKeyDer::from_pem_slice(key)
            .map_err(|source| IdentityError::File { part: Part::Key, source })?;
        let mut roots = RootCertStore::empty();
        for root in read(Part::Authority, ca)? {
            roots.add(root).map_err(|e| IdentityError::unusable(Part::Authority, &e))?;
        }
        Self::new(&chain, &key, Arc::new(roots), Arc::new(revoked))
    }

    /// Whether a peer with this certificate chain, its own first, would be accepted in a handshake now.
    #[must_use]
    pub fn accepts(&self, chain: &[CertificateDer<'_>], peer: Peer<'_>) -> bool {
        let Some((first, rest)) = chain.split_first() else { return false };
        let Some(now) = self.client.time_provider.current_time() else { return false };
        match peer {
            Peer::Client => self.clients.verify_client_cert(first, rest, now).is_ok(),
            Peer::Server(name) => ServerName::try_from(name).is_ok_and(|name| {
                self.servers.verify_server_cert(first, rest, &name, &[], now).is_ok()
            }),
        }
    }

    /// A key for a purpose, which only the holder of the private key can compute: the first block of HKDF-Expand (RFC
    /// 5869 section 2.3). It is the same after a restart.
    #[must_use]
    pub fn derived_key(&self, purpose: &[u8]) -> hmac::Key {
        let block = hmac::sign(&self.secret.0, &[purpose, &[1]].concat());
        hmac::Key::new(HMAC_SHA256, block.as_ref())
    }

    /// Configurations for QUIC (RFC 9001) as client and as server, with application protocols (RFC 7301), the
    /// preferred first.
    #[must_use]
    pub fn for_quic(&self, protocols: &[&[u8]]) -> (ClientConfig, ServerConfig) {
        let (mut client, mut server) = ((*self.client).clone(), (*self.server).clone());
        let protocols: Vec<_> = protocols.iter().map(|protocol| protocol.to_vec()).collect();
        client.alpn_protocols.clone_from(&protocols);
        server.alpn_protocols = protocols;
        (client, server)
    }

    pub(crate) fn new(
        chain: &[CertificateDer<'static>],
        key: &PrivateKeyDer<'static>,
        roots: Arc<RootCertStore>,
        revoked: Arc<Revoked>,
    ) -> Result<Self, IdentityError> {
        let provider = provider();
        let unusable = |part| move |e: &dyn ToString| IdentityError::unusable(part, &e.to_string());
        let clients = WebPkiClientVerifier::builder_with_provider(roots.clone(), provider.clone())
            .build()
            .map_err(|e| unusable(Part::Authority)(&e))?;
        let clients: Arc<dyn ClientCertVerifier> =
            Arc::new(Unrevoked { inner: clients, revoked: revoked.clone() });
        let servers = WebPkiServerVerifier::builder_with_provider(roots, provider.clone())
            .build()
            .map_err(|e| unusable(Part::Authority)(&e))?;
        let servers: Arc<dyn ServerCertVerifier> = servers;
        let servers: Arc<dyn ServerCertVerifier> = Arc::new(Unrevoked { inner: servers, revoked });
        let mut server = ServerConfig::builder_with_provider(provider.clone())
            .with_protocol_versions(&[&TLS13])
            .map_err(|e| unusable(Part::Key)(&e))?
            .with_client_cert_verifier(clients.clone())
            .with_single_cert(chain.to_vec(), key.clone_key())
            .map_err(|e| unusable(Part::Key)(&e))?;
        let mut client = ClientConfig::builder_with_provider(provider)
            .with_protocol_versions(&[&TLS13])
            .map_err(|e| unusable(Part::Key)(&e))?
            .dangerous() // rustls calls any verifier but its own so
            .with_custom_certificate_verifier(servers.clone())
            .with_client_auth_cert(chain.to_vec(), key.clone_key())
            .map_err(|e| unusable(Part::Key)(&e))?;
        // Connections last for days, so resumption gains nothing; and without tickets, KeyUpdate is the only
        // handshake message after the handshake.
        server.send_tls13_tickets = 0;
        server.session_storage = Arc::new(NoServerSessionStorage {});
        client.resumption = Resumption::disabled();
        server.enable_secret_extraction = true;
        client.enable_secret_extraction = true;
        let salt = hmac::Key::new(HMAC_SHA256, b"hawser identity");
        let secret = hmac::sign(&salt, key.secret_der());
        let secret = Secret(hmac::Key::new(HMAC_SHA256, secret.as_ref()));
        Ok(Self { client: Arc::new(client), server: Arc::new(server), clients, servers, secret })
    }
}

fn certificates(path: &Path, part: Part) -> Result<Vec<CertificateDer<'static>>, IdentityError> {
    let read = |path| CertificateDer::pem_file_iter(path)?.collect::<Result<Vec<_>, _>>();
    let found = read(path).map_err(|source| IdentityError::File { part, source })?;
    if found.is_empty() {
        return Err(IdentityError::unusable(part, &"no certificate in the file"));
    }
    Ok(found)
}

/// aws-lc-rs, preferring AES-128-GCM, the fastest on processors with AES instructions.
fn provider() -> Arc<CryptoProvider> {
    let mut provider = aws_lc_rs::default_provider();
    provider.cipher_suites = vec![
        aws_lc_rs::cipher_suite::TLS13_AES_128_GCM_SHA256,
        aws_lc_rs::cipher_suite::TLS13_AES_256_GCM_SHA384,
        aws_lc_rs::cipher_suite::TLS13_CHACHA20_POLY1305_SHA256,
    ];
    Arc::new(provider)
}
