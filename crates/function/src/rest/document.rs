//! Configuration of an API over TCP.

use std::net::SocketAddr;

use hawser_daemon::config::FieldError;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// An API over TCP.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Rest {
    /// Address and port.
    pub(crate) listen: SocketAddr,
    /// File with bearer tokens (`authorization: Bearer TOKEN`), one a line, each of at least 16 characters. It is read
    /// again when it changes; without a usable one, no request is authorised.
    #[schemars(length(min = 1, max = 4096))]
    pub(crate) token_file: String,
    /// Serves the API over TLS 1.3. Required unless `listen` is a loopback address.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) tls: Option<Tls>,
}

/// Certificate of a server. Its files are read again when they change.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Tls {
    /// File with the certificate and those that vouch for it (PEM).
    #[schemars(length(min = 1, max = 4096))]
    pub(crate) certificate: String,
    /// File with its private key (PEM).
    #[schemars(length(min = 1, max = 4096))]
    pub(crate) key: String,
}

impl Rest {
    /// The error if tokens would cross a network in clear.
    pub(crate) fn check(&self) -> Option<FieldError> {
        let expected =
            "a certificate and a key: required unless the API listens at a loopback address";
        let in_clear = self.tls.is_none() && !self.listen.ip().to_canonical().is_loopback();
        in_clear.then(|| FieldError::new("firewall.rest.tls", Value::Null, expected))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tokens_cross_no_network_in_clear() {
        let rest = |listen: &str, tls: bool| Rest {
            listen: listen.parse().unwrap(),
            token_file: "t".into(),
            tls: tls.then(|| Tls { certificate: "c".into(), key: "k".into() }),
        };
        for at in ["127.0.0.1:1", "127.9.0.1:1", "[::1]:1", "[::ffff:127.0.0.1]:1"] {
            assert_eq!(rest(at, false).check(), None, "{at}");
        }
        for at in ["0.0.0.0:1", "192.0.2.1:1", "[::]:1", "[fe80::1]:1"] {
            assert_eq!(rest(at, false).check().unwrap().field, "firewall.rest.tls", "{at}");
            assert_eq!(rest(at, true).check(), None);
        }
    }
}
