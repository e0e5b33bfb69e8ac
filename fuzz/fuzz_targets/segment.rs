//! A packet with any headers, cut in any way, gives segments of the lengths that were told, or none;
//! and a checksum that is left out is what who finds the segment alone computes.

#![no_main]

use hawser_wire::{
    join::{Checksum, Join, is_intact},
    record::{Protocol, Segmentation},
    segment::Large,
};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|input: (u8, u16, u8, u8, bool, &[u8])| {
    let (protocol, size, start, offset, cwr, packet) = input;
    let protocol = [Protocol::TcpV4, Protocol::TcpV6, Protocol::Udp][usize::from(protocol % 3)];
    let cut = Segmentation::new(protocol, size, start.into(), offset.into(), cwr);
    let Some(large) = Large::new(packet, cut) else { return };
    let mut payload = 0;
    for number in 0..large.count() {
        let mut out = vec![0; large.len(number)];
        large.write(number, &mut out);
        payload += out.len() - cut.header_len(packet);
        let mut segment = large.parts(number).concat();
        if !large.complete_unsummed(number, &mut segment) {
            assert_eq!(segment, out);
        } else if offset == 16 {
            let mut join = Join::default();
            assert!(join.push(&segment, Checksum::LeftOut));
            assert!(join.finish().is_some_and(|(alone, _)| is_intact(alone)));
        }
    }
    assert_eq!(payload, packet.len() - cut.header_len(packet));
});
