//! Entries of the tables of a chain.

use std::{
    net::{IpAddr, Ipv4Addr},
    num::NonZeroU16,
};

use hawser_wire::nsh::Path;

/// What surrounds the service header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Encapsulation {
    /// Ethernet, type 0x894F.
    Ethernet,
    /// VXLAN-GPE over UDP and IPv4.
    VxlanGpe {
        /// Our address.
        local: Ipv4Addr,
        /// The other one's.
        remote: Ipv4Addr,
        /// Network identifier.
        vni: u32,
    },
}

/// Where packets may go next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Target {
    /// Number of the port.
    pub port: u32,
    /// Longest frame that the port takes.
    pub frame_max: u32,
    /// The neighbour's Ethernet address.
    pub mac: [u8; 6],
    /// The port's own.
    pub own_mac: [u8; 6],
    /// What surrounds the service header.
    pub encapsulation: Encapsulation,
    /// Whether frames leave by the kernel's routes, and so through the port's queues.
    pub queued: bool,
    /// A function that knows no headers: packets go to it as they are inside.
    pub bare: Option<Bare>,
}

/// How packets are known again that come from a function that knows no headers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Bare {
    /// By the flow that went to it. Answers that it gives itself go on at this place, or on no path.
    Flows {
        /// Where answers go on.
        back: Option<Path>,
    },
    /// By rules at its port.
    Rules,
}

/// How packets leave a path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct End {
    /// Number of the port.
    pub port: u32,
    /// Longest frame that the port takes.
    pub frame_max: u32,
    /// Ethernet address that frames go to; without it, that of the frame inside.
    pub mac: Option<[u8; 6]>,
    /// The port's own.
    pub own_mac: [u8; 6],
    /// Whether frames leave by the kernel's routes, and so through the port's queues.
    pub queued: bool,
}

/// What happens at a place of a path.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Hop {
    /// On to one of these, at most [`TARGETS_MAX`](super::TARGETS_MAX): a flow keeps to one.
    Forward(Vec<Target>),
    /// Off the path.
    End(End),
}

/// What becomes of frames that are on no path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Otherwise {
    /// To the kernel.
    Pass,
    /// Nowhere.
    Drop,
    /// To a port, as they are.
    Port(u32),
}

/// A port, and what happens to frames that are on no path there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Port {
    /// Number by which rules know it, from 1; none where frames are not classified.
    pub classify: Option<u16>,
    /// What becomes of frames that no rule puts on a path.
    pub otherwise: Otherwise,
    /// Address that VXLAN-GPE comes to.
    pub address: Option<Ipv4Addr>,
    /// Its Ethernet address.
    pub mac: [u8; 6],
    /// Number of its own, from 1, where packets come from functions that know no headers and flows tell
    /// their paths ([`Bare::Flows`]); the number in [`Target::port`] and one.
    pub proxy: Option<NonZeroU16>,
}

/// The header that packets of a class get.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Class {
    /// The header, at most [`HEADER_MAX`](super::HEADER_MAX) bytes.
    pub header: Vec<u8>,
    /// Index of its counters.
    pub count: u32,
}

/// Which packets are traced.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Filter {
    /// How many events, of which a packet may give several.
    pub events: u64,
    /// Only of this path.
    pub spi: Option<u32>,
    /// Only with this inner source.
    pub source: Option<IpAddr>,
    /// Only with this inner destination.
    pub destination: Option<IpAddr>,
}
