//! Joins segments of one TCP flow into a large packet, as a network card with LRO or the kernel's GRO
//! does: the opposite of [`crate::segment`].

use crate::{
    checksum::Sum,
    field::{clamp, put},
    ipv4::protocol::TCP,
    record::{Protocol, Segmentation},
    tcp,
};

/// What is known of a packet's TCP checksum.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Checksum {
    /// Nothing: the packet stays alone, as it is.
    Unknown,
    /// It is right.
    Right,
    /// It was left out ([`crate::segment::Large::complete_unsummed`]).
    LeftOut,
}

/// Bytes of a large packet, at most.
const LARGEST: usize = u16::MAX as usize;

const PSH: u8 = 0x08;
const ACK: u8 = 0x10;

/// A packet that may still grow.
#[derive(Debug)]
pub struct Join {
    bytes: Vec<u8>,
    shape: Option<Shape>,
    /// Of the first packet.
    checksum: Checksum,
    parts: usize,
}

/// What is known of a segment that others may follow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Shape {
    is_v4: bool,
    /// Where the TCP header begins, and where the payload does.
    transport: usize,
    payload: usize,
    /// Payload of each segment but the last.
    size: u16,
    /// Sequence number that the next one has.
    next: u32,
    /// Nothing may follow.
    closed: bool,
}

impl Default for Join {
    fn default() -> Self {
        Self { bytes: Vec::new(), shape: None, checksum: Checksum::Unknown, parts: 0 }
    }
}

impl Join {
    /// Adds a packet to what is there; false where it does not follow, and nothing has changed.
    pub fn push(&mut self, packet: &[u8], checksum: Checksum) -> bool {
        let shape = if checksum == Checksum::Unknown { None } else { Shape::of(packet) };
        if self.bytes.is_empty() {
            self.bytes.extend_from_slice(packet);
            (self.shape, self.checksum, self.parts) = (shape, checksum, 1);
            return true;
        }
        let (Some(held), Some(new)) = (&mut self.shape, shape) else { return false };
        if self.bytes.len() + packet.len() > LARGEST
            || !held.is_followed_by(&self.bytes, new, packet)
        {
            return false;
        }
        let payload = packet.get(new.payload..).unwrap_or_default();
        self.bytes.extend_from_slice(payload);
        held.next = new.next;
        held.closed = new.closed || new.size < held.size;
        if new.closed
            && let Some(flags) = self.bytes.get_mut(held.transport + 13)
        {
            *flags |= PSH;
        }
        self.parts += 1;
        true
    }

    /// Packets in it.
    #[must_use]
    pub fn parts(&self) -> usize {
        self.parts
    }

    /// The packet, and how it is to be cut again; none where nothing was added. To be cleared next.
    pub fn finish(&mut self) -> Option<(&[u8], Option<Segmentation>)> {
        if self.bytes.is_empty() {
            return None;
        }
        if self.parts == 1
            && self.checksum == Checksum::LeftOut
            && let Some(at) = tcp::header_at(&self.bytes)
        {
            let sum = tcp::checksum(&self.bytes, at);
            put(&mut self.bytes, at + 16, u16::from_be_bytes(sum));
        }
        let shape = self.shape.filter(|_| self.parts > 1);
        let cut = shape.map(|shape| shape.finish(&mut self.bytes));
        Some((&self.bytes, cut))
    }

    /// Forgets what is there.
    pub fn clear(&mut self) {
        self.bytes.clear();
        self.parts = 0;
    }
}

/// Whether a TCP segment's checksum is right, over IPv4 without options or over IPv6.
#[must_use]
pub fn is_intact(packet: &[u8]) -> bool {
    tcp::header_at(packet).is_some_and(|at| tcp::checksum(packet, at) == [0, 0])
}

impl Shape {
    /// Of a TCP segment with payload and no flags that say more than that it is one.
    fn of(packet: &[u8]) -> Option<Self> {
        let is_v4 = packet.first()? >> 4 == 4;
        let (protocol, transport) = if is_v4 { (9, 20) } else { (6, 40) };
        let plain = if is_v4 {
            *packet.first()? == 0x45 && packet.get(6..8)?.first_chunk()? == &[0x40, 0]
        } else {
            packet.first()? >> 4 == 6
        };
        let &[s3, s2, s1, s0] = packet.get(transport + 4..)?.first_chunk()?;
        let payload = transport + usize::from(packet.get(transport + 12)? >> 4) * 4;
        let flags = packet.get(transport + 13)?;
        let size = u16::try_from(packet.len().checked_sub(payload)?).ok()?;
        let good = plain
            && packet.get(protocol) == Some(&TCP)
            && payload >= transport + 20
            && flags & !PSH == ACK
            && size > 0;
        let next = u32::from_be_bytes([s3, s2, s1, s0]).wrapping_add(size.into());
        let closed = flags & PSH != 0;
        good.then_some(Self { is_v4, transport, payload, size, next, closed })
    }

