//! Segmentation of GSO packets, as a network card with TSO or USO does it (Linux
//! `Documentation/networking/segmentation-offloads.rst`).

use std::ops::Range;

use crate::{
    bytes::{clamp, get, get_u16, put},
    checksum::{Sum, nonzero, update},
    ipv4::{
        self,
        protocol::{TCP, UDP},
    },
    ipv6,
    record::{Protocol, Segmentation},
    tcp::{self, flag},
    udp,
};

/// A GSO packet and its segmentation, which agree with each other.
#[derive(Clone, Copy, Debug)]
pub struct GsoPacket<'a> {
    packet: &'a [u8],
    segmentation: Segmentation,
    /// Offset of the transport header.
    transport: usize,
    /// Offset of the payload.
    payload: usize,
}

impl<'a> GsoPacket<'a> {
    /// A packet with its segmentation, or `None` if the packet's headers do not agree with it.
    #[must_use]
    pub fn new(packet: &'a [u8], segmentation: Segmentation) -> Option<Self> {
        let transport = usize::from(segmentation.checksum_start());
        let payload = segmentation.header_len(packet);
        let version = packet.first()? >> 4;
        let has_tcp_header = payload >= transport + tcp::HEADER_LEN;
        let fits = match segmentation.protocol() {
            Protocol::TcpV4 => version == 4 && transport >= ipv4::HEADER_LEN && has_tcp_header,
            Protocol::TcpV6 => version == 6 && transport >= ipv6::HEADER_LEN && has_tcp_header,
            Protocol::Udp => match version {
                4 => transport >= ipv4::HEADER_LEN,
                6 => transport >= ipv6::HEADER_LEN,
                _ => false,
            },
        };
        let whole = fits && payload <= packet.len() && segmentation.size() > 0;
        whole.then_some(Self { packet, segmentation, transport, payload })
    }

    /// The same packet in segments that have at most `mtu` bytes each. TCP alone: what a datagram of UDP is, its sender
    /// says.
    #[must_use]
    pub fn fit(self, mtu: u16) -> Self {
        let room = mtu.saturating_sub(clamp(self.payload));
        if self.segmentation.protocol() == Protocol::Udp
            || room == 0
            || self.segmentation.size() <= room
        {
            return self;
        }
        Self { segmentation: self.segmentation.with_size(room), ..self }
    }

    /// Whether segments have the same size as those of `other`.
    #[must_use]
    pub fn is_cut_as(&self, other: &Self) -> bool {
        self.segmentation == other.segmentation
    }

    /// Number of segments.
    #[must_use]
    pub fn count(&self) -> usize {
        self.segmentation.segments(self.packet)
    }

    /// Length of segment `number` with its headers, bytes.
    #[must_use]
    pub fn len(&self, number: usize) -> usize {
        self.payload + self.part(number).len()
    }

    /// Always false: there is at least one segment.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        false
    }

    /// Where the payload of segment `number` is in the packet.
    fn part(&self, number: usize) -> Range<usize> {
        let size = usize::from(self.segmentation.size());
        let start = self.payload.saturating_add(number.saturating_mul(size)).min(self.packet.len());
        start..start.saturating_add(size).min(self.packet.len())
    }

    /// Headers and payload of segment `number`. [`GsoPacket::complete`] corrects the headers once the parts
    /// are joined.
    #[must_use]
    pub fn parts(&self, number: usize) -> [&'a [u8]; 2] {
        [0..self.payload, self.part(number)].map(|part| self.packet.get(part).unwrap_or_default())
    }

    /// Writes segment `number`, with complete checksums, into `out`, which must have [`GsoPacket::len`]
    /// bytes.
    pub fn write(&self, number: usize, out: &mut [u8]) {
        let [headers, part] = self.parts(number);
        if let Some((first, rest)) = out.split_at_mut_checked(headers.len())
            && rest.len() == part.len()
        {
            first.copy_from_slice(headers);
            rest.copy_from_slice(part);
            self.complete(number, out);
        }
    }

    /// Sets sequence number, flags, lengths and checksums of segment `number`, joined from its parts.
    pub fn complete(&self, number: usize, segment: &mut [u8]) {
        self.set_fields(number, segment);
        self.set_checksum(segment);
    }

    /// Like [`GsoPacket::complete`], but leaves a TCP checksum 0, for a [`crate::coalesce::Coalescer`] to
    /// complete. Returns whether the checksum was omitted.
    pub fn complete_without_checksum(&self, number: usize, segment: &mut [u8]) -> bool {
        self.set_fields(number, segment);
        let omitted = tcp::header_at(segment) == Some(self.transport);
        if !omitted {
            self.set_checksum(segment);
        }
        omitted
    }

    /// Sets all fields; the transport's checksum becomes 0.
    fn set_fields(&self, number: usize, segment: &mut [u8]) {
        let len = segment.len();
        if is_v4(segment) {
            set_v4_fields(segment, self.transport, number);
        } else {
            set_v6_length(segment);
        }
        let Some(transport) = segment.get_mut(self.transport..) else { return };
        match self.segmentation.protocol() {
            Protocol::Udp => put(transport, udp::field::LENGTH.start, clamp(len - self.transport)),
            Protocol::TcpV4 | Protocol::TcpV6 => self.set_tcp_fields(number, transport),
        }
        put(transport, self.segmentation.checksum_offset().into(), 0);
    }

    /// Sets the transport's checksum, which must be 0.
    fn set_checksum(&self, segment: &mut [u8]) {
        let is_v4 = is_v4(segment);
        let Some((network, transport)) = segment.split_at_mut_checked(self.transport) else {
            return;
        };
        let protocol = match self.segmentation.protocol() {
            Protocol::Udp => UDP,
            Protocol::TcpV4 | Protocol::TcpV6 => TCP,
        };
        let sum = tcp::pseudo_header(network, is_v4, protocol, transport.len());
        let sum = nonzero(sum.bytes(transport).finish());
        put(transport, self.segmentation.checksum_offset().into(), u16::from_be_bytes(sum));
    }

    fn set_tcp_fields(&self, number: usize, header: &mut [u8]) {
        let is_last = number + 1 >= self.count();
        advance_sequence(header, number.saturating_mul(self.segmentation.size().into()));
        if let Some(flags) = header.get_mut(tcp::field::FLAGS) {
            if !is_last {
                *flags &= !(flag::FIN | flag::PSH);
            }
            if number > 0 {
                *flags &= !flag::CWR;
            }
        }
    }
}

