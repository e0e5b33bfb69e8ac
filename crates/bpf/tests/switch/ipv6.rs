//! IPv6.

use std::{
    collections::BTreeMap,
    net::{IpAddr, Ipv6Addr},
};

use hawser_bpf::switch::{Drops, Flow, From, Output, Switch, Verdict};
use hawser_wire::{
    checksum::Sum,
    icmpv6::{self, ICMPV6},
    ip,
    ipv4::protocol::{TCP, UDP},
    ipv6::{self, HEADER_LEN},
    label::{Label, wide},
    rewrite::{self, Place, Ports, Tuple},
};
use proptest::prelude::*;

use super::{
    ETHERNET, LOOPBACK, Table, Unmatched, compare, difference, flow, label, ports_of, switch,
};

/// Length of the parsed headers: Ethernet, IPv6, UDP.
const HEADERS: usize = ETHERNET + HEADER_LEN + 8;
/// A next hop is often a link-local address (RFC 4861).
const NEXT_HOP: Ipv6Addr = Ipv6Addr::new(0xfe80, 0, 0, 0, 0, 0, 0, 1);

/// Reference: what the switch does with a frame of IPv6 from `from`, if there are entries of IPv6.
fn reference(
    table: &Table,
    own: &BTreeMap<IpAddr, bool>,
    from: From,
    frame: &[u8],
) -> (Verdict, Vec<u8>, Drops) {
    let mut frame = frame.to_vec();
    let mut drops = Drops::default();
    let verdict = if table.is_empty() {
        Verdict::Pass
    } else {
        decide(table, own, from, &mut frame, &mut drops)
    };
    (verdict, frame, drops)
}

fn decide(
    table: &Table,
    own: &BTreeMap<IpAddr, bool>,
    from: From,
    frame: &mut [u8],
    drops: &mut Drops,
) -> Verdict {
    let mut dropped = |cause: fn(&mut Drops) -> &mut u64| {
        *cause(drops) += 1;
        Verdict::Drop
    };
    let agent = from == From::Agent;
    if frame.len() < HEADERS || frame[ETHERNET] >> 4 != 6 {
        return if agent { Verdict::Pass } else { dropped(|d| &mut d.malformed) };
    }
    let header = Header(frame[ETHERNET..HEADERS].try_into().unwrap());
    let found =
        Place::ALL.into_iter().find_map(|place| table.get(&(from, header.key(place)?)).copied());
    let Some(flow) = found else {
        return match (agent, unmatched(table, own, &header, &frame[ETHERNET..])) {
            (true, _) | (_, Unmatched::Pass) => Verdict::Pass,
            (_, Unmatched::Tell) => Verdict::Drop,
            (_, Unmatched::NoEntry | Unmatched::Fragment) => dropped(|d| &mut d.no_entry),
        };
    };
    if !header.is_sound(frame.len()) {
        return dropped(|d| &mut d.malformed);
    }
    let transit = !agent && flow.output != Output::Agent;
    let packet = &mut frame[ETHERNET..];
    if transit && !rewrite::decrement_ttl(packet) {
        return dropped(|d| &mut d.ttl);
    }
    let end = HEADER_LEN + header.payload_len(); // behind it there may be padding
    assert!(rewrite::rewrite(&mut packet[..end], flow.write));
    // A packet that does not change is at its egress port already.
    if agent && flow.key.ports.place() == Place::Both && flow.key == flow.write {
        return Verdict::Pass;
    }
    if flow.output == Output::Agent { Verdict::Pass } else { Verdict::Redirect }
}

fn unmatched(
    table: &Table,
    own: &BTreeMap<IpAddr, bool>,
    header: &Header,
    packet: &[u8],
) -> Unmatched {
    let Some(nat) = own.get(&header.destination()) else {
        let discovery =
            header.0[6] == ICMPV6 && (133..=137).contains(&header.0[40]) && header.0[7] == 255;
        let passes = header.0[24] == 0xff || discovery;
        return if passes { Unmatched::Pass } else { Unmatched::NoEntry };
    };
    if is_about_switched(table, header, packet) {
        return Unmatched::Tell;
    }
    let ports = if header.has_ports() { [header.word(40), header.word(42)] } else { [0; 2] };
    let is_wide = |[from, to]: [u16; 2]| {
        wide::Layout::ALL.into_iter().any(|layout| wide::Label::parse(layout, from, to).is_ok())
    };
    let is_label = |port| Label::parse(port).is_some();
    let labelled = is_label(ports[1])
        || is_label(ports[0]) && (!nat || ports[1] >= 0x1000)
        || header.0[6] == UDP && is_wide(ports);
    if labelled { Unmatched::NoEntry } else { Unmatched::Pass }
}

