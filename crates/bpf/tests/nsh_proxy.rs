//! SFC-unaware functions behind the service chain program (`BPF_PROG_RUN`).
//!
//! The only interface, the loopback, serves as the port of the path and of the function: frames on a path have an NSH,
//! frames of the function have none.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing, clippy::panic)] // a failure is a panic

#[macro_use]
mod common;

use std::num::NonZeroU16;

use hawser_bpf::nsh::{Chain, Encapsulation, Hop, Otherwise, Port, Proxy, Role, Target, Verdict};
use hawser_wire::{
    ethernet::{self, ethertype},
    ipv4,
    nsh::{self, Context, Metadata, Path},
    udp,
};
use proptest::{prelude::*, test_runner::TestRunner};

const LOOPBACK: u32 = 1;
const OWN: [u8; 6] = [2, 0, 0, 0, 0, 1];
const NEXT: [u8; 6] = [2, 0, 0, 0, 0, 2];
const BEFORE: [u8; 6] = [2, 0, 0, 0, 0, 3];
const CLIENT: ([u8; 4], u16) = ([10, 1, 0, 1], 1000);
const SERVER: ([u8; 4], u16) = ([10, 2, 0, 1], 80);
const OTHER: ([u8; 4], u16) = ([10, 3, 0, 1], 4000);

type End = ([u8; 4], u16);

fn frame(from: End, to: End) -> Vec<u8> {
    let repr = udp::Repr { source_port: from.1, destination_port: to.1 };
    let datagram = [&repr.emit(20).unwrap()[..], &[7; 20]].concat();
    let (source, destination) = (from.0.into(), to.0.into());
    let repr = ipv4::Repr { source, destination, protocol: 17, ttl: 64 };
    let packet = [&repr.emit(datagram.len()).unwrap()[..], &datagram].concat();
    [header(ethertype::IPV4), packet].concat()
}

fn header(ethertype: u16) -> Vec<u8> {
    ethernet::Repr { source: BEFORE, destination: OWN, tags: Vec::new(), ethertype }.emit()
}

/// A frame on a path.
fn on(spi: u32, metadata: Metadata, inner: &[u8]) -> Vec<u8> {
    let repr = nsh::Repr::initial(Path { spi, si: 255 }, metadata);
    [&header(ethertype::NSH), &repr.emit().unwrap()[..], inner].concat()
}

/// Paths 1 and 2 are opposite directions; 3 has no opposite. All pass the function at 255.
fn proxy() -> Chain {
    let role = Role { proxied: 1024, ..Role::default() };
    let mut chain = Chain::load(role).expect("this machine loads eBPF programs, as root");
    let proxy = NonZeroU16::new(1);
    let otherwise = Otherwise::Pass;
    let port = Port {
        classify: None,
        otherwise,
        address: None,
        mac: OWN,
        proxy,
        trusted: true,
        mirror: false,
    };
    chain.set_port(LOOPBACK, &port).unwrap();
    let hops: Vec<_> = [(1, Some(2)), (2, Some(1)), (3, None)]
        .into_iter()
        .map(|(spi, back)| {
            let target = Target {
                port: 0,
                frame_max: 1514,
                mac: NEXT,
                own_mac: OWN,
                encapsulation: Encapsulation::Ethernet,
                queued: false,
                proxy: Some(Proxy::Flows { back: back.map(|spi| Path { spi, si: 254 }) }),
            };
            (Path { spi, si: 255 }, Hop::Forward(vec![target]), spi)
        })
        .collect();
    chain.install(&hops).unwrap();
    chain
}

/// The cause a frame is counted as. There is no port, so a frame that is sent counts as `failed`, and one that has
/// rejoined a path as `no_hop`.
fn outcome(chain: &Chain, frame: &[u8]) -> (Verdict, Vec<u8>, &'static str) {
    let before = chain.drops().unwrap();
    let (verdict, bytes) = chain.run(frame).unwrap();
    let after = chain.drops().unwrap();
    let changed = before.iter().zip(after.iter()).find(|(old, new)| old.1 != new.1);
    (verdict, bytes, changed.map_or("", |(_, (name, _))| name))
}

