//! Complete tunnels over paths that lose, reorder and duplicate packets, are cut, and change their
//! MTU, with gateways that restart.

#![allow(clippy::unwrap_used)]

use std::{
    net::Ipv4Addr,
    time::{Duration, Instant},
};

use hawser_sim::gateways::{Gateways, OPTIONS, Wire, number_of, segment};
use proptest::prelude::*;

const SECOND: Duration = Duration::from_secs(1);

fn gateways(wires: &[Wire], seed: u64) -> Gateways {
    let mut gateways = Gateways::new(Instant::now(), wires, seed, OPTIONS).unwrap();
    gateways.run(2 * SECOND);
    gateways
}

/// Bytes of a segment that `carry` sends.
fn len_of(number: u32) -> usize {
    100 + (number as usize * 37) % 1300
}

/// Sends segments of a flow at a fixed rate; returns the numbers received by the other gateway, in
/// order.
fn carry(gateways: &mut Gateways, flow: u16, numbers: std::ops::Range<u32>) -> Vec<u32> {
    for number in numbers {
        gateways.send(0, &segment(0, flow, number, len_of(number)));
        gateways.run(Duration::from_millis(2));
    }
    gateways.run(2 * SECOND);
    received(gateways, 1, flow)
}

fn received(gateways: &mut Gateways, at: usize, flow: u16) -> Vec<u32> {
    let packets = gateways.take_received(at);
    let numbers = packets.iter().filter_map(|packet| number_of(packet));
    numbers.filter(|(of, _)| *of == flow).map(|(_, number)| number).collect()
}

#[test]
fn packets_arrive_once_and_in_order_unless_lost_twice() {
    for (loss, late, duplicated) in [(0.0, 0.0, 0.0), (1.0, 0.0, 0.0), (2.0, 5.0, 1.0)] {
        let mut wire = Wire::new(20.0, 15.0).loss(loss);
        (wire.late, wire.duplicate_percent) = ((late, 10.0), duplicated);
        let mut gateways = gateways(&[wire, Wire { link: wire.link, ..Wire::new(8.0, 30.0) }], 5);
        assert_eq!(gateways.path_changes(0), (2, 0));
        let received_numbers = carry(&mut gateways, 7, 0..2000);
        // A packet lost duplicated may arrive after the resequencer has abandoned it.
        let late_ones = received_numbers
            .iter()
            .zip(received_numbers.iter().skip(1))
            .filter(|(one, next)| one > next)
            .count();
        let most = if loss > 0.0 { 10 } else { 0 };
        assert!(
            late_ones <= most,
            "{late_ones} received_numbers late at loss {loss} %, {late} % late"
        );
        let mut sorted = received_numbers;
        sorted.sort_unstable();
        assert_eq!(sorted, (0..2000).collect::<Vec<_>>(), "loss {loss} %, {late} % late");
        let counters = gateways.counters(0);
        assert_eq!(counters.recovery.retransmitted > 0, loss > 0.0, "{counters:?}");
        assert!(counters.headers.compressed > 0);
    }
}

#[test]
fn a_cut_path_loses_nothing_and_recovers() {
    let mut gateways = gateways(&[Wire::new(10.0, 10.0); 3], 6);
    for (turn, first) in (0..8).zip((0..).step_by(500)) {
        gateways.cut(0, turn % 2 == 0);
        let received_numbers = carry(&mut gateways, 9, first..first + 500);
        assert_eq!(received_numbers, (first..first + 500).collect::<Vec<_>>(), "turn {turn}");
    }
    let sent = gateways.paths(0);
    assert!(sent.iter().all(Option::is_some), "{sent:?}");
}

#[test]
fn a_path_moves_with_its_address() {
    let mut gateways = gateways(&[Wire::new(20.0, 10.0)], 4);
    for (turn, host) in (0..4).zip([11, 12, 13, 1]) {
        gateways.set_address(0, 0, Some(host));
        let first = turn * 500;
        let received_numbers = carry(&mut gateways, 9, first..first + 500);
        assert_eq!(received_numbers, (first..first + 500).collect::<Vec<_>>(), "host {host}");
    }
    assert_eq!(gateways.path_changes(0), (1, 0), "the first connection is still there");
    assert_eq!(gateways.path_changes(1), (1, 0));
}

