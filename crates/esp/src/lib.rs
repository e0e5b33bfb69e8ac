//! Encapsulating Security Payload in tunnel mode (RFC 4303) with AES in Galois/Counter mode (RFC 4106).
//!
//! Keys come from whoever has negotiated them. One direction is one association: [`Outbound`] numbers,
//! pads and seals packets in place; [`Inbound`] checks that they are authentic and not replayed, and opens
//! them in place. Sequence numbers have 32 bits: an association that has used them up seals no more. No
//! I/O happens here.

#![forbid(unsafe_code)]

mod inbound;
mod keys;
mod outbound;
mod window;

pub use inbound::{Cause, Inbound, Inbounds};
pub use keys::Keys;
pub use outbound::{Error, Outbound, sealed_len};
pub use window::Window;

use hawser_wire::esp::HEADER_LEN;

/// Bytes of the explicit initialization vector (RFC 4106 section 3.1).
const IV_LEN: usize = 8;
/// Bytes of the integrity check value (RFC 4106 section 6).
const ICV_LEN: usize = 16;
/// Bytes in front of what is encrypted.
const FRONT: usize = HEADER_LEN + IV_LEN;
