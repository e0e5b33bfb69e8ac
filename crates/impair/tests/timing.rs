//! What a channel does to single packets, to the nanosecond.
#![allow(clippy::unwrap_used, clippy::indexing_slicing)] // clippy.toml frees only what carries #[test]

use std::sync::Arc;
use std::time::Duration;

use hawser_impair::{
    Bottleneck, Cause, Channel, Distribution, Instant, Jitter, Loss, Probability, Profile, Rate,
    Reordering, Service, Trace, ValueError,
};

const MS: u64 = 1_000_000;

fn at(nanos: u64) -> Instant {
    Instant::from_nanos(nanos)
}

fn ratio(value: f64) -> Probability {
    Probability::new(value).unwrap()
}

fn rate(bits: u64) -> Service {
    Service::Constant(Rate::from_bits_per_second(bits).unwrap())
}

fn delayed(ms: u64) -> Profile {
    Profile { delay: Duration::from_millis(ms), ..Profile::default() }
}

/// Everything that comes out by `until`: handle and due time.
fn drain(channel: &mut Channel<u32>, until: u64) -> Vec<(u32, u64)> {
    std::iter::from_fn(|| channel.pop_due(at(until)))
        .map(|departure| (departure.packet, departure.due.as_nanos()))
        .collect()
}

#[test]
fn nothing_asked_is_nothing_done() {
    let mut channel = Channel::new(at(0), Profile::default(), 1);
    channel.enqueue(at(5), 100, 7).unwrap();
    assert_eq!(channel.poll_timeout(), Some(at(5)));
    assert_eq!(drain(&mut channel, 5), [(7, 5)]);
    assert_eq!(channel.poll_timeout(), None);
}

#[test]
fn delay_is_exact_and_not_early() {
    let mut channel = Channel::new(at(0), delayed(35), 1);
    channel.enqueue(at(123), 100, 1).unwrap();
    assert_eq!(channel.poll_timeout(), Some(at(35 * MS + 123)));
    assert_eq!(drain(&mut channel, 35 * MS + 122), []);
    assert_eq!(drain(&mut channel, 36 * MS), [(1, 35 * MS + 123)]);
}

#[test]
fn rate_spaces_packets_and_delay_comes_after() {
    let bottleneck = Bottleneck { service: rate(8_000_000), queue: 10_000 };
    let profile = Profile { bottleneck: Some(bottleneck), ..delayed(10) };
    let mut channel = Channel::new(at(0), profile, 1);
    for packet in 0..3 {
        channel.enqueue(at(0), 1000, packet).unwrap();
    }
    // 1000 bytes at 8 Mbit/s take 1 ms.
    assert_eq!(channel.poll_timeout(), Some(at(11 * MS)));
    assert_eq!(drain(&mut channel, 20 * MS), [(0, 11 * MS), (1, 12 * MS), (2, 13 * MS)]);
}

#[test]
fn fractions_of_a_nanosecond_add_up() {
    let bottleneck = Bottleneck { service: rate(10_000_000_000), queue: u64::MAX };
    let profile = Profile { bottleneck: Some(bottleneck), ..Profile::default() };
    let mut channel = Channel::new(at(0), profile, 1);
    for packet in 0..1000 {
        channel.enqueue(at(0), 64, packet).unwrap();
    }
    let last = drain(&mut channel, MS).pop().unwrap();
    assert_eq!(last, (999, 51_200));
}

#[test]
fn the_queue_holds_its_bytes_besides_the_packet_in_transmission() {
    let bottleneck = Bottleneck { service: rate(8_000_000), queue: 2000 };
    let profile = Profile { bottleneck: Some(bottleneck), ..Profile::default() };
    let mut channel = Channel::new(at(0), profile, 1);
    for packet in 0..3 {
        assert_eq!(channel.enqueue(at(0), 1000, packet), Ok(()));
    }
    assert_eq!(channel.enqueue(at(0), 1, 3), Err(Cause::Queue));
    assert_eq!(channel.enqueue(at(MS), 1000, 4), Ok(()));
    assert_eq!(channel.counters().queue_full.packets, 1);
    assert_eq!(drain(&mut channel, 10 * MS), [(0, MS), (1, 2 * MS), (2, 3 * MS), (4, 4 * MS)]);
}

