//! TLS 1.3 (RFC 8446) between two gateways, both of which show a certificate.
//!
//! rustls shakes hands, checks certificates and derives keys. From then on records are protected here,
//! from one buffer into another, with the keys it hands out (as it does for kernel TLS): a packet of
//! 64 KiB is sealed and opened without a further copy or an allocation. No I/O happens here.

#![forbid(unsafe_code)]

mod handshake;
mod identity;
mod protection;
mod revoked;
mod session;

pub use handshake::{Handshake, Step};
pub use identity::{Identity, IdentityError, Part};
pub use protection::{MAX_CIPHERTEXT_LEN, MAX_PLAINTEXT_LEN};
pub use revoked::Revoked;
pub use rustls::pki_types::CertificateDer;
pub use session::{Opened, Session, is_certificate_of, sealed_len};

/// Why a connection cannot go on.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The handshake failed, or keys could not be renewed.
    #[error("TLS: {0}")]
    Tls(#[from] rustls::Error),
    /// A record is not what RFC 8446 section 5 says.
    #[error("TLS record: {field} is {found}, expected {expected}")]
    Record {
        /// The field that is wrong.
        field: &'static str,
        /// What it is.
        found: u64,
        /// What it may be.
        expected: &'static str,
    },
    /// A record was changed on its way, or is not for this connection.
    #[error("TLS record: not authentic")]
    NotAuthentic,
    /// A buffer is too small for what goes into it.
    #[error("TLS record: no room for it")]
    NoRoom,
    /// The other end reports an error.
    #[error("TLS: the other end reports alert {0}")]
    Alert(u8),
}
