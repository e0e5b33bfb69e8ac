//! The configuration of a proxy.

use std::net::Ipv6Addr;

use crate::codes::srv6 as codes;

/// Longest headers that can be added to a packet, bytes: the headroom that XDP guarantees.
pub const HEADERS_MAX: usize = codes::SRV6_HEADERS_MAX as usize;

/// Behaviour of a proxy.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Behaviour {
    /// End.AS: removes the headers of packets to the function, and adds these to returning packets. An IPv6 header
    /// and a segment routing header, together at most [`HEADERS_MAX`] bytes; lengths and the inner next header are
    /// set for each packet.
    Static {
        /// The headers of IPv4 and of IPv6 packets.
        headers: [Vec<u8>; 2],
    },
    /// End.AD: removes the headers, and adds those of the last packet received to returning packets.
    Dynamic,
    /// End.AM: leaves the headers, with the last segment as the destination address on the way to the function.
    Masquerading,
}

/// A next hop.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NextHop {
    /// Number of the port.
    pub port: u32,
    /// Largest frame of the port, bytes.
    pub frame_max: u32,
    /// The neighbour's Ethernet address.
    pub mac: [u8; 6],
    /// The port's own Ethernet address.
    pub own_mac: [u8; 6],
}

/// A proxy.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Proxy {
    /// Its segment, an IPv6 address.
    pub segment: Ipv6Addr,
    /// Its behaviour.
    pub behaviour: Behaviour,
    /// Next hop to the function.
    pub function: NextHop,
    /// Index of the interface on which packets return.
    pub returns: u32,
    /// Whether packets from that interface may enter segments.
    pub returns_trusted: bool,
    /// Next hop to the next segment.
    pub onward: NextHop,
}
