//! Cuts large packets into segments, as a network card with TSO or USO does.

use std::ops::Range;

use crate::{
    checksum::{Sum, update},
    field::{clamp, put},
    ipv4::protocol::{TCP, UDP},
    record::{Protocol, Segmentation},
    tcp,
};

const FIN: u8 = 0x01;
const PSH: u8 = 0x08;
const CWR: u8 = 0x80;

/// A large packet, and how it is cut. Valid by construction: nothing below fails.
#[derive(Clone, Copy, Debug)]
pub struct Large<'a> {
    packet: &'a [u8],
    cut: Segmentation,
    /// Where the transport header begins, and where the payload does.
    transport: usize,
    payload: usize,
}

impl<'a> Large<'a> {
    /// Takes a packet whose headers agree with how it is to be cut; none where they do not.
    #[must_use]
    pub fn new(packet: &'a [u8], cut: Segmentation) -> Option<Self> {
        let transport = usize::from(cut.checksum_start());
        let payload = cut.header_len(packet);
        let version = packet.first()? >> 4;
        let fits = match cut.protocol() {
            Protocol::TcpV4 => version == 4 && transport >= 20 && payload >= transport + 20,
            Protocol::TcpV6 => version == 6 && transport >= 40 && payload >= transport + 20,
            Protocol::Udp => match version {
                4 => transport >= 20,
                6 => transport >= 40,
                _ => false,
            },
        };
        let whole = fits && payload <= packet.len() && cut.size() > 0;
        whole.then_some(Self { packet, cut, transport, payload })
    }

    /// Segments that come out.
    #[must_use]
    pub fn count(&self) -> usize {
        self.cut.segments(self.packet)
    }

    /// Bytes of one segment.
    #[must_use]
    pub fn len(&self, number: usize) -> usize {
        self.payload + self.part(number).len()
    }

    /// Whether there is none: never.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        false
    }

    fn part(&self, number: usize) -> Range<usize> {
        let size = usize::from(self.cut.size());
        let start = self.payload.saturating_add(number.saturating_mul(size)).min(self.packet.len());
        start..start.saturating_add(size).min(self.packet.len())
    }

    /// What segment `number` is put together from: headers, which [`Large::complete`] sets right, and payload.
    #[must_use]
    pub fn parts(&self, number: usize) -> [&'a [u8]; 2] {
        [0..self.payload, self.part(number)].map(|part| self.packet.get(part).unwrap_or_default())
    }

    /// Writes segment `number` into `out`, which has [`Large::len`] bytes, with all checksums complete.
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

    /// Sets numbers, flags, lengths and checksums of segment `number`, which was put together from its parts.
    pub fn complete(&self, number: usize, segment: &mut [u8]) {
        self.set(number, segment);
        self.sum(segment);
    }

    /// The same, but leaves a TCP checksum to [`crate::join::Join`]: its field is 0. Whether it did.
    pub fn complete_unsummed(&self, number: usize, segment: &mut [u8]) -> bool {
        self.set(number, segment);
        let unsummed = tcp::header_at(segment) == Some(self.transport);
        if !unsummed {
            self.sum(segment);
        }
        unsummed
    }

    /// Sets all but the transport's checksum, which becomes 0.
    fn set(&self, number: usize, segment: &mut [u8]) {
        let len = segment.len();
        let is_v4 = segment.first().is_some_and(|byte| byte >> 4 == 4);
        if is_v4 {
            fix_v4(segment, self.transport, number);
        } else {
            fix_v6(segment);
        }
        let Some(transport) = segment.get_mut(self.transport..) else { return };
        match self.cut.protocol() {
            Protocol::Udp => put(transport, 4, clamp(len - self.transport)),
            Protocol::TcpV4 | Protocol::TcpV6 => self.fix_tcp(number, transport),
        }
        put(transport, self.cut.checksum_offset().into(), 0);
    }

    /// Sets the transport's checksum, which was 0.
    fn sum(&self, segment: &mut [u8]) {
        let is_v4 = segment.first().is_some_and(|byte| byte >> 4 == 4);
        let Some((network, transport)) = segment.split_at_mut_checked(self.transport) else {
            return;
        };
        let protocol = match self.cut.protocol() {
            Protocol::Udp => UDP,
            Protocol::TcpV4 | Protocol::TcpV6 => TCP,
        };
        let addresses = if is_v4 { network.get(12..20) } else { network.get(8..40) };
        let sum = Sum::default().bytes(addresses.unwrap_or_default()).word(protocol.into());
        let sum = sum.word(clamp(transport.len())).bytes(transport).finish();
        let sum = if sum == [0, 0] { [0xff, 0xff] } else { sum };
        put(transport, self.cut.checksum_offset().into(), u16::from_be_bytes(sum));
    }

    fn fix_tcp(&self, number: usize, header: &mut [u8]) {
        let is_last = number + 1 >= self.count();
        advance(header, number.saturating_mul(self.cut.size().into()));
        if let Some(flags) = header.get_mut(13) {
            if !is_last {
                *flags &= !(FIN | PSH);
            }
            if number > 0 {
                *flags &= !CWR;
            }
        }
    }
}