#[test]
fn a_packet_taken_in_late_waits_for_those_that_have_left_since() {
    let bottleneck = Bottleneck { service: rate(8_000_000), queue: 2000 };
    let profile = Profile { bottleneck: Some(bottleneck), ..Profile::default() };
    let mut channel = Channel::new(at(0), profile, 1);
    channel.enqueue(at(0), 1000, 0).unwrap();
    assert_eq!(drain(&mut channel, 2 * MS), [(0, MS)]);
    // It arrived while the first was in transmission.
    channel.enqueue(at(MS / 2), 1000, 1).unwrap();
    assert_eq!(drain(&mut channel, 5 * MS), [(1, 2 * MS)]);
}

#[test]
fn what_waits_and_what_has_left_the_bottleneck_is_counted() {
    let bottleneck = Bottleneck { service: rate(8_000_000), queue: 2000 };
    let profile = Profile { bottleneck: Some(bottleneck), ..delayed(5) };
    let mut channel = Channel::new(at(0), profile, 1);
    for packet in 0..3 {
        channel.enqueue(at(0), 1000, packet).unwrap();
    }
    assert_eq!(channel.queued_bytes(), Some(2000));
    assert_eq!(channel.pop_due(at(2 * MS)), None);
    assert_eq!(channel.queued_bytes(), Some(0));
    assert_eq!(channel.counters().served.packets, 2);
    channel.set_profile(at(2 * MS), delayed(5));
    assert_eq!((channel.queued_bytes(), channel.counters().served.bytes), (None, 3000));
}

#[test]
fn a_lost_packet_has_used_the_bottleneck() {
    let bottleneck = Bottleneck { service: rate(8_000_000), queue: 10_000 };
    let lossy = Profile {
        bottleneck: Some(bottleneck),
        loss: Loss::Bernoulli(Probability::ONE),
        ..Profile::default()
    };
    let mut channel = Channel::new(at(0), lossy.clone(), 1);
    assert_eq!(channel.enqueue(at(0), 1000, 0), Err(Cause::Loss));
    channel.set_profile(at(0), Profile { loss: Loss::None, ..lossy });
    channel.enqueue(at(0), 1000, 1).unwrap();
    assert_eq!(drain(&mut channel, 10 * MS), [(1, 2 * MS)]);
}

#[test]
fn a_trace_serves_the_queue() {
    let trace = Arc::new(Trace::parse("3\n10\n").unwrap());
    let bottleneck = Bottleneck { service: Service::Trace(trace), queue: 10_000 };
    let profile = Profile { bottleneck: Some(bottleneck), ..delayed(5) };
    let mut channel = Channel::new(at(0), profile, 1);
    for packet in 0..3 {
        channel.enqueue(at(0), 1500, packet).unwrap();
    }
    let expected = [(0, 8 * MS), (1, 15 * MS), (2, 18 * MS)];
    assert_eq!(drain(&mut channel, 20 * MS), expected);
}

#[test]
fn a_copy_comes_right_after_its_original() {
    let profile = Profile { duplication: Probability::ONE, ..delayed(1) };
    let mut channel = Channel::new(at(0), profile, 1);
    channel.enqueue(at(0), 100, 1).unwrap();
    channel.enqueue(at(0), 100, 2).unwrap();
    let more: Vec<_> = std::iter::from_fn(|| channel.pop_due(at(MS)))
        .map(|departure| (departure.packet, departure.more))
        .collect();
    assert_eq!(more, [(1, true), (1, false), (2, true), (2, false)]);
}

