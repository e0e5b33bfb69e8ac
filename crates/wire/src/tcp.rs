//! TCP headers (RFC 9293 section 3.1), as far as a tunnel looks into them.

use std::ops::Range;

use crate::{
    checksum::{Sum, update},
    field::{clamp, put},
    ip,
    ipv4::{self, protocol::TCP},
    ipv6,
};

/// FIN, SYN, RST.
const SAYS_MORE: u8 = 0x07;

const SYN: u8 = 0x02;
const ACK: u8 = 0x10;

/// Bytes of a header without options.
const HEADER_LEN: usize = 20;

/// Kinds of options (RFC 9293 section 3.2); the first two are alone, without a length.
const END: u8 = 0;
const NO_OPERATION: u8 = 1;
const MAXIMUM_SEGMENT_SIZE: u8 = 2;

/// What a packet of TCP says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Says {
    /// Only which bytes have come: a later acknowledgement stands for an earlier one, and no order is needed.
    Received,
    /// More: where it is lost the other end waits for it.
    More,
}

/// What a packet says, if it is of TCP and no fragment.
#[must_use]
pub fn says(packet: &ip::Packet<'_>) -> Option<Says> {
    let segment = match packet {
        ip::Packet::V4(packet) if packet.is_fragment() => return None,
        ip::Packet::V4(packet) => packet.payload(),
        ip::Packet::V6(packet) => packet.payload(),
    };
    if packet.protocol() != TCP {
        return None;
    }
    let (offset, flags) = (segment.get(12)?, segment.get(13)?);
    let more = segment.len() > usize::from(offset >> 4) * 4 || flags & SAYS_MORE != 0;
    Some(if more { Says::More } else { Says::Received })
}

/// Whether an acknowledgement alone tells that more has come than an older one of its connection does, and else the
/// same: the older one need not go (ACK filtering, RFC 3449 section 5.2.1).
///
/// As where Linux joins acknowledgements in a socket's backlog, flags and options are the same in both. So what tells of
/// a loss (duplicates, SACK) or of congestion is never passed over.
#[must_use]
pub fn supersedes(newer: &[u8], older: &[u8]) -> bool {
    let Some(at) = header_at(newer).filter(|at| is_acknowledgement(newer, *at)) else {
        return false;
    };
    let number = |packet: &[u8]| field(packet, at + 8).map(u32::from_be_bytes);
    let (Some(new), Some(old)) = (number(newer), number(older)) else { return false };
    let same = |range: Range<usize>| newer.get(range.clone()) == older.get(range);
    // All but the identification and checksum of IPv4, and TCP's acknowledgement number, window and checksum.
    let alike = if at == 20 { same(0..4) && same(6..10) && same(12..at) } else { same(0..at) };
    let alike = alike && same(at..at + 8) && same(at + 12..at + 14) && same(at + 18..newer.len());
    alike && newer.len() == older.len() && (1..1 << 31).contains(&new.wrapping_sub(old))
}

/// Whether a packet with a TCP header at `at` is of no flag but ACK, without payload, and no fragment.
fn is_acknowledgement(packet: &[u8], at: usize) -> bool {
    let is_fragment =
        at == 20 && field(packet, 6).is_none_or(|[high, low]| (high & 0x3f, low) != (0, 0));
    let Some([offset, flags]) = field(packet, at + 12) else { return false };
    flags == ACK && packet.len() == at + usize::from(offset >> 4) * 4 && !is_fragment
}

/// Bytes at a place.
fn field<const N: usize>(packet: &[u8], at: usize) -> Option<[u8; N]> {
    packet.get(at..)?.first_chunk().copied()
}

/// Where the header of a TCP packet begins, behind IPv4 without options or IPv6 without extensions.
#[must_use]
pub fn header_at(packet: &[u8]) -> Option<usize> {
    let (protocol, at) = match packet.first()? {
        0x45 => (9, 20),
        first if first >> 4 == 6 => (6, 40),
        _ => return None,
    };
    (packet.get(protocol) == Some(&TCP) && packet.len() >= at + HEADER_LEN).then_some(at)
}

