//! Whole tunnels over paths that take short packets only, and whose MTU changes.

#![allow(clippy::unwrap_used, clippy::indexing_slicing)]

use std::time::{Duration, Instant};

use hawser_sim::gateways::{Gateways, OPTIONS, Wire, host, number_of, segment};
use hawser_tunnel::config::{Options, Oversize};
use hawser_wire::{ip, ipv4};
use proptest::prelude::*;

const SECOND: Duration = Duration::from_secs(1);

/// Bytes of IPv4, UDP, QUIC and our header around an inner packet.
const OVERHEAD: usize = 28 + 44;

/// What a search for the MTU leaves open, bytes.
const STEP: usize = 3;

fn with_mtu(mtus: &[usize]) -> Vec<Wire> {
    mtus.iter().map(|mtu| Wire { mtu: *mtu, ..Wire::new(20.0, 10.0) }).collect()
}

fn gateways(mtus: &[usize], options: Options) -> Gateways {
    Gateways::new(Instant::now(), &with_mtu(mtus), 5, options).unwrap()
}

/// Whether an MTU is what paths of this MTU leave room for.
fn fits(found: Option<u16>, outer: usize) -> bool {
    let room = outer - OVERHEAD;
    found.is_some_and(|found| (room - STEP..=room).contains(&found.into()))
}

/// Sends full segments of a flow, and returns the numbers that have come whole.
fn carry(
    gateways: &mut Gateways,
    flow: u16,
    numbers: std::ops::Range<u32>,
    len: usize,
) -> Vec<u32> {
    for number in numbers {
        gateways.send(0, &segment(0, flow, number, len));
        gateways.run(Duration::from_millis(4));
    }
    gateways.run(2 * SECOND);
    let came = gateways.take_received(1);
    let came = came.iter().filter(|packet| packet.len() == len);
    came.filter_map(|packet| number_of(packet))
        .filter(|(of, _)| *of == flow)
        .map(|(_, n)| n)
        .collect()
}

/// A datagram of UDP that must not be fragmented, or may be.
fn datagram(len: usize, must_not: bool) -> Vec<u8> {
    let mut packet = segment(0, 9, 1, len);
    packet[9] = 17;
    packet[6] = if must_not { 0x40 } else { 0 };
    packet
}

/// The MTU that a gateway's host is told, if it is told one.
fn told(gateways: &mut Gateways) -> Option<u16> {
    let packets = gateways.take_received(0);
    packets.iter().find_map(|packet| {
        let packet = ipv4::Packet::parse(packet).ok()?;
        let payload = packet.payload();
        let is_it = packet.protocol() == 1 && payload.starts_with(&[3, 4]);
        (is_it && packet.destination() == host(0))
            .then(|| u16::from_be_bytes([payload[6], payload[7]]))
    })
}

#[test]
fn nothing_waits_for_a_path_that_is_not_there() {
    for mtu in [1280, 1400, 1420, 1492, 1500] {
        let mut gateways = gateways(&[mtu], OPTIONS);
        gateways.run(5 * SECOND);
        assert!(fits(gateways.mtu(0), mtu), "{:?} at {mtu}", gateways.mtu(0));
        let len = usize::from(gateways.mtu(0).unwrap());
        assert_eq!(carry(&mut gateways, 1, 0..200, len).len(), 200, "{mtu}");
        gateways.send(0, &segment(0, 2, 0, 1428));
        gateways.run(SECOND);
        let parts = gateways.take_received(1);
        let bytes: usize = parts.iter().map(|packet| packet.len() - 40).sum();
        assert_eq!(bytes, 1428 - 40, "a longer one comes in segments at {mtu}");
        assert_eq!(gateways.queued(0), 0);
    }
}

#[test]
fn who_sends_too_much_is_told() {
    let mut gateways = gateways(&[1400], OPTIONS);
    gateways.run(5 * SECOND);
    gateways.send(0, &datagram(1420, true));
    gateways.run(SECOND);
    assert!(fits(told(&mut gateways), 1400));
    assert_eq!(gateways.take_received(1).len(), 0);
    let counters = gateways.counters(0);
    assert_eq!((counters.drops.too_long, counters.sizes.errors_sent), (1, 1));
    gateways.send(0, &datagram(1420, false));
    gateways.run(SECOND);
    let parts = gateways.take_received(1);
    assert_eq!(parts.len(), 2, "fragments of IPv4");
    assert!(parts.iter().all(|part| ip::Packet::parse(part).is_ok()));
    assert_eq!(told(&mut gateways), None);
}

