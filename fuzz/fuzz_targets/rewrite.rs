//! Any packet can be rewritten, and an ICMP error about it led back; what is rewritten twice is as it
//! was, but for checksums whose zero has two forms.
//!
//! The first 13 bytes of the input are the addresses and the port to write, and which port.

#![no_main]

use hawser_wire::{
    ipv4::Packet,
    rewrite::{Key, Place, Tuple, decrement_ttl, rewrite, rewrite_error},
};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|input: &[u8]| {
    let Some((head, packet)) = input.split_first_chunk::<13>() else { return };
    let [a, b, c, d, e, f, g, h, high, low, place, ..] = *head;
    let place = Place::BOTH[usize::from(place & 1)];
    let write = Tuple {
        source: [a, b, c, d].into(),
        destination: [e, f, g, h].into(),
        port: u16::from_be_bytes([high, low]),
    };
    if let Ok(error) = Packet::parse(packet)
        && Key::of_answer_to_quoted(&error, place).is_some()
    {
        let told = rewrite_error(&error, place, write, write.source).expect("it has a key");
        assert_eq!(told.len(), 20 + error.payload().len());
    }
    let mut bytes = packet.to_vec();
    decrement_ttl(&mut bytes);
    let before = bytes.clone();
    let old = Packet::parse_quoted(&before).ok().and_then(|packet| Key::of(&packet, place));
    if !rewrite(&mut bytes, place, write) {
        assert_eq!(bytes, before);
        return;
    }
    let old = old.expect("it was rewritten");
    let key = Key::of(&Packet::parse_quoted(&bytes).expect("lengths stay"), place);
    assert_eq!(key, Some(Key { tuple: write, place }));
    assert!(rewrite(&mut bytes, place, old.tuple));
    let sums = [10..12, 26..28, 36..38];
    for (at, (now, was)) in bytes.iter().zip(&before).enumerate() {
        assert!(now == was || sums.iter().any(|sum| sum.contains(&at)));
    }
});