/// Takes the first segment out of a large packet whose checksum is still to be completed, in place: what
/// is left begins that many bytes later. None, and nothing is changed, where there is but one segment.
pub fn drop_first(packet: &mut [u8], cut: Segmentation) -> Option<usize> {
    let Large { transport, payload, .. } =
        Large::new(packet, cut).filter(|large| large.count() > 1)?;
    let gone = usize::from(cut.size());
    let old = clamp(packet.len() - transport);
    packet.copy_within(..payload, gone);
    let packet = packet.get_mut(gone..)?;
    if packet.first().is_some_and(|byte| byte >> 4 == 4) {
        fix_v4(packet, transport, 1);
    } else {
        fix_v6(packet);
    }
    let header = packet.get_mut(transport..)?;
    let new = clamp(header.len());
    match cut.protocol() {
        Protocol::Udp => put(header, 4, new),
        Protocol::TcpV4 | Protocol::TcpV6 => advance(header, gone),
    }
    // What stands in the field is the sum of the pseudo-header, which has the length in it.
    let at = usize::from(cut.checksum_offset());
    let sum = header.get(at..).and_then(|field| field.first_chunk().copied())?;
    put(header, at, !update(!u16::from_be_bytes(sum), old, new));
    Some(gone)
}

/// Moves the sequence number of a TCP header on.
fn advance(header: &mut [u8], bytes: usize) {
    if let Some(sequence) = header.get_mut(4..8).and_then(|field| field.first_chunk_mut::<4>()) {
        let bytes = u32::try_from(bytes).unwrap_or(u32::MAX);
        *sequence = u32::from_be_bytes(*sequence).wrapping_add(bytes).to_be_bytes();
    }
}

fn fix_v4(segment: &mut [u8], header_len: usize, number: usize) {
    let len = clamp(segment.len());
    put(segment, 2, len);
    let id = segment.get(4..6).and_then(|field| field.first_chunk().copied()).unwrap_or_default();
    put(segment, 4, u16::from_be_bytes(id).wrapping_add(clamp(number)));
    put(segment, 10, 0);
    let sum = Sum::default().bytes(segment.get(..header_len).unwrap_or_default()).finish();
    put(segment, 10, u16::from_be_bytes(sum));
}

fn fix_v6(segment: &mut [u8]) {
    let len = clamp(segment.len().saturating_sub(40));
    put(segment, 4, len);
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
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
        let large = Large::new(packet, cut).unwrap();
        (0..large.count())
            .map(|number| {
                let mut out = vec![0; large.len(number)];
                large.write(number, &mut out);
                out
            })
            .collect()
    }

    #[test]
    fn payload_and_sequence_numbers_go_on() {
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
    fn headers_that_do_not_fit_are_refused() {
        let packet = tcp(100);
        for (protocol, start) in
            [(Protocol::TcpV6, 20), (Protocol::TcpV4, 0), (Protocol::TcpV4, 130)]
        {
            let cut = Segmentation::new(protocol, 50, start, 16, false);
            assert!(Large::new(&packet, cut).is_none(), "{cut:?}");
        }
        assert!(Large::new(&[], Segmentation::new(Protocol::Udp, 9, 20, 6, false)).is_none());
    }

    proptest! {
        /// As the kernel gives it, the field holding the sum of the pseudo-header.
        #[test]
        fn without_its_first_segment_it_is_the_others(payload in 0..9000_usize, size in 1..1500_u16) {
            let mut packet = tcp(payload);
            let len = u16::try_from(packet.len() - 20).unwrap();
            let pseudo = Sum::default().bytes(&packet[12..20]).word(TCP.into()).word(len).finish();
            packet[36..38].copy_from_slice(&[!pseudo[0], !pseudo[1]]);
            let cut = Segmentation::new(Protocol::TcpV4, size, 20, 16, false);
            let (whole, before) = (packet.clone(), segments(&packet, cut));
            let Some(gone) = drop_first(&mut packet, cut) else {
                prop_assert_eq!(before.len(), 1);
                prop_assert_eq!(packet, whole);
                return Ok(());
            };
            let mut left = segments(&packet[gone..], cut);
            left[0][33] &= !CWR; // stays where it is the first
            for (segment, old) in left.iter().zip(&before[1..]) {
                prop_assert_eq!(&segment[..33], &old[..33]);
                prop_assert_eq!(&segment[40..], &old[40..]);
            }
            prop_assert_eq!(left.len() + 1, before.len());
            prop_assert!(crate::checksum::complete(&mut packet[gone..], 20, 16));
            let packet = &packet[gone..];
            let len = u16::try_from(packet.len() - 20).unwrap();
            let sum = Sum::default().bytes(&packet[12..20]).word(TCP.into()).word(len);
            prop_assert_eq!(sum.bytes(&packet[20..]).finish(), [0, 0]);
        }

        #[test]
        fn every_segment_is_a_good_packet(payload in 1..9000_usize, size in 1..1500_u16) {
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
            if let Some(large) = Large::new(&bytes, cut) {
                for number in 0..large.count() {
                    let mut out = vec![0; large.len(number)];
                    large.write(number, &mut out);
                }
            }
            let _ = drop_first(&mut bytes.clone(), cut);
        }
    }
}
