//! The service chain program compared with a reference in Rust, on random headers and frames (`BPF_PROG_RUN`).
//!
//! There is no port to redirect to, so a frame that the program sends counts as `failed`.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing)] // a failure is a panic

#[macro_use]
mod common;

use std::{net::Ipv4Addr, time::Duration};

use hawser_bpf::{
    nsh::{
        Action, Chain, Class, Drops, Encapsulation, End, Filter, Guard, Hop, Otherwise, Port, Role,
        Step, Target, Verdict,
    },
    rules::{Match, Prefix},
};
use hawser_wire::{
    ethernet::{self, ethertype},
    ipv4,
    nsh::{self, Header, Metadata, Path, TlvRepr, decrement_ttl},
    udp, vxlan_gpe,
};
use proptest::{prelude::*, test_runner::TestRunner};

const LOOPBACK: u32 = 1;
const OWN: [u8; 6] = [2, 0, 0, 0, 0, 1];
const NEXT: [u8; 6] = [2, 0, 0, 0, 0, 2];
const BEFORE: [u8; 6] = [2, 0, 0, 0, 0, 3];
const LOCAL: Ipv4Addr = Ipv4Addr::new(192, 0, 2, 1);
const REMOTE: Ipv4Addr = Ipv4Addr::new(192, 0, 2, 2);
const FRAME_MAX: u32 = 1514;

fn header(source: [u8; 6], destination: [u8; 6], ethertype: u16) -> Vec<u8> {
    ethernet::Repr { source, destination, tags: Vec::new(), ethertype }.emit()
}

fn datagram(source: [u8; 4], source_port: u16, payload: &[u8]) -> Vec<u8> {
    let repr = udp::Repr { source_port, destination_port: 80 };
    let bytes = [&repr.emit(payload.len()).unwrap()[..], payload].concat();
    let destination = [10, 2, 0, 1].into();
    let repr = ipv4::Repr { source: source.into(), destination, protocol: 17, ttl: 64 };
    [&repr.emit(bytes.len()).unwrap()[..], &bytes].concat()
}

fn inner(payload: usize) -> Vec<u8> {
    let packet = datagram([10, 1, 0, 1], 1000, &vec![7; payload]);
    [header(BEFORE, NEXT, ethertype::IPV4), packet].concat()
}

fn on_ethernet(service: &[u8], payload: &[u8]) -> Vec<u8> {
    [&header(BEFORE, OWN, ethertype::NSH), service, payload].concat()
}

fn in_vxlan_gpe(service: &[u8], payload: &[u8]) -> Vec<u8> {
    let next_protocol = vxlan_gpe::next_protocol::NSH;
    let gpe = vxlan_gpe::Repr { vni: 5, next_protocol, oam: false }.emit().unwrap();
    let inside = [&gpe[..], service, payload].concat();
    let repr = udp::Repr { source_port: 50_000, destination_port: vxlan_gpe::PORT };
    let udp = [&repr.emit(inside.len()).unwrap()[..], &inside].concat();
    let ip = ipv4::Repr { source: REMOTE, destination: LOCAL, protocol: 17, ttl: 64 };
    [&header(BEFORE, OWN, ethertype::IPV4), &ip.emit(udp.len()).unwrap()[..], &udp].concat()
}

fn repr(spi: u32, si: u8) -> nsh::Repr {
    nsh::Repr::initial(Path { spi, si }, Metadata::Fixed([9; 16]))
}

fn target(encapsulation: Encapsulation) -> Target {
    Target {
        port: 0,
        frame_max: FRAME_MAX,
        mac: NEXT,
        own_mac: OWN,
        encapsulation,
        queued: false,
        proxy: None,
    }
}

fn vxlan() -> Encapsulation {
    Encapsulation::VxlanGpe { local: LOCAL, remote: REMOTE, vni: 5 }
}

/// Path 1 is forwarded over Ethernet at 255 and over VXLAN-GPE at 254, and ends at 253.
fn hops() -> Vec<(Path, Hop, u32)> {
    let at = |si| Path { spi: 1, si };
    let end = End { port: 0, frame_max: FRAME_MAX, mac: None, own_mac: OWN, queued: false };
    vec![
        (at(255), Hop::Forward(vec![target(Encapsulation::Ethernet)]), 1),
        (at(254), Hop::Forward(vec![target(vxlan())]), 2),
        (at(253), Hop::End(end), 3),
    ]
}

