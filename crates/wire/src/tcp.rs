//! TCP headers (RFC 9293 section 3.1), as far as a tunnel inspects and changes them.
//!
//! ```text
//!  0                   1                   2                   3
//!  0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1
//! +-------------------------------+-------------------------------+
//! |          Source Port          |       Destination Port        |
//! +-------------------------------+-------------------------------+
//! |                        Sequence Number                        |
//! +---------------------------------------------------------------+
//! |                    Acknowledgment Number                      |
//! +-------+-------+-+-+-+-+-+-+-+-+-------------------------------+
//! |  Data | Rsrvd |C|E|U|A|P|R|S|F|                               |
//! | Offset|       |W|C|R|C|S|S|Y|I|            Window             |
//! |       |       |R|E|G|K|H|T|N|N|                               |
//! +-------+-------+-+-+-+-+-+-+-+-+-------------------------------+
//! |           Checksum            |         Urgent Pointer        |
//! +-------------------------------+-------------------------------+
//! |                   Options (Data Offset > 5)                   |
//! +---------------------------------------------------------------+
//! ```

use std::ops::Range;

use crate::{
    bytes::{clamp, get, get_u16, put},
    checksum::{Sum, update},
    ip,
    ipv4::{self, protocol::TCP},
    ipv6,
};

/// Length of a header without options, bytes.
pub(crate) const HEADER_LEN: usize = 20;

/// Offsets of the header's fields, bytes.
pub(crate) mod field {
    pub(crate) const SEQUENCE: usize = 4;
    pub(crate) const ACKNOWLEDGMENT: usize = 8;
    pub(crate) const DATA_OFFSET: usize = 12;
    pub(crate) const FLAGS: usize = 13;
    pub(crate) const WINDOW: usize = 14;
    pub(crate) const CHECKSUM: usize = 16;
    pub(crate) const URGENT: usize = 18;
}

/// Bits of the flags field.
pub mod flag {
    /// No more data from the sender.
    pub const FIN: u8 = 0x01;
    /// Synchronize sequence numbers.
    pub const SYN: u8 = 0x02;
    /// Reset the connection.
    pub const RST: u8 = 0x04;
    /// Push.
    pub const PSH: u8 = 0x08;
    /// The acknowledgment field is significant.
    pub const ACK: u8 = 0x10;
    /// The urgent pointer is significant.
    pub const URG: u8 = 0x20;
    /// Congestion window reduced.
    pub const CWR: u8 = 0x80;
}

/// Kinds of options (RFC 9293 section 3.2). The first two have no length.
mod option {
    pub(super) const END: u8 = 0;
    pub(super) const NO_OPERATION: u8 = 1;
    pub(super) const MAXIMUM_SEGMENT_SIZE: u8 = 2;
    pub(super) const MAXIMUM_SEGMENT_SIZE_LEN: u8 = 4;
}

/// What the loss of a segment costs its connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Segment {
    /// A pure acknowledgement: no payload, no SYN, FIN or RST. A later one replaces it, and its order does
    /// not matter.
    PureAck,
    /// Payload, SYN, FIN or RST: if it is lost, the other end waits for it.
    Data,
}

impl Segment {
    /// Classifies a packet. `None` if it is not TCP or is a fragment.
    #[must_use]
    pub fn of(packet: &ip::Packet<'_>) -> Option<Self> {
        let segment = match packet {
            ip::Packet::V4(packet) if packet.is_fragment() => return None,
            ip::Packet::V4(packet) => packet.payload(),
            ip::Packet::V6(packet) => packet.payload(),
        };
        if packet.protocol() != TCP {
            return None;
        }
        let (header_len, flags) = (header_len(segment)?, segment.get(field::FLAGS)?);
        let is_data =
            segment.len() > header_len || flags & (flag::FIN | flag::SYN | flag::RST) != 0;
        Some(if is_data { Self::Data } else { Self::PureAck })
    }
}

