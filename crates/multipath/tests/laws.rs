//! Properties that hold for any input.

#![allow(clippy::indexing_slicing, clippy::unwrap_used)]

use std::time::{Duration, Instant};

use hawser_multipath::{
    Backlog, Choice, Policy, Rate, Resequencer, Scheduler, Sequencer, State, Tag, View,
};
use proptest::prelude::*;

const PATHS: usize = 4;

/// Path of a packet, and whether it is lost there.
type Way = (usize, bool);

fn ways() -> impl Strategy<Value = Vec<Way>> {
    proptest::collection::vec((0..PATHS, proptest::bool::weighted(0.1)), 1..300)
}

/// Sends packets of one flow; returns what arrives on each path, in order.
fn arrivals(ways: &[Way]) -> Vec<Vec<(Tag, usize)>> {
    let (mut sequencer, start) = (Sequencer::default(), Instant::now());
    let mut paths = vec![Vec::new(); PATHS];
    for (number, (path, lost)) in ways.iter().enumerate() {
        let sequence = sequencer.next_sequence(9);
        let tag = sequencer.tag(start, 9, sequence, *path, false);
        if !lost {
            paths[*path].push((tag, number));
        }
    }
    paths
}

/// Packets delivered when the paths are read in the order given by `turns`, one per millisecond.
fn passed(paths: Vec<Vec<(Tag, usize)>>, turns: &[usize], limit: usize) -> Vec<usize> {
    let (start, mut passed) = (Instant::now(), Vec::new());
    let mut resequencer = Resequencer::new(limit);
    let mut queues: Vec<_> = paths.into_iter().map(|path| path.into_iter().peekable()).collect();
    for (ms, turn) in (0..).zip(turns.iter().cycle()) {
        let now = start + Duration::from_millis(ms);
        let Some(path) =
            (0..PATHS).map(|n| (turn + n) % PATHS).find(|n| queues[*n].peek().is_some())
        else {
            break;
        };
        let (tag, packet) = queues[path].next().unwrap();
        resequencer.push(now, path, tag, (packet, true), &mut |packet| passed.push(packet));
    }
    resequencer.expire(start + Duration::from_mins(1), &mut |packet| passed.push(packet));
    assert_eq!((resequencer.buffered(), resequencer.poll_timeout()), (0, None));
    passed
}

proptest! {
    #[test]
    fn without_loss_packets_are_delivered_in_order(
        mut ways in ways(),
        turns in proptest::collection::vec(0..PATHS, 1..50),
    ) {
        for way in &mut ways {
            way.1 = false;
        }
        let expected: Vec<_> = (0..ways.len()).collect();
        prop_assert_eq!(passed(arrivals(&ways), &turns, 1000), expected);
    }

    #[test]
    fn packets_are_delivered_once_and_in_order_despite_loss(
        ways in ways(),
        turns in proptest::collection::vec(0..PATHS, 1..50),
    ) {
        let arrived: Vec<_> = (0..ways.len()).filter(|n| !ways[*n].1).collect();
        prop_assert_eq!(passed(arrivals(&ways), &turns, 1000), arrived);
    }

    #[test]
    fn a_full_buffer_costs_order_but_no_packet(
        ways in ways(),
        turns in proptest::collection::vec(0..PATHS, 1..50),
        limit in 0..20_usize,
    ) {
        let mut passed = passed(arrivals(&ways), &turns, limit);
        passed.sort_unstable();
        let arrived: Vec<_> = (0..ways.len()).filter(|n| !ways[*n].1).collect();
        prop_assert_eq!(passed, arrived);
    }

    #[test]
    fn no_packet_panics(
        packets in proptest::collection::vec((any::<u16>(), any::<u32>(), any::<u16>(), any::<u16>(), any::<bool>(), 0..20_usize), 0..200),
    ) {
        let (now, mut count) = (Instant::now(), 0);
        let mut resequencer = Resequencer::new(50);
        for (flow, sequence, behind, paths, retransmittable, path) in packets.iter().copied() {
            let tag = Tag { flow, sequence, behind, paths, retransmittable };
            resequencer.push(now, path, tag, ((), true), &mut |()| count += 1);
        }
        prop_assert!(resequencer.buffered() <= 51 && count <= packets.len());
    }

    #[test]
    fn a_choice_respects_window_and_backlog(
        paths in proptest::collection::vec((0..20_000_u64, 0..50_000_u64, 0.0..1e8, 0..300_u64, 0..5_usize), 0..16),
        backlog in 1..1_000_000_u64,
        policy in prop_oneof![
            Just(Policy::EarliestDelivery), Just(Policy::RoundRobin), Just(Policy::LowestDelay),
            Just(Policy::Weighted), Just(Policy::Single),
        ],
    ) {
        let states = [State::Probing, State::Up, State::Degraded, State::Down, State::Standby];
        let views: Vec<View> = paths.iter().map(|(available_window, queued, rate, delay, state)| View {
            state: states[*state],
            available_window: *available_window,
            queued: *queued,
            rate: Rate::from_bytes_per_second(*rate),
            delay: Duration::from_millis(*delay),
            max_packet: 1400,
            retransmission_delay: Duration::ZERO,
        }).collect();
        let mut scheduler = Scheduler::new(policy);
        if let Some(Choice { path, skip }) = scheduler.next(&views, backlog, 1000, true) {
            prop_assert!(views[path].available_window >= 1000 && skip < backlog);
            prop_assert!(![State::Probing, State::Down].contains(&views[path].state));
        }
    }

    #[test]
    fn a_backlog_returns_every_packet_once(
        steps in proptest::collection::vec((1..1500_u32, 0..5000_u64), 1..200),
    ) {
        let now = Instant::now();
        let mut backlog = Backlog::new(u64::MAX);
        let (mut bytes, mut seen) = (0, Vec::new());
        for (number, (len, skip)) in steps.iter().enumerate() {
            backlog.push(now, *len, (number, *len));
            bytes += u64::from(*len);
            if let Some((number, len)) = backlog.take(now, *skip, |_| true) {
                bytes -= u64::from(len);
                seen.push(number);
            }
            prop_assert_eq!(backlog.bytes(), bytes);
        }
        seen.extend(std::iter::from_fn(|| backlog.take(now, 0, |_| true)).map(|(number, _)| number));
        seen.sort_unstable();
        prop_assert_eq!(seen, (0..steps.len()).collect::<Vec<_>>());
    }
}
