//! Memory for packets.

use std::collections::VecDeque;

use bytes::BytesMut;

/// Bytes of a piece of memory.
const PIECE: usize = 256 << 10;

/// Pieces that are kept to be used again.
const KEPT: usize = 4;

/// Pieces of memory that packets are put in. A piece is used again when all its packets are gone: the kernel clears
/// memory that it gives, and at gigabits that and finding it cost a sixteenth of a gateway's time.
///
/// To copy less was tried: to read the device in parts that lie apart, each with room for headers, to keep what the socket
/// has received where it is, and to give the device slices instead of a joined packet. What is spared here the kernel then
/// needs in addition, as its copies are no longer to and from memory that is in the cache.
#[derive(Default)]
pub struct Arena {
    /// The oldest first; packets are put in the last.
    pieces: VecDeque<BytesMut>,
}

impl Arena {
    /// These parts, one behind the other.
    pub fn join(&mut self, parts: &[&[u8]]) -> BytesMut {
        let len = parts.iter().map(|part| part.len()).sum();
        let last = self.pieces.pop_back_if(|piece| piece.capacity() >= len);
        let mut piece = last.unwrap_or_else(|| self.free(PIECE.max(len)));
        for part in parts {
            piece.extend_from_slice(part);
        }
        let packet = piece.split();
        self.pieces.push_back(piece);
        packet
    }

    /// A piece of so many bytes without packets.
    fn free(&mut self, size: usize) -> BytesMut {
        let free = self.pieces.pop_front_if(|oldest| oldest.try_reclaim(size));
        if self.pieces.len() > KEPT {
            self.pieces.pop_front();
        }
        free.unwrap_or_else(|| BytesMut::with_capacity(size))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn packets_keep_what_they_hold() {
        let mut arena = Arena::default();
        let mut held = VecDeque::new();
        for number in 0..20_000_usize {
            let header = number.to_be_bytes();
            let payload = vec![header[7]; number * 37 % 2000];
            let packet = arena.join(&[&header, &payload]);
            held.push_back((packet, [header.as_slice(), &payload].concat()));
            while held.len() > number * 7 % 1500 {
                let (packet, expected) = held.pop_front().unwrap();
                assert_eq!(packet, expected);
            }
        }
    }

    #[test]
    fn pieces_are_used_again() {
        let mut arena = Arena::default();
        let mut places = std::collections::BTreeSet::new();
        for _ in 0..100 * PIECE / 1000 {
            places.insert(arena.join(&[&[0; 1000]]).as_ptr() as usize / PIECE);
        }
        assert!(places.len() <= 4, "{}", places.len());
        assert_eq!(arena.join(&[&vec![1; 3 * PIECE]]).len(), 3 * PIECE);
    }
}
