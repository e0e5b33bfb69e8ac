//! Any stream, split anywhere, gives the same records and the same error as in one piece, without a panic or
//! a stall.
//!
//! The first byte of the input is the length of the pieces, less one.

#![no_main]

use hawser_wire::{
    Malformed, flow, ip,
    record::{Decoder, MAX_LEN, Record},
};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|input: &[u8]| {
    let Some((size, stream)) = input.split_first() else { return };
    let whole = decode(stream, MAX_LEN);
    let pieces = decode(stream, usize::from(*size) + 1);
    assert_eq!(whole, pieces);
});

/// Decodes a stream: a digest of each record, and the error that ends it.
fn decode(mut stream: &[u8], size: usize) -> (Vec<u64>, Option<Malformed>) {
    let mut decoder = Decoder::new(0, 1);
    let mut seen = Vec::new();
    while !stream.is_empty() {
        let space = decoder.space();
        assert!(!space.is_empty(), "a decoder always takes more");
        let n = size.min(space.len()).min(stream.len());
        space[..n].copy_from_slice(&stream[..n]);
        stream = &stream[n..];
        decoder.filled(n);
        loop {
            match decoder.next() {
                Ok(Some(record)) => seen.push(digest(&record)),
                Ok(None) => break,
                Err(error) => return (seen, Some(error)),
            }
        }
    }
    (seen, None)
}

fn digest(record: &Record<'_>) -> u64 {
    let of = |packet: &ip::Packet<'_>| {
        let bytes = packet.bytes().iter().fold(0, |sum, byte| flow::mix(sum, u64::from(*byte)));
        flow::mix(bytes, flow::hash(packet))
    };
    match record {
        Record::Hello(hello) => flow::mix(u64::from(hello.id), hello.branch.len() as u64),
        Record::Keepalive => 0,
        Record::Packet(packet) => of(packet),
        Record::Segments(packet, cut) => of(packet) ^ cut.segments(packet.bytes()) as u64,
    }
}
