//! The SRv6 proxies compared with a reference in Rust, on random headers and frames (`BPF_PROG_RUN`).
//!
//! There is no port to redirect to, so a frame that the program sends counts as `failed`.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing)] // a failure is a panic

#[macro_use]
mod common;

use std::net::Ipv6Addr;

use hawser_bpf::srv6::{Behaviour, NextHop, Proxies, Proxy, Verdict};
use hawser_wire::{
    ethernet::{self, ethertype},
    ipv4, ipv6,
    srh::{self, Hmac},
};
use proptest::{prelude::*, test_runner::TestRunner};

const LOOPBACK: u32 = 1;
const OWN: [u8; 6] = [2, 0, 0, 0, 0, 1];
const FUNCTION: [u8; 6] = [2, 0, 0, 0, 0, 2];
const ONWARD: [u8; 6] = [2, 0, 0, 0, 0, 3];
const BEFORE: [u8; 6] = [2, 0, 0, 0, 0, 4];
const FRAME_MAX: u32 = 1514;
const OUTER: usize = 14;
const IPIP: u8 = 4;
const IPV6: u8 = 41;
const UDP: u8 = 17;

fn ours() -> Ipv6Addr {
    "5f00::1".parse().unwrap()
}

fn elsewhere(number: u16) -> Ipv6Addr {
    Ipv6Addr::new(0x5f00, 0, 0, 0, 0, 0, 9, number)
}

fn source() -> Ipv6Addr {
    "fd00::1".parse().unwrap()
}

fn framed(destination: [u8; 6], source: [u8; 6], protocol: u8, packet: &[u8]) -> Vec<u8> {
    let ethertype = if protocol == IPIP { ethertype::IPV4 } else { ethertype::IPV6 };
    let head = ethernet::Repr { source, destination, tags: Vec::new(), ethertype }.emit();
    [&head, packet].concat()
}

/// An IPv4 (4) or IPv6 (41) packet.
fn carried(protocol: u8, length: usize) -> Vec<u8> {
    let payload = vec![7; length];
    if protocol == IPIP {
        let (source, destination) = ([10, 1, 0, 1].into(), [10, 2, 0, 1].into());
        let repr = ipv4::Repr { source, destination, protocol: UDP, ttl: 64 };
        return [&repr.emit(length).unwrap()[..], &payload].concat();
    }
    plain6("fd01::1".parse().unwrap(), "fd02::1".parse().unwrap(), 64, UDP, &payload)
}

fn plain6(from: Ipv6Addr, to: Ipv6Addr, hop_limit: u8, next_header: u8, payload: &[u8]) -> Vec<u8> {
    let repr = ipv6::Repr { source: from, destination: to, next_header, hop_limit };
    [&repr.emit(payload.len()).unwrap()[..], payload].concat()
}

/// Outer headers: an IPv6 header to `to`, and a segment routing header.
#[derive(Clone, Debug, PartialEq)]
struct Headers {
    to: Ipv6Addr,
    hop_limit: u8,
    srh: srh::Repr,
}

impl Headers {
    fn packet(&self, inside: &[u8]) -> Vec<u8> {
        let payload = [&self.srh.emit().unwrap()[..], inside].concat();
        plain6(source(), self.to, self.hop_limit, srh::NEXT_HEADER, &payload)
    }

    /// Advances to the next segment, as an endpoint does (RFC 8986 section 4.1).
    fn advanced(&self) -> Result<Self, &'static str> {
        let bytes = self.srh.emit().unwrap();
        let to = srh::Header::parse(&bytes).unwrap().next_segment().ok_or("segments_left")?;
        if self.hop_limit <= 1 {
            return Err("hop_limit");
        }
        let segments_left = self.srh.segments_left - 1;
        let srh = srh::Repr { segments_left, ..self.srh.clone() };
        Ok(Self { to, hop_limit: self.hop_limit - 1, srh })
    }

    fn length(&self) -> usize {
        ipv6::HEADER_LEN + self.srh.emit().unwrap().len()
    }
}

