//! The switch's programs compared with a reference in Rust, on random packets and tables (`BPF_PROG_RUN`).

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing)] // a failure is a panic
#![allow(clippy::panic)] // a failure too

mod ipv4;
mod ipv6;

use std::{cell::RefCell, collections::BTreeMap, net::IpAddr};

use hawser_bpf::switch::{Drops, Flow, From, Output, Switch, Verdict};
use hawser_wire::rewrite::{Place, Ports, Tuple};
use proptest::{prelude::*, test_runner::TestRunner};

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

/// Runs random frames through the programs with random tables, and compares with the reference. Gives how often there
/// was which outcome. `own` is the gateway's address.
fn compare(
    flow: impl Strategy<Value = Flow>,
    frame: impl Strategy<Value = Vec<u8>>,
    own: IpAddr,
    reference: impl Fn(&Table, &BTreeMap<IpAddr, bool>, From, &[u8]) -> (Verdict, Vec<u8>, Drops),
) -> Option<BTreeMap<String, u32>> {
    let switch = RefCell::new(switch()?);
    let seen = RefCell::new(BTreeMap::new());
    let mut runner = TestRunner::new(ProptestConfig {
        failure_persistence: None,
        ..ProptestConfig::with_cases(1000)
    });
    let cases = (
        proptest::collection::vec(flow, 0..60),
        proptest::collection::vec((any::<bool>(), frame), 40),
        any::<bool>(),
    );
    let check = |(flows, frames, nat): (Vec<Flow>, Frames, bool)| {
        let own = BTreeMap::from([(own, nat)]);
        let table: Table = flows.into_iter().map(|flow| ((flow.from, flow.key), flow)).collect();
        let mut switch = switch.borrow_mut();
        switch.set_own(&own).unwrap();
        switch.install(&table.values().copied().collect::<Vec<_>>()).unwrap();
        for (agent, frame) in frames {
            let from = if agent { From::Agent } else { From::Wan };
            let (verdict, bytes, drops) = reference(&table, &own, from, &frame);
            let before = switch.drops().unwrap();
            let outcome = switch.run(from, &frame).unwrap();
            prop_assert_eq!(outcome.verdict, verdict, "{:02x?}", frame);
            prop_assert_eq!(difference(before, switch.drops().unwrap()), drops, "{:02x?}", frame);
            if verdict != Verdict::Drop {
                prop_assert_eq!(&outcome.bytes, &bytes, "{:02x?}", frame);
            }
            *seen.borrow_mut().entry(format!("{verdict:?} {drops:?}")).or_insert(0) += 1;
        }
        Ok(())
    };
    runner.run(&cases, check).unwrap();
    Some(seen.into_inner())
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