/// Removes the first segment from a GSO packet with a partial checksum, in place. The remaining packet starts
/// at the returned offset. Returns `None`, and changes nothing, if there is only one segment.
pub fn drop_first(packet: &mut [u8], segmentation: Segmentation) -> Option<usize> {
    let GsoPacket { transport, payload, .. } =
        GsoPacket::new(packet, segmentation).filter(|gso| gso.count() > 1)?;
    let removed = usize::from(segmentation.size());
    let old_len = clamp(packet.len() - transport);
    packet.copy_within(..payload, removed);
    let packet = packet.get_mut(removed..)?;
    if is_v4(packet) {
        set_v4_fields(packet, transport, 1);
    } else {
        set_v6_length(packet);
    }
    let header = packet.get_mut(transport..)?;
    let new_len = clamp(header.len());
    match segmentation.protocol() {
        Protocol::Udp => put(header, udp::field::LENGTH.start, new_len),
        Protocol::TcpV4 | Protocol::TcpV6 => advance_sequence(header, removed),
    }
    // The checksum field holds the sum of the pseudo-header, which includes the length.
    let at = usize::from(segmentation.checksum_offset());
    let sum = get_u16(header, at)?;
    put(header, at, !update(!sum, old_len, new_len));
    Some(removed)
}

/// Adds `bytes` to the sequence number of a TCP header.
fn advance_sequence(header: &mut [u8], bytes: usize) {
    if let Some(sequence) =
        header.get_mut(tcp::field::SEQUENCE..).and_then(|field| field.first_chunk_mut::<4>())
    {
        let bytes = u32::try_from(bytes).unwrap_or(u32::MAX);
        *sequence = u32::from_be_bytes(*sequence).wrapping_add(bytes).to_be_bytes();
    }
}

fn is_v4(packet: &[u8]) -> bool {
    packet.first().is_some_and(|byte| byte >> 4 == 4)
}

/// Sets total length, identification and checksum of an IPv4 header for segment `number`.
fn set_v4_fields(segment: &mut [u8], header_len: usize, number: usize) {
    use ipv4::field::{CHECKSUM, IDENTIFICATION, TOTAL_LENGTH};
    let len = clamp(segment.len());
    put(segment, TOTAL_LENGTH.start, len);
    let id = get(segment, IDENTIFICATION.start).map_or(0, u16::from_be_bytes);
    put(segment, IDENTIFICATION.start, id.wrapping_add(clamp(number)));
    put(segment, CHECKSUM.start, 0);
    let sum = Sum::default().bytes(segment.get(..header_len).unwrap_or_default()).finish();
    put(segment, CHECKSUM.start, u16::from_be_bytes(sum));
}