fn is_about_switched(table: &Table, header: &Header, packet: &[u8]) -> bool {
    if packet.len() < 2 * HEADER_LEN + 16 || packet[HEADER_LEN + 8] >> 4 != 6 {
        return false;
    }
    // Lengths are not checked.
    let mut bytes = packet.to_vec();
    for at in [0, HEADER_LEN + 8] {
        let length = u16::try_from(packet.len() - at - HEADER_LEN).unwrap();
        bytes[at + 4..at + 6].copy_from_slice(&length.to_be_bytes());
    }
    let Ok(error) = ip::Packet::parse(&bytes) else { return false };
    Place::ALL.into_iter().any(|place| {
        Tuple::of_reply_to_quoted(&error, place).is_some_and(|key| {
            key.destination == header.destination() && table.contains_key(&(From::Wan, key))
        })
    })
}

/// An arbitrary IPv6 header and eight bytes after it.
struct Header([u8; HEADER_LEN + 8]);

impl Header {
    fn word(&self, at: usize) -> u16 {
        u16::from_be_bytes([self.0[at], self.0[at + 1]])
    }

    fn payload_len(&self) -> usize {
        self.word(4).into()
    }

    fn destination(&self) -> IpAddr {
        <[u8; 16]>::try_from(&self.0[24..40]).unwrap().into()
    }

    fn has_ports(&self) -> bool {
        matches!(self.0[6], TCP | UDP)
    }

    fn key(&self, place: Place) -> Option<Tuple> {
        let source = <[u8; 16]>::try_from(&self.0[8..24]).unwrap().into();
        let has_both = place != Place::Both || self.0[6] == UDP;
        let ports = ports_of(place, self.word(40), self.word(42));
        let tuple = Tuple { source, destination: self.destination(), ports };
        (self.has_ports() && has_both).then_some(tuple)
    }

    fn is_sound(&self, frame: usize) -> bool {
        let (least, has_sum) = if self.0[6] == TCP { (20, true) } else { (8, self.word(46) != 0) };
        has_sum && (least..=frame - ETHERNET - HEADER_LEN).contains(&self.payload_len())
    }
}

fn host(number: u8) -> IpAddr {
    IpAddr::from([0x2001, 0xdb8, 0x1234, 0xff00, 0xfedc, 0xba98, 0x7654, number.into()])
}

/// Few values, so that packets match entries.
fn address() -> impl Strategy<Value = IpAddr> + Clone {
    (1..3_u8).prop_map(host)
}

fn ip_packet(source: IpAddr, destination: IpAddr, next_header: u8, payload: &[u8]) -> Vec<u8> {
    let (IpAddr::V6(source), IpAddr::V6(destination)) = (source, destination) else {
        panic!("{source} {destination}");
    };
    let repr = ipv6::Repr { source, destination, next_header, hop_limit: 64 };
    [&repr.emit(payload.len()).unwrap()[..], payload].concat()
}

fn framed(packet: &[u8]) -> Vec<u8> {
    [&[0; 12][..], &[0x86, 0xdd], packet].concat()
}

