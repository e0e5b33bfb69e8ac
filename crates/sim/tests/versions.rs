//! Gateways that speak different wire versions.

#![allow(clippy::unwrap_used)]

use std::time::{Duration, Instant};

use hawser_sim::gateways::{Gateways, OPTIONS, Wire, number_of, segment};
use hawser_tunnel::config::Options;

const SECOND: Duration = Duration::from_secs(1);

fn numbers(gateways: &mut Gateways, at: usize) -> Vec<u32> {
    let packets = gateways.take_received(at);
    packets.iter().filter_map(|packet| number_of(packet)).map(|(_, number)| number).collect()
}

#[test]
fn any_two_versions_carry_traffic_both_ways() {
    for first in 1..=3 {
        for second in 1..=3 {
            let options =
                [first, second].map(|version| Options { newest_version: version, ..OPTIONS });
            let wires = [Wire::new(20.0, 10.0).loss(1.0), Wire::new(8.0, 30.0)];
            let mut gateways = Gateways::with_options(Instant::now(), &wires, 4, options).unwrap();
            gateways.run(2 * SECOND);
            for number in 0..400 {
                for from in [0, 1] {
                    gateways.send(from, &segment(from, 3, number, 900));
                }
                gateways.run(Duration::from_millis(3));
            }
            gateways.run(2 * SECOND);
            let what = format!("versions {first} and {second}");
            for at in [0, 1] {
                let mut arrived = numbers(&mut gateways, at);
                arrived.sort_unstable();
                assert_eq!(arrived, (0..400).collect::<Vec<_>>(), "{what}");
                assert!(gateways.counters(at).headers.compressed > 0, "{what}");
            }
            let client = gateways.connect(0, 4000);
            gateways.run(SECOND);
            client.send(&vec![7; 100_000]);
            gateways.wake(0, &client);
            gateways.run(2 * SECOND);
            let server = gateways.opened_streams(1).first().cloned().unwrap();
            assert_eq!(server.received().len(), 100_000, "{what}");
            assert_eq!(gateways.path_changes(0), (2, 0), "{what}");
        }
    }
}
