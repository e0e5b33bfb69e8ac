//! A flow entry of the switch.

use std::net::IpAddr;

use hawser_wire::rewrite::Tuple;

/// Origin of packets.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum From {
    /// The local stack, at the egress of a port.
    Agent,
    /// A WAN port, at its ingress.
    Wan,
}

/// Destination of packets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Output {
    /// The local stack.
    Agent,
    /// A neighbour at a port.
    Port {
        /// Index of the interface.
        interface: u32,
        /// The neighbour's address, of the same version of IP as the flow's.
        next_hop: IpAddr,
        /// Class of the port's shaper, for `skb->priority`; 0 leaves that unchanged.
        priority: u32,
    },
}

/// A flow entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Flow {
    /// Origin of the packets.
    pub from: From,
    /// Addresses and ports that it matches.
    pub key: Tuple,
    /// Addresses and port to write. Of the same version and kind as `key`; a label in both ports is not rewritten.
    pub write: Tuple,
    /// Destination of the packets.
    pub output: Output,
    /// Index of its counters, below [`COUNTS`](super::COUNTS).
    pub count: u32,
}
