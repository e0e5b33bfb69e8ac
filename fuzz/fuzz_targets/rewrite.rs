//! Any packet can be rewritten, and an ICMP error about it translated. A packet that is rewritten and restored
//! is the same, except for the two representations of zero in checksums.
//!
//! The first 38 bytes of the input are the ports to write, the place of the label, the version of IP, and the
//! addresses to write.

#![no_main]

use std::net::IpAddr;

use hawser_wire::{
    ip::Packet,
    rewrite::{Ports, Tuple, decrement_ttl, rewrite, rewrite_error},
};
use libfuzzer_sys::fuzz_target;

/// The address of a version that begins with these bytes.
fn address(is_ipv6: bool, bytes: [u8; 16]) -> IpAddr {
    let [a, b, c, d, ..] = bytes;
    if is_ipv6 { bytes.into() } else { [a, b, c, d].into() }
}

fuzz_target!(|input: &[u8]| {
    let Some(([high, low, other @ .., place, version], rest)) = input.split_first_chunk::<6>()
    else {
        return;
    };
    let Some((source, rest)) = rest.split_first_chunk() else { return };
    let Some((destination, packet)) = rest.split_first_chunk() else { return };
    let (port, other) = (u16::from_be_bytes([*high, *low]), u16::from_be_bytes(*other));
    let ports = match place % 3 {
        0 => Ports::Destination(port),
        1 => Ports::Source(port),
        _ => Ports::Both { source: port, destination: other },
    };
    let is_ipv6 = version % 2 == 1;
    let (source, destination) = (address(is_ipv6, *source), address(is_ipv6, *destination));
    let write = Tuple { source, destination, ports };
    let place = ports.place();
    if let Ok(error) = Packet::parse(packet)
        && Tuple::of_reply_to_quoted(&error, place).is_some()
    {
        let translated = rewrite_error(&error, write, write.source);
        let header = if is_ipv6 { 40 } else { 20 };
        if matches!(error, Packet::V6(_)) == is_ipv6 {
            let translated = translated.expect("it has a key");
            assert_eq!(translated.len(), header + error.payload().len());
        } else {
            assert_eq!(translated, None);
        }
    }
    let mut bytes = packet.to_vec();
    decrement_ttl(&mut bytes);
    let before = bytes.clone();
    let old = Packet::parse_quoted(&before).ok().and_then(|packet| Tuple::of(&packet, place));
    if !rewrite(&mut bytes, write) {
        assert_eq!(bytes, before);
        return;
    }
    let old = old.expect("it was rewritten");
    let key = Tuple::of(&Packet::parse_quoted(&bytes).expect("lengths stay"), place);
    assert_eq!(key, Some(write));
    assert!(rewrite(&mut bytes, old));
    let transport = if is_ipv6 { 40 } else { 20 };
    let sums = [
        if is_ipv6 { 0..0 } else { 10..12 },
        transport + 6..transport + 8,
        transport + 16..transport + 18,
    ];
    for (at, (now, was)) in bytes.iter().zip(&before).enumerate() {
        assert!(now == was || sums.iter().any(|sum| sum.contains(&at)));
    }
});
