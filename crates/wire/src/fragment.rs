//! Tunnel fragmentation: a tunnel datagram that exceeds its path's MTU is sent in fragments
//! (docs/design/path-mtu.md).

use crate::Malformed;

/// First byte of a fragment. Both bits of the form are set, as in padding and in no packet's header.
pub const FRAGMENT: u8 = 0xc2;

/// Length of the header, bytes.
pub const HEADER_LEN: usize = 6;

/// Maximum number of fragments of a datagram.
pub const MAX_FRAGMENTS: usize = 16;

/// Whether a datagram is a fragment.
#[must_use]
pub fn is_fragment(datagram: &[u8]) -> bool {
    datagram.first() == Some(&FRAGMENT)
}

/// Header of a fragment.
///
/// ```text
/// byte  0      1                                    2 .. 5       6 ...
///       0xc2   4 bits number, 4 bits last number    datagram     contents
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fragment {
    /// Number of the datagram; counts up per path and direction.
    pub datagram: u32,
    /// Index of the fragment, from 0.
    pub number: u8,
    /// Index of the last fragment, 1 to 15.
    pub last: u8,
}

impl Fragment {
    /// Splits a fragment into header and contents; None if the datagram is not a fragment.
    ///
    /// # Errors
    /// The header violates the format.
    #[must_use]
    pub fn parse(datagram: &[u8]) -> Option<Result<(Self, &[u8]), Malformed>> {
        is_fragment(datagram).then(|| Self::read(datagram))
    }

    fn read(datagram: &[u8]) -> Result<(Self, &[u8]), Malformed> {
        let Some((&[_, place, d3, d2, d1, d0], contents)) = datagram.split_first_chunk() else {
            let found = datagram.len() as u64;
            return Err(Malformed {
                field: "fragment length",
                offset: 0,
                found,
                expected: "6 or more",
            });
        };
        let (number, last) = (place >> 4, place & 0xf);
        if last == 0 || number > last {
            let (found, expected) = (place.into(), "a number up to the last, which is 1 or more");
            return Err(Malformed { field: "fragment number", offset: 1, found, expected });
        }
        let datagram = u32::from_be_bytes([d3, d2, d1, d0]);
        Ok((Self { datagram, number, last }, contents))
    }

    /// Its bytes before the contents.
    #[must_use]
    pub const fn emit(&self) -> [u8; HEADER_LEN] {
        let [d3, d2, d1, d0] = self.datagram.to_be_bytes();
        [FRAGMENT, self.number << 4 | self.last & 0xf, d3, d2, d1, d0]
    }
}

/// Number of fragments of at most `most` bytes, header included, that a datagram of `len` bytes
/// needs, and the length of the contents of each but the last. All are of about the same size, so
/// that they still fit if the MTU shrinks further. None if more than [`MAX_FRAGMENTS`] are needed.
#[must_use]
pub fn cut(len: usize, most: usize) -> Option<(usize, usize)> {
    let room = most.checked_sub(HEADER_LEN).filter(|room| *room > 0)?;
    let count = len.div_ceil(room).max(2);
    let each = len.div_ceil(count).max(1);
    (len >= 2 && count <= MAX_FRAGMENTS).then(|| (len.div_ceil(each), each))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn a_piece_survives(datagram: u32, number in 0..16_u8, last in 1..16_u8, contents: Vec<u8>) {
            let fragment = Fragment { datagram, number, last };
            let bytes = [fragment.emit().as_slice(), &contents].concat();
            let parsed = Fragment::parse(&bytes).unwrap();
            if number <= last {
                prop_assert_eq!(parsed, Ok((fragment, contents.as_slice())));
            } else {
                prop_assert_eq!(parsed.unwrap_err().field, "fragment number");
            }
            prop_assert!(crate::tunnel::Header::parse(&bytes).is_err());
        }

        #[test]
        fn pieces_fit_and_none_is_empty(len in 2..9300_usize, most in 7..9300_usize) {
            if let Some((count, each)) = cut(len, most) {
                prop_assert!((2..=MAX_FRAGMENTS).contains(&count));
                prop_assert!(each + HEADER_LEN <= most.max(len.div_ceil(2) + HEADER_LEN));
                prop_assert!(each * (count - 1) < len && each * count >= len);
            }
        }
    }

    #[test]
    fn nine_thousand_bytes_go_over_any_path() {
        assert!(cut(9216, 1200 - 44 + 10).is_some());
        assert_eq!(cut(1438, 1166), Some((2, 719)));
        assert_eq!(cut(1438, HEADER_LEN), None);
    }

    #[test]
    fn errors_name_the_field() {
        assert_eq!(Fragment::parse(&[FRAGMENT; 5]).unwrap().unwrap_err().field, "fragment length");
        assert_eq!(
            Fragment::parse(&[FRAGMENT, 0, 0, 0, 0, 0]).unwrap().unwrap_err().field,
            "fragment number"
        );
        assert!(Fragment::parse(&[0xc1, 0, 1]).is_none());
        assert!(Fragment::parse(&[]).is_none());
    }
}
