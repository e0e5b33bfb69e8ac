//! IPv4, and the switch as a whole.

use std::{collections::BTreeMap, net::IpAddr};

use hawser_bpf::switch::{Drops, Flow, From, Output, Switch, Verdict};
use hawser_wire::{
    checksum::Sum,
    ip,
    ipv4::{self, protocol},
    label::{Label, wide},
    rewrite::{self, Place, Ports, Tuple},
};
use proptest::prelude::*;

use super::{ETHERNET, LOOPBACK, Table, Unmatched, compare, flow, label, ports_of, switch};

/// Length of the parsed headers: Ethernet, IPv4 without options, UDP.
const HEADERS: usize = ETHERNET + 28;
const LOCALHOST: IpAddr = IpAddr::V4(std::net::Ipv4Addr::LOCALHOST);

/// Reference: what the switch does with a frame from `from`.
fn reference(
    table: &Table,
    own: &BTreeMap<IpAddr, bool>,
    from: From,
    frame: &[u8],
) -> (Verdict, Vec<u8>, Drops) {
    let mut frame = frame.to_vec();
    let mut drops = Drops::default();
    let verdict = decide(table, own, from, &mut frame, &mut drops);
    (verdict, frame, drops)
}

fn decide(
    table: &Table,
    own: &BTreeMap<IpAddr, bool>,
    from: From,
    frame: &mut [u8],
    drops: &mut Drops,
) -> Verdict {
    if frame[12..14] != [8, 0] {
        return Verdict::Pass;
    }
    let mut dropped = |cause: fn(&mut Drops) -> &mut u64| {
        *cause(drops) += 1;
        Verdict::Drop
    };
    let agent = from == From::Agent;
    if frame.len() < HEADERS || frame[14] >> 4 != 4 || frame[14] & 15 < 5 {
        return if agent { Verdict::Pass } else { dropped(|d| &mut d.malformed) };
    }
    let header: Header = Header(frame[ETHERNET..HEADERS].try_into().unwrap());
    let found =
        Place::ALL.into_iter().find_map(|place| table.get(&(from, header.key(place)?)).copied());
    let Some(flow) = found else {
        return match (agent, unmatched(table, own, &header, frame)) {
            (true, _) | (_, Unmatched::Pass) => Verdict::Pass,
            (_, Unmatched::Tell) => Verdict::Drop,
            (_, Unmatched::NoEntry) => dropped(|d| &mut d.no_entry),
            (_, Unmatched::Fragment) => dropped(|d| &mut d.fragment),
        };
    };
    if !header.is_sound(frame.len()) {
        return dropped(|d| &mut d.malformed);
    }
    if header.more_fragments() {
        return dropped(|d| &mut d.fragment);
    }
    let transit = !agent && flow.output != Output::Agent;
    let packet = &mut frame[ETHERNET..];
    // The reference reads lengths; the programs do not change padding.
    let total = header.total().clamp(28, packet.len());
    let written = with_length(&mut packet[..], total, |packet| {
        if transit && !rewrite::decrement_ttl(packet) {
            return false;
        }
        rewrite::rewrite(packet, flow.write)
    });
    if !written {
        return dropped(|d| &mut d.ttl);
    }
    // A packet that does not change is at its egress port already.
    if agent && flow.key.ports.place() == Place::Both && flow.key == flow.write {
        return Verdict::Pass;
    }
    if flow.output == Output::Agent { Verdict::Pass } else { Verdict::Redirect }
}

/// Runs `change` on a packet that claims to be `total` bytes long, and restores what it claims.
fn with_length(packet: &mut [u8], total: usize, change: impl Fn(&mut [u8]) -> bool) -> bool {
    let claimed: [u8; 2] = packet[2..4].try_into().unwrap();
    let end = packet.len();
    packet[2..4].copy_from_slice(&u16::try_from(end.max(total)).unwrap().to_be_bytes());
    let done = change(packet);
    packet[2..4].copy_from_slice(&claimed);
    done
}

