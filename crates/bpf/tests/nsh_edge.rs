//! The boundary of an SFC domain: what hosts may not send (RFC 8300 section 8), and from whom it is accepted.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing)] // a failure is a panic

#[macro_use]
mod common;

use std::net::Ipv4Addr;

use hawser_bpf::nsh::{Chain, End, Hop, Otherwise, Port, Role, Verdict};
use hawser_wire::{
    ethernet::{self, ethertype},
    ipv4, ipv6,
    nsh::{self, Metadata, Path},
    srh, udp, vxlan_gpe,
};

const LOOPBACK: u32 = 1;
const OWN: [u8; 6] = [2, 0, 0, 0, 0, 1];
const HOST: [u8; 6] = [2, 0, 0, 0, 0, 3];
const LOCAL: Ipv4Addr = Ipv4Addr::new(192, 0, 2, 1);
const FORWARDER: Ipv4Addr = Ipv4Addr::new(192, 0, 2, 2);
const STRANGER: Ipv4Addr = Ipv4Addr::new(192, 0, 2, 3);
const VLAN: u16 = 0x8100;
const PROVIDER: u16 = 0x88a8;
const UDP: u8 = 17;

/// A forwarder whose only path ends at once.
fn chain(trusted: bool) -> Chain {
    let mut chain = Chain::load(Role::default()).expect("this machine loads eBPF programs");
    let end = End { port: 0, frame_max: 1514, mac: None, own_mac: OWN, queued: false };
    chain.install(&[(Path { spi: 1, si: 255 }, Hop::End(end), 1)]).unwrap();
    chain.add_forwarders(&[FORWARDER].into()).unwrap();
    let (address, otherwise) = (Some(LOCAL), Otherwise::Pass);
    let port =
        Port { classify: None, otherwise, address, mac: OWN, proxy: None, trusted, mirror: false };
    chain.set_port(LOOPBACK, &port).unwrap();
    chain
}

fn framed(tags: &[u16], ethertype: u16, payload: &[u8]) -> Vec<u8> {
    let mut types: Vec<_> = tags.iter().copied().chain([ethertype]).collect();
    let first = types.remove(0);
    let repr = ethernet::Repr { source: HOST, destination: OWN, tags: vec![], ethertype: first };
    let tags = types.iter().flat_map(|next| [[0, 7], next.to_be_bytes()].concat());
    [repr.emit(), tags.collect(), payload.to_vec()].concat()
}

fn service() -> Vec<u8> {
    let repr = nsh::Repr::initial(Path { spi: 1, si: 255 }, Metadata::Fixed([0; 16]));
    let inside = framed(&[], ethertype::IPV4, &ipv4(FORWARDER, STRANGER, &[7; 30]));
    [repr.emit().unwrap(), inside].concat()
}

fn ipv4(source: Ipv4Addr, destination: Ipv4Addr, payload: &[u8]) -> Vec<u8> {
    let repr = ipv4::Repr { source, destination, protocol: UDP, ttl: 64 };
    [&repr.emit(payload.len()).unwrap()[..], payload].concat()
}

fn ipv6(next_header: u8, payload: &[u8]) -> Vec<u8> {
    let (source, destination) = ("fd00::1".parse().unwrap(), "fd00::2".parse().unwrap());
    let repr = ipv6::Repr { source, destination, next_header, hop_limit: 64 };
    [&repr.emit(payload.len()).unwrap()[..], payload].concat()
}

fn tunnelled() -> Vec<u8> {
    let next_protocol = vxlan_gpe::next_protocol::NSH;
    let gpe = vxlan_gpe::Repr { vni: 0, next_protocol, oam: false }.emit().unwrap();
    let inside = [&gpe[..], &service()].concat();
    let repr = udp::Repr { source_port: 50_000, destination_port: vxlan_gpe::PORT };
    [&repr.emit(inside.len()).unwrap()[..], &inside].concat()
}

/// The verdict, and the cause of a drop; `sent` for what would leave by a port.
fn outcome(chain: &Chain, frame: &[u8]) -> (Verdict, &'static str) {
    let before = chain.drops().unwrap();
    let (verdict, _) = chain.run(frame).unwrap();
    let after = chain.drops().unwrap();
    let changed = before.iter().zip(after.iter()).find(|(old, new)| old.1 != new.1);
    let cause = changed.map_or("", |(_, (name, _))| name);
    (verdict, if cause == "failed" { "sent" } else { cause })
}

