//! Coalescing of TCP segments into a GSO packet, as LRO or the kernel's GRO does it: the inverse of
//! [`crate::segment`].

use crate::{
    bytes::{clamp, get, put},
    checksum::{Sum, nonzero},
    ipv4::{self, protocol::TCP},
    ipv6,
    record::{Protocol, Segmentation},
    tcp::{self, flag},
};

/// State of a packet's TCP checksum.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Checksum {
    /// Not verified: the packet is not coalesced, and stays as it is.
    Unknown,
    /// Valid.
    Valid,
    /// Omitted ([`crate::segment::GsoPacket::complete_without_checksum`]).
    Omitted,
}

/// Longest packet, bytes.
const LEN_MAX: usize = u16::MAX as usize;

/// Collects consecutive segments of a flow.
#[derive(Debug)]
pub struct Coalescer {
    bytes: Vec<u8>,
    /// `None` if nothing can follow the packet.
    state: Option<State>,
    /// Of the first segment.
    checksum: Checksum,
    segments: usize,
}

/// What the next segment must match.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct State {
    is_v4: bool,
    /// Offset of the TCP header.
    transport: usize,
    /// Offset of the payload.
    payload: usize,
    /// Payload of each segment but the last, bytes.
    size: u16,
    /// Next sequence number.
    next: u32,
    /// Whether the last segment had PSH or was short: no segment may follow.
    closed: bool,
}

impl Default for Coalescer {
    fn default() -> Self {
        Self { bytes: Vec::new(), state: None, checksum: Checksum::Unknown, segments: 0 }
    }
}

impl Coalescer {
    /// Adds a packet. Returns false, and changes nothing, if it does not continue the collected segments.
    pub fn push(&mut self, packet: &[u8], checksum: Checksum) -> bool {
        let state = if checksum == Checksum::Unknown { None } else { State::of(packet) };
        if self.bytes.is_empty() {
            self.bytes.extend_from_slice(packet);
            (self.state, self.checksum, self.segments) = (state, checksum, 1);
            return true;
        }
        let (Some(held), Some(new)) = (&mut self.state, state) else { return false };
        if self.bytes.len() + packet.len() > LEN_MAX || !held.continues(&self.bytes, new, packet) {
            return false;
        }
        let payload = packet.get(new.payload..).unwrap_or_default();
        self.bytes.extend_from_slice(payload);
        held.next = new.next;
        held.closed = new.closed || new.size < held.size;
        if new.closed
            && let Some(flags) = self.bytes.get_mut(held.transport + tcp::field::FLAGS)
        {
            *flags |= flag::PSH;
        }
        self.segments += 1;
        true
    }

    /// Number of collected segments.
    #[must_use]
    pub fn segments(&self) -> usize {
        self.segments
    }

    /// The packet, with its segmentation if it has several segments. `None` if nothing was added. The caller
    /// must call [`Coalescer::clear`] next.
    pub fn finish(&mut self) -> Option<(&[u8], Option<Segmentation>)> {
        if self.bytes.is_empty() {
            return None;
        }
        if self.segments == 1
            && self.checksum == Checksum::Omitted
            && let Some(at) = tcp::header_at(&self.bytes)
        {
            let sum = nonzero(tcp::checksum(&self.bytes, at));
            put(&mut self.bytes, at + tcp::field::CHECKSUM, u16::from_be_bytes(sum));
        }
        let state = self.state.filter(|_| self.segments > 1);
        let segmentation = state.map(|state| state.finish(&mut self.bytes));
        Some((&self.bytes, segmentation))
    }

    /// Removes all segments.
    pub fn clear(&mut self) {
        self.bytes.clear();
        self.segments = 0;
    }
}

/// Whether the TCP checksum of a packet of IPv4 without options or IPv6 without extension headers is valid.
#[must_use]
pub fn has_valid_checksum(packet: &[u8]) -> bool {
    tcp::header_at(packet).is_some_and(|at| tcp::checksum(packet, at) == [0, 0])
}