    /// Whether a packet goes on where this one ends, and says the same in its headers.
    fn is_followed_by(&self, held: &[u8], new: Self, packet: &[u8]) -> bool {
        let start = new.next.wrapping_sub(new.size.into());
        let same = |from, to| held.get(from..to) == packet.get(from..to);
        let ip = if self.is_v4 {
            same(0, 2) && same(8, 10) && same(12, 20)
        } else {
            same(0, 4) && same(6, 40)
        };
        let t = self.transport;
        let tcp = same(t, t + 4)
            && same(t + 8, t + 13)
            && same(t + 14, t + 16)
            && same(t + 18, self.payload);
        let fits = (new.is_v4, new.payload) == (self.is_v4, self.payload) && new.size <= self.size;
        !self.closed && start == self.next && fits && ip && tcp
    }

    /// Puts lengths and checksums right: that of TCP is left to be completed.
    fn finish(&self, bytes: &mut [u8]) -> Segmentation {
        let (all, len) = (clamp(bytes.len()), clamp(bytes.len() - self.transport));
        if self.is_v4 {
            put(bytes, 2, all);
            put(bytes, 10, 0);
            let sum = Sum::default().bytes(bytes.get(..20).unwrap_or_default()).finish();
            put(bytes, 10, u16::from_be_bytes(sum));
        } else {
            put(bytes, 4, clamp(bytes.len() - 40));
        }
        let addresses = if self.is_v4 { bytes.get(12..20) } else { bytes.get(8..40) };
        let sum = Sum::default().bytes(addresses.unwrap_or_default()).word(TCP.into()).word(len);
        put(bytes, self.transport + 16, !u16::from_be_bytes(sum.finish()));
        let protocol = if self.is_v4 { Protocol::TcpV4 } else { Protocol::TcpV6 };
        Segmentation::new(protocol, self.size, clamp(self.transport), 16, false)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::{ipv4, segment::Large};

    /// A large TCP packet as the kernel gives it, and how to cut it.
    fn large(payload: usize, size: u16) -> (Vec<u8>, Segmentation) {
        let (source, destination) = ([10, 1, 0, 1].into(), [10, 2, 0, 1].into());
        let repr = ipv4::Repr { source, destination, protocol: TCP, ttl: 64 };
        let mut packet = repr.emit(20 + payload).unwrap().to_vec();
        packet[6] = 0x40;
        packet.extend([0, 1, 0, 2, 0, 0, 0, 100, 0, 0, 0, 0, 0x50, 0x18, 0, 9, 0, 0, 0, 0]);
        packet.extend((0..payload).map(|n| u8::try_from(n % 251).unwrap()));
        (packet, Segmentation::new(Protocol::TcpV4, size, 20, 16, false))
    }

    fn cut(packet: &[u8], cut: Segmentation) -> Vec<Vec<u8>> {
        let large = Large::new(packet, cut).unwrap();
        let one = |number| {
            let mut out = vec![0; large.len(number)];
            large.write(number, &mut out);
            out
        };
        (0..large.count()).map(one).collect()
    }

    proptest! {
        #[test]
        fn what_was_cut_is_joined_and_cut_again(payload in 1..60_000_usize, size in 500..1500_u16, left_out: bool) {
            let (packet, how) = large(payload, size);
            let segments = cut(&packet, how);
            let mut join = Join::default();
            for (number, segment) in segments.iter().enumerate() {
                prop_assert!(is_intact(segment));
                let mut changed = segment.clone();
                *changed.last_mut().unwrap() ^= 1;
                prop_assert!(!is_intact(&changed));
                let large = Large::new(&packet, how).unwrap();
                let mut unsummed = large.parts(number).concat();
                prop_assert!(large.complete_unsummed(number, &mut unsummed));
                let alone = &mut Join::default();
                prop_assert!(alone.push(&unsummed, Checksum::LeftOut));
                prop_assert_eq!(alone.finish(), Some((segment.as_slice(), None)));
                let (segment, checksum) = if left_out {
                    (&unsummed, Checksum::LeftOut)
                } else {
                    (segment, Checksum::Right)
                };
                prop_assert!(join.push(segment, checksum));
            }
            prop_assert_eq!(join.parts(), segments.len());
            let (joined, again) = join.finish().unwrap();
            let cut_again = again.map_or_else(|| vec![joined.to_vec()], |how| cut(joined, how));
            prop_assert_eq!(cut_again, segments);
        }

        #[test]
        fn no_bytes_panic(packets in proptest::collection::vec(proptest::collection::vec(any::<u8>(), 0..100), 0..5)) {
            let mut join = Join::default();
            for packet in &packets {
                join.push(packet, Checksum::LeftOut);
                let _ = is_intact(packet);
            }
            let _ = join.finish();
        }
    }

    #[test]
    fn what_does_not_follow_is_refused() {
        let (packet, how) = large(3000, 1000);
        let segments = cut(&packet, how);
        let mut join = Join::default();
        assert!(join.push(&segments[0], Checksum::Right));
        assert!(!join.push(&segments[2], Checksum::Right), "there is a gap");
        assert!(!join.push(&segments[1], Checksum::Unknown), "its checksum may be wrong");
        let mut other = segments[1].clone();
        other[8] = 9;
        assert!(!join.push(&other, Checksum::Right), "it has another TTL");
        assert!(
            join.push(&segments[1], Checksum::Right) && join.push(&segments[2], Checksum::Right)
        );
        assert!(!join.push(&segments[1], Checksum::Right), "PSH ends it");
        join.clear();
        assert!(join.finish().is_none());
    }
}