/// An extension header of 8 bytes before another.
fn extension(next: u8) -> Vec<u8> {
    vec![next, 0, 1, 4, 0, 0, 0, 0]
}

fn segments() -> Vec<u8> {
    let list = vec!["5f00::1".parse().unwrap(), "5f00::2".parse().unwrap()];
    srh::Repr::at_source(UDP, list).unwrap().emit().unwrap()
}

#[test]
fn what_a_host_forges_is_dropped_by_cause() {
    needs_root!();
    let (edge, inside) = (chain(false), chain(true));
    let gpe = ipv4(FORWARDER, LOCAL, &tunnelled());
    let mut fragment = gpe.clone();
    fragment[6] |= 0x20;
    let routed = [segments(), vec![0; 8]].concat();
    let hidden = [extension(60), extension(60), extension(43), routed.clone()].concat();
    let six = |next, payload: &[u8]| framed(&[], ethertype::IPV6, &ipv6(next, payload));
    let four = |tags: &[u16], packet: &[u8]| framed(tags, ethertype::IPV4, packet);
    for (frame, expected) in [
        (framed(&[], ethertype::NSH, &service()), "untrusted_nsh"),
        (framed(&[VLAN], ethertype::NSH, &service()), "untrusted_nsh"),
        (framed(&[PROVIDER, VLAN, VLAN, VLAN], ethertype::NSH, &service()), "untrusted_nsh"),
        (framed(&[VLAN; 5], ethertype::NSH, &service()), "opaque"),
        (four(&[], &gpe), "untrusted_vxlan_gpe"),
        (four(&[VLAN], &gpe), "untrusted_vxlan_gpe"),
        (four(&[], &ipv4(STRANGER, FORWARDER, &tunnelled())), "untrusted_vxlan_gpe"),
        (four(&[], &fragment), "untrusted_vxlan_gpe"),
        (six(UDP, &tunnelled()), "untrusted_vxlan_gpe"),
        (six(60, &[extension(UDP), tunnelled()].concat()), "untrusted_vxlan_gpe"),
        (six(43, &routed), "untrusted_srh"),
        (six(0, &hidden), "untrusted_srh"),
        (six(0, &[[0; 8]; 5].concat()), "opaque"),
    ] {
        assert_eq!(outcome(&edge, &frame), (Verdict::Drop, expected));
        assert!(!matches!(outcome(&inside, &frame).1, "opaque" | "untrusted_nsh"));
    }
}

#[test]
fn what_hosts_may_send_passes() {
    needs_root!();
    let edge = chain(false);
    let other = udp::Repr { source_port: vxlan_gpe::PORT, destination_port: 80 };
    let other = [&other.emit(1).unwrap()[..], b"x"].concat();
    for frame in [
        framed(&[], ethertype::IPV4, &ipv4(FORWARDER, LOCAL, &other)),
        framed(&[VLAN], ethertype::IPV6, &ipv6(60, &[extension(UDP), other.clone()].concat())),
        framed(&[], 0x0806, &[0; 28]),
    ] {
        assert_eq!(outcome(&edge, &frame), (Verdict::Pass, ""));
    }
}

#[test]
fn a_trusted_port_accepts_known_forwarders_only() {
    needs_root!();
    let mut inside = chain(true);
    let from = |source| framed(&[], ethertype::IPV4, &ipv4(source, LOCAL, &tunnelled()));
    assert_eq!(outcome(&inside, &framed(&[], ethertype::NSH, &service())).1, "sent");
    assert_eq!(outcome(&inside, &from(FORWARDER)).1, "sent");
    assert_eq!(outcome(&inside, &from(STRANGER)), (Verdict::Drop, "unknown_forwarder"));
    inside.add_forwarders(&[STRANGER].into()).unwrap();
    assert_eq!(outcome(&inside, &from(STRANGER)).1, "sent");
    inside.keep_forwarders(&[STRANGER].into()).unwrap();
    assert_eq!(outcome(&inside, &from(FORWARDER)), (Verdict::Drop, "unknown_forwarder"));
}
