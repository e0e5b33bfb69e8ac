//! The server's certificate, from files that may be replaced.

use std::{
    io,
    path::{Path, PathBuf},
    sync::{Arc, Mutex, PoisonError},
};

use rustls::{
    ServerConfig,
    pki_types::{
        CertificateDer, PrivateKeyDer,
        pem::{self, PemObject},
    },
    version::TLS13,
};

use super::document::Tls;
use crate::{crypto, watched::Stamp};

/// The configuration of TLS with the present certificate.
pub(super) struct Certificate {
    chain: PathBuf,
    key: PathBuf,
    held: Mutex<(Stamp, Arc<ServerConfig>)>,
}

impl Certificate {
    /// Reads the files.
    pub(super) fn open(tls: &Tls) -> io::Result<Self> {
        let (chain, key) = (PathBuf::from(&tls.certificate), PathBuf::from(&tls.key));
        let stamp = Stamp::of(&[&chain, &key]);
        let held = (stamp, read(&chain, &key)?).into();
        Ok(Self { chain, key, held })
    }

    /// The configuration for a new connection. If the files have changed, they are read again; the old certificate
    /// stays while they cannot be used, such as between the replacement of one and the other.
    pub(super) fn current(&self) -> Arc<ServerConfig> {
        let mut held = self.held.lock().unwrap_or_else(PoisonError::into_inner);
        let stamp = Stamp::of(&[&self.chain, &self.key]);
        if stamp != held.0 {
            match read(&self.chain, &self.key) {
                Ok(config) => held.1 = config,
                Err(error) => tracing::error!(%error, "the REST API keeps its old certificate"),
            }
            held.0 = stamp;
        }
        Arc::clone(&held.1)
    }
}

fn read(chain: &Path, key: &Path) -> io::Result<Arc<ServerConfig>> {
    let named = |file: &Path, error: &dyn ToString| {
        let text = format!("{}: {}", file.display(), error.to_string());
        io::Error::new(io::ErrorKind::InvalidData, text)
    };
    let read = |file| CertificateDer::pem_file_iter(file)?.collect::<Result<Vec<_>, pem::Error>>();
    let certificates = read(chain).map_err(|error| named(chain, &error))?;
    let private = PrivateKeyDer::from_pem_file(key).map_err(|error| named(key, &error))?;
    let mut config = ServerConfig::builder_with_provider(crypto::provider())
        .with_protocol_versions(&[&TLS13])
        .map_err(|error| named(chain, &error))?
        .with_no_client_auth()
        .with_single_cert(certificates, private)
        .map_err(|error| named(chain, &error))?;
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
    Ok(Arc::new(config))
}
