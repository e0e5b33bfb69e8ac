//! What holds for every profile and every sequence of packets.
#![allow(clippy::unwrap_used, clippy::indexing_slicing)] // clippy.toml frees only what carries #[test]

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use hawser_impair::{
    Bottleneck, Cause, Channel, Distribution, GilbertElliott, Instant, Jitter, Loss, Probability,
    Profile, Rate, Reordering, Service, Trace,
};
use proptest::prelude::*;

fn probability() -> impl Strategy<Value = Probability> {
    (0.0..=1.0).prop_map(|value| Probability::new(value).unwrap())
}

fn loss() -> impl Strategy<Value = Loss> {
    prop_oneof![
        Just(Loss::None),
        probability().prop_map(Loss::Bernoulli),
        (probability(), probability(), probability(), probability()).prop_map(
            |(to_bad, to_good, good, bad)| {
                Loss::GilbertElliott(GilbertElliott { to_bad, to_good, good, bad })
            }
        ),
    ]
}

fn jitter() -> impl Strategy<Value = Option<Jitter>> {
    let shape = prop_oneof![
        Just(Distribution::Normal),
        Just(Distribution::Uniform),
        Just(Distribution::Pareto)
    ];
    let some = (0u64..50_000_000, shape, probability(), any::<bool>()).prop_map(
        |(deviation, distribution, correlation, reorders)| Jitter {
            deviation: Duration::from_nanos(deviation),
            distribution,
            correlation,
            reorders,
        },
    );
    proptest::option::of(some)
}

fn trace() -> impl Strategy<Value = Service> {
    proptest::collection::vec(0u32..500, 1..50).prop_map(|mut times| {
        times.sort_unstable();
        times.push(500);
        let text = times.iter().map(u32::to_string).collect::<Vec<_>>().join("\n");
        Service::Trace(Arc::new(Trace::parse(&text).unwrap()))
    })
}

fn bottleneck() -> impl Strategy<Value = Option<Bottleneck>> {
    let rate = (1000u64..20_000_000_000)
        .prop_map(|bits| Service::Constant(Rate::from_bits_per_second(bits).unwrap()));
    let some = (prop_oneof![rate, trace()], 0u64..50_000)
        .prop_map(|(service, queue)| Bottleneck { service, queue });
    proptest::option::of(some)
}

fn profile() -> impl Strategy<Value = Profile> {
    let reordering = proptest::option::of(
        (probability(), 0u64..20_000_000)
            .prop_map(|(share, by)| Reordering { share, by: Duration::from_nanos(by) }),
    );
    (bottleneck(), loss(), 0u64..100_000_000, jitter(), probability(), reordering).prop_map(
        |(bottleneck, loss, delay, jitter, duplication, reordering)| Profile {
            bottleneck,
            loss,
            delay: Duration::from_nanos(delay),
            jitter,
            duplication,
            reordering,
        },
    )
}

/// Packets as (time since the one before, bytes).
fn packets() -> impl Strategy<Value = Vec<(u64, u32)>> {
    proptest::collection::vec((0u64..3_000_000, 14u32..9000), 1..200)
}

/// Runs a channel as a daemon would: at every packet and at every timeout. Returns what came out
/// as (serial, due, when it was asked for), and how many packets went in.
fn run(
    channel: &mut Channel<usize>,
    packets: &[(u64, u32)],
) -> (Vec<(usize, Instant, Instant)>, usize) {
    let mut now = 0;
    let mut out = Vec::new();
    let mut accepted = 0;
    let mut release = |channel: &mut Channel<usize>, now: Instant| {
        while let Some(departure) = channel.pop_due(now) {
            out.push((departure.packet, departure.due, now));
        }
    };
    for (serial, (gap, size)) in packets.iter().enumerate() {
        let next = now + gap;
        while let Some(due) = channel.poll_timeout().filter(|due| due.as_nanos() <= next) {
            release(channel, due);
            assert!(channel.poll_timeout() > Some(due) || channel.poll_timeout().is_none());
        }
        now = next;
        accepted += usize::from(channel.enqueue(Instant::from_nanos(now), *size, serial).is_ok());
    }
    while let Some(due) = channel.poll_timeout() {
        release(channel, due);
    }
    (out, accepted)
}

/// The bottleneck as a textbook has it: a list of all packets, walked for each.
fn reference_queue(rate: u64, limit: u64, packets: &[(u64, u32)]) -> Vec<Option<u64>> {
    let mut inside: VecDeque<(u64, u64)> = VecDeque::new(); // (exit, size)
    let (mut now, mut free, mut carry) = (0u64, 0u64, 0u64);
    let mut exits = Vec::new();
    for (gap, size) in packets {
        now += gap;
        inside.retain(|(exit, _)| *exit > now);
        let waiting: u64 = inside.iter().skip(1).map(|(_, size)| size).sum();
        if !inside.is_empty() && waiting + u64::from(*size) > limit {
            exits.push(None);
            continue;
        }
        let work = u64::from(*size) * 8_000_000_000 + carry;
        carry = work % rate;
        free = free.max(now) + work / rate;
        inside.push_back((free, u64::from(*size)));
        exits.push(Some(free));
    }
    exits
}