fn set_v6_length(segment: &mut [u8]) {
    let len = clamp(segment.len().saturating_sub(ipv6::HEADER_LEN));
    put(segment, ipv6::field::PAYLOAD_LENGTH.start, len);
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::{flag::CWR, *};
    use crate::{ip, ipv4};

    /// A TCP packet over IPv4 as the kernel gives it.
    fn tcp(payload: usize) -> Vec<u8> {
        let addresses = ([10, 1, 0, 1].into(), [10, 2, 0, 1].into());
        let (source, destination) = addresses;
        let repr = ipv4::Repr { source, destination, protocol: TCP, ttl: 64 };
        let mut packet = repr.emit(20 + payload).unwrap().to_vec();
        packet.extend([0, 1, 0, 2, 0, 0, 0, 100, 0, 0, 0, 0, 0x50, 0x99, 0, 9, 0, 0, 0, 0]);
        packet.extend((0..payload).map(|n| u8::try_from(n % 251).unwrap()));
        packet
    }

    fn segments(packet: &[u8], cut: Segmentation) -> Vec<Vec<u8>> {
        let gso = GsoPacket::new(packet, cut).unwrap();
        (0..gso.count())
            .map(|number| {
                let mut out = vec![0; gso.len(number)];
                gso.write(number, &mut out);
                out
            })
            .collect()
    }

    #[test]
    fn segments_continue_payload_and_sequence_numbers() {
        let packet = tcp(2500);
        let cut = Segmentation::new(Protocol::TcpV4, 1000, 20, 16, false);
        let segments = segments(&packet, cut);
        let payload: Vec<u8> = segments.iter().flat_map(|s| s[40..].to_vec()).collect();
        assert_eq!(payload, packet[40..]);
        let sequences: Vec<_> =
            segments.iter().map(|s| u32::from_be_bytes([s[24], s[25], s[26], s[27]])).collect();
        assert_eq!(sequences, [100, 1100, 2100]);
        let flags: Vec<_> = segments.iter().map(|s| s[33]).collect();
        assert_eq!(flags, [0x90, 0x10, 0x19], "CWR on the first, PSH and FIN on the last");
    }

    #[test]
    fn headers_that_do_not_agree_are_refused() {
        let packet = tcp(100);
        for (protocol, start) in
            [(Protocol::TcpV6, 20), (Protocol::TcpV4, 0), (Protocol::TcpV4, 130)]
        {
            let cut = Segmentation::new(protocol, 50, start, 16, false);
            assert!(GsoPacket::new(&packet, cut).is_none(), "{cut:?}");
        }
        assert!(GsoPacket::new(&[], Segmentation::new(Protocol::Udp, 9, 20, 6, false)).is_none());
    }

    proptest! {
        /// With a partial checksum, as the kernel gives it.
        #[test]
        fn dropping_the_first_segment_leaves_the_others(payload in 0..9000_usize, size in 1..1500_u16) {
            let mut packet = tcp(payload);
            let len = u16::try_from(packet.len() - 20).unwrap();
            let pseudo = Sum::default().bytes(&packet[12..20]).word(TCP.into()).word(len).finish();
            packet[36..38].copy_from_slice(&[!pseudo[0], !pseudo[1]]);
            let cut = Segmentation::new(Protocol::TcpV4, size, 20, 16, false);
            let (whole, before) = (packet.clone(), segments(&packet, cut));
            let Some(removed) = drop_first(&mut packet, cut) else {
                prop_assert_eq!(before.len(), 1);
                prop_assert_eq!(packet, whole);
                return Ok(());
            };
            let mut left = segments(&packet[removed..], cut);
            left[0][33] &= !CWR; // now the first segment
            for (segment, old) in left.iter().zip(&before[1..]) {
                prop_assert_eq!(&segment[..33], &old[..33]);
                prop_assert_eq!(&segment[40..], &old[40..]);
            }
            prop_assert_eq!(left.len() + 1, before.len());
            prop_assert!(crate::checksum::complete(&mut packet[removed..], 20, 16));
            let packet = &packet[removed..];
            let len = u16::try_from(packet.len() - 20).unwrap();
            let sum = Sum::default().bytes(&packet[12..20]).word(TCP.into()).word(len);
            prop_assert_eq!(sum.bytes(&packet[20..]).finish(), [0, 0]);
        }

        #[test]
        fn every_segment_is_a_valid_packet(payload in 1..9000_usize, size in 1..1500_u16) {
            let cut = Segmentation::new(Protocol::TcpV4, size, 20, 16, false);
            for segment in segments(&tcp(payload), cut) {
                prop_assert!(matches!(ip::Packet::parse(&segment), Ok(ip::Packet::V4(_))));
                prop_assert_eq!(Sum::default().bytes(&segment[..20]).finish(), [0, 0]);
                let len = u16::try_from(segment.len() - 20).unwrap();
                let sum = Sum::default().bytes(&segment[12..20]).word(TCP.into()).word(len);
                prop_assert_eq!(sum.bytes(&segment[20..]).finish(), [0, 0]);
            }
        }

        #[test]
        fn no_bytes_panic(
            bytes in proptest::collection::vec(any::<u8>(), 0..200),
            protocol in prop_oneof![Just(Protocol::TcpV4), Just(Protocol::TcpV6), Just(Protocol::Udp)],
            size: u16, start in 0..250_u16, offset in 0..50_u16,
        ) {
            let cut = Segmentation::new(protocol, size, start, offset, false);
            if let Some(gso) = GsoPacket::new(&bytes, cut) {
                for number in 0..gso.count() {
                    let mut out = vec![0; gso.len(number)];
                    gso.write(number, &mut out);
                }
            }
            let _ = drop_first(&mut bytes.clone(), cut);
        }
    }
}