/// Length of the header at the start of `segment`, options included, by its data offset. `None` if that is
/// cut off.
#[must_use]
pub fn header_len(segment: &[u8]) -> Option<usize> {
    Some(usize::from(segment.get(field::DATA_OFFSET)? >> 4) * 4)
}

/// The flags of the header at the start of `segment`, see [`flag`]. `None` if they are cut off.
#[must_use]
pub fn flags(segment: &[u8]) -> Option<u8> {
    segment.get(field::FLAGS).copied()
}

/// Whether pure acknowledgement `newer` makes `older`, of the same connection, redundant: it acknowledges
/// more and differs in nothing else (ACK filtering, RFC 3449 section 5.2.1).
///
/// As where Linux coalesces acknowledgements in a socket's backlog, flags and options must be equal. What
/// signals a loss (duplicate ACKs, SACK) or congestion is therefore never dropped.
#[must_use]
pub fn supersedes(newer: &[u8], older: &[u8]) -> bool {
    let Some(at) = header_at(newer).filter(|at| is_pure_ack(newer, *at)) else {
        return false;
    };
    let number = |packet: &[u8]| get(packet, at + field::ACKNOWLEDGMENT).map(u32::from_be_bytes);
    let (Some(new), Some(old)) = (number(newer), number(older)) else { return false };
    let same = |range: Range<usize>| newer.get(range.clone()) == older.get(range);
    // May differ: IPv4 identification and checksum.
    let same_ip = if at == ipv4::HEADER_LEN {
        same(0..ipv4::field::IDENTIFICATION.start)
            && same(ipv4::field::FLAGS_OFFSET.start..ipv4::field::CHECKSUM.start)
            && same(ipv4::field::ADDRESSES)
    } else {
        same(0..at)
    };
    // May differ: TCP acknowledgement number, window and checksum.
    let same_tcp = same(at..at + field::ACKNOWLEDGMENT)
        && same(at + field::DATA_OFFSET..at + field::WINDOW)
        && same(at + field::URGENT..newer.len());
    let acknowledges_more = (1..1 << 31).contains(&new.wrapping_sub(old));
    same_ip && same_tcp && newer.len() == older.len() && acknowledges_more
}

/// Whether a packet with a TCP header at `at` has no flag but ACK, no payload, and is no fragment.
fn is_pure_ack(packet: &[u8], at: usize) -> bool {
    let fragment = ipv4::fragment::MF | ipv4::fragment::OFFSET;
    let is_fragment = at == ipv4::HEADER_LEN
        && get_u16(packet, ipv4::field::FLAGS_OFFSET.start)
            .is_none_or(|flags_offset| flags_offset & fragment != 0);
    let Some([offset, flags]) = get(packet, at + field::DATA_OFFSET) else { return false };
    flags == flag::ACK && packet.len() == at + usize::from(offset >> 4) * 4 && !is_fragment
}

/// Offset of the TCP header in a packet of IPv4 without options or IPv6 without extension headers. `None`
/// for other packets.
#[must_use]
pub fn header_at(packet: &[u8]) -> Option<usize> {
    let (protocol, at) = match packet.first()? {
        &ipv4::VERSION_IHL => (ipv4::field::PROTOCOL, ipv4::HEADER_LEN),
        first if first >> 4 == 6 => (ipv6::field::NEXT_HEADER, ipv6::HEADER_LEN),
        _ => return None,
    };
    (packet.get(protocol) == Some(&TCP) && packet.len() >= at + HEADER_LEN).then_some(at)
}

/// Whether a packet, behind IPv4 without options or IPv6 without extensions, is a SYN. This is quick.
#[must_use]
pub fn is_syn(packet: &[u8]) -> bool {
    header_at(packet)
        .and_then(|at| packet.get(at + field::FLAGS))
        .is_some_and(|flags| flags & flag::SYN != 0)
}

/// Writes the checksum of a packet whose checksum field is 0. Packets without a TCP header stay as they are.
pub fn fill_checksum(packet: &mut [u8]) {
    let Some(at) = header_at(packet) else { return };
    let sum = checksum(packet, at);
    put(packet, at + field::CHECKSUM, u16::from_be_bytes(sum));
}

