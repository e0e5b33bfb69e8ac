//! A proxy: what it does with headers, and where packets leave.

use std::net::Ipv6Addr;

use crate::codes::srv6 as codes;

/// Bytes of headers that can be put in front of a packet: what XDP leaves free there.
pub const HEADERS_MAX: usize = codes::SRV6_ROOM as usize;

/// What a proxy does with the headers of a packet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Behaviour {
    /// End.AS: they are taken off, and these are put in front of what comes back. An IPv6 header and a
    /// segment routing header, together at most [`HEADERS_MAX`] bytes; lengths and what follows are set
    /// for each packet.
    Static {
        /// The headers, in front of IPv4 and of IPv6.
        headers: [Vec<u8>; 2],
    },
    /// End.AD: they are taken off, and those seen last are put in front of what comes back.
    Dynamic,
    /// End.AM: they stay; the destination is that of the last segment.
    Masquerading,
}

/// How packets leave.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Way {
    /// Number of the port.
    pub port: u32,
    /// Longest frame that the port takes.
    pub frame_max: u32,
    /// The neighbour's Ethernet address.
    pub mac: [u8; 6],
    /// The port's own.
    pub own_mac: [u8; 6],
}

/// A proxy.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Proxy {
    /// Segment that packets come to.
    pub segment: Ipv6Addr,
    /// What happens to their headers.
    pub behaviour: Behaviour,
    /// To the function.
    pub function: Way,
    /// Interface that they come back by.
    pub returns: u32,
    /// To the next segment.
    pub onward: Way,
}
