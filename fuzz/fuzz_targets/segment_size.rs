//! TCP fitted to any MTU that has room for payload gives segments that fit it; datagrams of UDP keep their size.
//! All of the payload is there, in order, and fitting again changes nothing.

#![no_main]

use hawser_wire::{
    record::{Protocol, Segmentation},
    segment::GsoPacket,
};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|input: (u8, u16, u8, u8, bool, u16, &[u8])| {
    let (protocol, size, start, offset, cwr, mtu, packet) = input;
    let protocol = [Protocol::TcpV4, Protocol::TcpV6, Protocol::Udp][usize::from(protocol % 3)];
    let cut = Segmentation::new(protocol, size, start.into(), offset.into(), cwr);
    let Some(large) = GsoPacket::new(packet, cut) else { return };
    let is_tcp = protocol != Protocol::Udp;
    let fitting = large.fit(mtu);
    let headers = large.parts(0)[0].len();
    assert_eq!(fitting.parts(0)[0], large.parts(0)[0]);
    let mut payload = Vec::new();
    for number in 0..fitting.count() {
        let mut segment = vec![0; fitting.len(number)];
        fitting.write(number, &mut segment);
        assert_eq!(segment.len(), fitting.parts(number).concat().len());
        if is_tcp && usize::from(mtu) > headers {
            assert!(segment.len() <= usize::from(mtu));
        }
        payload.extend_from_slice(fitting.parts(number)[1]);
    }
    assert_eq!(payload, packet[headers..]);
    assert!(fitting.fit(mtu).is_cut_as(&fitting));
    assert!(is_tcp || fitting.is_cut_as(&large));
    assert!(fitting.count() >= large.count());
});
