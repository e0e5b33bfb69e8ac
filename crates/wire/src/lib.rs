//! Wire formats: a view over bytes and a validated value, one header a file.

#![forbid(unsafe_code)]

pub mod ethernet;
pub mod load;
pub mod srh;
pub mod udp;
pub mod vxlan;

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
