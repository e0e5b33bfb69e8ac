//! Memory for packets under way: slots of equal size, made when first needed, at most so many.

/// Handle of a slot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Slot(u32);

/// Slots allocated at once: 64 kB to 4 MB, so that memory grows with need, but not a packet at a time.
const CHUNK: usize = 256;

/// Slots, and which are free.
#[derive(Debug)]
pub(crate) struct Pool {
    slot_bytes: usize,
    limit: usize,
    chunks: Vec<Box<[u8]>>,
    lengths: Vec<u32>,
    free: Vec<Slot>,
}

impl Pool {
    /// Slots for frames of at most `slot_bytes`, in at most `bytes` of memory.
    pub(crate) fn new(slot_bytes: usize, bytes: usize) -> Self {
        let limit = (bytes / slot_bytes).max(1);
        Self { slot_bytes, limit, chunks: Vec::new(), lengths: Vec::new(), free: Vec::new() }
    }

    /// A free slot; None where all memory is in use.
    pub(crate) fn take(&mut self) -> Option<Slot> {
        if self.free.is_empty() {
            self.grow();
        }
        self.free.pop()
    }

    /// Copies the parts of a frame, one after the other, into a slot; what does not fit is cut off.
    pub(crate) fn write(&mut self, slot: Slot, parts: &[&[u8]]) {
        let mut at = 0;
        for part in parts {
            let room = self.room(slot).get_mut(at..).unwrap_or_default();
            let length = part.len().min(room.len());
            if let (Some(to), Some(from)) = (room.get_mut(..length), part.get(..length)) {
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

    /// Gives a slot back.
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

    fn room(&mut self, slot: Slot) -> &mut [u8] {
        let ((number, start), bytes) = (self.place(slot), self.slot_bytes);
        let chunk = self.chunks.get_mut(number);
        chunk.and_then(|chunk| chunk.get_mut(start..start + bytes)).unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn gives_at_most_its_memory_and_takes_it_back() {
        let mut pool = Pool::new(100, 60_000);
        let slots: Vec<_> = std::iter::from_fn(|| pool.take()).collect();
        assert_eq!((slots.len(), pool.in_use(), pool.bytes_in_use()), (600, 600, 60_000));
        for slot in slots {
            pool.free(slot);
        }
        assert_eq!(pool.in_use(), 0);
        assert!(pool.take().is_some());
    }

    #[test]
    fn slots_do_not_touch_each_other() {
        let mut pool = Pool::new(8, 8 * 1000);
        let slots: Vec<_> = std::iter::from_fn(|| pool.take()).collect();
        for (number, slot) in slots.iter().enumerate() {
            pool.write(*slot, &[&number.to_le_bytes()[..4], &[0xAA; 4]]);
        }
        for (number, slot) in slots.iter().enumerate() {
            assert_eq!(pool.read(*slot), [&number.to_le_bytes()[..4], &[0xAA; 4]].concat());
        }
    }

    #[test]
    fn what_does_not_fit_is_cut_off() {
        let mut pool = Pool::new(4, 100);
        let slot = pool.take().unwrap();
        pool.write(slot, &[&[1, 2, 3], &[4, 5, 6]]);
        assert_eq!(pool.read(slot), [1, 2, 3, 4]);
    }
}
