//! The switch's programs compared with a reference in Rust, on random packets and tables (`BPF_PROG_RUN`).

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing)] // a failure is a panic
#![allow(clippy::panic)] // a failure too

mod ipv4;
mod ipv6;

use std::{collections::BTreeMap, net::IpAddr};

use hawser_bpf::switch::{Drops, Flow, From, Output, Switch};
use hawser_wire::rewrite::{Place, Ports, Tuple};
use proptest::prelude::*;

const ETHERNET: usize = 14;
/// The loopback: the one interface that every namespace has.
const LOOPBACK: u32 = 1;

type Table = BTreeMap<(From, Tuple), Flow>;
/// Frames, and whether the agent sent them.
type Frames = Vec<(bool, Vec<u8>)>;

/// What becomes of a packet that matches no entry.
enum Unmatched {
    Pass,
    Tell,
    NoEntry,
    Fragment,
}

fn ports_of(place: Place, source: u16, destination: u16) -> Ports {
    match place {
        Place::Source => Ports::Source(source),
        Place::Destination => Ports::Destination(destination),
        Place::Both => Ports::Both { source, destination },
    }
}

fn label() -> impl Strategy<Value = u16> {
    prop_oneof![
        6 => (0..3_u16, 0..3_u16, 0..2_u16).prop_map(|(d, s, m)| (d << 12) | (s << 8) | (m << 4)),
        3 => (63..66_u16, 0..2_u16).prop_map(|(b, m)| (b << 6) | m),
        // No narrow labels, for both branches of one would be the same.
        3 => (0x88..0x8b_u16, 0..2_u16).prop_map(|(b, m)| (b << 5) | m),
        1 => any::<u16>(),
    ]
}

/// An entry between some of the addresses, by a port with this next hop.
fn flow(
    address: impl Strategy<Value = IpAddr> + Clone + 'static,
    next_hop: IpAddr,
) -> impl Strategy<Value = Flow> {
    let ends = (address.clone(), address, label(), label()).boxed();
    let output = (any::<bool>(), 0..4_u32).prop_map(move |(agent, priority)| {
        let port = Output::Port { interface: LOOPBACK, next_hop, priority };
        if agent { Output::Agent } else { port }
    });
    (any::<bool>(), ends.clone(), 0..3_usize, ends, output).prop_map(
        move |(agent, (source, destination, from, to), place, write, output)| {
            let ports = ports_of(Place::ALL[place], from, to);
            let to_ports = match ports {
                Ports::Both { .. } => ports, // not rewritten
                _ => ports_of(Place::ALL[place], write.2, write.3),
            };
            Flow {
                from: if agent { From::Agent } else { From::Wan },
                key: Tuple { source, destination, ports },
                write: Tuple { source: write.0, destination: write.1, ports: to_ports },
                // packets from the agent always leave
                output: match output {
                    Output::Agent if agent => {
                        Output::Port { interface: LOOPBACK, next_hop, priority: 0 }
                    }
                    output => output,
                },
                count: 0,
            }
        },
    )
}

fn switch() -> Option<Switch> {
    if !rustix::process::geteuid().is_root() {
        eprintln!("skipped: loading eBPF programs needs root");
        return None;
    }
    Some(Switch::load().expect("the programs load"))
}

fn difference(before: Drops, after: Drops) -> Drops {
    Drops {
        no_entry: after.no_entry - before.no_entry,
        fragment: after.fragment - before.fragment,
        too_big: after.too_big - before.too_big,
        malformed: after.malformed - before.malformed,
        ttl: after.ttl - before.ttl,
        failed: after.failed - before.failed,
    }
}
