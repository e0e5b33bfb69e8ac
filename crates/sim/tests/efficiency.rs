//! Goodput in simulated networks. The table is committed, so that changes show their effect.
//! `UPDATE_SNAPSHOT=1 cargo test -p hawser-sim` rewrites it.

#![allow(clippy::unwrap_used)]

use std::{
    fmt::Write,
    time::{Duration, Instant},
};

use hawser_multipath::Policy;
use hawser_sim::{ENVIRONMENTS, Environment, Kind, Link, RATIOS, Setup, World, payload_share};

const WARMUP: Duration = Duration::from_secs(3);
const MEASURED: Duration = Duration::from_secs(5);

/// A world with one TCP-like flow.
fn world(links: &[Link]) -> World {
    let (policy, kind) = (Policy::EarliestDelivery, Kind::Tcp);
    World::new(Instant::now(), &Setup { links, policy, kind, flows: 1, seed: 1, retransmits: true })
        .unwrap()
}

fn goodput(links: &[Link], kind: Kind, flows: usize) -> f64 {
    let setup =
        Setup { links, policy: Policy::EarliestDelivery, kind, flows, seed: 1, retransmits: true };
    let mut world = World::new(Instant::now(), &setup).unwrap();
    world.run(WARMUP);
    world.run(MEASURED).goodput_mbps
}

/// Goodput in per cent of what the links leave for payload.
fn efficiency(environment: &Environment, links: &[Link], kind: Kind, flows: usize) -> f64 {
    let limit = environment.sum_mbps() * payload_share();
    100.0 * goodput(links, kind, flows) / limit
}

fn row(environment: &Environment) -> String {
    let mut row = format!("{:<14}{:>7.1}", environment.name, environment.sum_mbps());
    for kind in [Kind::Tcp, Kind::Quic] {
        for flows in [1, 4, 16] {
            let share = efficiency(environment, environment.links, kind, flows);
            write!(row, "{share:>9.1}").unwrap();
        }
    }
    let alone = efficiency(environment, environment.fastest(), Kind::Tcp, 1);
    writeln!(row, "{alone:>9.1}").unwrap();
    row
}

#[test]
fn efficiency_is_what_the_table_says() {
    let mut table = String::from(
        "Goodput in per cent of what the sum of the rates leaves for payload: earliest delivery first.\n\
         TCP-like and QUIC-like inner flows (1, 4, 16 at once), both sent again where paths lose them, as\n\
         the gateway does with TCP; the last column is one TCP-like flow over the fastest path alone.\n\n\
         environment     Mbit/s    TCP 1        4       16   QUIC 1        4       16    alone\n",
    );
    let all: Vec<_> = RATIOS.iter().chain(ENVIRONMENTS).collect();
    let rows: Vec<String> = std::thread::scope(|scope| {
        let threads: Vec<_> = all
            .chunks(all.len().div_ceil(2))
            .map(|some| scope.spawn(move || some.iter().map(|e| row(e)).collect::<Vec<_>>()))
            .collect();
        threads.into_iter().flat_map(|thread| thread.join().unwrap()).collect()
    });
    table.extend(rows);
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/efficiency.txt");
    if std::env::var_os("UPDATE_SNAPSHOT").is_some() {
        std::fs::write(path, &table).unwrap();
    }
    let known = std::fs::read_to_string(path).unwrap_or_default();
    assert!(known == table, "the table differs from tests/efficiency.txt:\n{table}");
}

#[test]
fn a_failed_path_costs_no_more_than_its_share() {
    let links = RATIOS[0].links;
    let limit = RATIOS[0].sum_mbps() * payload_share();
    let mut world = world(links);
    world.run(WARMUP);
    world.cut(2, true);
    world.run(Duration::from_millis(500));
    let dark = world.run(Duration::from_secs(2)).goodput_mbps;
    assert!(dark > 0.7 * limit, "{dark} of {limit} Mbit/s with three of four paths");
    world.cut(2, false);
    world.run(Duration::from_secs(2));
    let back = world.run(Duration::from_secs(2)).goodput_mbps;
    assert!(back > 0.97 * limit, "{back} of {limit} Mbit/s after it came back");
}

/// One of four paths is alternately up and down for a second.
#[test]
fn a_flapping_path_does_not_slow_the_others() {
    let links = [Link { delay_ms: 10.0, ..RATIOS[0].links[0] }; 4];
    let others = 30.0 * payload_share();
    let mut world = world(&links);
    world.run(Duration::from_secs(4));
    let seconds: Vec<f64> = (0..20)
        .map(|second| {
            world.cut(0, second % 2 == 0);
            world.run(Duration::from_secs(1)).goodput_mbps
        })
        .collect();
    let least = seconds.iter().copied().fold(f64::MAX, f64::min);
    assert!(least > 0.97 * others, "{others:.1} by the others: {seconds:.1?}");
}

#[test]
fn paths_are_padded_before_the_first_flow() {
    let mut world = world(ENVIRONMENTS[0].links);
    world.run(Duration::from_millis(900));
    let shares = world.shares();
    assert!(shares.iter().all(|sent| (90_000..300_000).contains(sent)), "{shares:?}");
    assert!(world.views().iter().all(|view| view.available_window > 60 * 1500));
}

#[test]
fn the_same_seed_gives_the_same_packets() {
    let run = || {
        let mut world = world(ENVIRONMENTS[11].links);
        let outcome = world.run(Duration::from_secs(3));
        (outcome.goodput_mbps.to_bits(), outcome.resequencer, world.shares())
    };
    assert_eq!(run(), run());
}
