//! Packet memory.

use std::collections::VecDeque;

use bytes::BytesMut;

/// Size of a chunk, bytes.
const CHUNK: usize = 256 << 10;

/// Chunks kept for reuse.
const MAX_POOLED: usize = 4;

/// Chunks of memory that packets are allocated from, reused once all their packets are gone. The
/// kernel zeroes memory that it hands out; at gigabit rates that and the page faults took a
/// sixteenth of a gateway's CPU.
///
/// Copying less was tried and removed: reading the device into scattered buffers with headroom,
/// keeping received datagrams in place, and writing slices instead of a joined packet. The kernel
/// then needs what is saved here, because its copies no longer hit the cache.
#[derive(Default)]
pub struct Arena {
    /// Oldest first; packets are allocated from the last.
    chunks: VecDeque<BytesMut>,
}

impl Arena {
    /// A packet of these parts, concatenated.
    pub fn join(&mut self, parts: &[&[u8]]) -> BytesMut {
        let len = parts.iter().map(|part| part.len()).sum();
        let last = self.chunks.pop_back_if(|chunk| chunk.capacity() >= len);
        let mut chunk = last.unwrap_or_else(|| self.free(CHUNK.max(len)));
        for part in parts {
            chunk.extend_from_slice(part);
        }
        let packet = chunk.split();
        self.chunks.push_back(chunk);
        packet
    }

    /// A chunk of at least `size` bytes without packets.
    fn free(&mut self, size: usize) -> BytesMut {
        let free = self.chunks.pop_front_if(|oldest| oldest.try_reclaim(size));
        if self.chunks.len() > MAX_POOLED {
            self.chunks.pop_front();
        }
        free.unwrap_or_else(|| BytesMut::with_capacity(size))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn packets_keep_their_contents() {
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
    fn chunks_are_reused() {
        let mut arena = Arena::default();
        let mut places = std::collections::BTreeSet::new();
        for _ in 0..100 * CHUNK / 1000 {
            places.insert(arena.join(&[&[0; 1000]]).as_ptr() as usize / CHUNK);
        }
        assert!(places.len() <= 4, "{}", places.len());
        assert_eq!(arena.join(&[&vec![1; 3 * CHUNK]]).len(), 3 * CHUNK);
    }
}
