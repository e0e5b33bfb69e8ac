//! Entries of the program's tables.

use std::{
    net::{IpAddr, Ipv4Addr},
    num::NonZeroU16,
};

use hawser_wire::nsh::Path;

/// Outer encapsulation of the NSH.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Encapsulation {
    /// Ethernet, EtherType 0x894F.
    Ethernet,
    /// VXLAN-GPE over UDP and IPv4.
    VxlanGpe {
        /// Local address.
        local: Ipv4Addr,
        /// Remote address.
        remote: Ipv4Addr,
        /// Network identifier.
        vni: u32,
    },
}

/// A next hop.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Target {
    /// Number of the port.
    pub port: u32,
    /// Largest frame of the port, bytes.
    pub frame_max: u32,
    /// The neighbour's Ethernet address.
    pub mac: [u8; 6],
    /// The port's own Ethernet address.
    pub own_mac: [u8; 6],
    /// Outer encapsulation of the NSH.
    pub encapsulation: Encapsulation,
    /// Whether frames leave through the kernel's routing and queueing discipline.
    pub queued: bool,
    /// The next hop is an SFC-unaware function (RFC 7665 section 4.6): the NSH is removed.
    pub proxy: Option<Proxy>,
}

/// How an SFC proxy finds the path of a packet that returns from an SFC-unaware function.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Proxy {
    /// By the flow that was sent to the function.
    Flows {
        /// Position on a path for replies that the function originates; without, they are passed to the kernel.
        back: Option<Path>,
    },
    /// By rules at its port.
    Rules,
}

/// How packets leave at the end of a path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct End {
    /// Number of the port.
    pub port: u32,
    /// Largest frame of the port, bytes.
    pub frame_max: u32,
    /// Destination Ethernet address; that of the inner frame without.
    pub mac: Option<[u8; 6]>,
    /// The port's own Ethernet address.
    pub own_mac: [u8; 6],
    /// Whether frames leave through the kernel's routing and queueing discipline.
    pub queued: bool,
}

/// A forwarding entry: what is done with packets at a position of a path.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Hop {
    /// Forward to one of these, at most [`TARGETS_MAX`](super::TARGETS_MAX), chosen by a hash of the flow.
    Forward(Vec<Target>),
    /// End the path.
    End(End),
}

/// What is done with frames that are on no path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Otherwise {
    /// Pass to the kernel.
    Pass,
    /// Drop.
    Drop,
    /// Forward unchanged to the port of this number.
    Port(u32),
}

/// A port, and what it does with frames that are on no path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Port {
    /// Its number in rules, from 1; `None` if frames are not classified.
    pub classify: Option<u16>,
    /// What is done with frames that match no rule.
    pub otherwise: Otherwise,
    /// Local address of VXLAN-GPE.
    pub address: Option<Ipv4Addr>,
    /// Its Ethernet address.
    pub mac: [u8; 6],
    /// Number of its SFC proxy if flows identify paths ([`Proxy::Flows`]): [`Target::port`] plus 1.
    pub proxy: Option<NonZeroU16>,
    /// Only nodes of the domain are behind it. Without, packets with an NSH are dropped (RFC 8300 section 8).
    pub trusted: bool,
    /// Copies of frames arrive here: a sensor observes them, and they go no further.
    pub mirror: bool,
}

/// A class: the NSH that its packets get.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Class {
    /// The header, at most [`HEADER_MAX`](super::HEADER_MAX) bytes.
    pub header: Vec<u8>,
    /// Index of its counters.
    pub count: u32,
}

/// Which packets are traced. `None` matches all.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Filter {
    /// Events at most. A packet can cause several.
    pub events: u64,
    /// Service path identifier.
    pub spi: Option<u32>,
    /// Inner source.
    pub source: Option<IpAddr>,
    /// Inner destination.
    pub destination: Option<IpAddr>,
}
