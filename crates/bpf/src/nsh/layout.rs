//! Structures shared with the service chain program. Mirrored in `../bpf/nsh/nsh.h`.

#![allow(unsafe_code)] // plain data for the kernel's maps

use std::num::NonZeroU16;

use super::entries::{Encapsulation, End, Filter, Hop, Otherwise, Port, Proxy, Target};
use crate::{
    codes::{byte, nsh as codes},
    flow::{Flow, mapped},
};
use hawser_wire::nsh::Path;

/// Instances of one function at most.
pub const TARGETS_MAX: usize = codes::NSH_TARGETS as usize;
/// Hash buckets that spread flows over instances.
const BUCKETS: usize = codes::NSH_BUCKETS as usize;
/// Longest NSH that is written, bytes.
pub const HEADER_MAX: usize = 124;
const NSH_CAPACITY: usize = codes::NSH_HEADER_MAX as usize;
/// Bytes of an event before its flow.
const EVENT_HEAD: usize = 32;

#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct RawTarget {
    port: u32,
    frame_max: u32,
    mac: [u8; 6],
    own_mac: [u8; 6],
    encapsulation: u8,
    rewrite_mac: u8,
    queued: u8,
    proxy: u8,
    remote: [u8; 4],
    local: [u8; 4],
    vni: [u8; 4],
    back: u32,
}

impl RawTarget {
    pub(crate) fn forward(target: &Target) -> Self {
        let (proxy, back) = match target.proxy {
            None => (codes::PROXY_NONE, 0),
            Some(Proxy::Flows { back }) => (codes::PROXY_FLOWS, back.map_or(0, place)),
            Some(Proxy::Rules) => (codes::PROXY_RULES, 0),
        };
        let plain = Self {
            port: target.port,
            frame_max: target.frame_max,
            mac: target.mac,
            own_mac: target.own_mac,
            rewrite_mac: u8::from(target.proxy.is_some()),
            queued: u8::from(target.queued),
            proxy: byte(proxy),
            back,
            ..Self::default()
        };
        match target.encapsulation {
            Encapsulation::Ethernet => plain,
            Encapsulation::VxlanGpe { local, remote, vni } => Self {
                encapsulation: byte(codes::ENCAPSULATION_VXLAN_GPE),
                local: local.octets(),
                remote: remote.octets(),
                vni: (vni << 8).to_be_bytes(),
                ..plain
            },
        }
    }

    pub(crate) fn end(end: &End) -> Self {
        Self {
            port: end.port,
            frame_max: end.frame_max,
            mac: end.mac.unwrap_or([0xff; 6]),
            own_mac: end.own_mac,
            rewrite_mac: u8::from(end.mac.is_some()),
            queued: u8::from(end.queued),
            ..Self::default()
        }
    }
}

/// A position on a path as a service path header (RFC 8300 section 2.3).
pub(crate) fn place(path: Path) -> u32 {
    path.spi << 8 | u32::from(path.si)
}

#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct RawHop {
    kind: u32,
    count: u32,
    targets: u32,
    bucket: [u8; BUCKETS],
    target: [RawTarget; TARGETS_MAX],
}

impl RawHop {
    pub(crate) fn new(hop: &Hop, count: u32) -> Self {
        let mut raw = Self {
            kind: match hop {
                Hop::Forward(_) => codes::HOP_FORWARD,
                Hop::End(_) => codes::HOP_END,
            },
            count,
            targets: 1,
            bucket: [0; BUCKETS],
            target: [RawTarget::default(); TARGETS_MAX],
        };
        let targets: Vec<_> = match hop {
            Hop::End(end) => vec![RawTarget::end(end)],
            Hop::Forward(targets) => targets.iter().map(RawTarget::forward).collect(),
        };
        for (place, target) in raw.target.iter_mut().zip(&targets) {
            *place = *target;
        }
        raw.targets = u32::try_from(targets.len().min(TARGETS_MAX)).unwrap_or(1);
        for (number, bucket) in (0..).zip(&mut raw.bucket) {
            *bucket = best(number, targets.iter().take(TARGETS_MAX));
        }
        raw
    }
}

/// The target of a bucket by highest random weight (D. Thaler, C. Ravishankar: Using name-based
/// mappings to increase hit rates, 1998): if a target goes down, only its own buckets move.
fn best<'a>(bucket: u64, targets: impl Iterator<Item = &'a RawTarget>) -> u8 {
    let weight = |target: &RawTarget| {
        let [_, _, a, b, c, d] = target.mac;
        let who = u64::from(u32::from_be_bytes([a, b, c, d])) << 16 | u64::from(target.port);
        let place = hawser_wire::flow::mix(who, u64::from(u32::from_be_bytes(target.remote)));
        hawser_wire::flow::mix(place, bucket)
    };
    (0..).zip(targets).max_by_key(|(_, target)| weight(target)).map_or(0, |(index, _)| index)
}