#[test]
fn a_path_without_an_address_waits_while_others_carry() {
    let mut gateways = gateways(&[Wire::new(20.0, 10.0); 2], 4);
    for (turn, (host, wait)) in (0..).zip([(None, 0), (Some(9), 0), (None, 15), (Some(1), 0)]) {
        gateways.set_address(0, 0, host);
        gateways.run(wait * SECOND);
        let first = turn * 500;
        let received_numbers = carry(&mut gateways, 9, first..first + 500);
        assert_eq!(received_numbers, (first..first + 500).collect::<Vec<_>>(), "turn {turn}");
    }
    // It came back as the same connection, and after the idle timeout as another one.
    assert_eq!(gateways.path_changes(0), (3, 1));
    assert!(gateways.paths(0).iter().all(Option::is_some));
}

#[test]
fn a_listener_may_lose_its_address_for_a_while() {
    let mut gateways = gateways(&[Wire::new(20.0, 10.0); 2], 4);
    for (first, wait, changes) in [(0, 0, (2, 0)), (500, 15, (3, 1))] {
        gateways.set_address(1, 0, None);
        let received_numbers = carry(&mut gateways, 9, first..first + 500);
        assert_eq!(received_numbers, (first..first + 500).collect::<Vec<_>>());
        gateways.run(wait * SECOND);
        assert_eq!(gateways.reconnects(1), 0, "one that ended has not come back");
        gateways.set_address(1, 0, Some(2));
        gateways.run(8 * SECOND);
        assert_eq!(gateways.path_changes(1), changes, "{wait} s and more without one");
        assert_eq!(gateways.reconnects(1), changes.1 as u64, "{wait} s and more without one");
    }
}

#[test]
fn either_gateway_may_restart() {
    let mut gateways = gateways(&[Wire::new(20.0, 10.0); 2], 7);
    let mut first = 0;
    for end in [1, 0, 1] {
        assert_eq!(carry(&mut gateways, 3, first..first + 300).len(), 300);
        gateways.restart(end);
        // The remaining end times out, and the client reconnects.
        gateways.run(20 * SECOND);
        first += 300;
    }
    let received_numbers = carry(&mut gateways, 3, first..first + 300);
    assert_eq!(received_numbers, (first..first + 300).collect::<Vec<_>>());
    assert!(gateways.paths(0).iter().chain(&gateways.paths(1)).all(Option::is_some));
}

#[test]
fn mtu_changes_are_discovered() {
    let mut gateways = gateways(&[Wire::new(20.0, 10.0); 2], 8);
    let mtu = |gateways: &Gateways| gateways.paths(0)[0].unwrap().1;
    assert_eq!(mtu(&gateways), 1472);
    gateways.set_mtu(0, 1400);
    let received_numbers = carry(&mut gateways, 4, 0..1500);
    assert_eq!(received_numbers.len(), 1500);
    assert!(mtu(&gateways) <= 1372, "{}", mtu(&gateways));
    gateways.set_mtu(0, 1500);
    carry(&mut gateways, 4, 1500..2500);
    gateways.run(5 * SECOND);
    assert!(mtu(&gateways) > 1372, "{}", mtu(&gateways));
}

#[test]
fn a_new_path_is_padded_once() {
    let mut gateways = gateways(&[Wire::new(50.0, 20.0); 2], 3);
    let sent = |gateways: &Gateways| -> Vec<u64> {
        gateways.paths(0).iter().map(|path| path.unwrap().0).collect()
    };
    let before = sent(&gateways);
    gateways.run(4 * SECOND);
    let later = sent(&gateways);
    let grown: Vec<_> = later.iter().zip(&before).map(|(later, before)| later - before).collect();
    assert!(grown.iter().all(|bytes| *bytes < 200), "only where the peer is seen: {grown:?}");
    assert!(before.iter().all(|sent| (60_000..300_000).contains(sent)), "{before:?}");
}

#[test]
fn a_proxied_connection_carries_both_ways_and_ends() {
    let wires = [Wire::new(10.0, 20.0).loss(1.0), Wire::new(30.0, 40.0)];
    let mut gateways = gateways(&wires, 9);
    let client = gateways.connect(0, 4000);
    gateways.run(SECOND);
    let server = gateways.opened_streams(1).first().cloned().unwrap();
    let [question, answer] =
        [7, 11].map(|step| (0..500_000_u32).map(|n| (n / step % 251) as u8).collect::<Vec<_>>());
    for (at, end, bytes) in [(0, &client, &question), (1, &server, &answer)] {
        end.send(bytes);
        end.end();
        gateways.wake(at, end);
    }
    gateways.run(5 * SECOND);
    assert!(server.received() == question && client.received() == answer);
    assert_eq!((server.is_ended(), client.is_ended()), ((true, true), (true, true)));
    let counters = gateways.counters(0).tcp_proxy;
    assert_eq!((counters.opened, counters.ended, counters.reset), (1, 1, 0));
}

