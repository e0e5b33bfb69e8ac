//! Structures shared with the switch's programs. Mirrored in `../bpf/switch/switch.h`.

#![allow(unsafe_code)] // plain data for the kernel's maps

use std::net::IpAddr;

use hawser_wire::rewrite::{Place, Ports, Tuple};

use crate::codes::{byte, switch as codes};

use super::flow::{Flow, From, Output};

/// Bytes of a packet in an event at most.
pub(crate) const SNAP: usize = codes::SWITCH_SNAP as usize;
/// Length of an event's header, bytes.
pub(crate) const EVENT_HEAD: usize = 16;

/// Length of an IPv4 address, bytes.
pub(crate) const V4: usize = 4;
/// Length of an IPv6 address, bytes.
pub(crate) const V6: usize = 16;

/// An address of `N` bytes. None if it is of the other version of IP.
pub(crate) fn octets<const N: usize>(address: IpAddr) -> Option<[u8; N]> {
    match address {
        IpAddr::V4(address) => address.octets().as_slice().try_into().ok(),
        IpAddr::V6(address) => address.octets().as_slice().try_into().ok(),
    }
}

/// Key of a flow entry with addresses of `N` bytes.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Key<const N: usize> {
    source: [u8; N],
    destination: [u8; N],
    source_port: [u8; 2],
    destination_port: [u8; 2],
    from: u8,
    place: u8,
    pad: [u8; 2],
}

impl<const N: usize> Key<N> {
    /// None if the addresses are of the other version of IP.
    pub(crate) fn new(from: From, key: Tuple) -> Option<Self> {
        let (source_port, destination_port) = key.ports.split();
        Some(Self {
            source: octets(key.source)?,
            destination: octets(key.destination)?,
            source_port: source_port.unwrap_or(0).to_be_bytes(),
            destination_port: destination_port.unwrap_or(0).to_be_bytes(),
            from: byte(match from {
                From::Agent => codes::FROM_AGENT,
                From::Wan => codes::FROM_WAN,
            }),
            place: byte(match key.ports.place() {
                Place::Destination => codes::PLACE_DESTINATION,
                Place::Source => codes::PLACE_SOURCE,
                Place::Both => codes::PLACE_BOTH,
            }),
            pad: [0; 2],
        })
    }
}

/// Actions of a flow entry with addresses of `N` bytes.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Entry<const N: usize> {
    source: [u8; N],
    destination: [u8; N],
    port: [u8; 2],
    pad: [u8; 2],
    interface: u32,
    next_hop: [u8; N],
    priority: u32,
    count: u32,
}

impl<const N: usize> Entry<N> {
    /// None if an address is of the other version of IP.
    pub(crate) fn new(flow: &Flow) -> Option<Self> {
        let (interface, next_hop, priority) = match flow.output {
            Output::Agent => (0, [0; N], 0),
            Output::Port { interface, next_hop, priority } => {
                (interface, octets(next_hop)?, priority)
            }
        };
        let port = match flow.write.ports {
            Ports::Source(port) | Ports::Destination(port) => port,
            Ports::Both { .. } => 0, // it stays
        };
        Some(Self {
            source: octets(flow.write.source)?,
            destination: octets(flow.write.destination)?,
            port: port.to_be_bytes(),
            pad: [0; 2],
            interface,
            next_hop,
            priority,
            count: flow.count,
        })
    }
}

const _: () = {
    assert!(size_of::<Key<V4>>() == 16);
    assert!(size_of::<Entry<V4>>() == 28);
    assert!(size_of::<Key<V6>>() == 40);
    assert!(size_of::<Entry<V6>>() == 64);
};

// SAFETY: `repr(C)` structures of integers and byte arrays whose sizes leave no padding:
// every byte is initialised and every bit pattern is a value.
unsafe impl aya::Pod for Key<V4> {}
// SAFETY: as above.
unsafe impl aya::Pod for Entry<V4> {}
// SAFETY: as above.
unsafe impl aya::Pod for Key<V6> {}
// SAFETY: as above.
unsafe impl aya::Pod for Entry<V6> {}
