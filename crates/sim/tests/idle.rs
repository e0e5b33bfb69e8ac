//! Paths on which nothing but keepalives is sent.

#![allow(clippy::unwrap_used)]

use std::time::{Duration, Instant};

use hawser_multipath::State;
use hawser_sim::{
    Link,
    gateways::{Gateways, OPTIONS, Wire},
};
use proptest::prelude::*;

const SECOND: Duration = Duration::from_secs(1);
const STEP: Duration = Duration::from_millis(20);

fn idle(wire: Wire, seed: u64) -> Gateways {
    let mut gateways = Gateways::new(Instant::now(), &[wire], seed, OPTIONS).unwrap();
    gateways.run(10 * SECOND);
    gateways
}

fn are_down(gateways: &Gateways) -> [bool; 2] {
    [0, 1].map(|end| gateways.path_states(end).contains(&Some(State::Down)))
}

/// Time until both ends have the path up, or down.
fn time_until(gateways: &mut Gateways, down: bool) -> Duration {
    let mut time = Duration::ZERO;
    while are_down(gateways) != [down; 2] && time < 9 * SECOND {
        gateways.run(STEP);
        time += STEP;
    }
    time
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 100, ..ProptestConfig::default() })]

    /// With up to 5 % of loss each way, one path of 20 000 lost enough PINGs in a row to be down. A
    /// seed does not repeat a run: TLS keys do not come from it.
    #[test]
    fn an_idle_path_does_not_flap(
        seed: u64, loss_percent in 0.0..3.0, delay_ms in 1.0..150.0, jitter_ms in 0.0..10.0,
    ) {
        let wire = Wire::new(10.0, delay_ms);
        let link = Link { loss_percent, jitter_ms, ..wire.link };
        let mut gateways = idle(Wire { link, ..wire }, seed);
        for _ in 0..2500 {
            gateways.run(STEP);
            prop_assert_eq!(are_down(&gateways), [false; 2]);
        }
        prop_assert_eq!(gateways.path_changes(0), (1, 0));
    }
}

#[test]
fn an_idle_path_that_is_cut_is_down_within_two_seconds() {
    for delay_ms in [1.0, 20.0, 80.0] {
        let mut gateways = idle(Wire::new(10.0, delay_ms), 3);
        for offset in 0..5 {
            gateways.run(2 * SECOND + offset * Duration::from_millis(210));
            gateways.cut(0, true);
            let time = time_until(&mut gateways, true);
            assert!(time < 2 * SECOND, "{delay_ms} ms: {time:?}");
            gateways.cut(0, false);
            let time = time_until(&mut gateways, false);
            assert!(time < SECOND, "{delay_ms} ms: back after {time:?}");
        }
        assert_eq!(gateways.path_changes(0), (1, 0), "its connection stands");
    }
}