fn port(otherwise: Otherwise, classify: Option<u16>) -> Port {
    Port {
        classify,
        otherwise,
        address: Some(LOCAL),
        mac: OWN,
        proxy: None,
        trusted: true,
        mirror: false,
    }
}

fn chain(role: Role) -> Chain {
    let mut chain = Chain::load(role).expect("this machine loads eBPF programs, as root");
    chain.set_port(LOOPBACK, &port(Otherwise::Pass, None)).unwrap();
    chain.add_forwarders(&[REMOTE].into()).unwrap();
    chain
}

fn forwarder() -> Chain {
    let mut chain = chain(Role::default());
    chain.install(&hops()).unwrap();
    chain
}

fn function() -> Chain {
    chain(Role { serves: true, ..Role::default() })
}

/// The verdict, the frame after the run, and the cause it is counted as; `sent` if it goes to a port.
fn outcome(chain: &Chain, frame: &[u8]) -> (Verdict, Vec<u8>, &'static str) {
    let before = chain.drops().unwrap();
    let (verdict, bytes) = chain.run(frame).unwrap();
    let after = chain.drops().unwrap();
    let changed = before.iter().zip(after.iter()).find(|(old, new)| old.1 != new.1);
    let cause = changed.map_or("", |(_, (name, _))| name);
    (verdict, bytes, if cause == "failed" { "sent" } else { cause })
}

fn cause(chain: &Chain, frame: &[u8]) -> &'static str {
    outcome(chain, frame).2
}

/// The NSH and the rest of the frame, after an outer header of this length.
fn behind(bytes: &[u8], outer: usize) -> (nsh::Repr, Vec<u8>) {
    let header = Header::parse(&bytes[outer..]).unwrap();
    (header.repr(), header.payload().to_vec())
}

prop_compose! {
    fn service()(
        ttl in prop_oneof![0..3_u8, Just(63_u8)],
        si in prop_oneof![0..3_u8, 250..=255_u8],
        spi in 0..3_u32,
        oam in prop::bool::weighted(0.1),
        fixed: bool,
        lengths in prop::collection::vec(0..20_usize, 0..3),
    ) -> nsh::Repr {
        let tlv = |length: usize| TlvRepr { class: 0xfff6, kind: 200, data: vec![0xcd; length] };
        let metadata = if fixed {
            Metadata::Fixed([0xab; 16])
        } else {
            Metadata::Variable(lengths.into_iter().map(tlv).collect())
        };
        nsh::Repr { oam, ttl, metadata, ..repr(spi, si) }
    }
}

/// Reference: what an SFF does with a header (RFC 8300 sections 2.2 and 2.3).
fn reference(service: &nsh::Repr) -> Result<nsh::Repr, &'static str> {
    if service.oam {
        return Err("oam");
    }
    let ttl = decrement_ttl(service.ttl).ok_or("ttl")?;
    let known = service.path.spi == 1 && service.path.si >= 253;
    if known { Ok(nsh::Repr { ttl, ..service.clone() }) } else { Err("no_hop") }
}

#[test]
fn a_forwarder_does_what_the_reference_does() {
    needs_root!();
    let chain = forwarder();
    let cases = (service(), 0..200_usize, any::<bool>());
    let run = |(service, payload, gpe): (nsh::Repr, usize, bool)| {
        let (bytes, inside) = (service.emit().unwrap(), inner(payload));
        let frame = if gpe { in_vxlan_gpe(&bytes, &inside) } else { on_ethernet(&bytes, &inside) };
        let (_, after, cause) = outcome(&chain, &frame);
        match (reference(&service), service.path.si) {
            (Err(expected), _) => prop_assert_eq!(cause, expected),
            (Ok(_), 253) => prop_assert_eq!((cause, after), ("sent", inside)),
            (Ok(expected), si) => {
                prop_assert_eq!(cause, "sent");
                let outer = if si == 255 { 14 } else { 50 };
                prop_assert_eq!(behind(&after, outer), (expected, inside));
                prop_assert_eq!(&after[..12], &[NEXT, OWN].concat()[..]);
            }
        }
        Ok(())
    };
    TestRunner::default().run(&cases, run).unwrap();
}

