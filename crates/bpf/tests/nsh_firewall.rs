//! What a firewall knows of flows: phases, TCP flags, ICMP errors, fragments, and headers around IP.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing)] // a failure is a panic

#[macro_use]
mod common;

use std::{net::Ipv4Addr, time::Duration};

use hawser_bpf::{
    nsh::{Action, Chain, Guard, Otherwise, Port, Role},
    rules::{Match, Prefix},
};
use hawser_wire::{
    ethernet::{self, ethertype},
    ipv4, ipv6,
    nsh::{self, Metadata, Path},
    udp,
};

const LOOPBACK: u32 = 1;
const MAC: [u8; 6] = [2, 0, 0, 0, 0, 1];
const INSIDE: Ipv4Addr = Ipv4Addr::new(10, 1, 0, 1);
const OUTSIDE: Ipv4Addr = Ipv4Addr::new(10, 2, 0, 1);
const ROUTER: Ipv4Addr = Ipv4Addr::new(10, 3, 0, 1);
const FLOWS: u32 = 4096;
const IDLE: Duration = Duration::from_mins(1);
const ICMP: u8 = 1;
const TCP: u8 = 6;
const UDP: u8 = 17;
const FIN: u8 = 1;
const SYN: u8 = 2;
const RST: u8 = 4;
const ACK: u8 = 16;
const OUT: bool = true;
const BACK: bool = false;

/// A firewall that allows what hosts inside begin, and nothing else.
fn firewall(flows: u32, picks_up: bool) -> Chain {
    let guard = Some(Guard { flows, idle: IDLE, tcp_idle: IDLE, picks_up });
    let role = Role { serves: true, guard, ..Role::default() };
    let mut chain = Chain::load(role).expect("this machine loads eBPF programs, as root");
    let (address, otherwise) = (None, Otherwise::Pass);
    let port = Port {
        classify: None,
        otherwise,
        address,
        mac: MAC,
        proxy: None,
        trusted: true,
        mirror: false,
    };
    chain.set_port(LOOPBACK, &port).unwrap();
    chain.guard(&[(outwards(), Action::Allow)], Action::Deny).unwrap();
    chain
}

fn outwards() -> Match {
    let source = Prefix::new(Ipv4Addr::new(10, 1, 0, 0).into(), 16);
    Match { source, ..Match::default() }
}

fn framed(tags: &[[u8; 2]], ethertype: u16, packet: &[u8]) -> Vec<u8> {
    let mut types = [tags, &[ethertype.to_be_bytes()]].concat();
    let first = u16::from_be_bytes(types.remove(0));
    let head = ethernet::Repr { source: MAC, destination: MAC, tags: vec![], ethertype: first };
    let tagged = types.iter().flat_map(|next| [0, 7, next[0], next[1]]);
    [head.emit(), tagged.collect(), packet.to_vec()].concat()
}

/// The cause of a drop of what is inside an NSH; nothing if it passes.
fn inside(chain: &Chain, frame: &[u8]) -> &'static str {
    let repr = nsh::Repr::initial(Path { spi: 1, si: 255 }, Metadata::Fixed([0; 16]));
    let outer = framed(&[], ethertype::NSH, &[repr.emit().unwrap(), frame.to_vec()].concat());
    let before = chain.drops().unwrap();
    chain.run(&outer).unwrap();
    let after = chain.drops().unwrap();
    before.iter().zip(after.iter()).find(|(old, new)| old.1 != new.1).map_or("", |(_, new)| new.0)
}

fn cause(chain: &Chain, packet: &[u8]) -> &'static str {
    inside(chain, &framed(&[], ethertype::IPV4, packet))
}

fn ip(source: Ipv4Addr, destination: Ipv4Addr, protocol: u8, payload: &[u8]) -> Vec<u8> {
    let repr = ipv4::Repr { source, destination, protocol, ttl: 64 };
    [&repr.emit(payload.len()).unwrap()[..], payload].concat()
}

/// Between a host inside and one outside, by a port of the former; `out`: from inside.
fn between(out: bool, protocol: u8, payload: &[u8]) -> Vec<u8> {
    let (source, destination) = if out { (INSIDE, OUTSIDE) } else { (OUTSIDE, INSIDE) };
    ip(source, destination, protocol, payload)
}

fn ends(port: u16, out: bool) -> (u16, u16) {
    if out { (port, 80) } else { (80, port) }
}

