//! A packet with any headers, cut in any way, gives segments of the lengths that were told, or none.

#![no_main]

use hawser_wire::{
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
        let mut again = out.clone();
        if !large.complete_unsummed(number, &mut again) {
            assert_eq!(again, out);
        }
        payload += out.len() - cut.header_len(packet);
    }
    assert_eq!(payload, packet.len() - cut.header_len(packet));
});
