//! Seeded traffic for the tests: packets of many conversations, in the order of time.

#![allow(dead_code)] // each test uses a part

use std::net::{IpAddr, Ipv4Addr};

use hawser_flowmeter::{Packet, Tuple};
use hawser_wire::tcp::flag::{ACK, FIN, PSH, RST, SYN, URG};

/// xorshift64*.
pub(crate) struct Random(pub(crate) u64);

impl Random {
    pub(crate) fn below(&mut self, limit: u64) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        (self.0.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 16) % limit
    }

    pub(crate) fn one_in(&mut self, n: u64) -> bool {
        self.below(n) == 0
    }
}

/// A packet of the flow `tuple` or of its other direction.
pub(crate) fn packet(tuple: Tuple, payload: u16, flags: u8) -> Packet {
    let headers = if tuple.protocol == 6 { 40 } else { 28 };
    Packet {
        tuple,
        length: headers + payload,
        header_length: if tuple.protocol == 6 { 40 } else { headers + payload },
        dscp: 0,
        flags,
    }
}

/// The flow number `n` from the address block 10/8 to 192.168/16: different for each `n` below 2^24.
pub(crate) fn tuple(n: u32, protocol: u8) -> Tuple {
    Tuple {
        source: IpAddr::V4(Ipv4Addr::from(0x0a00_0000 | n)),
        destination: IpAddr::V4(Ipv4Addr::from(0xc0a8_0001 + (n >> 20))),
        source_port: u16::try_from(1024 + n % 60000).unwrap(),
        destination_port: 443,
        protocol,
    }
}

/// `flows` conversations within about 2000 s, as (microseconds, packet).
pub(crate) fn traffic(flows: u32, seed: u64) -> Vec<(u64, Packet)> {
    let mut random = Random(seed);
    let mut packets = Vec::new();
    for n in 0..flows {
        let protocol = if random.one_in(3) { 17 } else { 6 };
        conversation(tuple(n, protocol), &mut random, &mut packets);
    }
    packets.sort_by_key(|(time, _)| *time); // stable: each flow keeps its order
    packets
}

fn conversation(forward: Tuple, random: &mut Random, packets: &mut Vec<(u64, Packet)>) {
    let mut now = 1 + random.below(1_000_000_000);
    let mut send = |random: &mut Random, tuple, payload, flags| {
        let dscp = if random.one_in(9) { 46 } else { 0 };
        packets.push((now, Packet { dscp, ..packet(tuple, payload, flags) }));
        now += pause(random);
    };
    let backward = forward.reversed();
    let is_tcp = forward.protocol == 6;
    if is_tcp {
        send(random, forward, 0, SYN);
        if !random.one_in(5) {
            send(random, backward, 0, SYN | ACK);
            send(random, forward, 0, ACK);
        }
    }
    for _ in 0..random.below(12) {
        let from = if random.one_in(2) { forward } else { backward };
        let payload = u16::try_from(random.below(1400)).unwrap();
        let push = if random.one_in(2) { PSH } else { 0 };
        let urgent = if random.one_in(20) { URG } else { 0 };
        send(random, from, payload, if is_tcp { ACK | push | urgent } else { 0 });
    }
    match random.below(3) {
        _ if !is_tcp => {}
        0 => send(random, backward, 0, RST | ACK),
        1 => {
            send(random, forward, 0, FIN | ACK);
            send(random, backward, 0, FIN | ACK);
            send(random, forward, 0, ACK);
        }
        _ => {}
    }
}

/// Time to the next packet of a flow, microseconds: mostly short, some over a second, few over 600 s.
fn pause(random: &mut Random) -> u64 {
    match random.below(200) {
        0 => 600_000_001 + random.below(10_000_000),
        1..=10 => 1_000_000 + random.below(5_000_000),
        _ => 1 + random.below(100_000),
    }
}
