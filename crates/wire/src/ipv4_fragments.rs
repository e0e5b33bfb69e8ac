//! Fragmentation of IPv4 packets (RFC 791 section 3.2).

use crate::{
    bytes::{clamp, put},
    checksum::Sum,
    ipv4::{HEADER_LEN, Packet},
};

/// Flag that more fragments follow, and the bits of the offset, in bytes 6 and 7 of a header.
const MORE: u16 = 0x2000;
const OFFSET: u16 = 0x1fff;

/// Fragments carry payload in units of so many bytes.
const UNIT: usize = 8;

/// Options that are copied into every fragment have this bit set (RFC 791 section 3.1).
const COPIED: u8 = 0x80;
const END: u8 = 0;
const NO_OPERATION: u8 = 1;

/// Fragments of a packet, of at most `mtu` bytes each. None if the packet must not be
/// fragmented, or `mtu` has no room for its header and eight bytes.
#[must_use]
pub fn fragments<'a>(packet: &Packet<'a>, mtu: u16) -> Option<Fragments<'a>> {
    if packet.must_not_be_fragmented() {
        return None;
    }
    let first = packet.bytes().get(..packet.header_len())?.to_vec();
    let word = u16::from_be_bytes([*first.get(6)?, *first.get(7)?]);
    let room = usize::from(mtu).checked_sub(first.len()).filter(|room| *room >= UNIT)?;
    let later = without_uncopied(&first);
    let (payload, offset) = (packet.payload(), word & OFFSET);
    Some(Fragments { header: first, later, payload, offset, more: word & MORE, room })
}

/// See [`fragments`].
#[derive(Clone, Debug)]
pub struct Fragments<'a> {
    header: Vec<u8>,
    /// The header of all fragments but the first.
    later: Vec<u8>,
    payload: &'a [u8],
    /// Where the rest of the payload begins, in units of eight bytes.
    offset: u16,
    /// Whether fragments follow the last one: then the packet was a fragment itself.
    more: u16,
    room: usize,
}

impl<'a> Iterator for Fragments<'a> {
    /// Header and payload.
    type Item = (Vec<u8>, &'a [u8]);

    fn next(&mut self) -> Option<Self::Item> {
        if self.payload.is_empty() {
            return None;
        }
        let is_last = self.payload.len() <= self.room;
        let len = if is_last { self.payload.len() } else { self.room / UNIT * UNIT };
        let (part, rest) = self.payload.split_at_checked(len)?;
        let mut header = std::mem::replace(&mut self.header, self.later.clone());
        let whole = clamp(header.len() + len);
        put(&mut header, 2, whole);
        put(&mut header, 6, self.offset | if is_last { self.more } else { MORE });
        put(&mut header, 10, 0);
        let sum = Sum::default().bytes(&header).finish();
        put(&mut header, 10, u16::from_be_bytes(sum));
        (self.payload, self.offset) = (rest, self.offset.wrapping_add(clamp(len / UNIT)));
        Some((header, part))
    }
}

/// A header without the options that only the first fragment has: those become no operations, so
/// that all headers are of one length.
fn without_uncopied(header: &[u8]) -> Vec<u8> {
    let mut header = header.to_vec();
    let mut at = HEADER_LEN;
    while let Some(kind) = header.get(at).copied().filter(|kind| *kind != END) {
        let len = match kind {
            NO_OPERATION => 1,
            _ => header.get(at + 1).copied().map_or(1, usize::from).max(1),
        };
        if kind & COPIED == 0 {
            let end = (at + len).min(header.len());
            header.get_mut(at..end).unwrap_or_default().fill(NO_OPERATION);
        }
        at += len;
    }
    header
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// A packet with these options, a multiple of four bytes, and flags with the offset.
    fn packet(options: &[u8], word: u16, payload: usize) -> Vec<u8> {
        let mut bytes = vec![0; HEADER_LEN];
        bytes[0] = 0x45 + u8::try_from(options.len() / 4).unwrap();
        (bytes[8], bytes[9], bytes[5]) = (64, 17, 77);
        bytes[6..8].copy_from_slice(&word.to_be_bytes());
        bytes.extend(options);
        bytes.extend((0..payload).map(|n| u8::try_from(n % 251).unwrap()));
        let len = u16::try_from(bytes.len()).unwrap();
        bytes[2..4].copy_from_slice(&len.to_be_bytes());
        bytes
    }

    fn cut(bytes: &[u8], mtu: u16) -> Option<Vec<Vec<u8>>> {
        let made = fragments(&Packet::parse(bytes).unwrap(), mtu)?;
        Some(made.map(|(header, payload)| [&header, payload].concat()).collect())
    }

    proptest! {
        /// They are packets of the right length that give the payload again, whose flags and
        /// offsets go on.
        #[test]
        fn they_make_the_packet_again(payload in 1..4000_usize, mtu in 68..1600_u16, offset in 0..100_u16, more: bool) {
            let more = if more { MORE } else { 0 };
            let payload = if more > 0 { payload * 8 } else { payload };
            let whole = packet(&[], offset | more, payload);
            let mut joined = Vec::new();
            let parts = cut(&whole, mtu).unwrap();
            for (number, bytes) in parts.iter().enumerate() {
                prop_assert!(bytes.len() <= usize::from(mtu));
                prop_assert_eq!(Sum::default().bytes(&bytes[..20]).finish(), [0, 0]);
                let part = Packet::parse(bytes).unwrap();
                let word = u16::from_be_bytes([bytes[6], bytes[7]]);
                prop_assert_eq!(usize::from(word & OFFSET) * 8, usize::from(offset) * 8 + joined.len());
                let follows = number + 1 < parts.len() || more > 0;
                prop_assert_eq!(word & MORE > 0, follows);
                prop_assert_eq!(bytes[5], 77, "of one identification");
                joined.extend_from_slice(part.payload());
            }
            prop_assert_eq!(joined.as_slice(), &whole[20..]);
        }

        #[test]
        fn no_bytes_panic(bytes in proptest::collection::vec(any::<u8>(), 0..100), mtu: u16) {
            if let Ok(packet) = Packet::parse(&bytes)
                && let Some(parts) = fragments(&packet, mtu)
            {
                prop_assert!(parts.count() <= bytes.len());
            }
        }
    }

    #[test]
    fn what_must_not_be_fragmented_is_not() {
        assert_eq!(cut(&packet(&[], 0x4000, 2000), 1000), None);
        assert_eq!(cut(&packet(&[], 0, 2000), 27), None, "no room");
    }

    #[test]
    fn only_some_options_are_copied() {
        // record route (not copied), no operation, loose source route (copied)
        let options = [7, 3, 4, 1, 0x83, 3, 4, 0];
        let parts = cut(&packet(&options, 0, 100), 76).unwrap();
        assert_eq!(parts[0][20..28], options);
        assert_eq!(parts[1][20..28], [1, 1, 1, 1, 0x83, 3, 4, 0]);
    }
}