/// Whether a packet asks for a new connection: SYN without ACK. `None` if its flags are not there, as in later
/// fragments and other protocols.
#[must_use]
pub fn opens_connection(packet: &ip::Packet<'_>) -> Option<bool> {
    let segment = match packet {
        ip::Packet::V4(packet) if packet.is_later_fragment() => return None,
        ip::Packet::V4(packet) => packet.payload(),
        ip::Packet::V6(packet) => packet.payload(),
    };
    let flags = segment.get(field::FLAGS).filter(|_| packet.protocol() == TCP)?;
    Some(flags & (flag::SYN | flag::ACK) == flag::SYN)
}

/// The TCP checksum over pseudo-header and segment of a packet whose TCP header is at `at`: `[0, 0]` if the
/// checksum field is valid, or the value of the field if that is 0.
#[must_use]
pub fn checksum(packet: &[u8], at: usize) -> [u8; 2] {
    let segment = packet.get(at..).unwrap_or_default();
    pseudo_header(packet, at == ipv4::HEADER_LEN, TCP, segment.len()).bytes(segment).finish()
}

/// Sum over the pseudo-header of a packet with `len` bytes behind its IP header.
pub(crate) fn pseudo_header(packet: &[u8], is_v4: bool, protocol: u8, len: usize) -> Sum {
    let addresses = if is_v4 { ipv4::field::ADDRESSES } else { ipv6::field::ADDRESSES };
    let sum = Sum::default().bytes(packet.get(addresses).unwrap_or_default());
    sum.word(protocol.into()).word(clamp(len))
}

/// MSS clamping: lowers the maximum segment size of a SYN to what fits into a packet of `mtu` bytes, options
/// not counted (RFC 6691 section 2). Returns whether it was larger. Everything else stays the same.
///
/// Without it, the first segments of a connection are too large for the tunnel. The ICMP error about them
/// (RFC 1191) costs more than a round trip: Linux counts the segments that it resends smaller as lost, and
/// leaves slow start.
pub fn clamp_mss(packet: &mut [u8], mtu: u16) -> bool {
    let Some((transport, max)) = syn(packet, mtu) else { return false };
    let Some(segment) = packet.get_mut(transport..) else { return false };
    let Some(at) = mss_at(segment) else { return false };
    let (Some(old), Some(sum)) = (get_u16(segment, at), get_u16(segment, field::CHECKSUM)) else {
        return false;
    };
    if old <= max {
        return false;
    }
    // At an odd offset each byte belongs to another word, in the other half of it; the sum of swapped words
    // is the swapped sum (RFC 1071 section 2 (B)).
    let sum = if at % 2 == 0 {
        update(sum, old, max)
    } else {
        update(sum, old.swap_bytes(), max.swap_bytes())
    };
    put(segment, at, max);
    put(segment, field::CHECKSUM, sum);
    true
}

/// Offset of the TCP header of a SYN, and the largest segment that fits into a packet of `mtu` bytes.
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
    let is_syn = packet.protocol() == TCP && payload.get(field::FLAGS)? & flag::SYN != 0;
    is_syn.then_some((transport, mtu.saturating_sub(clamp(fixed + HEADER_LEN))))
}