#[test]
fn the_outer_headers_of_vxlan_gpe_are_valid() {
    needs_root!();
    let chain = forwarder();
    let frame = on_ethernet(&repr(1, 254).emit().unwrap(), &inner(30));
    let (_, after, _) = outcome(&chain, &frame);
    let packet = ipv4::Packet::parse(&after[14..]).unwrap();
    assert_eq!((packet.source(), packet.destination()), (LOCAL, REMOTE));
    assert_eq!(hawser_wire::checksum::Sum::default().bytes(&after[14..34]).finish(), [0, 0]);
    let datagram = udp::Datagram::parse(packet.payload()).unwrap();
    assert_eq!(datagram.destination_port(), vxlan_gpe::PORT);
    let header = vxlan_gpe::Header::parse(datagram.payload()).unwrap();
    assert_eq!((header.vni(), header.next_protocol()), (5, vxlan_gpe::next_protocol::NSH));
}

#[test]
fn a_function_counts_down_and_sends_back() {
    needs_root!();
    let chain = function();
    let run = |(service, gpe): (nsh::Repr, bool)| {
        let (bytes, inside) = (service.emit().unwrap(), inner(10));
        let frame = if gpe { in_vxlan_gpe(&bytes, &inside) } else { on_ethernet(&bytes, &inside) };
        let (verdict, after, cause) = outcome(&chain, &frame);
        match service.path.decrement_index() {
            _ if service.oam => prop_assert_eq!(cause, "oam"),
            None => prop_assert_eq!(cause, "index"),
            Some(path) => {
                prop_assert_eq!(verdict, Verdict::Redirect);
                let served = nsh::Repr { path, ..service };
                let outer = if gpe { 50 } else { 14 };
                prop_assert_eq!(behind(&after, outer), (served, inside));
                prop_assert_eq!(&after[..12], &[BEFORE, OWN].concat()[..]);
                if gpe {
                    let packet = ipv4::Packet::parse(&after[14..]).unwrap();
                    prop_assert_eq!((packet.source(), packet.destination()), (LOCAL, REMOTE));
                }
            }
        }
        Ok(())
    };
    TestRunner::default().run(&(service(), any::<bool>()), run).unwrap();
}

#[test]
fn a_function_with_entries_is_its_own_forwarder() {
    needs_root!();
    let mut chain = function();
    chain.install(&hops()).unwrap();
    let frame = on_ethernet(&repr(1, 255).emit().unwrap(), &inner(10));
    let (_, after, cause) = outcome(&chain, &frame);
    assert_eq!(cause, "sent");
    let (service, _) = behind(&after, 50);
    assert_eq!((service.path.si, service.ttl), (254, 62));
    let elsewhere = on_ethernet(&repr(2, 255).emit().unwrap(), &inner(10));
    assert_eq!(outcome(&chain, &elsewhere).0, Verdict::Redirect);
}

#[test]
fn each_malformed_header_has_its_cause() {
    needs_root!();
    let (forwarder, function) = (forwarder(), function());
    let good = on_ethernet(&repr(1, 255).emit().unwrap(), &inner(10));
    for chain in [&forwarder, &function] {
        for (at, value, expected) in [
            (14, 0x4f, "version"),
            (15, 0xc5, "length"),
            (16, 0, "md_type"),
            (16, 15, "md_type"),
            (16, 2, ""),
        ] {
            let mut frame = good.clone();
            frame[at] = value;
            let found = cause(chain, &frame);
            assert!(found == expected || (expected.is_empty() && matches!(found, "sent" | "")));
        }
        assert_eq!(cause(chain, &good[..20]), "malformed");
        assert_eq!(cause(chain, &good[..30]), "malformed");
        let mut short = on_ethernet(&repr(1, 255).emit().unwrap(), &[]);
        (short[15], short[16]) = (0xc1, 2);
        assert_eq!(cause(chain, &short), "length");
    }
}

