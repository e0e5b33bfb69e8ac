//! What must hold whatever happens.

#![allow(clippy::indexing_slicing, clippy::unwrap_used)]

use std::time::{Duration, Instant};

use hawser_multipath::{
    Backlog, Choice, Policy, Rate, Resequencer, Scheduler, Sequencer, State, Tag, View,
};
use proptest::prelude::*;

const PATHS: usize = 4;

/// A packet's way: its path, and whether it is lost there.
type Way = (usize, bool);

fn ways() -> impl Strategy<Value = Vec<Way>> {
    proptest::collection::vec((0..PATHS, proptest::bool::weighted(0.1)), 1..300)
}

/// Sends packets of one flow; what arrives on each path, in order.
fn arrivals(ways: &[Way]) -> Vec<Vec<(Tag, usize)>> {
    let (mut sequencer, start) = (Sequencer::default(), Instant::now());
    let mut paths = vec![Vec::new(); PATHS];
    for (number, (path, lost)) in ways.iter().enumerate() {
        let sequence = sequencer.number(9);
        let tag = sequencer.tag(start, 9, sequence, *path, false);
        if !lost {
            paths[*path].push((tag, number));
        }
    }
    paths
}

/// What passes when the paths are read in turns chosen by `turns`, a millisecond each.
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
    assert_eq!((resequencer.held(), resequencer.poll_timeout()), (0, None));
    passed
}

proptest! {
    #[test]
    fn without_loss_everything_passes_in_order(
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
    fn what_arrives_passes_once_and_a_loss_never_breaks_the_order(
        ways in ways(),
        turns in proptest::collection::vec(0..PATHS, 1..50),
    ) {
        let arrived: Vec<_> = (0..ways.len()).filter(|n| !ways[*n].1).collect();
        prop_assert_eq!(passed(arrivals(&ways), &turns, 1000), arrived);
    }

    #[test]
    fn little_memory_costs_order_but_no_packet(
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
        for (flow, sequence, behind, paths, kept, path) in packets.iter().copied() {
            let tag = Tag { flow, sequence, behind, paths, kept };
            resequencer.push(now, path, tag, ((), true), &mut |()| count += 1);
        }
        prop_assert!(resequencer.held() <= 51 && count <= packets.len());
    }

    #[test]
    fn a_choice_has_room_and_something_to_send(
        paths in proptest::collection::vec((0..20_000_u64, 0..50_000_u64, 0.0..1e8, 0..300_u64, 0..5_usize), 0..16),
        backlog in 1..1_000_000_u64,
        policy in prop_oneof![
            Just(Policy::EarliestDelivery), Just(Policy::RoundRobin), Just(Policy::LowestDelay),
            Just(Policy::Weighted), Just(Policy::Single),
        ],
    ) {
        let states = [State::Probing, State::Up, State::Degraded, State::Down, State::Standby];
        let views: Vec<View> = paths.iter().map(|(room, queued, rate, delay, state)| View {
            state: states[*state],
            room: *room,
            queued: *queued,
            rate: Rate::from_bytes_per_second(*rate),
            delay: Duration::from_millis(*delay),
            largest: 1400,
            resend: Duration::ZERO,
        }).collect();
        let mut scheduler = Scheduler::new(policy);
        if let Some(Choice { path, skip }) = scheduler.next(&views, backlog, 1000, true) {
            prop_assert!(views[path].room >= 1000 && skip < backlog);
            prop_assert!(![State::Probing, State::Down].contains(&views[path].state));
        }
    }

    #[test]
    fn a_backlog_gives_back_what_it_took(
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
