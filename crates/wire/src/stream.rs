//! Bytes of a stream that wait to be used: contiguous, first in first out, bounded.

/// A window on a stream: bytes are added at its end and removed at its start. Memory is taken as it is
/// wanted, up to a capacity.
#[derive(Debug)]
pub struct Window {
    bytes: Vec<u8>,
    capacity: usize,
    start: usize,
    end: usize,
}

impl Window {
    /// An empty window that holds up to `capacity` bytes.
    #[must_use]
    pub fn new(capacity: usize) -> Self {
        Self { bytes: Vec::new(), capacity, start: 0, end: 0 }
    }

    /// Room behind the last byte: `wanted` bytes or more, as far as the capacity allows.
    pub fn space(&mut self, wanted: usize) -> &mut [u8] {
        if self.start == self.end {
            (self.start, self.end) = (0, 0);
        }
        if self.bytes.len() - self.end < wanted {
            self.make_room(wanted);
        }
        self.bytes.get_mut(self.end..).unwrap_or_default()
    }

    fn make_room(&mut self, wanted: usize) {
        self.bytes.copy_within(self.start..self.end, 0);
        (self.start, self.end) = (0, self.end - self.start);
        let needed = self.end.saturating_add(wanted);
        if self.bytes.len() < needed {
            let size = needed.checked_next_power_of_two().unwrap_or(needed);
            self.bytes.resize(size.min(self.capacity), 0);
        }
    }

    /// Says that the first `n` bytes of the room are now part of the stream.
    pub fn filled(&mut self, n: usize) {
        self.end = self.bytes.len().min(self.end + n);
    }

    /// The bytes that wait.
    #[must_use]
    pub fn data(&self) -> &[u8] {
        self.bytes.get(self.start..self.end).unwrap_or_default()
    }

    /// The bytes that wait, to be changed in place.
    pub fn data_mut(&mut self) -> &mut [u8] {
        self.bytes.get_mut(self.start..self.end).unwrap_or_default()
    }

    /// Removes the first `n` bytes.
    pub fn consume(&mut self, n: usize) {
        self.start = self.end.min(self.start + n);
    }

    /// Lends what `parse` finds at the start, and removes the bytes that it says it takes.
    pub fn read<'a, T, E>(
        &'a mut self,
        parse: impl FnOnce(&'a [u8]) -> Result<Option<(T, usize)>, E>,
    ) -> Result<Option<T>, E> {
        let bytes = self.bytes.get(self.start..self.end).unwrap_or_default();
        let parsed = parse(bytes)?;
        Ok(parsed.map(|(value, n)| {
            self.start = self.end.min(self.start + n);
            value
        }))
    }

    /// Whether nothing waits.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.start == self.end
    }

    /// Adds as much of `bytes` as there is room for, and says how much that was.
    pub fn append(&mut self, bytes: &[u8]) -> usize {
        let space = self.space(bytes.len());
        let n = space.len().min(bytes.len());
        if let (Some(to), Some(from)) = (space.get_mut(..n), bytes.get(..n)) {
            to.copy_from_slice(from);
        }
        self.filled(n);
        n
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn bytes_come_out_as_they_went_in(
            steps in proptest::collection::vec((0..50_usize, 0..50_usize), 1..60)
        ) {
            let mut window = Window::new(64);
            let (mut put, mut got, mut next) = (0_usize, 0_usize, 0_u8);
            for (add, take) in steps {
                let bytes: Vec<u8> = (0..add).map(|n| next.wrapping_add(u8::try_from(n).unwrap())).collect();
                let free = 64 - window.data().len();
                let n = window.append(&bytes);
                prop_assert_eq!(n, add.min(free));
                prop_assert!(window.bytes.len() <= 64);
                next = next.wrapping_add(u8::try_from(n).unwrap());
                put += n;
                let take = take.min(window.data().len());
                for (at, byte) in window.data()[..take].iter().enumerate() {
                    prop_assert_eq!(usize::from(*byte), (got + at) % 256);
                }
                window.consume(take);
                got += take;
                prop_assert_eq!(window.data().len(), put - got);
            }
        }
    }
}
