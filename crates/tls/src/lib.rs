//! TLS 1.3 (RFC 8446) between two gateways with mutual authentication. No I/O.
//!
//! rustls does the handshake, verifies certificates and derives keys. Records are protected here, from one buffer
//! into another, with the traffic secrets that rustls exports (as for kernel TLS), so that a packet of 64 KiB is
//! encrypted and decrypted without an extra copy or allocation.

#![forbid(unsafe_code)]

mod handshake;
mod identity;
mod protection;
mod revoked;
mod session;

pub use handshake::{Handshake, Step};
pub use identity::{Identity, IdentityError, Part, Peer};
pub use protection::{MAX_CIPHERTEXT_LEN, MAX_PLAINTEXT_LEN};
pub use revoked::Revoked;
pub use rustls::pki_types::CertificateDer;
pub use session::{Opened, Session, is_certificate_of, sealed_len};

/// Why a connection fails.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The handshake or a key update failed.
    #[error("TLS: {0}")]
    Tls(#[from] rustls::Error),
    /// A record violates RFC 8446 section 5.
    #[error("TLS record: {field} is {found}, expected {expected}")]
    Record {
        /// The field at fault.
        field: &'static str,
        /// Its value.
        found: u64,
        /// What is allowed.
        expected: &'static str,
    },
    /// The authentication of a record failed.
    #[error("TLS record: not authentic")]
    NotAuthentic,
    /// A buffer is too small.
    #[error("TLS record: no room for it")]
    NoRoom,
    /// The peer sent an error alert.
    #[error("TLS: the other end reports alert {0}")]
    Alert(u8),
}