fn unmatched(
    table: &Table,
    own: &BTreeMap<IpAddr, bool>,
    header: &Header,
    frame: &[u8],
) -> Unmatched {
    let Some(nat) = own.get(&header.destination()) else {
        let group = header.0[16] >= 224;
        return if group { Unmatched::Pass } else { Unmatched::NoEntry };
    };
    if is_about_switched(table, header, &frame[ETHERNET..]) {
        return Unmatched::Tell;
    }
    let ports = if header.has_ports() { [header.word(20), header.word(22)] } else { [0; 2] };
    let is_label = |port| Label::parse(port).is_some();
    let is_wide = |[from, to]: [u16; 2]| {
        wide::Layout::ALL.into_iter().any(|layout| wide::Label::parse(layout, from, to).is_ok())
    };
    let labelled = is_label(ports[1])
        || is_label(ports[0]) && (!nat || ports[1] >= 0x1000)
        || header.0[9] == protocol::UDP && is_wide(ports);
    match (labelled, header.more_fragments()) {
        (false, _) => Unmatched::Pass,
        (true, false) => Unmatched::NoEntry,
        (true, true) => Unmatched::Fragment,
    }
}

fn is_about_switched(table: &Table, header: &Header, packet: &[u8]) -> bool {
    if header.0[0] != 0x45 || packet.len() < 28 + 28 || packet[28] != 0x45 {
        return false;
    }
    // Total lengths are not checked.
    let mut bytes = packet.to_vec();
    for at in [0, 28] {
        let length = u16::try_from(packet.len() - at).unwrap();
        bytes[at + 2..at + 4].copy_from_slice(&length.to_be_bytes());
    }
    let Ok(error) = ip::Packet::parse(&bytes) else { return false };
    Place::ALL.into_iter().any(|place| {
        Tuple::of_reply_to_quoted(&error, place).is_some_and(|key| {
            key.destination == header.destination() && table.contains_key(&(From::Wan, key))
        })
    })
}

/// An arbitrary IPv4 header and eight bytes after it.
struct Header([u8; 28]);

impl Header {
    fn word(&self, at: usize) -> u16 {
        u16::from_be_bytes([self.0[at], self.0[at + 1]])
    }

    fn total(&self) -> usize {
        self.word(2).into()
    }

    fn more_fragments(&self) -> bool {
        self.word(6) & 0x2000 != 0
    }

    fn destination(&self) -> IpAddr {
        <[u8; 4]>::try_from(&self.0[16..20]).unwrap().into()
    }

    fn has_ports(&self) -> bool {
        let carried = matches!(self.0[9], protocol::TCP | protocol::UDP);
        carried && self.0[0] == 0x45 && self.word(6) << 3 == 0
    }

    fn key(&self, place: Place) -> Option<Tuple> {
        let source = <[u8; 4]>::try_from(&self.0[12..16]).unwrap().into();
        let has_both = place != Place::Both || self.0[9] == protocol::UDP;
        let ports = ports_of(place, self.word(20), self.word(22));
        let tuple = Tuple { source, destination: self.destination(), ports };
        (self.has_ports() && has_both).then_some(tuple)
    }

    fn is_sound(&self, frame: usize) -> bool {
        let sum = Sum::default().bytes(&self.0[..20]).finish();
        let least = if self.0[9] == protocol::TCP { 40 } else { 28 };
        sum == [0, 0] && (least..=frame - ETHERNET).contains(&self.total())
    }
}

/// Few values, so that packets match entries.
fn address() -> impl Strategy<Value = IpAddr> + Clone {
    (1..3_u8).prop_map(host)
}

fn host(number: u8) -> IpAddr {
    [198, 18, 77, number].into()
}

/// Addresses and both ports.
fn ends() -> impl Strategy<Value = (IpAddr, IpAddr, u16, u16)> {
    (address(), address(), label(), label())
}

fn ip_packet(
    (source, destination, from, to): (IpAddr, IpAddr, u16, u16),
    protocol: u8,
    payload: &[u8],
) -> Vec<u8> {
    let (IpAddr::V4(source), IpAddr::V4(destination)) = (source, destination) else {
        panic!("{source} {destination}");
    };
    let repr = ipv4::Repr { source, destination, protocol, ttl: 64 };
    let ports = [from, to].map(u16::to_be_bytes).concat();
    let mut bytes = repr.emit(ports.len() + payload.len()).unwrap().to_vec();
    bytes.extend(ports);
    bytes.extend_from_slice(payload);
    bytes
}