/// What the checksum of a TCP packet says with the header at `at`: `[0, 0]`, if it is right; if its field is 0, what
/// belongs there.
#[must_use]
pub fn checksum(packet: &[u8], at: usize) -> [u8; 2] {
    let addresses = if at == 20 { packet.get(12..at) } else { packet.get(8..at) };
    let sum = Sum::default().bytes(addresses.unwrap_or_default()).word(TCP.into());
    let segment = packet.get(at..).unwrap_or_default();
    sum.word(clamp(segment.len())).bytes(segment).finish()
}

/// Lowers the maximum segment size that a SYN announces to what a packet of `mtu` bytes has room for, header
/// options not counted (RFC 6691 section 2); whether it was larger. All else stays as it is.
///
/// Without it the first segments of a connection are too large for a tunnel, and the answer to that (RFC 1191)
/// costs more than a round trip: Linux takes the segments that it cuts anew for lost, and its window grows no
/// more as at the start.
pub fn lower_segment_size(packet: &mut [u8], mtu: u16) -> bool {
    let Some((transport, most)) = syn(packet, mtu) else { return false };
    let Some(segment) = packet.get_mut(transport..) else { return false };
    let Some(at) = segment_size_at(segment) else { return false };
    let word = |at| field(segment, at).map(u16::from_be_bytes);
    let (Some(old), Some(sum)) = (word(at), word(16)) else { return false };
    if old <= most {
        return false;
    }
    // At an odd place the two bytes are of two words, each the other half of its own: the sum of words
    // whose bytes are swapped is the swapped sum (RFC 1071 section 2 (B)).
    let sum = if at % 2 == 0 {
        update(sum, old, most)
    } else {
        update(sum, old.swap_bytes(), most.swap_bytes())
    };
    put(segment, at, most);
    put(segment, 16, sum);
    true
}

/// Where the TCP header of a SYN begins, and the largest segment that goes into a packet of `mtu` bytes.
fn syn(packet: &[u8], mtu: u16) -> Option<(usize, u16)> {
    let packet = ip::Packet::parse(packet).ok()?;
    let (transport, payload) = match packet {
        ip::Packet::V4(packet) if packet.is_later_fragment() => return None,
        ip::Packet::V4(packet) => (packet.header_len(), packet.payload()),
        ip::Packet::V6(packet) => (ipv6::HEADER_LEN, packet.payload()),
    };
    let fixed = match packet {
        ip::Packet::V4(_) => ipv4::HEADER_LEN,
        ip::Packet::V6(_) => ipv6::HEADER_LEN,
    };
    let is_syn = packet.protocol() == TCP && payload.get(13)? & SYN != 0;
    is_syn.then_some((transport, mtu.saturating_sub(clamp(fixed + HEADER_LEN))))
}