fn datagram(port: u16, out: bool) -> Vec<u8> {
    let (source_port, destination_port) = ends(port, out);
    let head = udp::Repr { source_port, destination_port }.emit(8).unwrap();
    between(out, UDP, &[&head[..], &[7; 8]].concat())
}

fn segment(port: u16, out: bool, flags: u8, sequence: u32, acknowledged: u32) -> Vec<u8> {
    let (source, destination) = ends(port, out);
    let mut tcp = [source.to_be_bytes(), destination.to_be_bytes()].concat();
    tcp.extend([sequence.to_be_bytes(), acknowledged.to_be_bytes()].concat());
    tcp.extend([0x50, flags, 0xff, 0xff, 0, 0, 0, 0]);
    between(out, TCP, &tcp)
}

fn tcp(chain: &Chain, port: u16, out: bool, flags: u8) -> &'static str {
    let (sequence, acknowledged) = if out { (101, 501) } else { (501, 101) };
    let begins = u32::from(flags & SYN > 0);
    cause(chain, &segment(port, out, flags, sequence - begins, acknowledged))
}

fn connect(chain: &Chain, port: u16) {
    for (out, flags) in [(OUT, SYN), (BACK, SYN | ACK), (OUT, ACK)] {
        assert_eq!(tcp(chain, port, out, flags), "", "{flags:#x}");
    }
}

/// Other flows, as many as three times fit into the tables. Each sends twice: the kernel's LRU evicts what was looked up
/// but once before anything else.
fn flood(chain: &Chain) {
    for number in 0..3 * FLOWS {
        let source = Ipv4Addr::from(0x0a01_8000 + number);
        let head = udp::Repr { source_port: 9, destination_port: 80 }.emit(8).unwrap();
        let packet = ip(source, OUTSIDE, UDP, &[&head[..], &[7; 8]].concat());
        assert_eq!((cause(chain, &packet), cause(chain, &packet)), ("", ""));
    }
}

#[test]
fn a_flood_of_new_flows_evicts_no_established_one() {
    needs_root!();
    let chain = firewall(FLOWS, false);
    for port in 1000..1200 {
        connect(&chain, port);
        for out in [OUT, BACK, OUT] {
            assert_eq!(cause(&chain, &datagram(port, out)), "");
        }
    }
    assert_eq!(cause(&chain, &datagram(2000, OUT)), "");
    flood(&chain);
    for port in 1000..1200 {
        assert_eq!(cause(&chain, &datagram(port, BACK)), "", "UDP {port}");
        assert_eq!(tcp(&chain, port, BACK, ACK), "", "TCP {port}");
    }
    assert_eq!(cause(&chain, &datagram(2000, BACK)), "denied", "it had not been answered");
}

#[test]
fn a_forged_handshake_establishes_nothing() {
    needs_root!();
    let chain = firewall(FLOWS, false);
    assert_eq!(tcp(&chain, 1000, OUT, SYN), "");
    assert_eq!(tcp(&chain, 1000, BACK, SYN | ACK), "");
    assert_eq!(cause(&chain, &segment(1000, OUT, ACK, 101, 0x8000_0000)), "", "a guess");
    flood(&chain);
    assert_eq!(tcp(&chain, 1000, BACK, ACK), "tcp_state", "it was evicted");
}

#[test]
fn a_connection_begins_with_a_syn() {
    needs_root!();
    let chain = firewall(FLOWS, false);
    for flags in [ACK, FIN | ACK, RST, SYN | ACK] {
        assert_eq!(tcp(&chain, 1000, OUT, flags), "tcp_state", "{flags:#x}");
    }
    for flags in [0, FIN, SYN | FIN, SYN | RST, RST | FIN] {
        assert_eq!(tcp(&chain, 1000, OUT, flags), "tcp_state", "{flags:#x}");
    }
    assert_eq!(tcp(&chain, 1000, BACK, SYN), "denied", "by the rules");
    connect(&chain, 1000);
    assert_eq!(tcp(&chain, 1000, BACK, SYN | FIN), "tcp_state", "also of a connection");
    for (out, flags) in [(BACK, FIN | ACK), (OUT, ACK), (OUT, FIN | ACK), (BACK, ACK)] {
        assert_eq!(tcp(&chain, 1000, out, flags), "", "it ends");
    }
    assert_eq!(tcp(&chain, 1000, BACK, SYN), "denied", "nor another by the responder");
    connect(&chain, 1000);
    assert_eq!(tcp(&chain, 1000, BACK, RST), "");
    assert_eq!(tcp(&chain, 1000, BACK, SYN), "denied");
}