fn frame() -> impl Strategy<Value = Vec<u8>> {
    let protocols = prop_oneof![Just(protocol::TCP), Just(protocol::UDP), any::<u8>()];
    let payload = proptest::collection::vec(any::<u8>(), 16..80);
    let ttl = prop_oneof![Just(1_u8), Just(2), Just(64)];
    let fragment =
        prop_oneof![5 => Just(0_u16), 1 => Just(0x2000), 1 => Just(0x2001), 1 => Just(7)];
    let plain = (ends(), protocols, payload, ttl, fragment)
        .prop_map(|(ends, protocol, payload, ttl, fragment)| {
            let mut packet = ip_packet(ends, protocol, &payload);
            packet[6..8].copy_from_slice(&fragment.to_be_bytes());
            packet[8] = ttl;
            packet[10..12].fill(0);
            let sum = Sum::default().bytes(&packet[..20]).finish();
            packet[10..12].copy_from_slice(&sum);
            packet
        })
        .boxed();
    let error = (plain.clone(), address(), prop_oneof![Just(3_u8), Just(11), Just(0)]).prop_map(
        |(quoted, router, kind)| {
            let destination = <[u8; 4]>::try_from(&quoted[12..16]).unwrap().into();
            let IpAddr::V4(router) = router else { panic!("{router}") };
            let message = [&[kind, 4, 0, 0, 0, 0, 5, 120][..], &quoted].concat();
            let (protocol, ttl) = (protocol::ICMP, 64);
            let repr = ipv4::Repr { source: router, destination, protocol, ttl };
            [&repr.emit(message.len()).unwrap()[..], &message].concat()
        },
    );
    let damage = proptest::collection::vec((0..90_usize, any::<u8>()), 0..3);
    (prop_oneof![3 => plain, 1 => error], damage, 0..8_usize, 0..30_u8).prop_map(
        |(packet, damage, cut, whole)| {
            let mut frame = [&[0; 12][..], &[8, 0], &packet].concat();
            for (at, value) in damage.into_iter().filter(|_| whole < 12) {
                if let Some(byte) = frame.get_mut(at).filter(|_| at >= 12) {
                    *byte = value;
                }
            }
            // BPF_PROG_RUN takes no IP packet without its whole header
            let cut = if whole < 3 { cut * 4 } else { 0 };
            frame.truncate((frame.len() - cut).max(ETHERNET + 20));
            frame
        },
    )
}

#[test]
fn programs_do_what_the_reference_does() {
    let flows = flow(address(), LOCALHOST);
    let Some(seen) = compare(flows, frame(), host(1), reference) else { return };
    assert_eq!(seen.len(), 7, "passed, redirected, told, and dropped for four causes: {seen:?}");
    assert!(seen.values().all(|times| *times >= 20), "each often enough: {seen:?}");
}

#[test]
fn random_frames_go_nowhere() {
    let Some(mut switch) = switch() else { return };
    switch.set_own(&[(host(1), false)].into()).unwrap();
    let mut state = 0x9e37_79b9_7f4a_7c15_u64;
    let mut random = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state
    };
    let mut frame = [0; 80];
    frame[12..14].copy_from_slice(&[8, 0]);
    let count = 1_000_000;
    for _ in 0..count {
        for chunk in frame[14..].chunks_mut(8) {
            chunk.copy_from_slice(&random().to_le_bytes()[..chunk.len()]);
        }
        frame[30] &= 0x7f; // neither group nor broadcast
        let outcome = switch.run(From::Wan, &frame).unwrap();
        assert_eq!(outcome.verdict, Verdict::Drop, "{frame:02x?}");
    }
    let drops = switch.drops().unwrap();
    assert_eq!(drops.no_entry + drops.malformed, count);
}

#[test]
fn a_full_table_loads_fast() {
    let Some(mut switch) = switch() else { return };
    let next_hop = host(9);
    // 15 branches, 16 groups, 16 paths, both directions
    let flows: Vec<_> = (0..15 * 16 * 16 * 2_u32)
        .map(|n| {
            let tuple = Tuple {
                source: (0xc612_0000 + n / 512).to_be_bytes().into(),
                destination: next_hop,
                ports: Ports::Destination(u16::try_from(n % 512).unwrap()),
            };
            Flow {
                from: From::Wan,
                key: tuple,
                write: tuple,
                output: Output::Port { interface: LOOPBACK, next_hop, priority: 0 },
                count: n,
            }
        })
        .collect();
    let start = std::time::Instant::now();
    switch.install(&flows).unwrap();
    let took = start.elapsed();
    assert!(took.as_secs_f64() < 1.0, "{took:?}");
}