fn frame() -> impl Strategy<Value = Vec<u8>> {
    let next_headers = prop_oneof![4 => Just(TCP), 4 => Just(UDP), 1 => Just(44), 2 => any::<u8>()];
    let payload = proptest::collection::vec(any::<u8>(), 16..80);
    let limit = prop_oneof![Just(1_u8), Just(2), Just(64)];
    let plain = (address(), address(), label(), label(), next_headers, payload, limit)
        .prop_map(|(source, destination, from, to, next_header, payload, limit)| {
            let ports = [from, to].map(u16::to_be_bytes).concat();
            let mut packet =
                ip_packet(source, destination, next_header, &[ports, payload].concat());
            packet[7] = limit;
            packet
        })
        .boxed();
    let kind = prop_oneof![1..5_u8, Just(0_u8), Just(128)];
    let error = (plain.clone(), address(), kind).prop_map(|(quoted, router, kind)| {
        let destination = <[u8; 16]>::try_from(&quoted[8..24]).unwrap().into();
        ip_packet(
            router,
            destination,
            ICMPV6,
            &[&[kind, 0, 0, 0, 0, 0, 5, 120][..], &quoted].concat(),
        )
    });
    let group = IpAddr::from([0xff02, 0, 0, 0, 0, 0, 0, 1]);
    let discovery = (130..140_u8, prop_oneof![Just(host(2)), Just(group)], any::<bool>()).prop_map(
        |(kind, to, far)| {
            let mut packet = ip_packet(host(2), to, ICMPV6, &[&[kind][..], &[0; 23]].concat());
            packet[7] = if far { 254 } else { 255 };
            packet
        },
    );
    let damage = proptest::collection::vec((0..110_usize, any::<u8>()), 0..3);
    (prop_oneof![4 => plain, 2 => error, 1 => discovery], damage, 0..8_usize, 0..30_u8).prop_map(
        |(packet, damage, cut, whole)| {
            let mut frame = framed(&packet);
            for (at, value) in damage.into_iter().filter(|_| whole < 12) {
                if let Some(byte) = frame.get_mut(at).filter(|_| at >= ETHERNET) {
                    *byte = value;
                }
            }
            // BPF_PROG_RUN takes no IP packet without its whole header
            let cut = if whole < 3 { cut * 4 } else { 0 };
            frame.truncate((frame.len() - cut).max(ETHERNET + HEADER_LEN));
            frame
        },
    )
}

#[test]
fn programs_do_what_the_reference_does() {
    let flows = flow(address(), NEXT_HOP.into());
    let Some(seen) = compare(flows, frame(), host(1), reference) else { return };
    assert_eq!(seen.len(), 6, "passed, redirected, told, and dropped for three causes: {seen:?}");
    assert!(seen.values().all(|times| *times >= 20), "each often enough: {seen:?}");
}

/// A switch with one entry of transit, and one by which the packets of `from` reach the agent.
fn with_entries(ports: Ports, write: Ports) -> Option<Switch> {
    let mut switch = switch()?;
    let [here, there, next] = [1, 2, 3].map(host);
    let output = Output::Port { interface: LOOPBACK, next_hop: NEXT_HOP.into(), priority: 0x10001 };
    let transit = Flow {
        from: From::Wan,
        key: Tuple { source: there, destination: here, ports },
        write: Tuple { source: here, destination: next, ports: write },
        output,
        count: 7,
    };
    let key = Tuple { source: next, destination: here, ports };
    let home = Flow { key, write: transit.key, output: Output::Agent, count: 8, ..transit };
    switch.set_own(&[(here, true)].into()).unwrap();
    switch.install(&[transit, home]).unwrap();
    Some(switch)
}

/// A packet with a right checksum.
fn summed(source: u8, next_header: u8, (from, to): (u16, u16)) -> Vec<u8> {
    let (mut payload, sum_at) = (vec![7; 40], if next_header == TCP { 16 } else { 6 });
    payload[..2].copy_from_slice(&from.to_be_bytes());
    payload[2..4].copy_from_slice(&to.to_be_bytes());
    payload[4..6].copy_from_slice(&[0, 40]);
    payload[sum_at..sum_at + 2].fill(0);
    let packet = ip_packet(host(source), host(1), next_header, &payload);
    let sum = sum_of(&packet);
    payload[sum_at..sum_at + 2].copy_from_slice(&sum);
    ip_packet(host(source), host(1), next_header, &payload)
}

/// The checksum of a TCP or UDP packet: zero if it is right.
fn sum_of(packet: &[u8]) -> [u8; 2] {
    let sum = Sum::default().bytes(&packet[8..40]).word(packet[6].into()).bytes(&packet[4..6]);
    sum.bytes(&packet[40..]).finish()
}

