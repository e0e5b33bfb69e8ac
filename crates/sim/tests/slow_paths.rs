//! Gateways over paths with round-trip times of seconds, as behind full buffers or by two satellites.

#![allow(clippy::unwrap_used)]

use std::time::{Duration, Instant};

use hawser_sim::gateways::{Gateways, OPTIONS, Wire, segment};

const SECOND: Duration = Duration::from_secs(1);

#[test]
fn a_path_connects_whatever_its_round_trip_time() {
    for rtt_ms in [1800.0, 2000.0, 2500.0, 3000.0, 4000.0] {
        for loss in [0.0, 2.0] {
            let wire = Wire::new(10.0, rtt_ms / 2.0).loss(loss);
            let mut gateways = Gateways::new(Instant::now(), &[wire], 3, OPTIONS).unwrap();
            let mut seconds = 0;
            while gateways.path_changes(0).0 == 0 && seconds < 120 {
                gateways.run(SECOND);
                seconds += 1;
            }
            println!("RTT {rtt_ms} ms, loss {loss} %: {seconds} s");
            assert!(seconds < 60, "RTT {rtt_ms} ms, loss {loss} %");
            gateways.run(10 * SECOND);
            for _ in 0..10 {
                gateways.send(0, &segment(0, 1, 1, 500)); // datagrams: some may be lost
            }
            gateways.run(10 * SECOND);
            let received = gateways.take_received(1).len();
            let least = if loss > 0.0 { 1 } else { 10 };
            assert!((least..=10).contains(&received), "RTT {rtt_ms} ms: {received}");
            assert_eq!(gateways.path_changes(0), (1, 0), "RTT {rtt_ms} ms: it stays");
        }
    }
}

#[test]
fn a_peer_that_comes_back_is_noticed_soon() {
    let mut gateways = Gateways::new(Instant::now(), &[Wire::new(10.0, 20.0)], 3, OPTIONS).unwrap();
    gateways.run(2 * SECOND);
    for away in [20, 45, 70, 100, 300] {
        let (ups, downs) = gateways.path_changes(0);
        gateways.cut(0, true);
        gateways.run(away * SECOND);
        assert_eq!(gateways.path_changes(0), (ups, downs + 1));
        gateways.cut(0, false);
        gateways.run(8 * SECOND);
        assert_eq!(gateways.path_changes(0), (ups + 1, downs + 1), "away for {away} s");
    }
}
