//! A path whose delay varies, with a queue of a fraction of its bandwidth-delay product.

#![allow(clippy::unwrap_used)]

use std::time::{Duration, Instant};

use hawser_multipath::Policy;
use hawser_sim::{Kind, Link, Setup, World, payload_share};

/// An overflow must not end in a window of a few packets, with which the path stayed for ten
/// seconds.
#[test]
fn an_overflow_does_not_starve_a_jittery_path() {
    let link =
        Link { rate_mbps: 24.0, delay_ms: 25.0, jitter_ms: 5.0, loss_percent: 0.0, queue: 67 };
    for seed in [1, 9, 29, 31] {
        let setup = Setup {
            links: &[link],
            policy: Policy::EarliestDelivery,
            kind: Kind::Tcp,
            flows: 4,
            seed,
            retransmits: true,
        };
        let mut world = World::new(Instant::now(), &setup).unwrap();
        world.run(Duration::from_secs(3));
        let goodput = world.run(Duration::from_secs(8)).goodput_mbps;
        let limit = link.rate_mbps * payload_share();
        assert!(goodput > 0.9 * limit, "seed {seed}: {goodput:.1} of {limit:.1} Mbit/s");
    }
}
