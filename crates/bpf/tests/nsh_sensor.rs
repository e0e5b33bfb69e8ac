//! What a sensor sees of packets: the same as `hawser_flowmeter` reads from them.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing)] // a failure is a panic

#[macro_use]
mod common;

use std::net::{Ipv4Addr, Ipv6Addr};

use hawser_bpf::nsh::{
    Chain, Observation, Observations, Otherwise, Port, RINGS_MAX, Role, Sensor, Verdict,
};
use hawser_flowmeter::Packet;
use hawser_wire::{
    ethernet::{self, ethertype},
    ipv4,
    nsh::{self, Metadata, Path},
    udp,
};

const LOOPBACK: u32 = 1;
const MAC: [u8; 6] = [2, 0, 0, 0, 0, 1];
const PAGE: u32 = 4096;

fn sensor(rings: u32, mirror: bool) -> (Chain, Vec<Observations>) {
    let sensor = Some(Sensor { rings, bytes: PAGE });
    let role = Role { serves: true, sensor, ..Role::default() };
    let mut chain = Chain::load(role).expect("this machine loads eBPF programs, as root");
    let (address, otherwise) = (None, Otherwise::Pass);
    let port =
        Port { classify: None, otherwise, address, mac: MAC, proxy: None, trusted: true, mirror };
    chain.set_port(LOOPBACK, &port).unwrap();
    let rings = chain.take_observations();
    (chain, rings)
}

fn framed(ethertype: u16, packet: &[u8]) -> Vec<u8> {
    let head = ethernet::Repr { source: MAC, destination: MAC, tags: vec![], ethertype };
    [head.emit(), packet.to_vec()].concat()
}

fn on_path(frame: &[u8]) -> Vec<u8> {
    let repr = nsh::Repr::initial(Path { spi: 1, si: 255 }, Metadata::Fixed([0; 16]));
    let head =
        ethernet::Repr { source: MAC, destination: MAC, tags: vec![], ethertype: ethertype::NSH };
    [head.emit(), repr.emit().unwrap(), frame.to_vec()].concat()
}

fn ipv4_packet(protocol: u8, payload: &[u8]) -> Vec<u8> {
    let (source, destination) = (Ipv4Addr::new(192, 0, 2, 1), Ipv4Addr::new(198, 51, 100, 2));
    let repr = ipv4::Repr { source, destination, protocol, ttl: 64 };
    let mut packet = [&repr.emit(payload.len()).unwrap()[..], payload].concat();
    packet[1] = 0xb8; // DSCP EF
    packet
}

/// `next` is the protocol after the IPv6 header; `payload` has extension headers, too.
fn ipv6_packet(next: u8, payload: &[u8]) -> Vec<u8> {
    let mut packet = vec![0x60, 0x80, 0, 0, 0, 0, next, 64];
    packet[4..6].copy_from_slice(&u16::try_from(payload.len()).unwrap().to_be_bytes());
    packet.extend(Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, 1).octets());
    packet.extend(Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, 2).octets());
    [&packet[..], payload].concat()
}

fn tcp() -> Vec<u8> {
    let mut segment = vec![0x9c, 0x40, 0x01, 0xbb, 0, 0, 0, 1, 0, 0, 0, 2, 0x70, 0x18, 0xff, 0xff];
    segment.extend([0; 4]);
    segment.extend([2, 4, 5, 0xb4, 1, 1, 1, 0]); // options, two words
    segment.extend([7; 33]);
    segment
}

fn datagram() -> Vec<u8> {
    let head = udp::Repr { source_port: 5000, destination_port: 53 }.emit(12).unwrap();
    [&head[..], &[9; 12]].concat()
}

fn fragment(mut packet: Vec<u8>, flags: [u8; 2]) -> Vec<u8> {
    packet[6..8].copy_from_slice(&flags);
    packet
}

fn packets() -> Vec<(&'static str, Vec<u8>)> {
    let hop_by_hop = [&[6, 0, 1, 4, 0, 0, 0, 0][..], &tcp()].concat();
    vec![
        ("TCP", ipv4_packet(6, &tcp())),
        ("UDP", ipv4_packet(17, &datagram())),
        ("ICMP", ipv4_packet(1, &[8, 0, 0, 0, 0, 1, 0, 1, 7, 7])),
        ("SCTP", ipv4_packet(132, &tcp())),
        ("TCP over IPv6", ipv6_packet(6, &tcp())),
        ("UDP over IPv6", ipv6_packet(17, &datagram())),
        ("TCP behind an extension header", ipv6_packet(0, &hop_by_hop)),
        ("first fragment", fragment(ipv4_packet(17, &datagram()), [0x20, 0])),
        ("later fragment", fragment(ipv4_packet(17, &datagram()), [0x20, 9])),
    ]
}