#[test]
fn connections_may_be_picked_up_where_they_are_allowed() {
    needs_root!();
    let chain = firewall(FLOWS, true);
    assert_eq!(tcp(&chain, 1000, BACK, ACK), "denied");
    for out in [OUT, BACK, OUT] {
        assert_eq!(tcp(&chain, 1000, out, ACK), "");
    }
    flood(&chain);
    assert_eq!(tcp(&chain, 1000, BACK, ACK), "", "it is established");
    assert_eq!(tcp(&chain, 1001, OUT, FIN | ACK), "tcp_state");
}

/// An ICMP error (fragmentation needed) of a router about a packet, to a host.
fn too_big(to: Ipv4Addr, about: &[u8]) -> Vec<u8> {
    let message = [&[3, 4, 0, 0, 0, 0, 5, 0x78][..], &about[..28]].concat();
    ip(ROUTER, to, ICMP, &message)
}

#[test]
fn icmp_errors_about_allowed_flows_pass() {
    needs_root!();
    for flows in [0, FLOWS] {
        let chain = firewall(flows, false);
        let sent = datagram(1000, OUT);
        if flows > 0 {
            assert_eq!(cause(&chain, &too_big(INSIDE, &sent)), "denied", "not sent yet");
        }
        assert_eq!(cause(&chain, &sent), "");
        assert_eq!(cause(&chain, &too_big(INSIDE, &sent)), "");
        let tagged = framed(&[[0x81, 0]], ethertype::IPV4, &too_big(INSIDE, &sent));
        assert_eq!(inside(&chain, &tagged), "", "with a VLAN tag");
        assert_eq!(cause(&chain, &too_big(OUTSIDE, &sent)), "denied", "to another host");
        assert_eq!(cause(&chain, &too_big(OUTSIDE, &datagram(1001, BACK))), "denied");
        let mut echo = too_big(INSIDE, &sent);
        echo[20] = 8;
        assert_eq!(cause(&chain, &echo), "denied", "no error");
        if flows > 0 {
            assert_eq!(cause(&chain, &datagram(1000, BACK)), "");
            assert_eq!(cause(&chain, &too_big(OUTSIDE, &datagram(1000, BACK))), "");
        }
    }
}

/// Fragments of a datagram with this identification: offset in bytes, whether more follow, payload.
fn fragment(id: u8, protocol: u8, offset: u8, more: bool, payload: &[u8]) -> Vec<u8> {
    let mut packet = between(OUT, protocol, payload);
    (packet[5], packet[6], packet[7]) = (id, u8::from(more) << 5, offset / 8);
    packet
}

#[test]
fn fragments_of_allowed_datagrams_pass() {
    needs_root!();
    let udp = datagram(1000, OUT)[20..].to_vec();
    for flows in [0, FLOWS] {
        let mut chain = firewall(flows, false);
        let later = |id| fragment(id, UDP, 16, false, &[7; 32]);
        assert_eq!(cause(&chain, &later(1)), "fragment", "before the first");
        assert_eq!(cause(&chain, &fragment(1, UDP, 0, true, &udp)), "");
        assert_eq!((cause(&chain, &later(1)), cause(&chain, &later(2))), ("", "fragment"));
        assert_eq!(cause(&chain, &fragment(1, TCP, 16, false, &[7; 32])), "fragment");
        let overlap = fragment(1, UDP, 8, true, &[7; 32]);
        assert_eq!(cause(&chain, &overlap), "fragment", "RFC 1858, RFC 5722");
        assert_eq!(cause(&chain, &later(1)), "fragment", "nor what follows");
        assert_eq!(cause(&chain, &fragment(3, UDP, 0, true, &udp)), "");
        chain.guard(&[], Action::Deny).unwrap();
        assert_eq!(cause(&chain, &later(3)), "fragment", "rules have changed");
        assert_eq!(cause(&chain, &fragment(4, UDP, 0, true, &udp)), "denied");
        assert_eq!(cause(&chain, &later(4)), "fragment", "of a denied datagram");
    }
}

