//! Certificates of the gateways.

use std::collections::BTreeMap;

use hawser_tls::{Identity, Revoked};
use rcgen::{BasicConstraints, CertificateParams, IsCa, Issuer, KeyPair};

/// Signs the certificates of all gateways.
pub struct Authority {
    certificate: String,
    issuer: Issuer<'static, KeyPair>,
    /// Keys of branches, which keep them when they restart.
    keys: BTreeMap<String, KeyPair>,
}

#[allow(clippy::expect_used, clippy::missing_panics_doc)] // of parameters that are fixed here
impl Authority {
    /// A new authority.
    #[must_use]
    #[allow(clippy::new_without_default)] // no two are alike
    pub fn new() -> Self {
        let mut params = CertificateParams::new([]).expect("parameters");
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let key = KeyPair::generate().expect("key");
        let certificate = params.self_signed(&key).expect("certificate").pem();
        Self { certificate, issuer: Issuer::new(params, key), keys: BTreeMap::new() }
    }

    /// Identity of a branch: always with the same key.
    #[must_use]
    pub fn identity(&mut self, branch: &str) -> Identity {
        let generate = || KeyPair::generate().expect("key");
        let key = self.keys.entry(branch.to_owned()).or_insert_with(generate);
        let params = CertificateParams::new([branch.to_owned()]).expect("parameters");
        let own = params.signed_by(&*key, &self.issuer).expect("certificate").pem();
        let (key, ca) = (key.serialize_pem(), self.certificate.as_bytes());
        let identity = Identity::from_pem(own.as_bytes(), key.as_bytes(), ca, Revoked::default());
        identity.expect("identity")
    }
}
