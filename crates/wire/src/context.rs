//! Header compression: the beginning of a packet as what differs from an earlier packet of its flow.
//!
//! Of the headers of a flow's packets a few numbers change: sequence numbers, timestamps, checksums. A [`Context`] is the
//! beginning of one packet, which both ends have; others are carried as their bytes that differ from it. Nothing
//! is understood of what stands there, so what comes out is what went in, of any protocol. (RFC 2507 and RFC 5795, whose
//! words are used here, know the fields, and save a few bytes more.)

use crate::Malformed;

/// Bytes at the beginning of a packet that are compared: the headers of TCP over IPv4 with timestamps, and some
/// more. A bit of a `u64` stands for each.
pub const SPAN: usize = 64;

/// Bytes before those that differ: name of the context, and where they stand.
const FIXED: usize = 1 + SPAN / 8;

/// The beginning of a packet, which both ends have.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Context {
    name: u8,
    head: [u8; SPAN],
}

/// The beginning of a packet that was compressed, and what follows it as it came.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Restored<'a> {
    /// What stands first.
    pub head: [u8; SPAN],
    /// What stands behind it.
    pub rest: &'a [u8],
}

impl Context {
    /// The beginning of a packet, by a name of which its flow has only one; none of a packet that is shorter than [`SPAN`].
    #[must_use]
    pub fn new(name: u8, packet: &[u8]) -> Option<Self> {
        packet.first_chunk().map(|head| Self { name, head: *head })
    }

    /// What it is called.
    #[must_use]
    pub const fn name(&self) -> u8 {
        self.name
    }

    /// Compresses a packet in place: from the byte on that is returned, it is
    ///
    /// ```text
    /// byte  0        1 .. 8                             9 ...
    ///       context  bit i, from the lowest: byte i     those bytes, then what stands behind byte 63
    /// ```
    ///
    /// Bytes whose bit is set in `varying` are carried also where they do not differ, and what differs is added: so
    /// packets that were of one length stay so. None, and nothing is changed, where that is not shorter.
    pub fn compress(&self, packet: &mut [u8], varying: &mut u64) -> Option<usize> {
        let head = packet.first_chunk_mut::<SPAN>()?;
        let pairs = head.iter().zip(&self.head).enumerate();
        let differ =
            pairs.fold(*varying, |all, (bit, (new, old))| all | u64::from(new != old) << bit);
        let count = differ.count_ones() as usize;
        let spared = SPAN.checked_sub(FIXED + count).filter(|spared| *spared > 0)?;
        let mut bytes = [0; SPAN];
        let places = (0..SPAN).filter(|bit| differ >> bit & 1 == 1);
        for (byte, place) in bytes.iter_mut().zip(places) {
            *byte = *head.get(place)?;
        }
        let (fixed, carried) = head.get_mut(spared..)?.split_at_mut_checked(FIXED)?;
        let [name, places @ ..] = fixed else { return None };
        *name = self.name;
        places.copy_from_slice(&differ.to_be_bytes());
        carried.copy_from_slice(bytes.get(..count)?);
        *varying = differ;
        Some(spared)
    }

    /// What a compressed packet was.
    ///
    /// # Errors
    /// It is too short, or was compressed with another context.
    pub fn restore<'a>(&self, compressed: &'a [u8]) -> Result<Restored<'a>, Malformed> {
        let wrong = |field, offset, found, expected| Malformed { field, offset, found, expected };
        let length = || {
            wrong("compressed length", 0, compressed.len() as u64, "9 and the bytes that differ")
        };
        let (&[name, ref places @ ..], bytes) =
            compressed.split_first_chunk::<FIXED>().ok_or_else(length)?;
        if name != self.name {
            return Err(wrong("context", 0, name.into(), "the one that is known"));
        }
        let differs = u64::from_be_bytes(*places);
        let (changed, rest) =
            bytes.split_at_checked(differs.count_ones() as usize).ok_or_else(length)?;
        let mut head = self.head;
        let places = head.iter_mut().enumerate().filter(|(bit, _)| differs >> bit & 1 == 1);
        for ((_, place), byte) in places.zip(changed) {
            *place = *byte;
        }
        Ok(Restored { head, rest })
    }
}

/// The context that a compressed packet names; none where it is empty.
#[must_use]
pub fn named(compressed: &[u8]) -> Option<u8> {
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
        fn what_comes_out_is_what_went_in(
            name: u8,
            known in proptest::collection::vec(0..SPAN, 0..30),
            first in proptest::collection::vec(any::<u8>(), SPAN..200),
            changes in proptest::collection::vec((0..SPAN, any::<u8>()), 0..70),
            rest: Vec<u8>,
        ) {
            let context = Context::new(name, &first).unwrap();
            let mut packet = [&first[..SPAN], &rest].concat();
            for (at, byte) in changes {
                packet[at] = byte;
            }
            let before = known.iter().fold(0, |all, bit| all | 1 << bit);
            let differ = (0..SPAN).filter(|at| packet[*at] != first[*at]);
            let wanted = differ.fold(before, |all, bit| all | 1_u64 << bit);
            let differ = wanted.count_ones() as usize;
            let (mut bytes, mut varying) = (packet.clone(), before);
            if let Some(start) = context.compress(&mut bytes, &mut varying) {
                prop_assert_eq!(varying, wanted);
                prop_assert_eq!(bytes.len() - start, FIXED + differ + rest.len());
                prop_assert_eq!(restored(&context, &bytes[start..]), packet);
            } else {
                prop_assert!(differ + FIXED >= SPAN && varying == before);
                prop_assert_eq!(bytes, packet);
            }
        }

        #[test]
        fn no_bytes_panic(head: [u8; SPAN], name: u8, bytes: Vec<u8>) {
            let _ = Context { name, head }.restore(&bytes);
        }
    }

    #[test]
    fn segments_of_a_stream_become_shorter_by_the_same() {
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
        let mut spared: Vec<_> = (4000..5000)
            .map(|number| {
                let mut bytes = segment(number);
                let spared = context.compress(&mut bytes, &mut varying).unwrap();
                assert_eq!(restored(&context, &bytes[spared..]), segment(number));
                spared
            })
            .collect();
        assert!(spared.is_sorted_by(|a, b| a >= b));
        spared.drain(..300);
        assert!(spared.iter().all(|spared| *spared == 30), "{spared:?}");
    }

    #[test]
    fn errors_name_the_field() {
        let context = Context::new(7, &[0; SPAN]).unwrap();
        assert_eq!(Context::new(7, &[0; SPAN - 1]), None);
        let field = |bytes: &[u8]| context.restore(bytes).unwrap_err().field;
        assert_eq!(field(&[7; FIXED - 1]), "compressed length");
        assert_eq!(field(&[7; FIXED]), "compressed length");
        assert_eq!(field(&[6; 100]), "context");
    }
}