#[test]
fn first_fragments_must_have_their_headers() {
    needs_root!();
    for flows in [0, FLOWS] {
        let chain = firewall(flows, false);
        let syn = segment(1000, OUT, SYN, 100, 0)[20..].to_vec();
        let tiny = fragment(1, TCP, 0, true, &syn[..8]);
        let padded = [framed(&[], ethertype::IPV4, &tiny), vec![0; 46]].concat();
        assert_eq!(inside(&chain, &padded), "fragment", "RFC 1858: padding is no header");
        assert_eq!(cause(&chain, &fragment(1, TCP, 8, false, &[7; 16])), "fragment");
        assert_eq!(cause(&chain, &fragment(2, TCP, 0, true, &[&syn[..], &[7; 4]].concat())), "");
        assert_eq!(cause(&chain, &fragment(2, TCP, 24, false, &[7; 16])), "");
    }
}

#[test]
fn fragments_of_ipv6_pass_alike() {
    needs_root!();
    let mut chain = firewall(FLOWS, false);
    chain.guard(&[(Match::default(), Action::Allow)], Action::Deny).unwrap();
    let (source, destination) = ("fd00::1".parse().unwrap(), "fd00::2".parse().unwrap());
    let repr = ipv6::Repr { source, destination, next_header: 44, hop_limit: 64 };
    let fragment = |id: u8, offset: u8, more: u8| {
        let payload = [&[UDP, 0, 0, offset | more, 0, 0, 0, id][..], &[7; 32]].concat();
        let packet = [&repr.emit(payload.len()).unwrap()[..], &payload].concat();
        framed(&[], ethertype::IPV6, &packet)
    };
    assert_eq!(inside(&chain, &fragment(1, 32, 0)), "fragment");
    assert_eq!(inside(&chain, &fragment(1, 0, 1)), "");
    assert_eq!(inside(&chain, &fragment(1, 32, 0)), "");
    assert_eq!(inside(&chain, &fragment(1, 24, 0)), "fragment", "it overlaps the first");
    assert_eq!(inside(&chain, &fragment(2, 0, 0)), "", "an atomic fragment (RFC 6946)");
}

#[test]
fn what_is_around_a_packet_is_no_way_round_the_rules() {
    needs_root!();
    let chain = firewall(0, false);
    let (good, bad) = (datagram(1000, OUT), datagram(1000, BACK));
    let (vlan, provider, old) = ([0x81, 0], [0x88, 0xa8], [0x91, 0]);
    let tagged = |tags: &[[u8; 2]], packet: &[u8]| framed(tags, ethertype::IPV4, packet);
    let mpls = |packet: &[u8]| {
        framed(&[vlan], 0x8847, &[&[0, 1, 0, 64, 0, 2, 1, 64][..], packet].concat())
    };
    let pppoe = |packet: &[u8]| {
        framed(&[], 0x8864, &[&[0x11, 0, 0, 1, 0, 46, 0, 0x21][..], packet].concat())
    };
    for tags in [&[vlan][..], &[provider, vlan], &[old, vlan], &[vlan; 3], &[vlan; 4]] {
        assert_eq!(inside(&chain, &tagged(tags, &good)), "");
        assert_eq!(inside(&chain, &tagged(tags, &bad)), "denied", "{} tags", tags.len());
    }
    assert_eq!(inside(&chain, &tagged(&[vlan; 5], &good)), "opaque");
    assert_eq!((inside(&chain, &mpls(&good)), inside(&chain, &mpls(&bad))), ("", "denied"));
    assert_eq!((inside(&chain, &pppoe(&good)), inside(&chain, &pppoe(&bad))), ("", "denied"));
    let compressed = [&[0x11, 0, 0, 1, 0, 45, 0x21][..], &bad].concat();
    assert_eq!(inside(&chain, &framed(&[], 0x8864, &compressed)), "opaque");
    let stack = [&[0; 4].repeat(9)[..], &bad].concat();
    assert_eq!(inside(&chain, &framed(&[], 0x8847, &stack)), "opaque");
    let llc = [&[0xaa, 0xaa, 3, 0, 0, 0, 8, 0][..], &bad].concat();
    assert_eq!(inside(&chain, &framed(&[], 54, &llc)), "not_ip");
    assert_eq!(inside(&chain, &framed(&[], 0x0806, &[0; 28])), "", "ARP passes");
    assert_eq!(inside(&chain, &framed(&[vlan], 0x88cc, &[0; 28])), "not_ip");
}