#[test]
fn a_narrow_label_is_rewritten_and_counted() {
    let (ports, write) = (Ports::Destination(0x2114), Ports::Destination(0x2004));
    let Some(switch) = with_entries(ports, write) else { return };
    for (n, next_header) in (1..).zip([TCP, UDP]) {
        let packet = summed(2, next_header, (9, 0x2114));
        let outcome = switch.run(From::Wan, &framed(&packet)).unwrap();
        assert_eq!((outcome.verdict, outcome.priority), (Verdict::Redirect, 0x10001));
        let sent = &outcome.bytes[ETHERNET..];
        let key = Tuple { source: host(1), destination: host(3), ports: write };
        assert_eq!(Tuple::of(&ip::Packet::parse(sent).unwrap(), Place::Destination), Some(key));
        assert_eq!((sent[7], sum_of(sent)), (63, [0, 0]));
        let count = switch.count(7).unwrap();
        assert_eq!((count.packets, count.bytes), (n, n * packet.len() as u64));
    }
    let packet = summed(3, TCP, (9, 0x2114));
    let outcome = switch.run(From::Wan, &framed(&packet)).unwrap();
    let home = &outcome.bytes[ETHERNET..];
    assert_eq!(outcome.verdict, Verdict::Pass);
    assert_eq!((home[7], sum_of(home)), (64, [0, 0]), "not forwarded");
}

#[test]
fn a_wide_label_is_both_ports_of_udp_and_stays() {
    let (from, to) = (0x1041, 0x1084);
    let ports = Ports::Both { source: from, destination: to };
    let Some(switch) = with_entries(ports, ports) else { return };
    let outcome = switch.run(From::Wan, &framed(&summed(2, UDP, (from, to)))).unwrap();
    assert_eq!(outcome.verdict, Verdict::Redirect);
    let sent = &outcome.bytes[ETHERNET..];
    assert_eq!((&sent[40..44], sum_of(sent)), (&[0x10, 0x41, 0x10, 0x84][..], [0, 0]));
    for ports in [(from, to + 0x40), (to, from)] {
        let outcome = switch.run(From::Wan, &framed(&summed(2, UDP, ports))).unwrap();
        assert_eq!(outcome.verdict, Verdict::Drop, "an unknown label");
    }
    assert_eq!(switch.drops().unwrap().no_entry, 2);
    for ports in [(4096, 4097), (from, 4095)] {
        let outcome = switch.run(From::Wan, &framed(&summed(2, UDP, ports))).unwrap();
        assert_eq!(outcome.verdict, Verdict::Pass, "no label: {ports:x?}");
    }
}

#[test]
fn what_may_not_be_forwarded_is_dropped_by_cause() {
    let ports = Ports::Destination(0x2114);
    let Some(switch) = with_entries(ports, ports) else { return };
    let good = summed(2, UDP, (9, 0x2114));
    let run = |change: &dyn Fn(&mut Vec<u8>)| {
        let mut packet = good.clone();
        change(&mut packet);
        let before = switch.drops().unwrap();
        let outcome = switch.run(From::Wan, &framed(&packet)).unwrap();
        (outcome.verdict, difference(before, switch.drops().unwrap()))
    };
    let dropped = |drops| (Verdict::Drop, drops);
    assert_eq!(run(&|_| {}).0, Verdict::Redirect);
    assert_eq!(run(&|p| p[7] = 1), dropped(Drops { ttl: 1, ..Drops::default() }));
    let malformed = Drops { malformed: 1, ..Drops::default() };
    assert_eq!(run(&|p| p[46..48].fill(0)), dropped(malformed), "no checksum");
    assert_eq!(run(&|p| p[5] = 41), dropped(malformed), "longer than the frame");
    assert_eq!(run(&|p| p[5] = 7), dropped(malformed), "shorter than a header");
    assert_eq!(run(&|p| p[0] = 0x40), dropped(malformed), "another version");
    let no_entry = Drops { no_entry: 1, ..Drops::default() };
    assert_eq!(run(&|p| p[43] = 0x15), dropped(no_entry), "a label without entry");
    assert_eq!(run(&|p| p[39] = 9), dropped(no_entry), "for another host");
    assert_eq!(
        run(&|p| p[6] = 44).0,
        Verdict::Pass,
        "a fragment has no ports, and is for this host"
    );
}