proptest! {
    #[test]
    fn packets_are_neither_made_nor_forgotten(profile in profile(), packets in packets(), seed: u64) {
        let mut channel = Channel::new(Instant::from_nanos(0), profile, seed);
        let (out, accepted) = run(&mut channel, &packets);
        let counters = *channel.counters();
        let went_in = counters.entered.packets + counters.duplicated.packets;
        let went_out = counters.departed.packets + counters.lost.packets + counters.queue_full.packets;
        prop_assert_eq!(went_in, went_out);
        prop_assert_eq!(counters.entered.packets, packets.len() as u64);
        prop_assert_eq!(counters.departed.packets, out.len() as u64);
        let mut serials: Vec<_> = out.iter().map(|(serial, _, _)| *serial).collect();
        serials.sort_unstable();
        serials.dedup();
        prop_assert_eq!(serials.len(), accepted);
        prop_assert_eq!(channel.in_flight(), 0);
    }

    #[test]
    fn nothing_comes_early_and_the_timeout_is_never_late(
        profile in profile(), packets in packets(), seed: u64,
    ) {
        let floor = if profile.jitter.is_some() { 0 } else { u64::try_from(profile.delay.as_nanos()).unwrap() };
        let mut channel = Channel::new(Instant::from_nanos(0), profile, seed);
        let mut sent = 0;
        let times: Vec<_> = packets.iter().map(|(gap, _)| { sent += gap; sent }).collect();
        let (out, _) = run(&mut channel, &packets);
        for (serial, due, asked) in out {
            prop_assert_eq!(due, asked, "a timeout came too late or too early");
            prop_assert!(due.as_nanos() >= times[serial] + floor);
        }
    }

    #[test]
    fn order_is_kept_unless_the_profile_asks(profile in profile(), packets in packets(), seed: u64) {
        let jitter = profile.jitter.map(|jitter| Jitter { reorders: false, ..jitter });
        let profile = Profile { jitter, reordering: None, ..profile };
        let mut channel = Channel::new(Instant::from_nanos(0), profile, seed);
        let (out, _) = run(&mut channel, &packets);
        prop_assert!(out.is_sorted_by_key(|(serial, due, _)| (*due, *serial)));
        prop_assert!(out.is_sorted_by_key(|(serial, _, _)| *serial));
    }

    #[test]
    fn equal_seeds_give_equal_fates(profile in profile(), packets in packets(), seed: u64) {
        let mut one = Channel::new(Instant::from_nanos(0), profile.clone(), seed);
        let mut other = Channel::new(Instant::from_nanos(0), profile, seed);
        prop_assert_eq!(run(&mut one, &packets), run(&mut other, &packets));
        prop_assert_eq!(one.counters(), other.counters());
    }

    #[test]
    fn the_queue_does_what_the_textbook_does(
        rate in 100_000u64..2_000_000_000, limit in 0u64..30_000, packets in packets(),
    ) {
        let service = Service::Constant(Rate::from_bits_per_second(rate).unwrap());
        let profile = Profile {
            bottleneck: Some(Bottleneck { service, queue: limit }), ..Profile::default()
        };
        let mut channel = Channel::new(Instant::from_nanos(0), profile, 0);
        let (out, _) = run(&mut channel, &packets);
        let expected: Vec<_> = reference_queue(rate, limit, &packets)
            .into_iter().enumerate()
            .filter_map(|(serial, exit)| Some((serial, exit?)))
            .collect();
        let found: Vec<_> =
            out.iter().map(|(serial, due, _)| (*serial, due.as_nanos())).collect();
        prop_assert_eq!(found, expected);
    }

    #[test]
    fn values_change_at_any_moment(
        profiles in proptest::collection::vec(profile(), 1..6), packets in packets(), seed: u64,
    ) {
        let mut channel = Channel::new(Instant::from_nanos(0), Profile::default(), seed);
        let mut now = Instant::from_nanos(0);
        for (serial, (gap, size)) in packets.iter().enumerate() {
            now = now + Duration::from_nanos(*gap);
            if serial % 20 == 0 {
                channel.set_profile(now, profiles[serial / 20 % profiles.len()].clone());
            }
            let result = channel.enqueue(now, *size, serial);
            prop_assert!(matches!(result, Ok(()) | Err(Cause::Loss | Cause::Queue)));
            while channel.pop_due(now).is_some() {}
        }
        while let Some(due) = channel.poll_timeout() {
            while channel.pop_due(due).is_some() {}
        }
        let counters = channel.counters();
        prop_assert_eq!(
            counters.entered.packets + counters.duplicated.packets,
            counters.departed.packets + counters.lost.packets + counters.queue_full.packets
        );
    }

    #[test]
    fn any_text_is_a_trace_or_an_error(text in "[0-9\\n\\r\\t a-z-]{0,200}") {
        let _ = Trace::parse(&text);
    }
}