prop_compose! {
    fn headers()(
        hop_limit in prop_oneof![0..3_u8, Just(64_u8)],
        left in 0..=9_u8,
        count in 1..=12_u16,
        flags: u8,
        tag: u16,
        hmac in prop::option::weighted(0.2, Just(())),
        next_header in prop_oneof![4 => Just(IPIP), 4 => Just(IPV6), 1 => Just(UDP)],
    ) -> Headers {
        let segments: Vec<_> = (0..count).map(elsewhere).collect();
        let segments_left = left.min(u8::try_from(segments.len()).unwrap());
        let hmac = hmac.map(|()| Hmac { any_destination: true, key_id: 7, value: vec![1; 8] });
        let srh = srh::Repr { next_header, segments_left, flags, tag, segments, hmac };
        Headers { to: ours(), hop_limit, srh }
    }
}

fn next_hop(mac: [u8; 6]) -> NextHop {
    NextHop { port: 0, frame_max: FRAME_MAX, mac, own_mac: OWN }
}

fn proxies(behaviour: Behaviour) -> Proxies {
    let mut proxies = Proxies::load().expect("this machine loads eBPF programs, as root");
    let (function, onward) = (next_hop(FUNCTION), next_hop(ONWARD));
    let (segment, returns) = (ours(), LOOPBACK);
    let proxy = Proxy { segment, behaviour, function, returns, returns_trusted: true, onward };
    proxies.add(3, &proxy).unwrap();
    proxies
}

/// The headers that End.AS adds: three segments, the first of which is next; one more for IPv6.
fn configured(next_header: u8) -> Headers {
    let segments = (20..23 + u16::from(next_header == IPV6)).map(elsewhere).collect();
    Headers {
        to: elsewhere(20),
        hop_limit: 60,
        srh: srh::Repr::at_source(next_header, segments).unwrap(),
    }
}

fn fixed() -> Proxies {
    let headers = [IPIP, IPV6].map(|protocol| configured(protocol).packet(&[]));
    proxies(Behaviour::Static { headers })
}

/// The verdict, the frame after the run, and the cause it is counted as; `sent` if it goes to a port.
fn outcome(proxies: &Proxies, frame: &[u8]) -> (Verdict, Vec<u8>, &'static str) {
    let before = proxies.drops().unwrap();
    let (verdict, bytes) = proxies.run(frame).unwrap();
    let after = proxies.drops().unwrap();
    let changed = before.iter().zip(after.iter()).find(|(old, new)| old.1 != new.1);
    let cause = changed.map_or("", |(_, (name, _))| name);
    (verdict, bytes, if cause == "failed" { "sent" } else { cause })
}

fn cause(proxies: &Proxies, frame: &[u8]) -> &'static str {
    outcome(proxies, frame).2
}

fn incoming(headers: &Headers, inside: &[u8]) -> Vec<u8> {
    framed(OWN, BEFORE, IPV6, &headers.packet(inside))
}

fn returning(protocol: u8, packet: &[u8]) -> Vec<u8> {
    framed(OWN, FUNCTION, protocol, packet)
}

/// An inner packet of the protocol that the headers announce, IPv6 if that is not IP.
fn inside(headers: &Headers, length: usize) -> Vec<u8> {
    carried(if headers.srh.next_header == IPIP { IPIP } else { IPV6 }, length)
}

/// Reference: what a proxy that removes headers does with a packet.
fn stripped(headers: &Headers, learns: bool) -> Result<Option<Headers>, &'static str> {
    let next = if learns {
        Some(headers.advanced()?)
    } else if headers.hop_limit <= 1 {
        return Err("hop_limit");
    } else {
        None
    };
    match headers.srh.next_header {
        IPIP | IPV6 if learns && headers.length() > hawser_bpf::srv6::HEADERS_MAX => {
            Err("too_long")
        }
        IPIP | IPV6 => Ok(next),
        _ => Err("payload"),
    }
}