#[test]
fn discovery_multicast_and_own_addresses_pass() {
    let ports = Ports::Destination(0x2114);
    let Some(switch) = with_entries(ports, ports) else { return };
    let run = |to: IpAddr, kind: u8, limit: u8| {
        let mut packet = ip_packet(host(2), to, ICMPV6, &[&[kind][..], &[0; 23]].concat());
        packet[7] = limit;
        switch.run(From::Wan, &framed(&packet)).unwrap().verdict
    };
    let groups = [[0xff02, 0, 0, 0, 0, 0, 0, 1], [0xff02, 0, 0, 0, 0, 1, 0xff00, 1]];
    for kind in 133..=137 {
        assert_eq!(run(host(8), kind, 255), Verdict::Pass, "{kind}");
        assert_eq!(run(host(8), kind, 254), Verdict::Drop, "{kind} from another link");
    }
    for group in groups.map(IpAddr::from) {
        for kind in [130, 131, 132, 143, 135, 136] {
            assert_eq!(run(group, kind, 1), Verdict::Pass, "{kind}");
        }
    }
    assert_eq!(run(host(1), 128, 64), Verdict::Pass, "an echo request");
    assert_eq!(run(host(8), 128, 64), Verdict::Drop, "an echo request for another host");
}

#[test]
fn errors_about_switched_packets_are_reported_whole() {
    let ports = Ports::Destination(0x2114);
    let Some(mut switch) = with_entries(ports, ports) else { return };
    let mut events = switch.take_events().unwrap();
    // Sent from here to the second host in the other direction, and quoted to 1280 bytes.
    let quoted = [&ip_packet(host(1), host(2), TCP, &[0x21, 0x14, 0, 9])[..], &[0; 1188]].concat();
    let message = [&[2, 0, 0, 0, 0, 0, 5, 0][..], &quoted].concat();
    let mut packet = ip_packet(host(5), host(1), ICMPV6, &message);
    assert_eq!(packet.len(), 1280);
    let (IpAddr::V6(from), IpAddr::V6(to)) = (host(5), host(1)) else { return };
    packet[42..44].copy_from_slice(&icmpv6::checksum(from, to, &message));
    let run = |packet: &[u8]| switch.run(From::Wan, &framed(packet)).unwrap().verdict;
    assert_eq!(run(&packet), Verdict::Drop);
    let reported = events.next(|event| match event {
        hawser_bpf::switch::Event::IcmpError { packet: found } => found == packet,
        hawser_bpf::switch::Event::TooBig { .. } => false,
    });
    assert_eq!(reported, Some(true));
    packet[40] = 128; // no error
    assert_eq!(run(&packet), Verdict::Pass);
    packet[40] = 1;
    packet[89] = 0x24; // of another path
    assert_eq!(run(&packet), Verdict::Pass);
    assert_eq!(switch.drops().unwrap(), Drops::default());
}

#[test]
fn without_entries_of_ipv6_it_is_left_to_the_kernel() {
    let ports = Ports::Destination(0x2114);
    let Some(mut switch) = with_entries(ports, ports) else { return };
    let packet = framed(&ip_packet(host(2), host(9), UDP, &[0; 40]));
    assert_eq!(switch.run(From::Wan, &packet).unwrap().verdict, Verdict::Drop);
    switch.install(&[]).unwrap();
    assert_eq!(switch.run(From::Wan, &packet).unwrap().verdict, Verdict::Pass);
}

#[test]
fn an_entry_has_addresses_of_one_version() {
    let Some(mut switch) = switch() else { return };
    let tuple = |source| Tuple { source, destination: host(1), ports: Ports::Source(1) };
    let (four, six) = (IpAddr::from([198, 18, 77, 1]), host(2));
    let flow = |key, write| Flow {
        from: From::Wan,
        key: tuple(key),
        write: tuple(write),
        output: Output::Agent,
        count: 0,
    };
    for mixed in [flow(four, six), flow(six, four), flow(four, four)] {
        assert!(switch.install(&[mixed]).is_err());
    }
}