#[test]
fn what_hosts_do_not_hear_of_goes_in_fragments() {
    let options = Options { oversize: Oversize::Fragment, ..OPTIONS };
    let mut gateways = gateways(&[1280, 1280], options);
    gateways.run(5 * SECOND);
    for _ in 0..50 {
        gateways.send(0, &datagram(1500, true));
        gateways.run(Duration::from_millis(5));
    }
    gateways.run(SECOND);
    let came = gateways.take_received(1);
    assert_eq!(came.len(), 50);
    assert!(came.iter().all(|packet| **packet == datagram(1500, true)));
    assert_eq!(gateways.counters(0).sizes.sent_in_fragments, 50);
    assert_eq!(gateways.counters(1).sizes.reassembled, 50);
}

#[test]
fn the_mtu_follows_paths_that_shrink_and_grow() {
    let mut gateways = gateways(&[1500, 1500], OPTIONS);
    gateways.run(3 * SECOND);
    assert!(fits(gateways.mtu(0), 1500));
    gateways.set_mtu(0, 1400);
    gateways.set_mtu(1, 1400);
    let mut bytes = 0;
    for number in 0..2000 {
        gateways.send(0, &segment(0, 3, number, 1428));
        gateways.run(Duration::from_millis(4));
        bytes += gateways.take_received(1).iter().map(|packet| packet.len() - 40).sum::<usize>();
    }
    gateways.run(2 * SECOND);
    assert!(fits(gateways.mtu(0), 1400), "{:?}", gateways.mtu(0));
    // What went while the path was not known to have shrunk may be lost; what came after is not.
    assert!(bytes > 1500 * 1388, "{bytes}");
    gateways.set_mtu(0, 1500);
    gateways.set_mtu(1, 1500);
    gateways.run(12 * SECOND);
    assert!(fits(gateways.mtu(0), 1500), "{:?}", gateways.mtu(0));
}

#[test]
fn the_smallest_path_counts_until_it_has_been_down_for_long() {
    let mut gateways = gateways(&[1500, 1400], OPTIONS);
    gateways.run(4 * SECOND);
    assert!(fits(gateways.mtu(0), 1400), "{:?}", gateways.mtu(0));
    gateways.cut(1, true);
    assert_eq!(carry(&mut gateways, 4, 0..500, 1000).len(), 500);
    assert!(fits(gateways.mtu(0), 1400), "not at once");
    // A path without traffic is known to be down when its connection times out, after ten seconds.
    gateways.run(22 * SECOND);
    assert!(fits(gateways.mtu(0), 1500), "{:?}", gateways.mtu(0));
    gateways.cut(1, false);
    gateways.run(8 * SECOND);
    assert!(fits(gateways.mtu(0), 1400), "{:?}", gateways.mtu(0));
}

#[test]
fn a_failover_to_a_smaller_path_loses_nothing() {
    let mut gateways = gateways(&[1500, 1400], OPTIONS);
    gateways.cut(1, true);
    gateways.run(16 * SECOND);
    assert!(fits(gateways.mtu(0), 1500));
    gateways.cut(1, false);
    gateways.cut(0, true);
    let mut sent = Vec::new();
    let mut came = Vec::new();
    for number in 0..1000_u32 {
        gateways.send(0, &segment(0, 6, number, 1428));
        sent.push(number);
        gateways.run(Duration::from_millis(10));
        came.extend(gateways.take_received(1));
    }
    gateways.run(2 * SECOND);
    came.extend(gateways.take_received(1));
    let last = came.iter().filter_map(|packet| number_of(packet)).map(|(_, number)| number).max();
    assert!(last.is_some_and(|last| last >= 999), "{last:?}");
    assert_eq!(gateways.queued(0), 0);
}

