//! Whatever fragments come, on whatever paths: nothing panics, memory and time stay bounded, and
//! what is put together is what was cut. Packets that are too large are cut into packets that fit,
//! or left alone.

#![no_main]

use std::time::{Duration, Instant};

use hawser_multipath::Reassembly;
use hawser_wire::{
    fragment::{self, Fragment},
    icmpv4, icmpv6, ip,
    ipv4_fragments::fragments,
    resegment,
    segment::GsoPacket,
};
use libfuzzer_sys::fuzz_target;

/// Bytes of incomplete datagrams at most.
const LIMIT: usize = 256 << 10;

fuzz_target!(|input: (u16, u16, &[u8])| {
    let (size, mtu, bytes) = input;
    strangers(usize::from(size % 64) + 1, bytes);
    round_trip(usize::from(mtu), bytes);
    oversize(mtu, bytes);
});

/// Pieces of the input as they come from a peer that sends anything.
fn strangers(size: usize, bytes: &[u8]) {
    let (mut reassembly, mut now) = (Reassembly::default(), Instant::now());
    for (number, datagram) in bytes.chunks(size).enumerate() {
        if let Some(Ok((fragment, contents))) = Fragment::parse(datagram) {
            let _ = reassembly.push(now, number % 3, fragment, contents);
        }
        assert!(reassembly.bytes() <= LIMIT);
        now += Duration::from_millis(7);
        reassembly.expire(now);
    }
    reassembly.expire(now + Duration::from_secs(1));
    assert_eq!(reassembly.bytes(), 0);
}

/// The input as one datagram, cut for a path and put together in the other order.
fn round_trip(max: usize, bytes: &[u8]) {
    let Some((count, each)) = fragment::cut(bytes.len(), max) else { return };
    let (mut reassembly, now) = (Reassembly::default(), Instant::now());
    let last = u8::try_from(count - 1).unwrap();
    let parts: Vec<_> = (0..).zip(bytes.chunks(each)).collect();
    assert_eq!(parts.len(), count);
    let mut whole = None;
    for (number, contents) in parts.into_iter().rev() {
        assert!(whole.is_none());
        let header = Fragment { datagram: 7, number, last }.emit();
        let datagram = [header.as_slice(), contents].concat();
        let (fragment, contents) = Fragment::parse(&datagram).unwrap().unwrap();
        whole = reassembly.push(now, 0, fragment, contents);
    }
    assert_eq!(whole.as_deref(), Some(bytes));
}

/// The input as a packet that is too large.
fn oversize(mtu: u16, bytes: &[u8]) {
    let Ok(packet) = ip::Packet::parse(bytes) else { return };
    if let Some(large) = resegment::segmentation(bytes, mtu).and_then(|cut| GsoPacket::new(bytes, cut)) {
        let mut payload = 0;
        for number in 0..large.count() {
            let mut segment = vec![0; large.len(number)];
            large.write(number, &mut segment);
            assert!(segment.len() <= usize::from(mtu));
            payload += segment.len() - large.parts(number)[0].len();
        }
        assert_eq!(payload, bytes.len() - large.parts(0)[0].len());
    }
    match packet {
        ip::Packet::V4(packet) => {
            let parts = fragments(&packet, mtu).into_iter().flatten();
            let parts: Vec<_> = parts.inspect(|(h, p)| assert!(h.len() + p.len() <= usize::from(mtu))).collect();
            let joined: Vec<u8> = parts.iter().flat_map(|(_, payload)| payload.to_vec()).collect();
            assert!(parts.is_empty() || joined == packet.payload());
            let _ = icmpv4::fragmentation_needed(&packet, mtu);
        }
        ip::Packet::V6(packet) => drop(icmpv6::packet_too_big(&packet, mtu)),
    }
}
