//! Encapsulating Security Payload (ESP) in tunnel mode (RFC 4303) with AES-GCM (RFC 4106). No I/O.
//!
//! ```text
//! |<----- header ----->|        |<------------ encrypted ------------>|
//! +-----+--------------+--------+------+---------+---------+----------+---------+
//! | SPI | sequence no. | IV (8) | data | padding | pad len | next hdr | ICV (16)|
//! +-----+--------------+--------+------+---------+---------+----------+---------+
//! ```
//!
//! The caller negotiates keys. A security association (SA) is one direction: [`Outbound`] numbers, pads and encrypts
//! packets in place; [`Inbound`] verifies, checks for replay and decrypts them in place. Sequence numbers have 32
//! bits; an SA whose numbers are exhausted sends no more.

#![forbid(unsafe_code)]

mod inbound;
mod keys;
mod outbound;
mod window;

pub use inbound::{Cause, Inbound, Inbounds, Opened};
pub use keys::Keys;
pub use outbound::{Error, Outbound, sealed_len};
pub use window::Window;

use hawser_wire::esp::HEADER_LEN;

/// Length of the initialization vector (RFC 4106 section 3.1), bytes.
const IV_LEN: usize = 8;
/// Length of the integrity check value (RFC 4106 section 6), bytes.
const ICV_LEN: usize = 16;
/// Bytes before the encrypted part: SPI, sequence number and initialization vector.
const FRONT: usize = HEADER_LEN + IV_LEN;
