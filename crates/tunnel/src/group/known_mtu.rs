//! What a path group knows of its MTU.

use crate::path::INNER_MTU;

/// Largest inner packet that goes whole over every path of a group.
pub(crate) struct GroupMtu {
    pub(super) mtu: u16,
    /// Whether a path's MTU has been found.
    pub(super) is_known: bool,
    /// Whether the peer takes fragments.
    pub(crate) takes_fragments: bool,
}

impl Default for GroupMtu {
    fn default() -> Self {
        Self { mtu: INNER_MTU, is_known: false, takes_fragments: false }
    }
}
