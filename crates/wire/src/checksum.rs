//! The Internet checksum (RFC 1071), and its incremental update (RFC 1624).

/// A one's complement sum of 16-bit words, not yet folded to 16 bits.
#[derive(Clone, Copy, Debug, Default)]
pub struct Sum(u64);

impl Sum {
    /// Adds bytes that start at an even offset. An odd last byte is padded with zero.
    #[must_use]
    pub fn bytes(self, bytes: &[u8]) -> Self {
        // Words are added in host byte order; the sum of swapped words is the swapped sum (RFC 1071
        // section 2 (B)).
        let (words, rest) = bytes.as_chunks::<4>();
        let sum = words.iter().fold(0, |sum: u64, word| sum + u64::from(u32::from_ne_bytes(*word)));
        let mut last = [0; 4];
        last.iter_mut().zip(rest).for_each(|(to, from)| *to = *from);
        self.add(sum).add(u64::from(u32::from_ne_bytes(last)))
    }

    /// Adds one 16-bit number.
    #[must_use]
    pub fn word(self, word: u16) -> Self {
        self.add(u64::from(word.to_be()))
    }

    fn add(self, value: u64) -> Self {
        let (sum, carry) = self.0.overflowing_add(value);
        Self(sum + u64::from(carry))
    }

    /// The checksum field: the complement of the folded sum.
    #[must_use]
    pub fn finish(self) -> [u8; 2] {
        let mut sum = self.0;
        while sum > 0xffff {
            sum = (sum & 0xffff) + (sum >> 16);
        }
        #[allow(clippy::cast_possible_truncation)] // folded above
        let folded = sum as u16;
        (!folded).to_ne_bytes()
    }
}

/// A computed checksum as it is sent: zero as all ones, since a zero field means "none" in UDP (RFC 768). For TCP
/// both are the same value.
#[must_use]
pub const fn nonzero(checksum: [u8; 2]) -> [u8; 2] {
    if matches!(checksum, [0, 0]) { [0xff, 0xff] } else { checksum }
}

/// The checksum after one 16-bit word that it covers has changed from `old` to `new`:
/// `HC' = ~(~HC + ~m + m')` (RFC 1624 section 3, equation 3).
#[must_use]
pub const fn update(checksum: u16, old: u16, new: u16) -> u16 {
    let sum = !checksum as u32 + !old as u32 + new as u32;
    let sum = (sum & 0xffff) + (sum >> 16);
    #[allow(clippy::cast_possible_truncation)] // the sum of three 16-bit numbers, folded twice
    let folded = (sum & 0xffff) as u16 + (sum >> 16) as u16;
    !folded
}

/// Completes a partial checksum, as a network card with checksum offload does. The sum covers the bytes
/// from `start` to the end; the checksum field is `offset` bytes after `start` and holds the sum of the
/// pseudo-header.
///
/// Returns false, and changes nothing, if the field is outside the packet.
#[must_use]
pub fn complete(packet: &mut [u8], start: usize, offset: usize) -> bool {
    let Some(covered) = packet.get_mut(start..) else { return false };
    let checksum = Sum::default().bytes(covered).finish();
    let Some(field) = covered.get_mut(offset..).and_then(|tail| tail.first_chunk_mut()) else {
        return false;
    };
    *field = nonzero(checksum);
    true
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// The C code of RFC 1071 section 4.1.
    fn reference(bytes: &[u8]) -> [u8; 2] {
        let mut sum = 0_u32;
        for pair in bytes.chunks(2) {
            sum += u32::from(pair[0]) << 8 | u32::from(*pair.get(1).unwrap_or(&0));
        }
        while sum >> 16 != 0 {
            sum = (sum & 0xffff) + (sum >> 16);
        }
        u16::try_from(!sum & 0xffff).unwrap().to_be_bytes()
    }

    #[test]
    fn example_of_rfc_1071() {
        let bytes = [0x00, 0x01, 0xf2, 0x03, 0xf4, 0xf5, 0xf6, 0xf7];
        assert_eq!(Sum::default().bytes(&bytes).finish(), [!0xdd, !0xf2]);
    }

    #[test]
    fn example_of_rfc_1624() {
        assert_eq!(update(0xdd2f, 0x5555, 0x3285), 0x0000);
    }

    proptest! {
        /// Equals recomputation, except if all covered words are zero, which no IP header's are.
        #[test]
        fn an_update_equals_recomputation(
            mut bytes in proptest::collection::vec(any::<u8>(), 20..60),
            word in 1..10_usize,
            new: u16,
        ) {
            bytes[0] = 0x45;
            bytes.truncate(bytes.len() & !1);
            let before = u16::from_be_bytes(Sum::default().bytes(&bytes).finish());
            let old = u16::from_be_bytes([bytes[2 * word], bytes[2 * word + 1]]);
            bytes[2 * word..2 * word + 2].copy_from_slice(&new.to_be_bytes());
            let after = u16::from_be_bytes(Sum::default().bytes(&bytes).finish());
            prop_assert_eq!(update(before, old, new), after);
        }

        #[test]
        fn agrees_with_the_definition(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
            prop_assert_eq!(Sum::default().bytes(&bytes).finish(), reference(&bytes));
        }

        #[test]
        fn a_completed_packet_sums_to_zero(
            mut packet in proptest::collection::vec(any::<u8>(), 28..100),
        ) {
            prop_assert!(complete(&mut packet, 20, 6));
            let check = Sum::default().bytes(&packet[20..]).finish();
            // The pseudo-header sum that was in the field is not part of the packet.
            prop_assert!(check != [0xff, 0xff] || packet[26..28] != [0, 0]);
        }

        #[test]
        fn a_field_outside_the_packet_changes_nothing(start in 0..70_usize, offset in 59..70_usize) {
            let mut packet = [7; 60];
            prop_assert!(!complete(&mut packet, start, offset));
            prop_assert_eq!(packet, [7; 60]);
        }
    }
}
