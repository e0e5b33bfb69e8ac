//! Any packet can be rewritten, and an ICMP error about it translated. A packet that is rewritten and restored
//! is the same, except for the two representations of zero in checksums.
//!
//! The first 13 bytes of the input are the addresses and ports to write, and the place of the label.

#![no_main]

use hawser_wire::{
    ipv4::Packet,
    rewrite::{Ports, Tuple, decrement_ttl, rewrite, rewrite_error},
};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|input: &[u8]| {
    let Some((head, packet)) = input.split_first_chunk::<13>() else { return };
    let [a, b, c, d, e, f, g, h, high, low, place, other @ ..] = *head;
    let (port, other) = (u16::from_be_bytes([high, low]), u16::from_be_bytes(other));
    let ports = match place % 3 {
        0 => Ports::Destination(port),
        1 => Ports::Source(port),
        _ => Ports::Both { source: port, destination: other },
    };
    let write = Tuple { source: [a, b, c, d].into(), destination: [e, f, g, h].into(), ports };
    let place = ports.place();
    if let Ok(error) = Packet::parse(packet)
        && Tuple::of_reply_to_quoted(&error, place).is_some()
    {
        let translated = rewrite_error(&error, write, write.source).expect("it has a key");
        assert_eq!(translated.len(), 20 + error.payload().len());
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
    let sums = [10..12, 26..28, 36..38];
    for (at, (now, was)) in bytes.iter().zip(&before).enumerate() {
        assert!(now == was || sums.iter().any(|sum| sum.contains(&at)));
    }
});
