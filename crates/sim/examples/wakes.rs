//! What a wake of a gateway costs by the number of peers and paths, most of which are idle:
//! `cargo run --release -p hawser-sim --example wakes`.
//!
//! One hub has a path group to each peer. After all connections are up, one packet at a time goes to the first peer and
//! is acknowledged; a wake is one pass through the tunnel as the event loop makes it.
#![allow(clippy::print_stdout, clippy::unwrap_used, clippy::indexing_slicing)]

use std::{
    collections::HashMap,
    net::{Ipv4Addr, SocketAddr},
    time::{Duration, Instant},
};

use bytes::BytesMut;
use hawser_sim::gateways::{Authority, Memory, OPTIONS};
use hawser_tunnel::{
    Config, MAX_DATAGRAM, Source, Tunnel,
    config::{Class, Group, Path, Peer, Placement},
    counters::TunCounters,
};
use hawser_wire::{label::wide, tunnel::OwnAddresses};

const WAKES: u32 = 20_000;

struct Node {
    tunnel: Tunnel<Memory>,
    sockets: Vec<SocketAddr>,
    counters: TunCounters,
}

/// Datagrams on their way: to whom, from and to which address.
type Wire = Vec<(SocketAddr, SocketAddr, BytesMut)>;

fn main() {
    println!("peers paths: ns a wake, of them handle_timeout, transmit, poll_timeout");
    for (peers, paths) in [(1, 1), (1, 2), (1, 16), (15, 2), (15, 16)] {
        measure(peers, paths);
    }
}

fn measure(peers: u8, paths: u8) {
    let mut now = Instant::now();
    let mut authority = Authority::new();
    let mut nodes = vec![node(&mut authority, 0, &(1..=peers).collect::<Vec<_>>(), paths, now)];
    nodes.extend((1..=peers).map(|peer| node(&mut authority, peer, &[0], paths, now)));
    let places: HashMap<SocketAddr, Vec<(usize, usize)>> =
        nodes.iter().enumerate().fold(HashMap::new(), |mut places, (at, node)| {
            for (number, address) in node.sockets.iter().enumerate() {
                places.entry(*address).or_default().push((at, number));
            }
            places
        });
    let mut wire = Wire::new();
    for _ in 0..2000 {
        now += Duration::from_millis(1);
        settle(&mut nodes, &places, &mut wire, now);
    }
    let (mut timeout, mut transmit, mut poll) = Default::default();
    for number in 0..WAKES {
        now += Duration::from_micros(50);
        let packet = packet(number);
        let hub = &mut nodes[0];
        hub.tunnel.handle_packet(now, &packet, None, &mut hub.counters, |_| Class::II);
        let at = [0; 4].map(|_| Instant::now());
        let start = at[0];
        hub.tunnel.handle_timeout(now);
        let one = Instant::now();
        send(hub, &mut wire, now);
        let two = Instant::now();
        std::hint::black_box(hub.tunnel.poll_timeout());
        let three = Instant::now();
        timeout += one - start;
        transmit += two - one;
        poll += three - two;
        settle(&mut nodes, &places, &mut wire, now);
    }
    let received = nodes[1].counters.written.packets;
    let [timeout, transmit, poll]: [Duration; 3] = [timeout, transmit, poll];
    let each = |time: Duration| time.as_nanos() / u128::from(WAKES);
    println!(
        "{peers:3} {paths:3}: {:6}, {:6} {:6} {:6} ({received} arrived)",
        each(timeout + transmit + poll),
        each(timeout),
        each(transmit),
        each(poll)
    );
}

fn settle(
    nodes: &mut [Node],
    places: &HashMap<SocketAddr, Vec<(usize, usize)>>,
    wire: &mut Wire,
    now: Instant,
) {
    for node in nodes.iter_mut() {
        if node.tunnel.poll_timeout() <= now {
            node.tunnel.handle_timeout(now);
        }
        send(node, wire, now);
    }
    while !wire.is_empty() {
        for (from, to, bytes) in std::mem::take(wire) {
            let Some(sockets) = places.get(&to) else { continue };
            let (at, number) = sockets[0];
            let source = Source { remote: from, local: Some(to.ip()), ecn: None, received: None };
            nodes[at].tunnel.handle_input(now, number, source, bytes);
            while nodes[at].tunnel.poll_packet(now).is_some() {
                nodes[at].counters.written.packets += 1;
            }
        }
        for node in nodes.iter_mut() {
            send(node, wire, now);
        }
    }
}

fn send(node: &mut Node, wire: &mut Wire, now: Instant) {
    while let Some(transmit) = node.tunnel.poll_transmit(now) {
        let from = node.sockets[transmit.socket];
        let one = transmit.segment_size.unwrap_or(transmit.contents.len()).max(1);
        wire.extend(transmit.contents.chunks(one).map(|b| (from, transmit.destination, b.into())));
    }
    while node.tunnel.poll_event().is_some() {}
}

/// Where a path of the hub and a peer ends: its own addresses for each, so that one address is one socket.
fn address(node: u8, peer: u8, path: u8) -> Ipv4Addr {
    Ipv4Addr::new(192, node, peer, path)
}

fn node(authority: &mut Authority, own: u8, others: &[u8], paths: u8, now: Instant) -> Node {
    let peer = |other: &u8| {
        let path = |path: u8| Path {
            local: Some(address(own, *other, path).into()),
            remote: Some(address(*other, own, path).into()),
            ..Path::default()
        };
        let group = Group::new(0, Class::II, (0..paths).map(path).collect());
        let prefix = format!("10.{other}.0.0/16").parse().unwrap();
        let id = u16::from(*other);
        Peer { branch: format!("b{other}"), id, prefixes: vec![prefix], groups: vec![group] }
    };
    let config = Config {
        branch: format!("b{own}"),
        id: own.into(),
        labels: wide::Layout::default(),
        permissions: hawser_tunnel::Permissions::default(),
        own: OwnAddresses { v4: None, v6: None },
        queue_bytes: 1_000_000,
        placement: Placement::default(),
        max_rate_bps: [None; 2],
        options: hawser_tunnel::config::Options { proxy: false, ..OPTIONS },
        rendezvous: None,
        peers: others.iter().map(peer).collect(),
    };
    let identity = authority.identity(&format!("b{own}"));
    let session = u128::from(own) + 1;
    let mut tunnel = Tunnel::new(&config, &identity, session.to_be_bytes(), now).unwrap();
    let wanted = config.sockets();
    let sockets = wanted.iter().map(|socket| socket.address).collect();
    let sizes = (40, MAX_DATAGRAM);
    let opened: Vec<_> =
        wanted.iter().enumerate().map(|(number, socket)| (number, *socket, sizes)).collect();
    tunnel.configure(now, config, opened);
    Node { tunnel, sockets, counters: TunCounters::default() }
}

/// A segment of TCP to the first peer.
fn packet(number: u32) -> Vec<u8> {
    let mut packet = vec![0x45, 0, 0x05, 0x14, 0, 0, 0x40, 0, 64, 6, 0, 0];
    packet.extend([10, 0, 0, 5, 10, 1, 0, 5, 0, 9, 0, 80]);
    packet.extend((number * 1260).to_be_bytes());
    packet.extend([0, 0, 0, 0, 0x50, 0x10, 0xff, 0xff, 0, 0, 0, 0]);
    packet.resize(1300, 7);
    packet
}