#[test]
fn a_proxied_connection_outlives_a_path_and_not_a_gateway() {
    let mut gateways = gateways(&[Wire::new(10.0, 20.0); 2], 10);
    let client = gateways.connect(0, 4001);
    gateways.run(SECOND);
    let server = gateways.opened_streams(1).first().cloned().unwrap();
    client.send(&vec![5; 3_000_000]);
    gateways.wake(0, &client);
    gateways.run(Duration::from_millis(500));
    gateways.cut(0, true);
    gateways.run(15 * SECOND);
    assert_eq!(server.received().len(), 3_000_000);
    gateways.cut(0, false);
    gateways.restart(1);
    gateways.run(20 * SECOND);
    let counters = gateways.counters(0).tcp_proxy;
    assert_eq!((counters.ended, counters.reset), (0, 1));
}

#[test]
fn connections_wait_while_a_path_takes_no_further_messages() {
    let mut gateways = gateways(&[Wire::new(100.0, 50.0)], 12);
    // More at once than a QUIC connection has streams.
    let host = |number: u16| {
        let [a, b, c, _] = hawser_sim::gateways::host(0).octets();
        Ipv4Addr::new(a, b, c, 100 + u8::try_from(number % 4).unwrap())
    };
    let clients = (0..3000).map(|port| gateways.connect_from(0, host(port), 4000 + port));
    let clients = clients.collect::<Vec<_>>();
    for client in &clients {
        client.send(&[6; 100]);
        gateways.wake(0, client);
    }
    gateways.run(3 * SECOND);
    let servers = gateways.opened_streams(1);
    assert_eq!(servers.len(), clients.len());
    assert!(servers.iter().all(|server| server.received().len() == 100));
}

#[test]
fn a_group_survives_changes_of_its_paths() {
    let mut gateways = gateways(&[Wire::new(20.0, 10.0); 3], 11);
    for paths in [vec![0, 1], vec![2], vec![0, 1, 2]] {
        gateways.configure(0, &paths);
        gateways.configure(1, &paths);
        gateways.run(3 * SECOND);
        let received_numbers = carry(&mut gateways, 5, 0..200);
        assert_eq!(received_numbers, (0..200).collect::<Vec<_>>(), "{paths:?}");
        assert_eq!(gateways.paths(0).len(), paths.len());
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 8, ..ProptestConfig::default() })]

    /// Whatever the paths do for some seconds, no packet is delivered duplicated, and later ones get
    /// through.
    #[test]
    fn tunnels_survive_any_sequence_of_events(
        seed in any::<u64>(),
        steps in proptest::collection::vec((0..7_u8, 0..3_usize, 1..400_u64), 5..30),
    ) {
        let mut gateways = gateways(&[Wire::new(20.0, 10.0).loss(0.5); 3], seed);
        let mut number = 0;
        for (step, path, ms) in steps {
            match step {
                0 => gateways.cut(path, ms % 2 == 0),
                1 => gateways.set_mtu(path, [1500, 1400, 1280][path]),
                2 if ms % 4 == 0 => gateways.restart(path % 2),
                3 => drop(gateways.connect(path % 2, u16::try_from(ms).unwrap())),
                _ => {
                    for _ in 0..ms / 4 {
                        gateways.send(0, &segment(0, 1, number, 100 + path * 600));
                        number += 1;
                    }
                }
            }
            gateways.run(Duration::from_millis(ms));
        }
        (0..3).for_each(|path| gateways.cut(path, false));
        gateways.run(25 * SECOND);
        let mut received_numbers = received(&mut gateways, 1, 1);
        let all = received_numbers.len();
        received_numbers.sort_unstable();
        received_numbers.dedup();
        prop_assert_eq!(received_numbers.len(), all);
        let mut later = carry(&mut gateways, 2, 0..100);
        // The first that exceeds an MTU is lost on each path that has it, and may come late.
        prop_assert!(later.iter().filter(|number| len_of(**number) < 1200).is_sorted());
        later.sort_unstable();
        prop_assert_eq!(later, (0..100).collect::<Vec<_>>());
    }
}
