//! What records a table makes, and that it is bounded.

#![allow(clippy::unwrap_used, clippy::indexing_slicing, clippy::panic)]

mod common;

use std::collections::HashMap;

use common::{Random, packet, traffic, tuple};
use hawser_flowmeter::{FlowTable, Packet, Reason, Record, Settings, features::NAMES};
use hawser_wire::tcp::flag::{ACK, FIN, RST, SYN};
use proptest::prelude::*;

fn records(settings: Settings, packets: &[(u64, Packet)]) -> (FlowTable, Vec<Record>) {
    let mut table = FlowTable::new(settings);
    let mut records = Vec::new();
    for (now, packet) in packets {
        table.observe(*now, packet, &mut |record| records.push(record));
    }
    (table, records)
}

#[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)]
fn feature(record: &Record, name: &str) -> u64 {
    record.features[NAMES.iter().position(|each| *each == name).unwrap()] as u64
}

fn packets_of(record: &Record) -> u64 {
    feature(record, "total_fpackets") + feature(record, "total_bpackets")
}

#[test]
fn a_short_connection_has_its_record_at_its_end() {
    let (there, back) = (tuple(1, 6), tuple(1, 6).reversed());
    let packets = [
        (10, packet(there, 0, SYN)),
        (20, packet(back, 0, SYN | ACK)),
        (30, packet(there, 0, ACK)),
        (40, packet(there, 100, ACK)),
        (50, packet(back, 0, FIN | ACK)),
        (60, packet(there, 0, FIN | ACK)),
        (70, packet(back, 0, ACK)),
    ];
    let (table, records) = records(Settings::default(), &packets);
    let [record] = records[..] else { panic!("{records:?}") };
    assert_eq!((record.reason, record.tuple), (Reason::Closed, there));
    assert!(record.is_conversation && table.is_empty());
    assert_eq!((record.first, record.last), (10, 70));
    assert_eq!((feature(&record, "total_fpackets"), feature(&record, "total_bpackets")), (4, 3));
    assert_eq!(feature(&record, "total_fvolume"), 40 * 4 + 100);
}

#[test]
fn a_refused_connection_has_a_record_and_is_no_conversation() {
    let packets =
        [(10, packet(tuple(1, 6), 0, SYN)), (20, packet(tuple(1, 6).reversed(), 0, RST | ACK))];
    let (_, records) = records(Settings::default(), &packets);
    assert_eq!(records.iter().map(|record| record.reason).collect::<Vec<_>>(), [Reason::Closed]);
    assert!(!records[0].is_conversation);
}

#[test]
fn a_flow_that_goes_on_is_reported_early_and_at_each_window_it_was_heard_in() {
    let at = |n: u64| (n * 250_000, packet(tuple(1, 17), 10, 0));
    let mut packets: Vec<_> = (0..33).map(at).collect();
    packets.push((20_000_000, packet(tuple(2, 17), 10, 0))); // six silent windows later
    let (_, records) = records(Settings::default(), &packets);
    let windows: Vec<_> =
        records.iter().filter(|record| record.reason == Reason::Window).map(packets_of).collect();
    assert_eq!(windows, [8, 8, 8, 8, 1]);
    let early: Vec<_> = records
        .iter()
        .filter(|record| matches!(record.reason, Reason::Early(_)))
        .map(packets_of)
        .collect();
    assert_eq!(early, [8, 16, 32]);
}

#[test]
fn a_silent_flow_ends_when_time_passes() {
    let (mut table, mut records) =
        records(Settings::default(), &[(0, packet(tuple(1, 17), 10, 0))]);
    table.advance(600_000_000, &mut |record| records.push(record));
    assert!(records.iter().all(|record| record.reason == Reason::Window));
    table.advance(600_000_001, &mut |record| records.push(record));
    assert_eq!(records.last().map(|record| record.reason), Some(Reason::Idle));
    assert!(table.is_empty());
}

#[test]
fn packets_older_than_their_flow_are_counted_apart() {
    let packet = packet(tuple(1, 17), 10, 0);
    let (table, _) = records(Settings::default(), &[(20, packet), (10, packet), (30, packet)]);
    assert_eq!((table.counters().packets, table.counters().reordered), (2, 1));
}

#[test]
fn a_flood_of_random_tuples_pushes_out_no_conversation_and_is_counted_once() {
    let settings = Settings { capacity: 1000, ..Settings::default() };
    let mut packets: Vec<_> = (0..500)
        .flat_map(|n| [tuple(n, 17), tuple(n, 17).reversed()])
        .map(|tuple| (1, packet(tuple, 10, 0)))
        .collect();
    packets.extend((1000..101_000).map(|n| (u64::from(n), packet(tuple(n, 17), 10, 0))));
    let (mut table, mut records) = records(settings, &packets);
    assert_eq!((table.len(), table.counters().evicted), (1000, 100_500 - 1000));
    table.finish(&mut |record| records.push(record));
    records.retain(|record| record.reason.is_last());
    let conversations = records.iter().filter(|record| record.is_conversation);
    assert!(conversations.clone().all(|record| record.reason == Reason::Ended));
    assert_eq!(conversations.count(), 500);
    let mut seen = HashMap::new();
    for record in &records {
        *seen.entry(record.tuple).or_insert(0) += 1;
    }
    assert!(seen.len() == 100_500 && seen.values().all(|count| *count == 1));
}