impl State {
    /// The state after a TCP segment with payload and no flags but ACK and PSH; `None` for other packets.
    fn of(packet: &[u8]) -> Option<Self> {
        let first = *packet.first()?;
        let is_v4 = first >> 4 == 4;
        let (protocol, transport) = if is_v4 {
            (ipv4::field::PROTOCOL, ipv4::HEADER_LEN)
        } else {
            (ipv6::field::NEXT_HEADER, ipv6::HEADER_LEN)
        };
        let is_plain = if is_v4 {
            let flags_offset = packet.get(ipv4::field::FLAGS_OFFSET)?;
            first == ipv4::VERSION_IHL && flags_offset == ipv4::fragment::DF.to_be_bytes()
        } else {
            first >> 4 == 6
        };
        let sequence = get(packet, transport + tcp::field::SEQUENCE).map(u32::from_be_bytes)?;
        let payload = transport + tcp::header_len(packet.get(transport..)?)?;
        let flags = packet.get(transport + tcp::field::FLAGS)?;
        let size = u16::try_from(packet.len().checked_sub(payload)?).ok()?;
        let can_coalesce = is_plain
            && packet.get(protocol) == Some(&TCP)
            && payload >= transport + tcp::HEADER_LEN
            && flags & !flag::PSH == flag::ACK
            && size > 0;
        let next = sequence.wrapping_add(size.into());
        let closed = flags & flag::PSH != 0;
        can_coalesce.then_some(Self { is_v4, transport, payload, size, next, closed })
    }

    /// Whether `packet`, whose state is `new`, continues the `held` bytes: next in sequence, with equal
    /// headers.
    fn continues(&self, held: &[u8], new: Self, packet: &[u8]) -> bool {
        let start = new.next.wrapping_sub(new.size.into());
        let same = |from, to| held.get(from..to) == packet.get(from..to);
        // May differ: lengths, IPv4 identification, flags and checksum.
        let same_ip = if self.is_v4 {
            same(0, ipv4::field::TOTAL_LENGTH.start)
                && same(ipv4::field::TTL, ipv4::field::CHECKSUM.start)
                && same(ipv4::field::ADDRESSES.start, ipv4::field::ADDRESSES.end)
        } else {
            same(0, ipv6::field::PAYLOAD_LENGTH.start)
                && same(ipv6::field::NEXT_HEADER, ipv6::HEADER_LEN)
        };
        // May differ: sequence number, flags and checksum.
        let t = self.transport;
        let same_tcp = same(t, t + tcp::field::SEQUENCE)
            && same(t + tcp::field::ACKNOWLEDGMENT, t + tcp::field::FLAGS)
            && same(t + tcp::field::WINDOW, t + tcp::field::CHECKSUM)
            && same(t + tcp::field::URGENT, self.payload);
        let fits = (new.is_v4, new.payload) == (self.is_v4, self.payload) && new.size <= self.size;
        !self.closed && start == self.next && fits && same_ip && same_tcp
    }

