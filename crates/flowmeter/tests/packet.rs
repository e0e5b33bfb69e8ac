//! What is read of a packet: lengths by its header, however much of it was captured.

use hawser_flowmeter::Packet;
use proptest::prelude::*;

/// A SYN from 192.0.2.1:40000 to 192.0.2.2:443, DSCP 46, 1400 bytes by its header.
const TCP_OVER_IPV4: [u8; 40] = [
    0x45, 0xb8, 0x05, 0x78, 0, 1, 0x40, 0, 64, 6, 0, 0, 192, 0, 2, 1, 192, 0, 2, 2, // IPv4
    0x9c, 0x40, 0x01, 0xbb, 0, 0, 0, 1, 0, 0, 0, 0, 0x50, 0x02, 0xff, 0xff, 0, 0, 0, 0, // TCP
];

/// A datagram of 12 bytes from `2001:db8::1` port 5000 to `2001:db8::2` port 53, behind a hop-by-hop header.
fn udp_over_ipv6() -> Vec<u8> {
    let mut bytes = vec![0x60, 0, 0, 0, 0, 8 + 20, 0, 64];
    for last in [1, 2] {
        bytes.extend([0x20, 0x01, 0x0d, 0xb8, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, last]);
    }
    bytes.extend([17, 0, 1, 4, 0, 0, 0, 0]); // hop-by-hop: UDP follows
    bytes.extend([0x13, 0x88, 0, 53, 0, 20, 0, 0]); // UDP
    bytes.extend([7; 12]);
    bytes
}

#[test]
fn lengths_are_those_of_the_packet_not_of_the_capture() {
    let packet = Packet::parse(&TCP_OVER_IPV4).unwrap();
    assert_eq!((packet.length, packet.header_length), (1400, 40));
    assert_eq!((packet.dscp, packet.flags), (46, 0x02));
    assert_eq!((packet.tuple.source_port, packet.tuple.destination_port), (40000, 443));
}

#[test]
fn the_padding_of_a_frame_is_no_payload() {
    let mut bytes = TCP_OVER_IPV4.to_vec();
    (bytes[2], bytes[3]) = (0, 40);
    bytes.extend([0; 6]);
    assert_eq!(Packet::parse(&bytes).unwrap().length, 40);
}

#[test]
fn extension_headers_of_ipv6_are_passed() {
    let packet = Packet::parse(&udp_over_ipv6()).unwrap();
    assert_eq!(packet.tuple.protocol, 17);
    assert_eq!((packet.tuple.source_port, packet.tuple.destination_port), (5000, 53));
    assert_eq!((packet.length, packet.header_length), (68, 48 + 20));
}

#[test]
fn later_fragments_have_no_ports() {
    let mut bytes = TCP_OVER_IPV4;
    bytes[7] = 185;
    let packet = Packet::parse(&bytes).unwrap();
    assert_eq!((packet.tuple.source_port, packet.header_length, packet.flags), (0, 20, 0));
}

proptest! {
    #[test]
    fn nothing_panics(start in 0_usize..2, bytes in prop::collection::vec(any::<u8>(), 0..200)) {
        let mut bytes = bytes;
        if let Some(first) = bytes.first_mut() {
            *first = [0x45, 0x60][start] | (*first & 0xf);
        }
        let _ = Packet::parse(&bytes);
    }

    #[test]
    fn a_cut_never_changes_what_is_still_there(cut in 40_usize..68) {
        let whole = Packet::parse(&udp_over_ipv6()).unwrap();
        let packet = Packet::parse(&udp_over_ipv6()[..cut]).unwrap();
        prop_assert_eq!(packet.length, whole.length);
    }
}