#[test]
fn a_flow_of_few_packets_has_an_early_record_at_its_age() {
    let settings = Settings { early_after: 100_000, ..Settings::default() };
    let mut packets = vec![(0, packet(tuple(1, 17), 10, 0)), (10, packet(tuple(2, 17), 10, 0))];
    packets.extend((0..8).map(|n| (20 + n, packet(tuple(3, 17), 10, 0))));
    let (mut table, records) = records(settings, &packets);
    assert_eq!(records.iter().map(|record| record.number).collect::<Vec<_>>(), [3]);
    let mut aged = Vec::new();
    table.advance(100_009, &mut |record| aged.push(record));
    assert_eq!(aged.iter().map(|record| record.number).collect::<Vec<_>>(), [1]);
    table.advance(200_000, &mut |record| aged.push(record));
    let said: Vec<_> = aged.iter().map(|record| (record.number, record.reason)).collect();
    assert_eq!(said, [(1, Reason::Early(1)), (2, Reason::Early(1))], "flow 3 had its own");
}

#[test]
fn a_connection_met_in_mid_stream_is_not_begun() {
    let packets = [
        (1, packet(tuple(1, 6), 0, SYN)),
        (2, packet(tuple(2, 6), 0, SYN | ACK)),
        (3, packet(tuple(3, 6), 9, ACK)),
        (4, packet(tuple(4, 17), 9, 0)),
    ];
    let (mut table, mut records) = records(Settings::default(), &packets);
    table.finish(&mut |record| records.push(record));
    records.sort_by_key(|record| record.number);
    let begun: Vec<_> = records.iter().map(|record| record.is_begun).collect();
    assert_eq!(begun, [true, false, false, true]);
}

/// With `--ignored`: the same with ten million tuples, and the memory that the process takes.
#[test]
#[ignore = "half a minute"]
fn ten_million_random_tuples_take_bounded_memory() {
    let mut table = FlowTable::new(Settings { seed: 7, ..Settings::default() });
    let mut random = Random(9);
    let (mut last, mut counted) = (0_u64, 0_u64);
    let mut count = |record: Record| {
        if record.reason.is_last() {
            last += 1;
            counted += packets_of(&record);
        }
    };
    let mut after_a_million = 0;
    for n in 0..10_000_000_u32 {
        let mut tuple = tuple(n, 17);
        tuple.destination_port = u16::try_from(random.below(65536)).unwrap();
        table.observe(u64::from(n), &packet(tuple, 10, 0), &mut count);
        if n == 1_000_000 {
            after_a_million = resident_kib();
        }
    }
    let grown = resident_kib().saturating_sub(after_a_million);
    table.finish(&mut count);
    println!(
        "10 000 000 flows: {after_a_million} KiB after a million, {grown} KiB more at the end"
    );
    assert_eq!((table.counters().flows, last, counted), (10_000_000, 10_000_000, 10_000_000));
    assert!(grown < 8192, "{grown} KiB");
}

fn resident_kib() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find(|line| line.starts_with("VmRSS")).unwrap();
    line.split_whitespace().nth(1).unwrap().parse().unwrap()
}

proptest! {
    /// Every packet is in exactly one last record, whatever arrives in whatever order.
    #[test]
    fn every_packet_is_counted_once(
        seed in 1_u64.., flows in 1_u32..60, capacity in 0_u32..20, swaps in 0_usize..50,
    ) {
        let mut packets = traffic(flows, seed);
        let mut random = Random(seed);
        for _ in 0..swaps {
            let n = packets.len() as u64;
            let (a, b) = (random.below(n.max(1)), random.below(n.max(1)));
            if n > 0 {
                packets.swap(usize::try_from(a).unwrap(), usize::try_from(b).unwrap());
            }
        }
        let settings = Settings { capacity, early_after: seed % 3 * 1000, ..Settings::default() };
        let mut table = FlowTable::new(settings);
        let mut records = Vec::new();
        for (now, packet) in &packets {
            table.observe(*now, packet, &mut |record| records.push(record));
            prop_assert!(table.len() <= capacity.max(1) as usize);
        }
        table.finish(&mut |record| records.push(record));
        records.retain(|record| record.reason.is_last());
        let counters = table.counters();
        prop_assert_eq!(records.len() as u64, counters.flows);
        prop_assert_eq!(records.iter().map(packets_of).sum::<u64>(), counters.packets);
        prop_assert_eq!(counters.packets + counters.reordered, packets.len() as u64);
        let finite = records.iter().flat_map(|record| record.features).all(f64::is_finite);
        prop_assert!(finite);
    }
}