#[test]
fn entries_are_counted_and_replaced() {
    let Some(mut switch) = switch() else { return };
    let tuple =
        |port| Tuple { source: host(2), destination: host(1), ports: Ports::Destination(port) };
    let flow = |write| Flow {
        from: From::Wan,
        key: tuple(0x2114),
        write: tuple(write),
        output: Output::Port { interface: LOOPBACK, next_hop: LOCALHOST, priority: 0x10001 },
        count: 7,
    };
    let Tuple { source, destination, .. } = tuple(0);
    let packet = ip_packet((source, destination, 9, 0x2114), protocol::UDP, &[0; 16]);
    let frame = [&[0; 12][..], &[8, 0], &packet].concat();
    for (times, write) in [(1, 0x2004), (2, 0x2005)] {
        switch.install(&[flow(write)]).unwrap();
        let outcome = switch.run(From::Wan, &frame).unwrap();
        assert_eq!((outcome.verdict, outcome.priority), (Verdict::Redirect, 0x10001));
        assert_eq!(outcome.bytes[36..38], write.to_be_bytes());
        let count = switch.count(7).unwrap();
        assert_eq!((count.packets, count.bytes), (times, times * packet.len() as u64));
    }
    switch.clear(7).unwrap();
    assert_eq!(switch.count(7).unwrap().packets, 0);
    switch.install(&[]).unwrap();
    assert_eq!(switch.run(From::Wan, &frame).unwrap().verdict, Verdict::Drop);
}

#[test]
fn a_wide_label_is_both_ports_of_udp_and_stays() {
    for layout in wide::Layout::ALL {
        let Some(mut switch) = switch() else { return };
        let label = wide::Label::new(layout, 700, 20, layout.member_max(), 30).unwrap();
        check_wide_label(&mut switch, label.ports(wide::Direction::Forward));
        // With 5 low bits ten bits are not enough to tell these branches apart, and the ports, 0x66c1 and
        // 0x66fe, are no narrow labels.
        let neighbours = wide::Label::new(layout, 695, 694, 1, 30).unwrap();
        check_wide_label(&mut switch, neighbours.ports(wide::Direction::Forward));
    }
}

fn check_wide_label(switch: &mut Switch, (from, to): (u16, u16)) {
    let dropped = switch.drops().unwrap().no_entry;
    let [here, there, next] = [1, 2, 3].map(host);
    switch.set_own(&[(here, true)].into()).unwrap();
    let ports = Ports::Both { source: from, destination: to };
    let next_hop = LOCALHOST;
    let flow = Flow {
        from: From::Wan,
        key: Tuple { source: there, destination: here, ports },
        write: Tuple { source: here, destination: next, ports },
        output: Output::Port { interface: LOOPBACK, next_hop, priority: 0 },
        count: 1,
    };
    // On a direct path the agent's packet does not change: redirected to its port, it would match again.
    let direct = Tuple { source: here, destination: there, ports };
    let direct = Flow { from: From::Agent, key: direct, write: direct, count: 2, ..flow };
    switch.install(&[flow, direct]).unwrap();
    let packet = ip_packet((here, there, from, to), protocol::UDP, &[0; 16]);
    let sent = [&[0; 12][..], &[8, 0], &packet].concat();
    let outcome = switch.run(From::Agent, &sent).unwrap();
    assert_eq!((outcome.verdict, outcome.bytes), (Verdict::Pass, sent));
    assert_eq!(switch.count(2).unwrap().packets, 1);
    switch.clear(2).unwrap();
    let frame = |from, to, protocol| {
        let packet = ip_packet((there, here, from, to), protocol, &[0; 16]);
        [&[0; 12][..], &[8, 0], &packet].concat()
    };
    let outcome = switch.run(From::Wan, &frame(from, to, protocol::UDP)).unwrap();
    assert_eq!(outcome.verdict, Verdict::Redirect);
    assert_eq!(outcome.bytes[26..34], [198, 18, 77, 1, 198, 18, 77, 3]);
    assert_eq!(outcome.bytes[34..38], [from.to_be_bytes(), to.to_be_bytes()].concat());
    // Unknown labels: of another member path, of the other direction.
    for (from, to) in [(from + 1, to), (to, from)] {
        let outcome = switch.run(From::Wan, &frame(from, to, protocol::UDP)).unwrap();
        assert_eq!(outcome.verdict, Verdict::Drop);
    }
    assert_eq!(switch.drops().unwrap().no_entry, dropped + 2);
    // No label: both ports of one branch, or a port that NAT may have chosen.
    for (from, to) in [(4096, 4097), (from, 4095)] {
        let outcome = switch.run(From::Wan, &frame(from, to, protocol::UDP)).unwrap();
        assert_eq!(outcome.verdict, Verdict::Pass, "{from} {to}");
    }
}
