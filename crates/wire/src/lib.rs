//! Wire formats, one header per file.
//!
//! A header is read with a *view* and written from a *repr*, as in smoltcp:
//!
//! - A view (`Packet`, `Header`, `Frame`, `Datagram`) borrows the bytes. Its `parse` checks every length
//!   once; the accessors behind it cannot fail.
//! - A `Repr` is the header's fields as values. Its `emit` returns the header's bytes, or `None` if a value
//!   does not fit its field.
//!
//! Nothing here panics, whatever the bytes. Malformed input is a [`Malformed`]. Each file draws its header
//! as the RFC does, and names the field offsets in a private `mod field`. All numbers on the wire are in
//! network byte order.

#![forbid(unsafe_code)]

pub mod checksum;
pub mod coalesce;
pub mod context;
pub mod esp;
pub mod ethernet;
pub mod flow;
pub mod fragment;
pub mod icmpv4;
pub mod icmpv6;
pub mod ip;
pub mod ipv4;
pub mod ipv4_fragments;
pub mod ipv6;
pub mod label;
pub mod load;
pub mod nsh;
pub mod proxy;
pub mod record;
pub mod rendezvous;
pub mod resegment;
pub mod rewrite;
pub mod segment;
pub mod srh;
pub mod stream;
pub mod tcp;
pub mod train;
pub mod tunnel;
pub mod udp;
pub mod vxlan;
pub mod vxlan_gpe;

mod bytes;

/// The first field of a header that violates its format.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{field} at byte {offset}: found {found}, expected {expected}")]
pub struct Malformed {
    /// Name of the field.
    pub field: &'static str,
    /// Offset of the field, in bytes from the start of its header.
    pub offset: usize,
    /// Value of the field.
    pub found: u64,
    /// Values that the format allows.
    pub expected: &'static str,
}

impl Malformed {
    const fn new(field: &'static str, offset: usize, found: u64, expected: &'static str) -> Self {
        Self { field, offset, found, expected }
    }
}