/// The path and the first byte of metadata of a frame that has rejoined a path.
fn rejoined(chain: &Chain, frame: &[u8]) -> (u32, u8, u8) {
    let (_, bytes, cause) = outcome(chain, frame);
    assert_eq!(cause, "no_hop");
    let header = nsh::Header::parse(&bytes[14..]).unwrap();
    let Context::Fixed(context) = header.context() else { panic!("MD type 1") };
    (header.path().spi, header.path().si, context[0])
}

fn fixed(value: u8) -> Metadata {
    Metadata::Fixed([value; 16])
}

#[test]
fn a_flow_gets_its_header_again() {
    needs_root!();
    let chain = proxy();
    let there = frame(CLIENT, SERVER);
    let (_, bytes, cause) = outcome(&chain, &on(1, fixed(9), &there));
    assert_eq!((cause, &bytes[14..]), ("failed", &there[14..]), "it goes there without header");
    assert_eq!((&bytes[..6], &bytes[6..12]), (&NEXT[..], &OWN[..]));
    assert_eq!(rejoined(&chain, &there), (1, 254, 9));
    assert_eq!(rejoined(&chain, &frame(SERVER, CLIENT)).0, 2, "an answer of the function's own");
    outcome(&chain, &on(1, fixed(8), &there));
    assert_eq!(rejoined(&chain, &there), (1, 254, 8), "metadata is that of the last packet");
}

#[test]
fn one_side_may_change_where_it_tells_the_path() {
    needs_root!();
    let chain = proxy();
    outcome(&chain, &on(1, fixed(1), &frame(CLIENT, SERVER)));
    assert_eq!(rejoined(&chain, &frame(OTHER, SERVER)).0, 1, "another source");
    assert_eq!(rejoined(&chain, &frame(CLIENT, OTHER)).0, 1, "another destination");
    assert_eq!(outcome(&chain, &frame(([10, 9, 9, 9], 1), ([10, 9, 9, 8], 2))).2, "unknown_flow");
    outcome(&chain, &on(3, fixed(3), &frame(OTHER, SERVER)));
    let late = frame(([10, 9, 9, 9], 1), SERVER);
    assert_eq!(outcome(&chain, &late).2, "several_paths", "flows of two paths go to the server");
    assert_eq!(rejoined(&chain, &frame(CLIENT, SERVER)).0, 1, "what is known stays known");
}

#[test]
fn without_a_way_back_answers_are_the_kernels() {
    needs_root!();
    let chain = proxy();
    outcome(&chain, &on(3, fixed(3), &frame(CLIENT, SERVER)));
    assert_eq!(outcome(&chain, &frame(SERVER, CLIENT)).0, Verdict::Pass);
    let arp = [&header(0x0806)[..], &[0; 28]].concat();
    assert_eq!(outcome(&chain, &arp).0, Verdict::Pass);
    assert_eq!(
        outcome(&chain, &on(1, fixed(1), &arp)).2,
        "next_protocol",
        "it would mean nothing there"
    );
}

#[test]
fn no_bytes_break_it() {
    needs_root!();
    let chain = proxy();
    let strategy = (1..4_u32, proptest::collection::vec(any::<u8>(), 0..80), 0..60_usize);
    TestRunner::default()
        .run(&strategy, |(spi, noise, cut)| {
            let mut inner = frame(CLIENT, SERVER);
            inner.truncate(inner.len().saturating_sub(cut));
            for (byte, noise) in inner.iter_mut().skip(12).zip(&noise) {
                *byte ^= noise & 1;
            }
            let (_, _, cause) = outcome(&chain, &on(spi, fixed(1), &inner));
            prop_assert!(["failed", "malformed", "next_protocol"].contains(&cause), "{}", cause);
            if inner.len() >= 14 {
                let (verdict, _, cause) = outcome(&chain, &inner);
                prop_assert!(verdict == Verdict::Pass || !cause.is_empty());
            }
            Ok(())
        })
        .unwrap();
}
