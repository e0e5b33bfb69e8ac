//! Structures shared with the switch's programs. Mirrored in `../bpf/switch/switch.h`.

#![allow(unsafe_code)] // plain data for the kernel's maps

use hawser_wire::rewrite::{Place, Ports, Tuple};

use crate::codes::{byte, switch as codes};

use super::flow::{Flow, From, Output};

/// Bytes of a packet in an event at most.
pub(crate) const SNAP: usize = codes::SWITCH_SNAP as usize;
/// Length of an event's header, bytes.
pub(crate) const EVENT_HEAD: usize = 16;

/// Key of a flow entry.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Key {
    source: [u8; 4],
    destination: [u8; 4],
    source_port: [u8; 2],
    destination_port: [u8; 2],
    from: u8,
    place: u8,
    pad: [u8; 2],
}

impl Key {
    pub(crate) fn new(from: From, key: Tuple) -> Self {
        let (source_port, destination_port) = key.ports.split();
        Self {
            source: key.source.octets(),
            destination: key.destination.octets(),
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
        }
    }
}

/// Actions of a flow entry.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Entry {
    source: [u8; 4],
    destination: [u8; 4],
    port: [u8; 2],
    pad: [u8; 2],
    interface: u32,
    next_hop: [u8; 4],
    priority: u32,
    count: u32,
}

impl Entry {
    pub(crate) fn new(flow: &Flow) -> Self {
        let (interface, next_hop, priority) = match flow.output {
            Output::Agent => (0, [0; 4], 0),
            Output::Port { interface, next_hop, priority } => {
                (interface, next_hop.octets(), priority)
            }
        };
        let port = match flow.write.ports {
            Ports::Source(port) | Ports::Destination(port) => port,
            Ports::Both { .. } => 0, // it stays
        };
        Self {
            source: flow.write.source.octets(),
            destination: flow.write.destination.octets(),
            port: port.to_be_bytes(),
            pad: [0; 2],
            interface,
            next_hop,
            priority,
            count: flow.count,
        }
    }
}

const _: () = {
    assert!(size_of::<Key>() == 16);
    assert!(size_of::<Entry>() == 28);
};

// SAFETY: `repr(C)` structures of integers and byte arrays whose sizes leave no padding:
// every byte is initialised and every bit pattern is a value.
unsafe impl aya::Pod for Key {}
// SAFETY: as above.
unsafe impl aya::Pod for Entry {}