#[test]
fn a_packet_held_back_is_overtaken() {
    let late = Reordering { share: Probability::ONE, by: Duration::from_millis(2) };
    let mut channel = Channel::new(at(0), Profile { reordering: Some(late), ..delayed(1) }, 1);
    channel.enqueue(at(0), 100, 1).unwrap();
    channel.set_profile(at(0), delayed(1));
    channel.enqueue(at(MS), 100, 2).unwrap();
    assert_eq!(drain(&mut channel, 5 * MS), [(2, 2 * MS), (1, 3 * MS)]);
    assert_eq!(channel.counters().reordered.packets, 1);
}

#[test]
fn a_shorter_delay_does_not_reorder() {
    let mut channel = Channel::new(at(0), delayed(10), 1);
    channel.enqueue(at(0), 100, 1).unwrap();
    channel.set_profile(at(0), delayed(1));
    channel.enqueue(at(MS), 100, 2).unwrap();
    assert_eq!(drain(&mut channel, 10 * MS), [(1, 10 * MS), (2, 10 * MS)]);
    channel.enqueue(at(20 * MS), 100, 3).unwrap();
    assert_eq!(drain(&mut channel, 30 * MS), [(3, 21 * MS)]);
}

#[test]
fn a_new_rate_holds_from_the_next_packet_on() {
    let slow = Bottleneck { service: rate(8_000_000), queue: 10_000 };
    let fast = Bottleneck { service: rate(80_000_000), queue: 10_000 };
    let with = |bottleneck| Profile { bottleneck, ..Profile::default() };
    let mut channel = Channel::new(at(0), with(Some(slow)), 1);
    for packet in 0..3 {
        channel.enqueue(at(0), 1000, packet).unwrap();
    }
    channel.set_profile(at(MS / 2), with(Some(fast)));
    assert_eq!(drain(&mut channel, MS + 100_000), [(0, MS), (1, MS + 100_000)]);
    channel.set_profile(at(MS + 150_000), with(None));
    assert_eq!(drain(&mut channel, 2 * MS), [(2, MS + 150_000)]);
}

#[test]
fn jitter_never_makes_a_delay_negative() {
    let jitter = Jitter {
        deviation: Duration::from_millis(100),
        distribution: Distribution::Normal,
        correlation: Probability::ZERO,
        reorders: true,
    };
    let mut channel = Channel::new(at(0), Profile { jitter: Some(jitter), ..delayed(1) }, 1);
    for packet in 0..1000 {
        channel.enqueue(at(MS), 100, packet).unwrap();
    }
    assert!(drain(&mut channel, u64::MAX).iter().all(|(_, due)| *due >= MS));
}

#[test]
fn a_packet_may_be_noticed_later_where_nobody_sees_it() {
    let with = |profile| Channel::<u32>::new(at(0), profile, 1).poll_interval_max();
    let jitter = |deviation| {
        let (distribution, correlation) = (Distribution::Normal, Probability::ZERO);
        Some(Jitter { deviation, distribution, correlation, reorders: false })
    };
    assert_eq!(with(delayed(0)), Duration::ZERO);
    assert_eq!(with(delayed(10)), Duration::from_millis(5));
    let shaky = Profile { jitter: jitter(Duration::from_millis(1)), ..delayed(10) };
    assert_eq!(with(shaky), Duration::from_micros(50), "a delay may be drawn that is none");
    let shakier = Profile { jitter: jitter(Duration::from_millis(20)), ..delayed(10) };
    assert_eq!(with(shakier), Duration::from_micros(100));
}

#[test]
fn values_out_of_range_are_refused() {
    assert_eq!(Probability::new(1.01), Err(ValueError::Probability(1.01)));
    assert!(Probability::new(-0.1).is_err() && Probability::new(f64::NAN).is_err());
    assert_eq!(ratio(1.0), Probability::ONE);
    assert_eq!(Rate::from_bits_per_second(0), Err(ValueError::Rate(0)));
    assert!(Rate::from_bits_per_second(u64::MAX).is_err());
}
