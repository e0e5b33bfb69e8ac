//! Flows that a model scores in a second on one core: `score MODEL` prints the number.

#![allow(clippy::print_stdout, clippy::unwrap_used)]

use std::{env, fs, hint::black_box, time::Instant};

use hawser_trees::Model;

/// Flows that are scored, each with other values.
const FLOWS: usize = 1_000_000;
/// Values of a flow, as many as the flow meter's features.
const VALUES: usize = 40;
/// Flows with different values.
const DIFFERENT: usize = 4096;

fn main() {
    let file = env::args().nth(1).unwrap();
    let names: Vec<_> = env::args().skip(2).collect();
    let mut columns: Vec<_> = names.iter().map(String::as_str).collect();
    columns.resize(VALUES, "other");
    let model = Model::parse(&fs::read(file).unwrap(), &columns).unwrap();
    let flows: Vec<[f64; VALUES]> = (0..DIFFERENT as u64).map(flow).collect();
    let start = Instant::now();
    let sum: f64 = flows.iter().cycle().take(FLOWS).map(|flow| model.score(black_box(flow))).sum();
    let seconds = start.elapsed().as_secs_f64();
    black_box(sum);
    println!("{}", FLOWS as f64 / seconds);
}

/// Values between 0 and 1000 that vary from flow to flow.
fn flow(number: u64) -> [f64; VALUES] {
    let mut values = [0.0; VALUES];
    for (at, value) in (0..).zip(&mut values) {
        let mixed = (number * 40 + at + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 40;
        *value = (mixed % 1000) as f64;
    }
    values
}
