//! Prints the state every half second: `cargo run -p hawser-sim --example trace -- rtt_40 tcp 1
//! [none]`.
#![allow(clippy::print_stdout)]

use std::time::{Duration, Instant};

use hawser_multipath::{Policy, View};
use hawser_sim::{ENVIRONMENTS, Kind, RATIOS, Setup, World};

fn main() {
    let mut arguments = std::env::args().skip(1);
    let name = arguments.next().unwrap_or_default();
    let kind = if arguments.next().as_deref() == Some("quic") { Kind::Quic } else { Kind::Tcp };
    let flows = arguments.next().and_then(|text| text.parse().ok()).unwrap_or(1);
    let retransmits = arguments.next().as_deref() != Some("none");
    let mut all = RATIOS.iter().chain(ENVIRONMENTS);
    let Some(links) = all.find(|known| known.name == name).map(|known| known.links) else {
        println!("no environment {name:?}");
        return;
    };
    let setup =
        Setup { links, policy: Policy::EarliestDelivery, kind, flows, seed: 1, retransmits };
    let Ok(mut world) = World::new(Instant::now(), &setup) else { return };
    for line in 1..=24 {
        let outcome = world.run(Duration::from_millis(500));
        let paths: Vec<String> = world.views().iter().map(describe).collect();
        let (time, goodput) = (f64::from(line) / 2.0, outcome.goodput_mbps);
        println!(
            "{time:5.1} s {goodput:7.2} Mbit/s, {} B wait, {} again, {:?}: {}",
            world.backlog(),
            outcome.retransmitted,
            outcome.resequencer,
            paths.join(" ")
        );
    }
}

fn describe(view: &View) -> String {
    let View { state, available_window, queued, rate, delay, .. } = view;
    let rate = rate.bits_per_second() / 1e6;
    format!(
        "[{state:?} {rate:.2} Mbit/s {delay:.1?} available_window {available_window} queued {queued}]"
    )
}
