//! An entry of the switch: which packets it matches, and what becomes of them.

use std::net::Ipv4Addr;

use hawser_wire::rewrite::Tuple;

/// Where packets come from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum From {
    /// Our own stack, at the egress of a port.
    Agent,
    /// A WAN port, at its ingress.
    Wan,
}

/// Where packets go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Output {
    /// Our own stack.
    Agent,
    /// A neighbour at a port.
    Port {
        /// Index of the interface.
        interface: u32,
        /// The neighbour's address.
        next_hop: Ipv4Addr,
        /// Class of the port's shaper; 0 leaves the packet's priority as it is.
        priority: u32,
    },
}

/// One entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Flow {
    /// Where its packets come from.
    pub from: From,
    /// What they are found by.
    pub key: Tuple,
    /// What they carry afterwards: the same ports as in `key`, of which both stay as they are.
    pub write: Tuple,
    /// Where they go.
    pub output: Output,
    /// Index of its counters, below [`COUNTS`](super::COUNTS).
    pub count: u32,
}