#[test]
fn malformed_vxlan_gpe_to_us_is_dropped() {
    needs_root!();
    let chain = forwarder();
    let good = in_vxlan_gpe(&repr(1, 255).emit().unwrap(), &inner(10));
    assert_eq!(cause(&chain, &good), "sent");
    for (at, value) in [(24, 1), (42, 0), (42, 0x1c), (45, 3), (16, 0xff)] {
        let mut frame = good.clone();
        frame[at] = value;
        assert_eq!(cause(&chain, &frame), "malformed", "byte {at}");
    }
    let mut elsewhere = good;
    elsewhere[33] = 99;
    assert_eq!(outcome(&chain, &elsewhere).0, Verdict::Pass);
}

#[test]
fn no_bytes_confuse_it() {
    needs_root!();
    let chains = [forwarder(), function()];
    let bytes = prop::collection::vec(any::<u8>(), 60..200);
    let run = |(mut bytes, gpe, close): (Vec<u8>, bool, bool)| {
        if gpe {
            bytes[..50].copy_from_slice(&in_vxlan_gpe(&[], &[]));
        } else {
            bytes[12..14].copy_from_slice(&ethertype::NSH.to_be_bytes());
        }
        let at = if gpe { 50 } else { 14 };
        if close && at + 3 < bytes.len() {
            bytes[at] &= 0x0f;
            bytes[at + 2] = 1 + bytes[at + 2] % 2;
        }
        for chain in &chains {
            let (verdict, _, cause) = outcome(chain, &bytes);
            prop_assert!(verdict != Verdict::Drop || !cause.is_empty(), "dropped, not counted");
        }
        Ok(())
    };
    TestRunner::default().run(&(bytes, any::<bool>(), any::<bool>()), run).unwrap();
}

#[test]
fn frames_too_long_for_a_port_are_dropped() {
    needs_root!();
    let chain = forwarder();
    let of = |payload| on_ethernet(&repr(1, 255).emit().unwrap(), &inner(payload));
    let room = FRAME_MAX as usize - of(0).len();
    assert_eq!(cause(&chain, &of(room)), "sent");
    assert_eq!(cause(&chain, &of(room + 1)), "too_big");
}

#[test]
fn payloads_that_cannot_leave_a_path_are_dropped() {
    needs_root!();
    let chain = forwarder();
    let mpls = nsh::Repr { next_protocol: 5, ..repr(1, 253) };
    assert_eq!(cause(&chain, &on_ethernet(&mpls.emit().unwrap(), &inner(0))), "next_protocol");
    let plain = nsh::Repr { next_protocol: nsh::next_protocol::IPV4, ..repr(1, 253) };
    let packet = datagram([10, 1, 0, 1], 1000, b"bare");
    let (_, after, found) = outcome(&chain, &on_ethernet(&plain.emit().unwrap(), &packet));
    assert_eq!(found, "sent");
    assert_eq!(after, [header(OWN, [0xff; 6], ethertype::IPV4), packet].concat());
}

fn class(spi: u32, metadata: Metadata) -> Class {
    Class { header: nsh::Repr { metadata, ..repr(spi, 255) }.emit().unwrap(), count: 9 }
}

#[test]
fn a_classifier_puts_flows_on_paths() {
    needs_root!();
    let mut chain = chain(Role::default());
    let at = |spi| (Path { spi, si: 255 }, Hop::Forward(vec![target(Encapsulation::Ethernet)]), 1);
    chain.install(&[at(1), at(2)]).unwrap();
    let tlv = TlvRepr { class: 1, kind: 2, data: b"tenant".to_vec() };
    let classes = [class(1, Metadata::Fixed([0xee; 16])), class(2, Metadata::Variable(vec![tlv]))];
    let from = |octets: [u8; 4], length| Prefix::new(std::net::IpAddr::from(octets), length);
    let rules = [
        (Match { source: from([10, 1, 0, 9], 32), source_ports: 5..=10, ..Match::default() }, 1),
        (Match { source: from([10, 1, 0, 0], 16), ..Match::default() }, 0),
    ];
    chain.classify(&classes, &rules).unwrap();
    chain.set_port(LOOPBACK, &port(Otherwise::Drop, Some(1))).unwrap();
    let frame = |source, port| {
        [header(BEFORE, NEXT, ethertype::IPV4), datagram(source, port, b"x")].concat()
    };
    for (source, port, spi) in
        [([10, 1, 0, 9], 7, 2), ([10, 1, 0, 9], 11, 1), ([10, 1, 5, 5], 7, 1)]
    {
        let frame = frame(source, port);
        let (_, after, cause) = outcome(&chain, &frame);
        assert_eq!(cause, "sent");
        let (service, inside) = behind(&after, 14);
        assert_eq!((service.path, service.ttl, inside), (Path { spi, si: 255 }, 62, frame));
    }
    assert_eq!(cause(&chain, &frame([10, 9, 0, 1], 7)), "unclassified");
    assert_eq!(chain.count(9).unwrap().packets, 3);
}