/// Offset of the maximum segment size in a TCP header.
fn mss_at(segment: &[u8]) -> Option<usize> {
    let len = header_len(segment)?;
    let options = segment.get(..len)?;
    let mut at = HEADER_LEN;
    loop {
        match *options.get(at)? {
            option::END => return None,
            option::NO_OPERATION => at += 1,
            kind => match (kind, *options.get(at + 1)?) {
                (option::MAXIMUM_SEGMENT_SIZE, option::MAXIMUM_SEGMENT_SIZE_LEN) => {
                    return (at + 4 <= len).then_some(at + 2);
                }
                (_, 0 | 1) => return None,
                (_, len) => at += usize::from(len),
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::{
        flag::{ACK, SYN},
        option::{END, NO_OPERATION},
        *,
    };

    /// The class of an IPv4 packet of this protocol with a TCP header of 24 bytes.
    fn classified(protocol: u8, fragment: u8, flags: u8, payload: usize) -> Option<Segment> {
        let mut bytes = vec![0; 20 + 24 + payload];
        let len = u8::try_from(bytes.len()).unwrap();
        let mut put = |at: usize, value: u8| bytes[at] = value;
        put(0, 0x45);
        put(3, len);
        put(6, fragment);
        put(9, protocol);
        put(20 + 12, 6 << 4);
        put(20 + 13, flags);
        Segment::of(&ip::Packet::parse(&bytes).unwrap())
    }

    #[test]
    fn only_pure_acknowledgements_are_not_data() {
        assert_eq!(classified(TCP, 0, ACK, 0), Some(Segment::PureAck));
        assert_eq!(classified(TCP, 0, ACK, 1), Some(Segment::Data));
        for flags in [ACK | 0x01, 0x02, 0x04] {
            assert_eq!(classified(TCP, 0, flags, 0), Some(Segment::Data));
        }
        assert_eq!(classified(17, 0, ACK, 1), None, "not TCP");
        assert_eq!(classified(TCP, 0x20, ACK, 1), None, "a fragment");
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

    /// Checksum over the pseudo-header and the segment: 0 if the packet's checksum is valid.
    fn sum(packet: &[u8], start: usize) -> u16 {
        let addresses = if start == 20 { &packet[12..20] } else { &packet[8..40] };
        let segment = &packet[start..];
        let sum = Sum::default().bytes(addresses).word(TCP.into()).word(clamp(segment.len()));
        u16::from_be_bytes(sum.bytes(segment).finish())
    }

    #[test]
    fn the_mss_is_lowered_to_what_fits() {
        let options = [2, 4, 0x05, 0xb4, 4, 2, 1, 3, 3, 7];
        let mut packet = syn_with(false, &options);
        assert!(!clamp_mss(&mut packet, 1500), "1460 fit");
        assert!(clamp_mss(&mut packet, 1428));
        assert_eq!(packet[42..44], 1388_u16.to_be_bytes());
        assert!(!clamp_mss(&mut packet, 1500), "never higher");
        let mut packet = syn_with(true, &options);
        assert!(clamp_mss(&mut packet, 1428));
        assert_eq!(packet[62..64], 1368_u16.to_be_bytes());
    }

    #[test]
    fn only_the_mss_of_a_syn_is_lowered() {
        let size = [2, 4, 0x05, 0xb4];
        let unchanged = |change: fn(&mut Vec<u8>)| {
            let mut packet = syn_with(false, &size);
            change(&mut packet);
            let before = packet.clone();
            !clamp_mss(&mut packet, 1000) && packet == before
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

    /// A pure acknowledgement of this number, with a timestamp, a SACK block and a complete checksum.
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
    fn only_the_acknowledgement_number_and_window_may_differ() {
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
        /// At even and odd offsets.
        #[test]
        fn the_checksum_stays_right(v6: bool, before in 0..5_usize, size: u16, mtu in 100..2000_u16) {
            let [high, low] = size.to_be_bytes();
            let options = [&vec![NO_OPERATION; before][..], &[2, 4, high, low, 3, 3, 7]].concat();
            let mut packet = syn_with(v6, &options);
            let start = if v6 { 40 } else { 20 };
            let room = mtu - if v6 { 60 } else { 40 };
            prop_assert_eq!(clamp_mss(&mut packet, mtu), size > room);
            prop_assert_eq!(sum(&packet, start), 0);
            let at = start + 20 + before + 2;
            prop_assert_eq!(&packet[at..at + 2], &size.min(room).to_be_bytes());
        }

        #[test]
        fn no_bytes_panic(mut bytes in proptest::collection::vec(any::<u8>(), 0..90), mtu: u16) {
            if let Some(first) = bytes.first_mut() {
                *first = if *first % 2 == 0 { 0x45 } else { 0x60 };
            }
            clamp_mss(&mut bytes, mtu);
            assert!(!supersedes(&bytes, &bytes));
        }
    }
}
