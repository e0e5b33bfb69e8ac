//! Trains of packets between gateways.

#![allow(clippy::unwrap_used)]

use std::time::{Duration, Instant};

use hawser_sim::gateways::{Gateways, OPTIONS, Wire, segment};
use hawser_tunnel::{Train, TrainRefused, config::Options};

const SECOND: Duration = Duration::from_secs(1);

fn gateways(wires: &[Wire]) -> Gateways {
    let mut gateways = Gateways::new(Instant::now(), wires, 5, OPTIONS).unwrap();
    gateways.run(3 * SECOND);
    gateways
}

/// Twice the rate of a path of 20 Mbit/s for 50 ms.
fn train() -> Train {
    Train::new(1514, (20, 8_000_000), (66, 40_000_000)).unwrap()
}

#[test]
fn a_train_shows_the_rate_of_its_path_and_no_other() {
    let mut gateways = gateways(&[Wire::new(20.0, 10.0), Wire::new(5.0, 30.0)]);
    for (path, mbps) in [(0, 20.0), (1, 5.0)] {
        for from in [0, 1] {
            let number = gateways.start_train(from, path, train()).unwrap();
            gateways.run(SECOND);
            let (over, observed) = gateways.take_train(from).unwrap();
            let observed = observed.unwrap();
            assert_eq!((over, observed.sent_us.len()), (number, 86));
            let received: Vec<_> = observed.received_us.iter().map(|at| at.unwrap()).collect();
            // While the fill is sent, frames come as fast as the path carries them.
            let (frames, took) = (50.0, (received[60] - received[10]) as f64);
            let rate = frames * f64::from(observed.size) * 8.0 / took;
            assert!((rate / mbps - 1.0).abs() < 0.02, "{rate} of {mbps} Mbit/s");
        }
    }
}

#[test]
fn the_model_of_the_path_sees_no_train() {
    let mut wire = Wire::new(20.0, 10.0);
    wire.link.queue = 10;
    let mut gateways = gateways(&[wire, wire]);
    gateways.run(20 * SECOND); // what was lost while they connected is forgotten
    let before = gateways.path_models(0);
    for _ in 0..5 {
        gateways.start_train(0, 0, train()).unwrap();
        gateways.run(SECOND);
        let observed = gateways.take_train(0).unwrap().1.unwrap();
        assert!(observed.received_us.iter().any(Option::is_none), "the queue is to overflow");
    }
    assert_eq!(gateways.path_models(0), before);
    assert_eq!(gateways.path_changes(0), (2, 0));
}

#[test]
fn an_old_peer_is_sent_none() {
    for versions in [[1, 3], [2, 3], [3, 2]] {
        let options = versions.map(|newest_version| Options { newest_version, ..OPTIONS });
        let wires = [Wire::new(20.0, 10.0)];
        let mut gateways = Gateways::with_options(Instant::now(), &wires, 5, options).unwrap();
        gateways.run(3 * SECOND);
        let before = gateways.paths(0);
        for from in [0, 1] {
            assert_eq!(gateways.start_train(from, 0, train()), Err(TrainRefused::Unsupported));
        }
        gateways.run(Duration::from_millis(1));
        assert_eq!(gateways.paths(0), before);
        assert_eq!(gateways.take_train(0), None);
    }
}

#[test]
fn a_path_that_is_used_or_is_not_there_gets_none() {
    let mut gateways = gateways(&[Wire::new(20.0, 10.0)]);
    assert_eq!(gateways.start_train(0, 1, train()), Err(TrainRefused::NoPath));
    for number in 0..400 {
        gateways.send(0, &segment(0, 3, number, 1300));
    }
    assert_eq!(gateways.start_train(0, 0, train()), Err(TrainRefused::Loaded));
    gateways.run(2 * SECOND);
    gateways.start_train(0, 0, train()).unwrap();
    assert_eq!(gateways.start_train(0, 0, train()), Err(TrainRefused::Busy));
    gateways.run(SECOND);
    assert!(gateways.take_train(0).unwrap().1.is_some());
    gateways.cut(0, true);
    gateways.run(15 * SECOND);
    assert_eq!(gateways.start_train(0, 0, train()), Err(TrainRefused::NoPath));
}

#[test]
fn a_train_on_a_path_that_fails_is_over_all_the_same() {
    let mut gateways = gateways(&[Wire::new(20.0, 10.0), Wire::new(20.0, 10.0)]);
    let number = gateways.start_train(0, 0, train()).unwrap();
    gateways.run(Duration::from_millis(5));
    gateways.cut(0, true);
    gateways.run(5 * SECOND);
    assert_eq!(gateways.take_train(0), Some((number, None)));
    let number = gateways.start_train(0, 1, train()).unwrap();
    gateways.configure(0, &[0]);
    gateways.run(SECOND);
    assert_eq!(gateways.take_train(0), Some((number, None)), "its path is no more");
}

#[test]
fn packets_pass_beside_trains() {
    let mut gateways = gateways(&[Wire::new(20.0, 10.0).loss(1.0), Wire::new(20.0, 10.0)]);
    for number in 0..300 {
        if number % 60 == 0 {
            let _ = gateways.start_train(0, 0, train());
        }
        gateways.send(0, &segment(0, 3, number, 1000));
        gateways.run(Duration::from_millis(10));
    }
    gateways.run(2 * SECOND);
    assert_eq!(gateways.take_received(1).len(), 300);
}
