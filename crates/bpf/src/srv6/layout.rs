//! Structures shared with the SRv6 proxy program. Mirrored in `../bpf/srv6/srv6.h`.

#![allow(unsafe_code)] // plain data for the kernel's maps

use crate::codes::srv6 as codes;

use super::proxy::{Behaviour, HEADERS_MAX, NextHop};

#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct RawNextHop {
    port: u32,
    frame_max: u32,
    mac: [u8; 6],
    own_mac: [u8; 6],
}

#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct RawProxy {
    behaviour: u32,
    number: u32,
    trusted: u32,
    next_hop: RawNextHop,
}

impl RawProxy {
    pub(crate) fn new(
        behaviour: &Behaviour,
        number: u32,
        next_hop: &NextHop,
        trusted: bool,
    ) -> Self {
        let behaviour = match behaviour {
            Behaviour::Static { .. } => codes::BEHAVIOUR_STATIC,
            Behaviour::Dynamic => codes::BEHAVIOUR_DYNAMIC,
            Behaviour::Masquerading => codes::BEHAVIOUR_MASQUERADING,
        };
        let NextHop { port, frame_max, mac, own_mac } = *next_hop;
        let next_hop = RawNextHop { port, frame_max, mac, own_mac };
        Self { behaviour, number, trusted: trusted.into(), next_hop }
    }

    /// Of a port that is not trusted and on which nothing returns.
    pub(crate) fn outside() -> Self {
        Self { behaviour: codes::BEHAVIOUR_OUTSIDE, ..Self::default() }
    }
}

#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct RawHeaders {
    length: u64,
    bytes: [u8; HEADERS_MAX],
}

const NONE: RawHeaders = RawHeaders { length: 0, bytes: [0; HEADERS_MAX] };

#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct RawCache {
    in_force: u32,
    busy: u32,
    headers: [RawHeaders; 2],
}

impl RawCache {
    /// Headers for returning packets; empty if none are known. `None` if they are too long.
    pub(crate) fn new(headers: &[u8]) -> Option<Self> {
        let mut first = RawHeaders { length: u64::try_from(headers.len()).ok()?, ..NONE };
        first.bytes.get_mut(..headers.len())?.copy_from_slice(headers);
        Some(Self { in_force: 0, busy: 0, headers: [first, NONE] })
    }
}

const _: () = {
    assert!(size_of::<RawProxy>() == 32);
    assert!(size_of::<RawCache>() == 8 + 2 * (8 + HEADERS_MAX));
};

// SAFETY: `repr(C)` structures of integers and byte arrays whose sizes leave no padding:
// every byte is initialised and every bit pattern is a value.
unsafe impl aya::Pod for RawProxy {}
// SAFETY: as above.
unsafe impl aya::Pod for RawCache {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn headers_have_room_or_are_refused() {
        assert!(RawCache::new(&[0; HEADERS_MAX]).is_some());
        assert_eq!(RawCache::new(&[0; HEADERS_MAX + 1]), None);
    }
}