#[test]
fn end_as_takes_headers_off_and_puts_configured_ones_on() {
    needs_root!();
    let proxies = fixed();
    let run = |(headers, length): (Headers, usize)| {
        let packet = inside(&headers, length);
        let (_, after, cause) = outcome(&proxies, &incoming(&headers, &packet));
        let protocol = headers.srh.next_header;
        if let Err(expected) = stripped(&headers, false) {
            prop_assert_eq!(cause, expected);
            return Ok(());
        }
        prop_assert_eq!((cause, &after), ("sent", &framed(FUNCTION, OWN, protocol, &packet)));
        let (_, after, cause) = outcome(&proxies, &returning(protocol, &packet));
        let expected = framed(ONWARD, OWN, IPV6, &configured(protocol).packet(&packet));
        prop_assert_eq!((cause, after), ("sent", expected));
        Ok(())
    };
    TestRunner::default().run(&(headers(), 0..300_usize), run).unwrap();
}

#[test]
fn end_as_takes_packets_without_a_segment_list() {
    needs_root!();
    let proxies = fixed();
    for protocol in [IPIP, IPV6] {
        let packet = carried(protocol, 20);
        let bare = plain6(source(), ours(), 64, protocol, &packet);
        let (_, after, cause) = outcome(&proxies, &framed(OWN, BEFORE, IPV6, &bare));
        assert_eq!((cause, after), ("sent", framed(FUNCTION, OWN, protocol, &packet)));
    }
}

#[test]
fn end_ad_puts_on_what_it_saw_last() {
    needs_root!();
    let proxies = proxies(Behaviour::Dynamic);
    let mut known = [None, None];
    let mut kept = 0;
    let run = |(headers, length, again): (Headers, usize, bool)| {
        let packet = inside(&headers, length);
        let protocol = headers.srh.next_header;
        let family = usize::from(protocol != IPIP);
        let frame = incoming(&headers, &packet);
        for _ in 0..=u8::from(again) {
            let (_, after, cause) = outcome(&proxies, &frame);
            match stripped(&headers, true) {
                Err(expected) => prop_assert_eq!(cause, expected),
                Ok(next) => {
                    prop_assert_eq!(
                        (cause, &after),
                        ("sent", &framed(FUNCTION, OWN, protocol, &packet))
                    );
                    known[family] = next;
                }
            }
        }
        for (family, protocol) in [IPIP, IPV6].into_iter().enumerate() {
            let back = carried(protocol, length / 2); // a function may change packets
            let (_, after, cause) = outcome(&proxies, &returning(protocol, &back));
            match &known[family] {
                None => prop_assert_eq!(cause, "no_cache"),
                Some(headers) => {
                    let expected = framed(ONWARD, OWN, IPV6, &headers.packet(&back));
                    prop_assert_eq!((cause, after), ("sent", expected));
                }
            }
        }
        let learned = proxies.counts(3).unwrap().learned;
        prop_assert!(learned <= kept + 1, "headers that are known are not learned again");
        kept = learned;
        Ok(())
    };
    let cases = (headers(), 0..300_usize, any::<bool>());
    let mut runner = TestRunner::default();
    let run = std::cell::RefCell::new(run);
    runner.run(&cases, |case| (run.borrow_mut())(case)).unwrap();
}