/// Where the value of the option stands in a TCP header.
fn segment_size_at(segment: &[u8]) -> Option<usize> {
    let len = usize::from(segment.get(12)? >> 4) * 4;
    let options = segment.get(..len)?;
    let mut at = HEADER_LEN;
    loop {
        match *options.get(at)? {
            END => return None,
            NO_OPERATION => at += 1,
            kind => match (kind, options.get(at + 1)?) {
                (MAXIMUM_SEGMENT_SIZE, 4) => return (at + 4 <= len).then_some(at + 2),
                (_, 0 | 1) => return None,
                (_, len) => at += usize::from(*len),
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::checksum::Sum;

    /// An IPv4 packet of this protocol with a TCP header of 24 bytes.
    fn said(protocol: u8, fragment: u8, flags: u8, payload: usize) -> Option<Says> {
        let mut bytes = vec![0; 20 + 24 + payload];
        let len = u8::try_from(bytes.len()).unwrap();
        let mut put = |at: usize, value: u8| bytes[at] = value;
        put(0, 0x45);
        put(3, len);
        put(6, fragment);
        put(9, protocol);
        put(20 + 12, 6 << 4);
        put(20 + 13, flags);
        says(&ip::Packet::parse(&bytes).unwrap())
    }

    #[test]
    fn what_is_no_acknowledgement_alone_says_more() {
        assert_eq!(said(TCP, 0, ACK, 0), Some(Says::Received));
        assert_eq!(said(TCP, 0, ACK, 1), Some(Says::More));
        for flags in [ACK | 0x01, 0x02, 0x04] {
            assert_eq!(said(TCP, 0, flags, 0), Some(Says::More));
        }
        assert_eq!(said(17, 0, ACK, 1), None, "not TCP");
        assert_eq!(said(TCP, 0x20, ACK, 1), None, "a fragment");
    }

    /// A SYN with these options, and a complete checksum.
    fn syn_with(v6: bool, options: &[u8]) -> Vec<u8> {
        let mut segment = vec![0; 20 + options.len().next_multiple_of(4)];
        segment[..4].copy_from_slice(&[0x12, 0x34, 0, 80]);
        segment[12] = u8::try_from(segment.len() / 4).unwrap() << 4;
        segment[13] = SYN;
        segment[20..20 + options.len()].copy_from_slice(options);
        let mut packet = if v6 {
            let (source, destination) = ("2001:db8::1".parse().unwrap(), "::2".parse().unwrap());
            let header = ipv6::Repr { source, destination, next_header: TCP, hop_limit: 9 };
            header.emit(segment.len()).unwrap().to_vec()
        } else {
            let (source, destination) = ([10, 1, 0, 2].into(), [10, 2, 0, 2].into());
            let header = ipv4::Repr { source, destination, protocol: TCP, ttl: 9 };
            header.emit(segment.len()).unwrap().to_vec()
        };
        let start = packet.len();
        packet.extend(segment);
        let sum = sum(&packet, start).to_be_bytes();
        packet[start + 16..start + 18].copy_from_slice(&sum);
        packet
    }

    /// Over the pseudo-header and the segment: 0 of a packet whose checksum is right.
    fn sum(packet: &[u8], start: usize) -> u16 {
        let addresses = if start == 20 { &packet[12..20] } else { &packet[8..40] };
        let segment = &packet[start..];
        let sum = Sum::default().bytes(addresses).word(TCP.into()).word(clamp(segment.len()));
        u16::from_be_bytes(sum.bytes(segment).finish())
    }

    #[test]
    fn a_segment_size_is_lowered_to_what_there_is_room_for() {
        let options = [2, 4, 0x05, 0xb4, 4, 2, 1, 3, 3, 7];
        let mut packet = syn_with(false, &options);
        assert!(!lower_segment_size(&mut packet, 1500), "1460 fit");
        assert!(lower_segment_size(&mut packet, 1428));
        assert_eq!(packet[42..44], 1388_u16.to_be_bytes());
        assert!(!lower_segment_size(&mut packet, 1500), "never higher");
        let mut packet = syn_with(true, &options);
        assert!(lower_segment_size(&mut packet, 1428));
        assert_eq!(packet[62..64], 1368_u16.to_be_bytes());
    }

    #[test]
    fn nothing_but_the_size_of_a_syn_is_lowered() {
        let size = [2, 4, 0x05, 0xb4];
        let unchanged = |change: fn(&mut Vec<u8>)| {
            let mut packet = syn_with(false, &size);
            change(&mut packet);
            let before = packet.clone();
            !lower_segment_size(&mut packet, 1000) && packet == before
        };
        assert!(!unchanged(|_| {}));
        assert!(unchanged(|packet| packet[33] = 0x10), "no SYN");
        assert!(unchanged(|packet| packet[9] = 17), "no TCP");
        assert!(unchanged(|packet| packet[7] = 1), "a later fragment");
        assert!(unchanged(|packet| packet[41] = 3), "an option of another length");
        assert!(unchanged(|packet| packet[41] = 0), "an option without length");
        assert!(unchanged(|packet| packet[40] = END), "the end before it");
        assert!(unchanged(|packet| packet[32] = 4 << 4), "a header that is too short");
        assert!(unchanged(|packet| packet[32] = 15 << 4), "a header that is too long");
    }

    /// An acknowledgement alone of this number, with a timestamp and a block of SACK, and a complete checksum.
    fn acknowledgement(v6: bool, number: u32) -> Vec<u8> {
        let options = [1, 1, 8, 10, 0, 0, 0, 1, 0, 0, 0, 2, 1, 1, 5, 10, 0, 0, 0, 9, 0, 0, 0, 10];
        let mut packet = syn_with(v6, &options);
        let at = if v6 { 40 } else { 20 };
        packet[at + 13] = ACK;
        packet[at + 8..at + 12].copy_from_slice(&number.to_be_bytes());
        packet
    }

    #[test]
    fn a_later_acknowledgement_supersedes_an_earlier_one() {
        for v6 in [false, true] {
            let older = acknowledgement(v6, u32::MAX - 9);
            let mut newer = acknowledgement(v6, 20);
            assert!(supersedes(&newer, &older));
            assert!(!supersedes(&older, &newer), "not the other way round");
            assert!(!supersedes(&newer, &newer), "nor a duplicate");
            let at = if v6 { 40 } else { 20 };
            newer[at + 14..at + 18].copy_from_slice(&[1, 2, 3, 4]);
            assert!(supersedes(&newer, &older), "another window");
        }
    }

    #[test]
    fn what_says_more_is_not_superseded() {
        let older = acknowledgement(false, 10);
        let superseded = |change: fn(&mut Vec<u8>)| {
            let mut packets = [acknowledgement(false, 20), older.clone()];
            let [newer, older] = &mut packets;
            change(newer);
            let newer_differs = supersedes(newer, older);
            change(older);
            (newer_differs, supersedes(newer, older))
        };
        assert_eq!(superseded(|_| {}), (true, true));
        assert_eq!(superseded(|packet| packet[5] = 7), (true, true), "another identification");
        assert_eq!(superseded(|packet| packet[59] = 7), (false, true), "another block of SACK");
        assert_eq!(superseded(|packet| packet[47] = 7), (false, true), "another timestamp");
        assert_eq!(superseded(|packet| packet[1] = 3), (false, true), "marked by the network");
        assert_eq!(superseded(|packet| packet[21] = 7), (false, true), "another port");
        assert_eq!(superseded(|packet| packet[33] = ACK | 0x40), (false, false), "ECE");
        assert_eq!(superseded(|packet| packet[33] = ACK | SYN), (false, false), "a SYN");
        assert_eq!(superseded(|packet| packet.push(0)), (false, false), "data");
        assert_eq!(superseded(|packet| packet[7] = 1), (false, false), "a later fragment");
        assert_eq!(superseded(|packet| packet[9] = 17), (false, false), "no TCP");
        assert_eq!(superseded(|packet| packet.truncate(40)), (false, false), "cut short");
    }

    proptest! {
        /// At even and odd places, among others.
        #[test]
        fn the_checksum_stays_right(v6: bool, before in 0..5_usize, size: u16, mtu in 100..2000_u16) {
            let [high, low] = size.to_be_bytes();
            let options = [&vec![NO_OPERATION; before][..], &[2, 4, high, low, 3, 3, 7]].concat();
            let mut packet = syn_with(v6, &options);
            let start = if v6 { 40 } else { 20 };
            let room = mtu - if v6 { 60 } else { 40 };
            prop_assert_eq!(lower_segment_size(&mut packet, mtu), size > room);
            prop_assert_eq!(sum(&packet, start), 0);
            let at = start + 20 + before + 2;
            prop_assert_eq!(&packet[at..at + 2], &size.min(room).to_be_bytes());
        }

        #[test]
        fn no_bytes_panic(mut bytes in proptest::collection::vec(any::<u8>(), 0..90), mtu: u16) {
            if let Some(first) = bytes.first_mut() {
                *first = if *first % 2 == 0 { 0x45 } else { 0x60 };
            }
            lower_segment_size(&mut bytes, mtu);
            assert!(!supersedes(&bytes, &bytes));
        }
    }
}
