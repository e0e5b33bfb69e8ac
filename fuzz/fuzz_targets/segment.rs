//! Any packet with any segmentation is refused, or gives segments of the announced lengths. A segment whose
//! checksum was omitted gets the right one when it is coalesced alone.

#![no_main]

use hawser_wire::{
    coalesce::{Checksum, Coalescer, has_valid_checksum},
    record::{Protocol, Segmentation},
    segment::GsoPacket,
};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|input: (u8, u16, u8, u8, bool, &[u8])| {
    let (protocol, size, start, offset, cwr, packet) = input;
    let protocol = [Protocol::TcpV4, Protocol::TcpV6, Protocol::Udp][usize::from(protocol % 3)];
    let cut = Segmentation::new(protocol, size, start.into(), offset.into(), cwr);
    let Some(gso) = GsoPacket::new(packet, cut) else { return };
    let mut payload = 0;
    for number in 0..gso.count() {
        let mut out = vec![0; gso.len(number)];
        gso.write(number, &mut out);
        payload += out.len() - cut.header_len(packet);
        let mut segment = gso.parts(number).concat();
        if !gso.complete_without_checksum(number, &mut segment) {
            assert_eq!(segment, out);
        } else if offset == 16 {
            let mut coalescer = Coalescer::default();
            assert!(coalescer.push(&segment, Checksum::Omitted));
            assert!(coalescer.finish().is_some_and(|(alone, _)| has_valid_checksum(alone)));
        }
    }
    assert_eq!(payload, packet.len() - cut.header_len(packet));
});