#[test]
fn end_am_shows_the_last_segment_and_takes_it_back() {
    needs_root!();
    let proxies = proxies(Behaviour::Masquerading);
    let run = |(headers, length): (Headers, usize)| {
        let packet = inside(&headers, length);
        let (_, after, cause) = outcome(&proxies, &incoming(&headers, &packet));
        let next = match headers.advanced() {
            Err(expected) => {
                prop_assert_eq!(cause, expected);
                return Ok(());
            }
            Ok(next) => next,
        };
        let last = *headers.srh.segments.last().unwrap();
        let masked = Headers { to: last, ..next.clone() };
        let shown = framed(FUNCTION, OWN, IPV6, &masked.packet(&packet));
        prop_assert_eq!((cause, &after), ("sent", &shown));
        // The function is a router.
        let routed = Headers { hop_limit: masked.hop_limit.saturating_sub(1), ..masked };
        let (_, after, cause) = outcome(&proxies, &returning(IPV6, &routed.packet(&packet)));
        let expected = Headers { hop_limit: routed.hop_limit, ..next };
        prop_assert_eq!(
            (cause, after),
            ("sent", framed(ONWARD, OWN, IPV6, &expected.packet(&packet)))
        );
        let changed = Headers { to: elsewhere(99), ..routed };
        prop_assert_eq!(outcome(&proxies, &returning(IPV6, &changed.packet(&packet))).2, "changed");
        Ok(())
    };
    TestRunner::default().run(&(headers(), 0..300_usize), run).unwrap();
    assert_eq!(cause(&proxies, &returning(IPIP, &carried(IPIP, 9))), "not_srv6");
    assert_eq!(cause(&proxies, &returning(IPV6, &carried(IPV6, 9))), "not_srv6");
}

fn three(next_header: u8) -> Headers {
    let segments = (1..=3).map(elsewhere).collect();
    Headers { to: ours(), hop_limit: 64, srh: srh::Repr::at_source(next_header, segments).unwrap() }
}

#[test]
fn each_malformed_header_has_its_cause() {
    needs_root!();
    let all = [fixed(), proxies(Behaviour::Dynamic), proxies(Behaviour::Masquerading)];
    let good = incoming(&three(IPIP), &carried(IPIP, 30));
    let srh = OUTER + ipv6::HEADER_LEN;
    for proxies in &all {
        assert_eq!(cause(proxies, &good), "sent");
        for (at, value, expected) in [
            (OUTER, 0x40, "malformed"),     // version
            (OUTER + 4, 0xff, "malformed"), // payload length beyond the frame
            (OUTER + 6, 58, "not_srv6"),    // a ping to the segment
            (OUTER + 6, 0, "not_srv6"),     // hop-by-hop options
            (OUTER + 7, 1, "hop_limit"),
            (srh + 1, 200, "malformed"), // header longer than the packet
            (srh + 1, 5, "malformed"),   // header shorter than its list
            (srh + 2, 3, "not_srv6"),    // another routing type
            (srh + 3, 4, "malformed"),   // more left than there are
            (srh + 4, 3, "malformed"),   // last entry beyond the header
        ] {
            let mut frame = good.clone();
            frame[at] = value;
            assert_eq!(cause(proxies, &frame), expected, "byte {at} is {value}");
        }
        assert_eq!(cause(proxies, &good[..OUTER + 44]), "malformed");
    }
    for proxies in &all[..2] {
        let inner = srh + 8 + 48;
        for (at, value) in [(inner, 0x64), (inner, 0x44), (inner + 2, 1), (inner + 3, 19)] {
            let mut frame = good.clone();
            frame[at] = value;
            assert_eq!(cause(proxies, &frame), "malformed", "byte {at} is {value}");
        }
    }
}

#[test]
fn malformed_packets_from_a_function_are_dropped() {
    needs_root!();
    let proxies = fixed();
    for (protocol, at, value) in
        [(IPIP, 14, 0x44), (IPIP, 16, 0xff), (IPIP, 17, 19), (IPV6, 14, 0x40), (IPV6, 18, 0xff)]
    {
        let mut frame = returning(protocol, &carried(protocol, 30));
        frame[at] = value;
        assert_eq!(cause(&proxies, &frame), "malformed", "{protocol}: byte {at}");
    }
    // Ethernet padding of short frames does not become part of the packet.
    let packet = carried(IPIP, 4);
    let padded = [returning(IPIP, &packet), vec![0; 20]].concat();
    let (_, after, _) = outcome(&proxies, &padded);
    let head = framed(ONWARD, OWN, IPV6, &configured(IPIP).packet(&packet));
    assert_eq!(after[..head.len()], head);
}