/// What the flow meter reads from the same packet.
fn matches(seen: &Observation, packet: &[u8]) -> bool {
    let read = Packet::parse(packet).unwrap();
    let flow = &seen.flow;
    flow.source() == Some(read.tuple.source)
        && flow.destination() == Some(read.tuple.destination)
        && flow.ports() == (read.tuple.source_port, read.tuple.destination_port)
        && (flow.protocol(), flow.dscp()) == (read.tuple.protocol, read.dscp)
        && (seen.length, seen.header_length) == (read.length, read.header_length)
        && seen.flags == read.flags
}

fn ethertype_of(packet: &[u8]) -> u16 {
    if packet[0] >> 4 == 4 { ethertype::IPV4 } else { ethertype::IPV6 }
}

#[test]
fn the_sensor_reads_packets_as_the_flow_meter_does() {
    needs_root!();
    let (chain, mut rings) = sensor(1, false);
    for (name, packet) in packets() {
        let frame = on_path(&framed(ethertype_of(&packet), &packet));
        assert_eq!(chain.run(&frame).unwrap().0, Verdict::Redirect, "{name} goes on");
        let seen: Vec<_> = rings[0].by_ref().collect();
        assert!(seen.len() == 1 && matches(&seen[0], &packet), "{name}: {seen:?}");
    }
    let count = packets().len() as u64;
    let arp = on_path(&framed(0x0806, &[0; 28]));
    assert_eq!(chain.run(&arp).unwrap().0, Verdict::Redirect);
    let observed = chain.observed().unwrap();
    assert_eq!((observed.packets, observed.lost, observed.other), (count, 0, 1));
}

#[test]
fn a_full_ring_loses_observations_and_no_packet() {
    needs_root!();
    let (chain, mut rings) = sensor(1, false);
    let frame = on_path(&framed(ethertype::IPV4, &ipv4_packet(17, &datagram())));
    for _ in 0..200 {
        assert_eq!(chain.run(&frame).unwrap().0, Verdict::Redirect);
    }
    let observed = chain.observed().unwrap();
    assert_eq!(observed.packets, rings[0].by_ref().count() as u64);
    assert!(observed.lost > 0 && observed.packets + observed.lost == 200, "{observed:?}");
    chain.run(&frame).unwrap();
    assert_eq!(rings[0].by_ref().count(), 1, "it goes on when there is room");
}

#[test]
fn both_directions_of_a_flow_are_in_one_ring() {
    needs_root!();
    let (chain, mut rings) = sensor(RINGS_MAX, false);
    for port in 0..64_u8 {
        let mut there = ipv4_packet(17, &datagram());
        there[21] = port;
        let mut back = there.clone();
        let (addresses, ports) = back.split_at_mut(20);
        addresses[12..20].rotate_left(4);
        ports[..4].rotate_left(2);
        for packet in [&there, &back] {
            chain.run(&on_path(&framed(ethertype::IPV4, packet))).unwrap();
        }
        let counts: Vec<_> = rings.iter_mut().map(|ring| ring.by_ref().count()).collect();
        assert_eq!(counts.iter().filter(|count| **count == 2).count(), 1, "{counts:?}");
    }
    assert_eq!(rings.len(), RINGS_MAX as usize);
}

#[test]
fn copies_at_a_mirror_port_are_observed_and_dropped() {
    needs_root!();
    let (chain, mut rings) = sensor(1, true);
    let packet = ipv4_packet(6, &tcp());
    let frame = framed(ethertype::IPV4, &packet);
    for copy in [frame.clone(), on_path(&frame)] {
        assert_eq!(chain.run(&copy).unwrap().0, Verdict::Drop);
        let seen: Vec<_> = rings[0].by_ref().collect();
        assert!(seen.len() == 1 && matches(&seen[0], &packet), "{seen:?}");
    }
    let malformed = on_path(&[]);
    for length in 0..malformed.len() {
        let _ = chain.run(&malformed[..length.max(14)]);
    }
}