#[test]
fn a_peer_that_knows_no_fragments_gets_none() {
    let options = Options { newest_version: 1, ..OPTIONS };
    let mut gateways = gateways(&[1400], options);
    gateways.run(5 * SECOND);
    assert!(fits(gateways.mtu(0), 1400));
    gateways.set_mtu(0, 1280);
    for number in 0..500 {
        gateways.send(0, &segment(0, 1, number, 1320));
        gateways.run(Duration::from_millis(4));
    }
    gateways.run(3 * SECOND);
    assert!(fits(gateways.mtu(0), 1280), "{:?}", gateways.mtu(0));
    assert_eq!(gateways.counters(0).sizes.sent_in_fragments, 0);
    gateways.take_received(1);
    let len = usize::from(gateways.mtu(0).unwrap());
    assert_eq!(carry(&mut gateways, 2, 0..100, len).len(), 100);
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, ..ProptestConfig::default() })]

    /// Whatever MTU paths come to have, and whatever is sent, the queue drains, and all of a later flow
    /// arrives, no packet twice. A path that has shrunk is noticed by what is lost there, so flows right
    /// after it may lose some, once per path.
    #[test]
    fn nothing_is_stuck(
        seed in any::<u64>(),
        fragment: bool,
        steps in proptest::collection::vec((0..3_u8, 0..2_usize, 0..6_usize, 100..1500_usize), 4..16),
    ) {
        let oversize = if fragment { Oversize::Fragment } else { Oversize::Answer };
        let options = Options { oversize, ..OPTIONS };
        let wires = with_mtu(&[1500, 1400]).map_loss();
        let mut gateways = Gateways::new(Instant::now(), &wires, seed, options).unwrap();
        gateways.run(2 * SECOND);
        let mut number = 0;
        for (step, path, which, len) in steps {
            match step {
                0 => gateways.set_mtu(path, [1280, 1300, 1400, 1420, 1492, 1500][which]),
                1 => gateways.send(0, &datagram(len, which % 2 == 0)),
                _ => for _ in 0..50 {
                    gateways.send(0, &segment(0, 1, number, len));
                    number += 1;
                }
            }
            gateways.run(Duration::from_millis(200));
        }
        gateways.run(20 * SECOND);
        prop_assert_eq!(gateways.queued(0), 0);
        gateways.take_received(1);
        for (flow, least) in [(2, 80), (3, 80), (4, 100)] {
            let len = usize::from(gateways.mtu(0).unwrap()).min(1400);
            let mut came = carry(&mut gateways, flow, 0..100, len);
            let count = came.len();
            came.sort_unstable();
            came.dedup();
            prop_assert_eq!(came.len(), count, "flow {}: a packet came twice", flow);
            prop_assert!(count >= least, "flow {}: {} of 100 packets came", flow, count);
        }
    }
}

/// Wires that also lose packets.
trait Lossy {
    fn map_loss(self) -> Self;
}

impl Lossy for Vec<Wire> {
    fn map_loss(self) -> Self {
        self.into_iter().map(|wire| wire.loss(0.5)).collect()
    }
}

/// Moves a gateway's end of a path to an interface with another MTU, while nothing passes.
fn move_to_mtu(gateways: &mut Gateways, mtu: u16, address: u8) {
    gateways.set_max_datagram(0, mtu - 28);
    gateways.set_address(0, 0, Some(address));
    gateways.cut(0, true);
    gateways.run(20 * SECOND);
    gateways.cut(0, false);
    gateways.run(10 * SECOND);
}

#[test]
fn a_path_that_moves_to_an_interface_with_a_larger_mtu_uses_it() {
    let mut gateways = gateways(&[1500], OPTIONS);
    gateways.run(5 * SECOND);
    assert!(fits(gateways.mtu(0), 1500), "{:?}", gateways.mtu(0));
    move_to_mtu(&mut gateways, 1280, 8);
    assert!(fits(gateways.mtu(0), 1280), "{:?}", gateways.mtu(0));
    move_to_mtu(&mut gateways, 1500, 9);
    assert!(fits(gateways.mtu(0), 1500), "{:?}", gateways.mtu(0));
}