#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct RawPort {
    classify: u32,
    otherwise: u32,
    other_port: u32,
    own: [u8; 4],
    mac: [u8; 6],
    proxy: u16,
    trusted: u16,
    mirror: u16,
}

impl From<&Port> for RawPort {
    fn from(port: &Port) -> Self {
        let (otherwise, other_port) = match port.otherwise {
            Otherwise::Pass => (codes::OTHERWISE_PASS, 0),
            Otherwise::Drop => (codes::OTHERWISE_DROP, 0),
            Otherwise::Port(number) => (codes::OTHERWISE_PORT, number),
        };
        Self {
            classify: port.classify.map_or(0, u32::from),
            otherwise,
            other_port,
            own: port.address.map_or([0; 4], |address| address.octets()),
            mac: port.mac,
            proxy: port.proxy.map_or(0, NonZeroU16::get),
            trusted: port.trusted.into(),
            mirror: port.mirror.into(),
        }
    }
}

#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct RawClass {
    length: u32,
    count: u32,
    header: [u8; NSH_CAPACITY],
}

impl RawClass {
    /// `None` if the header is longer than [`HEADER_MAX`].
    pub(crate) fn new(header: &[u8], count: u32) -> Option<Self> {
        let length = u32::try_from(header.len()).ok().filter(|_| header.len() <= HEADER_MAX)?;
        let mut raw = Self { length, count, header: [0; NSH_CAPACITY] };
        raw.header.get_mut(..header.len())?.copy_from_slice(header);
        Some(raw)
    }
}

#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct RawFilter {
    left: u64,
    path: u32,
    pad: u32,
    source: [u8; 16],
    destination: [u8; 16],
}

impl From<&Filter> for RawFilter {
    fn from(filter: &Filter) -> Self {
        Self {
            left: filter.events,
            path: filter.spi.unwrap_or(0),
            pad: 0,
            source: filter.source.map_or(0, mapped).to_be_bytes(),
            destination: filter.destination.map_or(0, mapped).to_be_bytes(),
        }
    }
}

/// A trace event as in the ring buffer: time, step, cause, path, interface, port, length, flow.
pub(crate) fn parse_event(item: &[u8]) -> Option<(u64, [u32; 6], Flow)> {
    let (time, rest) = item.split_first_chunk::<8>()?;
    let (words, rest) = rest.split_at_checked(EVENT_HEAD - 8)?;
    let mut fields = [0; 6];
    for (field, word) in fields.iter_mut().zip(words.chunks_exact(4)) {
        *field = u32::from_ne_bytes(word.try_into().ok()?);
    }
    Some((u64::from_ne_bytes(*time), fields, Flow::from_bytes(rest.first_chunk()?)))
}

const _: () = {
    assert!(size_of::<RawTarget>() == 40);
    assert!(size_of::<RawHop>() == 12 + BUCKETS + TARGETS_MAX * 40);
    assert!(size_of::<RawPort>() == 28);
    assert!(size_of::<RawClass>() == 8 + NSH_CAPACITY);
    assert!(size_of::<RawFilter>() == 48);
};

// SAFETY: `repr(C)` structures of integers and byte arrays whose sizes leave no padding:
// every byte is initialised and every bit pattern is a value.
unsafe impl aya::Pod for RawHop {}
// SAFETY: as above.
unsafe impl aya::Pod for RawPort {}
// SAFETY: as above.
unsafe impl aya::Pod for RawClass {}
// SAFETY: as above.
unsafe impl aya::Pod for RawFilter {}

#[cfg(test)]
mod tests {
    use super::*;

    fn targets(numbers: &[u32]) -> Vec<RawTarget> {
        let target = |port: &u32| RawTarget { port: *port, ..RawTarget::default() };
        numbers.iter().map(target).collect()
    }

    fn ports(numbers: &[u32]) -> Vec<u32> {
        let all = targets(numbers);
        (0..BUCKETS as u64).map(|bucket| all[usize::from(best(bucket, all.iter()))].port).collect()
    }

    #[test]
    fn only_the_buckets_of_an_instance_that_goes_move() {
        let (before, after) = (ports(&[1, 2, 3, 4]), ports(&[1, 2, 4]));
        for (old, new) in before.iter().zip(&after) {
            assert!(old == new || *old == 3, "{old} became {new}");
        }
        for port in 1..=4 {
            let share = before.iter().filter(|found| **found == port).count();
            assert!((6..=28).contains(&share), "{share} of 64 buckets to {port}");
        }
    }

    #[test]
    fn a_header_has_room_or_is_refused() {
        assert!(RawClass::new(&[0; HEADER_MAX], 0).is_some());
        assert_eq!(RawClass::new(&[0; HEADER_MAX + 1], 0), None);
    }
}