    /// Sets lengths and checksums of the coalesced packet; the TCP checksum is partial.
    fn finish(&self, bytes: &mut [u8]) -> Segmentation {
        let (len, segment_len) = (clamp(bytes.len()), bytes.len() - self.transport);
        if self.is_v4 {
            put(bytes, ipv4::field::TOTAL_LENGTH.start, len);
            put(bytes, ipv4::field::CHECKSUM.start, 0);
            let header = bytes.get(..ipv4::HEADER_LEN).unwrap_or_default();
            let sum = Sum::default().bytes(header).finish();
            put(bytes, ipv4::field::CHECKSUM.start, u16::from_be_bytes(sum));
        } else {
            let len = clamp(bytes.len() - ipv6::HEADER_LEN);
            put(bytes, ipv6::field::PAYLOAD_LENGTH.start, len);
        }
        let sum = tcp::pseudo_header(bytes, self.is_v4, TCP, segment_len).finish();
        put(bytes, self.transport + tcp::field::CHECKSUM, !u16::from_be_bytes(sum));
        let protocol = if self.is_v4 { Protocol::TcpV4 } else { Protocol::TcpV6 };
        let (start, offset) = (clamp(self.transport), clamp(tcp::field::CHECKSUM));
        Segmentation::new(protocol, self.size, start, offset, false)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::{ipv4, segment::GsoPacket};

    /// A GSO packet as the kernel gives it, and its segmentation.
    fn gso_packet(payload: usize, size: u16) -> (Vec<u8>, Segmentation) {
        let (source, destination) = ([10, 1, 0, 1].into(), [10, 2, 0, 1].into());
        let repr = ipv4::Repr { source, destination, protocol: TCP, ttl: 64 };
        let mut packet = repr.emit(20 + payload).unwrap().to_vec();
        packet[6] = 0x40;
        packet.extend([0, 1, 0, 2, 0, 0, 0, 100, 0, 0, 0, 0, 0x50, 0x18, 0, 9, 0, 0, 0, 0]);
        packet.extend((0..payload).map(|n| u8::try_from(n % 251).unwrap()));
        (packet, Segmentation::new(Protocol::TcpV4, size, 20, 16, false))
    }

    fn segment(packet: &[u8], segmentation: Segmentation) -> Vec<Vec<u8>> {
        let gso = GsoPacket::new(packet, segmentation).unwrap();
        let one = |number| {
            let mut out = vec![0; gso.len(number)];
            gso.write(number, &mut out);
            out
        };
        (0..gso.count()).map(one).collect()
    }

    /// In one of its segments, the sum of all but the checksum is all ones.
    #[test]
    fn a_checksum_of_zero_is_completed_as_by_segmentation() {
        let (packet, how) = gso_packet(48_769, 508);
        let gso = GsoPacket::new(&packet, how).unwrap();
        for (number, segment) in segment(&packet, how).iter().enumerate() {
            let mut without = gso.parts(number).concat();
            assert!(gso.complete_without_checksum(number, &mut without));
            let mut coalescer = Coalescer::default();
            assert!(coalescer.push(&without, Checksum::Omitted));
            assert_eq!(coalescer.finish(), Some((segment.as_slice(), None)));
        }
    }

    proptest! {
        #[test]
        fn segments_are_coalesced_and_segmented_again(payload in 1..60_000_usize, size in 500..1500_u16, omitted: bool) {
            let (packet, how) = gso_packet(payload, size);
            let segments = segment(&packet, how);
            let mut coalescer = Coalescer::default();
            for (number, segment) in segments.iter().enumerate() {
                prop_assert!(has_valid_checksum(segment));
                let mut changed = segment.clone();
                *changed.last_mut().unwrap() ^= 1;
                prop_assert!(!has_valid_checksum(&changed));
                let gso = GsoPacket::new(&packet, how).unwrap();
                let mut without = gso.parts(number).concat();
                prop_assert!(gso.complete_without_checksum(number, &mut without));
                let alone = &mut Coalescer::default();
                prop_assert!(alone.push(&without, Checksum::Omitted));
                prop_assert_eq!(alone.finish(), Some((segment.as_slice(), None)));
                let (segment, checksum) = if omitted {
                    (&without, Checksum::Omitted)
                } else {
                    (segment, Checksum::Valid)
                };
                prop_assert!(coalescer.push(segment, checksum));
            }
            prop_assert_eq!(coalescer.segments(), segments.len());
            let (coalesced, again) = coalescer.finish().unwrap();
            let segmented_again = again.map_or_else(|| vec![coalesced.to_vec()], |how| segment(coalesced, how));
            prop_assert_eq!(segmented_again, segments);
        }

        #[test]
        fn no_bytes_panic(packets in proptest::collection::vec(proptest::collection::vec(any::<u8>(), 0..100), 0..5)) {
            let mut coalescer = Coalescer::default();
            for packet in &packets {
                coalescer.push(packet, Checksum::Omitted);
                let _ = has_valid_checksum(packet);
            }
            let _ = coalescer.finish();
        }
    }

    #[test]
    fn other_packets_are_refused() {
        let (packet, how) = gso_packet(3000, 1000);
        let segments = segment(&packet, how);
        let mut coalescer = Coalescer::default();
        assert!(coalescer.push(&segments[0], Checksum::Valid));
        assert!(!coalescer.push(&segments[2], Checksum::Valid), "there is a gap");
        assert!(!coalescer.push(&segments[1], Checksum::Unknown), "its checksum may be wrong");
        let mut other = segments[1].clone();
        other[8] = 9;
        assert!(!coalescer.push(&other, Checksum::Valid), "it has another TTL");
        assert!(
            coalescer.push(&segments[1], Checksum::Valid)
                && coalescer.push(&segments[2], Checksum::Valid)
        );
        assert!(!coalescer.push(&segments[1], Checksum::Valid), "PSH ends it");
        coalescer.clear();
        assert!(coalescer.finish().is_none());
    }
}
