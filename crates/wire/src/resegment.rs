//! TCP packets cut into smaller segments than their sender made.
//!
//! Where a segment ends says nothing in TCP (RFC 9293 section 3.7): a receiver sees the same bytes.
//! So a packet that is too large for a path is carried without the help of its sender, who may
//! never hear of ICMP.

use crate::{
    record::{Protocol, Segmentation},
    tcp,
};

/// SYN, RST and URG: numbers and pointers of their own, which are not for two segments.
const UNCUTTABLE: u8 = 0x02 | 0x04 | 0x20;
const CWR: u8 = 0x80;

/// Where the checksum stands in a TCP header.
const CHECKSUM: u16 = 16;

/// How a TCP packet is to be cut so that each segment has at most `mtu` bytes. None for all that is
/// not data alone behind an IP header without options or extensions, for fragments, and where `mtu`
/// has no room.
#[must_use]
pub fn segmentation(packet: &[u8], mtu: u16) -> Option<Segmentation> {
    let at = tcp::header_at(packet)?;
    let is_v4 = at == 20;
    let is_fragment = is_v4 && (packet.get(6)? & 0x3f, *packet.get(7)?) != (0, 0);
    let [offset, flags] = *packet.get(at + 12..)?.first_chunk()?;
    let headers = at + usize::from(offset >> 4) * 4;
    if is_fragment || flags & UNCUTTABLE != 0 || packet.len() <= headers || headers < at + 20 {
        return None;
    }
    let size = mtu.checked_sub(u16::try_from(headers).ok()?).filter(|size| *size > 0)?;
    let protocol = if is_v4 { Protocol::TcpV4 } else { Protocol::TcpV6 };
    let start = u16::try_from(at).ok()?;
    Some(Segmentation::new(protocol, size, start, CHECKSUM, flags & CWR != 0))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::{ip, segment::GsoPacket};

    fn packet(v6: bool, flags: u8, payload: usize) -> Vec<u8> {
        let mut packet = if v6 {
            let len = u16::try_from(20 + payload).unwrap().to_be_bytes();
            [&[0x60, 0, 0, 0, len[0], len[1], 6, 64], [1; 16].as_slice(), &[2; 16]].concat()
        } else {
            let len = u16::try_from(40 + payload).unwrap().to_be_bytes();
            vec![0x45, 0, len[0], len[1], 0, 7, 0x40, 0, 64, 6, 0, 0, 10, 1, 0, 1, 10, 2, 0, 1]
        };
        packet.extend([0, 1, 0, 2, 0, 0, 0, 100, 0, 0, 0, 0, 0x50, flags, 0, 9, 0, 0, 0, 0]);
        packet.extend((0..payload).map(|n| u8::try_from(n % 251).unwrap()));
        packet
    }

    proptest! {
        #[test]
        fn segments_fit_and_have_all_bytes(v6: bool, payload in 1..9000_usize, mtu in 100..2000_u16) {
            let packet = packet(v6, 0x18, payload);
            let at = if v6 { 60 } else { 40 };
            let large = GsoPacket::new(&packet, segmentation(&packet, mtu).unwrap()).unwrap();
            let mut joined = Vec::new();
            for number in 0..large.count() {
                let mut segment = vec![0; large.len(number)];
                large.write(number, &mut segment);
                prop_assert!(segment.len() <= usize::from(mtu));
                prop_assert!(ip::Packet::parse(&segment).is_ok());
                prop_assert_eq!(tcp::checksum(&segment, at - 20), [0, 0]);
                let sequence = u32::from_be_bytes(*segment[at - 16..].first_chunk().unwrap());
                prop_assert_eq!(sequence, 100 + u32::try_from(joined.len()).unwrap());
                joined.extend_from_slice(&segment[at..]);
            }
            prop_assert_eq!(&joined, &packet[at..]);
        }

        #[test]
        fn no_bytes_panic(mut bytes in proptest::collection::vec(any::<u8>(), 0..90), mtu: u16) {
            if let Some(first) = bytes.first_mut() {
                *first = if *first % 2 == 0 { 0x45 } else { 0x60 };
            }
            if let Some(cut) = segmentation(&bytes, mtu) {
                let large = GsoPacket::new(&bytes, cut);
                prop_assert!(large.is_none_or(|large| large.count() > 0));
            }
        }
    }

    #[test]
    fn only_data_is_cut() {
        assert!(segmentation(&packet(false, 0x18, 100), 90).is_some());
        for flags in [0x02, 0x14, 0x38] {
            assert_eq!(segmentation(&packet(false, flags, 100), 90), None, "{flags:#x}");
        }
        assert_eq!(segmentation(&packet(false, 0x10, 0), 39), None);
        assert_eq!(segmentation(&packet(false, 0x10, 100), 40), None, "no room");
        let mut fragment = packet(false, 0x10, 100);
        fragment[6] = 0x20;
        assert_eq!(segmentation(&fragment, 90), None);
    }
}