#[test]
fn neighbor_discovery_is_passed_to_the_kernel() {
    needs_root!();
    let proxies = fixed();
    let solicitation =
        |to: &str| plain6(source(), to.parse().unwrap(), 255, 58, &[135, 0, 0, 0, 0, 0, 0, 0]);
    for to in ["ff02::1:ff00:1", "fe80::1", "fd00::2"] {
        assert_eq!(outcome(&proxies, &returning(IPV6, &solicitation(to))).0, Verdict::Pass, "{to}");
    }
    let head = |destination, ethertype| {
        ethernet::Repr { source: FUNCTION, destination, tags: Vec::new(), ethertype }.emit()
    };
    let arp = [head([0xff; 6], 0x0806), vec![0; 28]].concat();
    assert_eq!(outcome(&proxies, &arp).0, Verdict::Pass);
    let multicast = [head([1, 0, 0x5e, 0, 0, 1], ethertype::IPV4), carried(IPIP, 9)].concat();
    assert_eq!(outcome(&proxies, &multicast).0, Verdict::Pass);
}

#[test]
fn frames_too_long_for_a_port_are_dropped() {
    needs_root!();
    let proxies = fixed();
    let room = FRAME_MAX as usize - configured(IPIP).length() - OUTER - 20;
    assert_eq!(cause(&proxies, &returning(IPIP, &carried(IPIP, room))), "sent");
    assert_eq!(cause(&proxies, &returning(IPIP, &carried(IPIP, room + 1))), "too_big");
    let inside = FRAME_MAX as usize - OUTER - 20;
    assert_eq!(cause(&proxies, &incoming(&three(IPIP), &carried(IPIP, inside))), "sent");
    assert_eq!(cause(&proxies, &incoming(&three(IPIP), &carried(IPIP, inside + 1))), "too_big");
}

#[test]
fn no_bytes_confuse_it() {
    needs_root!();
    let all = [fixed(), proxies(Behaviour::Dynamic), proxies(Behaviour::Masquerading)];
    let run = |(bytes, back, close, left): (Vec<u8>, bool, bool, u8)| {
        let mut frame = framed(OWN, BEFORE, IPV6, &bytes);
        frame[OUTER] = 0x60;
        if !back {
            frame[OUTER + 24..OUTER + 40].copy_from_slice(&ours().octets());
        }
        if close {
            let payload = u16::try_from(bytes.len() - ipv6::HEADER_LEN).unwrap();
            frame[OUTER + 4..OUTER + 6].copy_from_slice(&payload.to_be_bytes());
            frame[OUTER + 6] = srh::NEXT_HEADER;
            frame[OUTER + 40..OUTER + 45].copy_from_slice(&[IPIP, 4, 4, left, 1]);
        }
        for proxies in &all {
            let (verdict, _, cause) = outcome(proxies, &frame);
            prop_assert!(verdict != Verdict::Drop || !cause.is_empty(), "dropped, not counted");
        }
        Ok(())
    };
    let bytes = prop::collection::vec(any::<u8>(), 60..300);
    TestRunner::default().run(&(bytes, any::<bool>(), any::<bool>(), 0..4_u8), run).unwrap();
}

#[test]
fn counts_what_passes() {
    needs_root!();
    let proxies = proxies(Behaviour::Dynamic);
    let frame = incoming(&three(IPIP), &carried(IPIP, 30));
    for _ in 0..3 {
        cause(&proxies, &frame);
    }
    let back = returning(IPIP, &carried(IPIP, 30));
    cause(&proxies, &back);
    let counts = proxies.counts(3).unwrap();
    assert_eq!((counts.toward.packets, counts.toward.bytes), (3, 3 * frame.len() as u64));
    assert_eq!((counts.returned.packets, counts.returned.bytes), (1, back.len() as u64));
    assert_eq!(counts.learned, 1);
}