#[test]
fn flows_keep_to_an_instance() {
    needs_root!();
    let mut chain = chain(Role::default());
    let targets: Vec<_> = (0..4)
        .map(|n| Target { mac: [2, 0, 0, 0, 1, n], ..target(Encapsulation::Ethernet) })
        .collect();
    let path = Path { spi: 1, si: 255 };
    let chosen = |chain: &Chain, port| {
        let packet = datagram([10, 1, 0, 1], port, b"x");
        let frame = [header(BEFORE, NEXT, ethertype::IPV4), packet].concat();
        u32::from(outcome(chain, &on_ethernet(&repr(1, 255).emit().unwrap(), &frame)).1[5])
    };
    chain.install(&[(path, Hop::Forward(targets.clone()), 1)]).unwrap();
    let before: Vec<_> = (1000..1400).map(|port| chosen(&chain, port)).collect();
    for instance in 0..4 {
        let share = before.iter().filter(|found| **found == instance).count();
        assert!((40..200).contains(&share), "{share} of 400 flows at {instance}");
    }
    chain.install(&[(path, Hop::Forward(targets[..3].to_vec()), 1)]).unwrap();
    for (port, old) in (1000..1400).zip(before) {
        let new = chosen(&chain, port);
        assert!(new == old || old == 3, "a flow moved though its instance stayed");
    }
}

#[test]
fn a_trace_tells_each_step() {
    needs_root!();
    let mut chain = forwarder();
    let mut events = chain.take_events().unwrap();
    let frame = |si| on_ethernet(&repr(1, si).emit().unwrap(), &inner(10));
    let filter = Filter { events: 10, source: Some([10, 1, 0, 1].into()), ..Filter::default() };
    chain.trace(&filter).unwrap();
    for si in [255, 9, 255] {
        outcome(&chain, &frame(si));
    }
    let seen: Vec<_> = events.by_ref().collect();
    assert_eq!(seen.iter().filter(|event| event.path.si == 9).count(), 1);
    let dropped = seen.iter().find(|event| event.path.si == 9).unwrap();
    assert_eq!(dropped.step, Step::Dropped(Drops::NAMES[6]));
    assert_eq!(dropped.flow.source(), Some([10, 1, 0, 1].into()));
    assert_eq!(dropped.flow.ports(), (1000, 80));
}

fn firewall(flows: u32, idle: Duration) -> Chain {
    let guard = Some(Guard { flows, idle, tcp_idle: idle, picks_up: false });
    chain(Role { serves: true, guard, ..Role::default() })
}

/// A packet of a flow between two ports, in either direction, on a path.
fn guarded(ports: (u16, u16), back: bool) -> Vec<u8> {
    let (here, there) = ([10, 1, 0, 1].into(), [10, 2, 0, 1].into());
    let (source, destination) = if back { (there, here) } else { (here, there) };
    let (source_port, destination_port) = if back { (ports.1, ports.0) } else { ports };
    let datagram = udp::Repr { source_port, destination_port }.emit(1).unwrap();
    let packet = ipv4::Repr { source, destination, protocol: 17, ttl: 64 };
    let packet = [&packet.emit(9).unwrap()[..], &datagram, b"x"].concat();
    let frame = [header(BEFORE, NEXT, ethertype::IPV4), packet].concat();
    on_ethernet(&repr(1, 255).emit().unwrap(), &frame)
}

fn to_ports(ports: std::ops::RangeInclusive<u16>) -> Match {
    Match { destination_ports: ports, protocol: Some(17), ..Match::default() }
}

