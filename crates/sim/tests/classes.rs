//! Thresholds and rate limits of classes, in tunnels over paths that get worse and better.

#![allow(clippy::unwrap_used, clippy::indexing_slicing)]

use std::time::{Duration, Instant};

use hawser_multipath::Sla;
use hawser_sim::gateways::{Gateways, OPTIONS, Wire, segment};
use hawser_tunnel::config::{Config, Otherwise};

const SECOND: Duration = Duration::from_secs(1);

/// Lines of 20 Mbit/s: within the threshold, and beyond it.
const GOOD: Wire = Wire::new(20.0, 10.0);
const ALSO_GOOD: Wire = Wire::new(20.0, 20.0);
const SLOW: Wire = Wire::new(20.0, 100.0);

const SLA: Sla = Sla {
    rate_bps: None,
    delay: Some(Duration::from_millis(50)),
    jitter: None,
    loss_ppm: Some(20_000),
    margin_ppm: 100_000,
    leave_after: SECOND,
    enter_after: Duration::from_secs(3),
};

fn gateways(wires: &[Wire], change: impl Fn(&mut Config)) -> Gateways {
    let mut gateways = Gateways::new(Instant::now(), wires, 3, OPTIONS).unwrap();
    gateways.change(0, change);
    gateways.run(2 * SECOND);
    gateways
}

fn with_thresholds(otherwise: Otherwise) -> impl Fn(&mut Config) {
    move |config| {
        for group in config.peers.iter_mut().flat_map(|peer| &mut peer.groups) {
            (group.sla, group.otherwise) = (Some(SLA), otherwise);
        }
    }
}

/// Sends 1000-byte segments at `mbps`; returns how many arrive, and the share of the first path.
fn carry(gateways: &mut Gateways, mbps: u64, span: Duration) -> (usize, f64) {
    let sent = |gateways: &Gateways| -> Vec<u64> {
        gateways.paths(0).iter().map(|path| path.map_or(0, |(bytes, _)| bytes)).collect()
    };
    gateways.take_received(1);
    let before = sent(gateways);
    let gap = Duration::from_micros(8000 / mbps);
    for number in 0..u32::try_from(span.as_micros() / gap.as_micros()).unwrap() {
        gateways.send(0, &segment(0, 7, number, 1000));
        gateways.run(gap);
    }
    let bytes: Vec<u64> = sent(gateways).iter().zip(before).map(|(now, then)| now - then).collect();
    let share = bytes[0] as f64 / bytes.iter().sum::<u64>().max(1) as f64;
    (gateways.take_received(1).len(), share)
}

#[test]
fn a_slow_path_is_left_and_used_again_when_it_has_been_good_for_a_time() {
    let mut gateways = gateways(&[GOOD, ALSO_GOOD], with_thresholds(Otherwise::Any));
    let (_, share) = carry(&mut gateways, 8, 2 * SECOND);
    assert!(share > 0.5, "the fast path carries most: {share}");
    gateways.replace(0, &SLOW).unwrap();
    carry(&mut gateways, 8, 4 * SECOND);
    let (arrived, share) = carry(&mut gateways, 8, 2 * SECOND);
    assert!(share < 0.05, "nothing but probes: {share}");
    assert!(arrived > 1900, "{arrived} of 2000");
    gateways.replace(0, &GOOD).unwrap();
    carry(&mut gateways, 8, 30 * SECOND);
    let (_, share) = carry(&mut gateways, 8, 2 * SECOND);
    assert!(share > 0.5, "it is used again: {share}");
}

#[test]
fn loss_counts_once_enough_was_sent() {
    let mut gateways = gateways(&[GOOD, ALSO_GOOD], with_thresholds(Otherwise::Any));
    carry(&mut gateways, 8, 2 * SECOND);
    gateways.replace(0, &GOOD.loss(10.0)).unwrap();
    carry(&mut gateways, 8, 8 * SECOND);
    let (_, share) = carry(&mut gateways, 8, SECOND);
    assert!(share < 0.05, "{share}");
}

#[test]
fn what_happens_when_no_path_complies_is_as_configured() {
    for (otherwise, expected) in [(Otherwise::Any, 1900..2001), (Otherwise::Drop, 0..1)] {
        let mut gateways = gateways(&[SLOW, SLOW], with_thresholds(otherwise));
        carry(&mut gateways, 8, 4 * SECOND);
        let (arrived, _) = carry(&mut gateways, 8, 2 * SECOND);
        assert!(expected.contains(&arrived), "{otherwise:?}: {arrived}");
        assert!(gateways.queued(0) <= 1_000_000);
        gateways.change(0, |config| {
            for group in config.peers.iter_mut().flat_map(|peer| &mut peer.groups) {
                group.sla = None;
            }
        });
        carry(&mut gateways, 8, SECOND);
        let (arrived, _) = carry(&mut gateways, 8, 2 * SECOND);
        assert!(arrived > 1900, "{otherwise:?}, without thresholds: {arrived}");
    }
}

#[test]
fn a_class_is_sent_at_its_rate_and_no_faster() {
    let limit = |config: &mut Config| config.max_rate_bps = [None, Some(4_000_000)];
    let mut gateways = gateways(&[GOOD, ALSO_GOOD], limit);
    carry(&mut gateways, 16, SECOND);
    let (arrived, _) = carry(&mut gateways, 16, 4 * SECOND);
    assert!((1900..2100).contains(&arrived), "{arrived} packets of 8000 bits in 4 s");
    gateways.change(0, |config| config.max_rate_bps = [Some(8000), None]);
    carry(&mut gateways, 16, SECOND);
    let (arrived, _) = carry(&mut gateways, 16, 2 * SECOND);
    assert!(arrived > 3900, "another class has the limit: {arrived}");
}

#[test]
fn proxied_connections_keep_to_the_rate_in_both_directions() {
    let limit = |config: &mut Config| config.max_rate_bps = [None, Some(4_000_000)];
    let mut gateways = gateways(&[GOOD, ALSO_GOOD], limit);
    gateways.change(1, |config| config.max_rate_bps = [None, Some(2_000_000)]);
    let client = gateways.connect(0, 4000);
    gateways.run(SECOND);
    let server = gateways.opened_streams(1).first().cloned().unwrap();
    for (at, end) in [(0, &client), (1, &server)] {
        end.send(&vec![7; 4_000_000]);
        gateways.wake(at, end);
    }
    gateways.run(SECOND);
    let (there, back) = (server.received().len(), client.received().len());
    gateways.run(4 * SECOND);
    let there = server.received().len() - there;
    let back = client.received().len() - back;
    assert!((1_900_000..2_100_000).contains(&there), "{there} bytes in 4 s");
    assert!((900_000..1_100_000).contains(&back), "{back} bytes in 4 s");
}
