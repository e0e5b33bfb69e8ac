//! Header compression: the first bytes of a packet as the difference from an earlier packet of its flow.
//!
//! Within a flow only a few header bytes change: sequence numbers, timestamps, checksums. A [`Context`] is
//! the start of one packet that both ends have; a compressed packet carries only the bytes that differ from
//! it. No field is interpreted, so any protocol is restored exactly. RFC 2507 and RFC 5795, whose terms are
//! used here, interpret the fields and save a few bytes more.
//!
//! ```text
//!  0                   1                   2                   3
//!  0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1
//! +---------------+-----------------------------------------------+
//! |  context ID   |                                               |
//! +---------------+   bitmap: bit i (from the lowest) is set if   |
//! |   byte i of the packet is carried                             |
//! +               +-----------------------------------------------+
//! |               |   the carried bytes, in order                 |
//! +---------------+-----------------------------------------------+
//! |   the packet from byte 64 on                                  |
//! +---------------------------------------------------------------+
//! ```

use crate::Malformed;

/// Bytes of a packet that are compared with the context: TCP over IPv4 with timestamps, and some more. A
/// `u64` has one bit for each.
pub const CONTEXT_LEN: usize = 64;

/// Bytes of a compressed packet before the carried bytes: context ID and bitmap.
const HEADER_LEN: usize = 1 + CONTEXT_LEN / 8;

/// The first [`CONTEXT_LEN`] bytes of a packet that both ends have.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Context {
    id: u8,
    head: [u8; CONTEXT_LEN],
}

/// A restored packet, in two parts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Restored<'a> {
    /// The first bytes, restored.
    pub head: [u8; CONTEXT_LEN],
    /// The bytes that follow, as received.
    pub rest: &'a [u8],
}

impl Context {
    /// The context given by the start of `packet`, with an `id` that is unique within the flow. `None` if
    /// the packet is shorter than [`CONTEXT_LEN`].
    #[must_use]
    pub fn new(id: u8, packet: &[u8]) -> Option<Self> {
        packet.first_chunk().map(|head| Self { id, head: *head })
    }

    /// The context identifier (CID).
    #[must_use]
    pub const fn id(&self) -> u8 {
        self.id
    }

    /// Compresses a packet in place. The compressed packet starts at the returned offset.
    ///
    /// Bytes whose bit is set in `varying` are carried even if they are equal, and the bytes that differ
    /// are added to it: packets of equal length therefore stay of equal length. Returns `None`, and changes
    /// nothing, if the compressed packet would not be shorter.
    pub fn compress(&self, packet: &mut [u8], varying: &mut u64) -> Option<usize> {
        let head = packet.first_chunk_mut::<CONTEXT_LEN>()?;
        let pairs = head.iter().zip(&self.head).enumerate();
        let bitmap =
            pairs.fold(*varying, |all, (bit, (new, old))| all | u64::from(new != old) << bit);
        let count = bitmap.count_ones() as usize;
        let saved = CONTEXT_LEN.checked_sub(HEADER_LEN + count).filter(|saved| *saved > 0)?;
        let mut bytes = [0; CONTEXT_LEN];
        let offsets = (0..CONTEXT_LEN).filter(|bit| bitmap >> bit & 1 == 1);
        for (byte, offset) in bytes.iter_mut().zip(offsets) {
            *byte = *head.get(offset)?;
        }
        let (header, carried) = head.get_mut(saved..)?.split_at_mut_checked(HEADER_LEN)?;
        let [id, field @ ..] = header else { return None };
        *id = self.id;
        field.copy_from_slice(&bitmap.to_be_bytes());
        carried.copy_from_slice(bytes.get(..count)?);
        *varying = bitmap;
        Some(saved)
    }

    /// Restores a compressed packet.
    ///
    /// # Errors
    /// The packet is too short, or was compressed with another context.
    pub fn restore<'a>(&self, compressed: &'a [u8]) -> Result<Restored<'a>, Malformed> {
        let wrong = |field, offset, found, expected| Malformed { field, offset, found, expected };
        let length = || {
            wrong("compressed length", 0, compressed.len() as u64, "9 and the bytes that differ")
        };
        let (&[id, ref bitmap @ ..], bytes) =
            compressed.split_first_chunk::<HEADER_LEN>().ok_or_else(length)?;
        if id != self.id {
            return Err(wrong("context", 0, id.into(), "the one that is known"));
        }
        let bitmap = u64::from_be_bytes(*bitmap);
        let (carried, rest) =
            bytes.split_at_checked(bitmap.count_ones() as usize).ok_or_else(length)?;
        let mut head = self.head;
        let places = head.iter_mut().enumerate().filter(|(bit, _)| bitmap >> bit & 1 == 1);
        for ((_, place), byte) in places.zip(carried) {
            *place = *byte;
        }
        Ok(Restored { head, rest })
    }
}