#[test]
fn a_firewall_lets_pass_what_the_first_rule_allows() {
    needs_root!();
    let mut chain = firewall(0, Duration::ZERO);
    assert_eq!(cause(&chain, &guarded((9, 200), false)), "denied", "no rules are in force yet");
    let rules = [(to_ports(100..=200), Action::Deny), (to_ports(150..=300), Action::Allow)];
    chain.guard(&rules, Action::Deny).unwrap();
    for (port, expected) in
        [(99, "denied"), (100, "denied"), (200, "denied"), (201, ""), (301, "denied")]
    {
        assert_eq!(cause(&chain, &guarded((9, port), false)), expected, "port {port}");
    }
    chain.guard(&[], Action::Allow).unwrap();
    assert_eq!(cause(&chain, &guarded((9, 100), false)), "");
}

#[test]
fn a_firewall_does_not_guess_ports() {
    needs_root!();
    let mut chain = firewall(0, Duration::ZERO);
    chain.guard(&[(to_ports(80..=80), Action::Deny)], Action::Allow).unwrap();
    let at = 14 + 24 + 14;
    let mut fragment = guarded((9, 80), false);
    fragment[at + 7] = 2;
    assert_eq!(cause(&chain, &fragment), "fragment");
    let mut malformed = guarded((9, 80), false);
    malformed[at] = 0x44;
    assert_eq!(cause(&chain, &malformed), "malformed");
    let mut other = guarded((9, 80), false);
    (other[at - 2], other[at - 1]) = (0x08, 0x06);
    assert_eq!(cause(&chain, &other), "", "ARP passes");
}

#[test]
fn a_firewall_remembers_who_may_answer() {
    needs_root!();
    let idle = Duration::from_millis(200);
    let mut chain = firewall(100, idle);
    let outwards = Match {
        source: Prefix::new(std::net::IpAddr::from([10, 1, 0, 0]), 16),
        ..Match::default()
    };
    chain.guard(&[(outwards.clone(), Action::Allow)], Action::Deny).unwrap();
    let (there, back) = (guarded((9, 80), false), guarded((9, 80), true));
    assert_eq!(cause(&chain, &back), "denied");
    assert_eq!((cause(&chain, &there), cause(&chain, &back)), ("", ""));
    assert_eq!(cause(&chain, &guarded((10, 80), true)), "denied", "of another flow");
    chain.guard(&[(outwards.clone(), Action::Allow)], Action::Deny).unwrap();
    assert_eq!(cause(&chain, &back), "", "still allowed by the new rules");
    chain.guard(&[(outwards, Action::Deny)], Action::Deny).unwrap();
    assert_eq!(cause(&chain, &back), "denied", "by the new rules");
    chain.guard(&[], Action::Allow).unwrap();
    cause(&chain, &there);
    std::thread::sleep(idle * 2);
    chain.guard(&[(to_ports(80..=80), Action::Allow)], Action::Deny).unwrap();
    assert_eq!(cause(&chain, &back), "denied", "after its rest");
}

/// Rules like those of a large list: hosts and ports, prefixes, ranges.
fn many(count: u32) -> Vec<(Match, Action)> {
    let octets = |number: u32| Ipv4Addr::from(0x0a80_0000 + number);
    let rule = |number: u32| {
        let length = [32, 32, 28, 24][number as usize % 4];
        let port = u16::try_from(number % 1000).unwrap();
        Match {
            source: Prefix::new(octets(number).into(), length),
            destination_ports: port..=port + u16::try_from(number % 3).unwrap() * 100,
            ..Match::default()
        }
    };
    (0..count).map(|number| (rule(number), Action::Deny)).collect()
}

#[test]
fn a_hundred_thousand_rules_are_put_in_force() {
    needs_root!();
    let mut chain = firewall(0, Duration::ZERO);
    chain.guard(&many(100_000), Action::Allow).unwrap();
    assert_eq!(cause(&chain, &guarded((9, 80), false)), "");
    let host = Match {
        source: Prefix::new(std::net::IpAddr::from([10, 1, 0, 1]), 32),
        ..Match::default()
    };
    let rules = [many(100_000), vec![(host, Action::Deny)]].concat();
    chain.guard(&rules, Action::Allow).unwrap();
    assert_eq!(cause(&chain, &guarded((9, 80), false)), "denied");
}
