//! Memory for packets in flight: slots of equal size, allocated on demand up to a limit.

/// Handle of a slot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Slot(u32);

/// Slots per allocation: 0.4 MB for Ethernet frames, so that memory grows with the load but allocations are
/// rare.
const CHUNK: usize = 256;

/// A pool of slots.
#[derive(Debug)]
pub(crate) struct Pool {
    slot_bytes: usize,
    limit: usize,
    chunks: Vec<Box<[u8]>>,
    lengths: Vec<u32>,
    free: Vec<Slot>,
}

impl Pool {
    /// A pool of slots of `slot_bytes` in at most `bytes` of memory.
    pub(crate) fn new(slot_bytes: usize, bytes: usize) -> Self {
        let limit = (bytes / slot_bytes).max(1);
        Self { slot_bytes, limit, chunks: Vec::new(), lengths: Vec::new(), free: Vec::new() }
    }

    /// Allocates a slot; `None` if all memory is in use.
    pub(crate) fn allocate(&mut self) -> Option<Slot> {
        if self.free.is_empty() {
            self.grow();
        }
        self.free.pop()
    }

    /// Copies the parts of a frame, one after the other, into a slot, and truncates it to the slot.
    pub(crate) fn write(&mut self, slot: Slot, parts: &[&[u8]]) {
        let mut at = 0;
        for part in parts {
            let free = self.slot_mut(slot).get_mut(at..).unwrap_or_default();
            let length = part.len().min(free.len());
            if let (Some(to), Some(from)) = (free.get_mut(..length), part.get(..length)) {
                to.copy_from_slice(from);
            }
            at += length;
        }
        if let Some(length) = self.lengths.get_mut(slot.0 as usize) {
            *length = u32::try_from(at).unwrap_or_default();
        }
    }

    /// The bytes written to a slot.
    pub(crate) fn read(&self, slot: Slot) -> &[u8] {
        let (number, start) = self.place(slot);
        let length = self.lengths.get(slot.0 as usize).copied().unwrap_or_default() as usize;
        let chunk = self.chunks.get(number);
        chunk.and_then(|chunk| chunk.get(start..start + length)).unwrap_or_default()
    }

    /// Frees a slot.
    pub(crate) fn free(&mut self, slot: Slot) {
        self.free.push(slot);
    }

    /// Slots in use.
    pub(crate) fn in_use(&self) -> usize {
        self.lengths.len() - self.free.len()
    }

    /// Bytes of memory in use.
    pub(crate) fn bytes_in_use(&self) -> u64 {
        self.in_use() as u64 * self.slot_bytes as u64
    }

    fn grow(&mut self) {
        let first = self.lengths.len();
        let slots = CHUNK.min(self.limit - first);
        if slots == 0 {
            return;
        }
        self.chunks.push(vec![0; slots * self.slot_bytes].into());
        self.lengths.resize(first + slots, 0);
        let numbers = (first..first + slots).rev();
        self.free.extend(numbers.filter_map(|slot| u32::try_from(slot).ok()).map(Slot));
    }

    fn place(&self, slot: Slot) -> (usize, usize) {
        let number = slot.0 as usize;
        (number / CHUNK, number % CHUNK * self.slot_bytes)
    }

    fn slot_mut(&mut self, slot: Slot) -> &mut [u8] {
        let ((number, start), bytes) = (self.place(slot), self.slot_bytes);
        let chunk = self.chunks.get_mut(number);
        chunk.and_then(|chunk| chunk.get_mut(start..start + bytes)).unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slots_are_limited_and_reused() {
        let mut pool = Pool::new(100, 60_000);
        let slots: Vec<_> = std::iter::from_fn(|| pool.allocate()).collect();
        assert_eq!((slots.len(), pool.in_use(), pool.bytes_in_use()), (600, 600, 60_000));
        for slot in slots {
            pool.free(slot);
        }
        assert_eq!(pool.in_use(), 0);
        assert!(pool.allocate().is_some());
    }

    #[test]
    fn slots_do_not_overlap() {
        let mut pool = Pool::new(8, 8 * 1000);
        let slots: Vec<_> = std::iter::from_fn(|| pool.allocate()).collect();
        for (number, slot) in slots.iter().enumerate() {
            pool.write(*slot, &[&number.to_le_bytes()[..4], &[0xAA; 4]]);
        }
        for (number, slot) in slots.iter().enumerate() {
            assert_eq!(pool.read(*slot), [&number.to_le_bytes()[..4], &[0xAA; 4]].concat());
        }
    }

    #[test]
    fn longer_frames_are_truncated() {
        let mut pool = Pool::new(4, 100);
        let slot = pool.allocate().unwrap();
        pool.write(slot, &[&[1, 2, 3], &[4, 5, 6]]);
        assert_eq!(pool.read(slot), [1, 2, 3, 4]);
    }
}