/// The context ID of a compressed packet; `None` if the packet is empty.
#[must_use]
pub fn context_id(compressed: &[u8]) -> Option<u8> {
    compressed.first().copied()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn restored(context: &Context, compressed: &[u8]) -> Vec<u8> {
        let Restored { head, rest } = context.restore(compressed).unwrap();
        [head.as_slice(), rest].concat()
    }

    proptest! {
        #[test]
        fn a_compressed_packet_is_restored(
            id: u8,
            known in proptest::collection::vec(0..CONTEXT_LEN, 0..30),
            first in proptest::collection::vec(any::<u8>(), CONTEXT_LEN..200),
            changes in proptest::collection::vec((0..CONTEXT_LEN, any::<u8>()), 0..70),
            rest: Vec<u8>,
        ) {
            let context = Context::new(id, &first).unwrap();
            let mut packet = [&first[..CONTEXT_LEN], &rest].concat();
            for (at, byte) in changes {
                packet[at] = byte;
            }
            let before = known.iter().fold(0, |all, bit| all | 1 << bit);
            let differ = (0..CONTEXT_LEN).filter(|at| packet[*at] != first[*at]);
            let wanted = differ.fold(before, |all, bit| all | 1_u64 << bit);
            let differ = wanted.count_ones() as usize;
            let (mut bytes, mut varying) = (packet.clone(), before);
            if let Some(start) = context.compress(&mut bytes, &mut varying) {
                prop_assert_eq!(varying, wanted);
                prop_assert_eq!(bytes.len() - start, HEADER_LEN + differ + rest.len());
                prop_assert_eq!(restored(&context, &bytes[start..]), packet);
            } else {
                prop_assert!(differ + HEADER_LEN >= CONTEXT_LEN && varying == before);
                prop_assert_eq!(bytes, packet);
            }
        }

        #[test]
        fn no_bytes_panic(head: [u8; CONTEXT_LEN], id: u8, bytes: Vec<u8>) {
            let _ = Context { id, head }.restore(&bytes);
        }
    }

    #[test]
    fn segments_of_a_stream_shrink_by_equal_amounts() {
        // TCP over IPv4 with timestamps; 52 bytes of headers.
        let segment = |number: u16| {
            let mut bytes = vec![0x45; 52];
            let wide = u32::from(number);
            bytes[4..6].copy_from_slice(&number.to_be_bytes());
            bytes[10..12].copy_from_slice(&(!number).to_be_bytes());
            bytes[24..28].copy_from_slice(&(wide * 1376).to_be_bytes());
            bytes[36..38].copy_from_slice(&(number ^ 0x5a5a).to_be_bytes());
            bytes[44..48].copy_from_slice(&(wide / 3).to_be_bytes());
            bytes[48..52].copy_from_slice(&(wide / 5).to_be_bytes());
            [bytes, number.to_le_bytes().repeat(688)].concat()
        };
        let context = Context::new(7, &segment(1)).unwrap();
        let mut varying = 0;
        let mut saved: Vec<_> = (4000..5000)
            .map(|number| {
                let mut bytes = segment(number);
                let saved = context.compress(&mut bytes, &mut varying).unwrap();
                assert_eq!(restored(&context, &bytes[saved..]), segment(number));
                saved
            })
            .collect();
        assert!(saved.is_sorted_by(|a, b| a >= b));
        saved.drain(..300);
        assert!(saved.iter().all(|saved| *saved == 30), "{saved:?}");
    }

    #[test]
    fn errors_name_the_field() {
        let context = Context::new(7, &[0; CONTEXT_LEN]).unwrap();
        assert_eq!(Context::new(7, &[0; CONTEXT_LEN - 1]), None);
        let field = |bytes: &[u8]| context.restore(bytes).unwrap_err().field;
        assert_eq!(field(&[7; HEADER_LEN - 1]), "compressed length");
        assert_eq!(field(&[7; HEADER_LEN]), "compressed length");
        assert_eq!(field(&[6; 100]), "context");
    }
}
