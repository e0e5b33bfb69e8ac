//! Wire formats: a view over bytes and a validated value, one header a file.
//!
//! A view is made by `parse`, which checks every length once; its accessors cannot fail. Nothing
//! here panics, whatever the bytes: malformed input is a [`Malformed`].

#![forbid(unsafe_code)]

pub mod checksum;
pub mod context;
pub mod esp;
pub mod ethernet;
pub mod flow;
pub mod icmpv4;
pub mod ip;
pub mod ipv4;
pub mod ipv6;
pub mod join;
pub mod label;
pub mod lane;
pub mod load;
pub mod nsh;
pub mod record;
pub mod rewrite;
pub mod segment;
pub mod srh;
pub mod stream;
pub mod tcp;
pub mod tunnel;
pub mod udp;
pub mod vxlan;
pub mod vxlan_gpe;

mod field;

/// Bytes that are not what their format says.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{field} at byte {offset}: found {found}, expected {expected}")]
pub struct Malformed {
    /// The field that is wrong.
    pub field: &'static str,
    /// Where it begins, in bytes from the start of the header it belongs to.
    pub offset: usize,
    /// What stands there.
    pub found: u64,
    /// What may stand there.
    pub expected: &'static str,
}
