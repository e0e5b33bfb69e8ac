//! A bounded buffer for the bytes of a stream: contiguous, first in, first out.

/// Bytes of a stream that were added at the end and not yet consumed at the start.
#[derive(Debug)]
pub struct Buffer {
    bytes: Box<[u8]>,
    start: usize,
    end: usize,
}

impl Buffer {
    /// An empty buffer of `capacity` bytes.
    #[must_use]
    pub fn new(capacity: usize) -> Self {
        Self { bytes: vec![0; capacity].into_boxed_slice(), start: 0, end: 0 }
    }

    /// Free space behind the last byte: at least `wanted` bytes, as far as the capacity allows.
    pub fn space(&mut self, wanted: usize) -> &mut [u8] {
        if self.start == self.end {
            (self.start, self.end) = (0, 0);
        } else if self.bytes.len() - self.end < wanted {
            self.bytes.copy_within(self.start..self.end, 0);
            (self.start, self.end) = (0, self.end - self.start);
        }
        self.bytes.get_mut(self.end..).unwrap_or_default()
    }

    /// Adds the first `n` bytes of the free space, which the caller has written, to the data.
    pub fn filled(&mut self, n: usize) {
        self.end = self.bytes.len().min(self.end + n);
    }

    /// The buffered bytes.
    #[must_use]
    pub fn data(&self) -> &[u8] {
        self.bytes.get(self.start..self.end).unwrap_or_default()
    }

    /// The buffered bytes, to be changed in place.
    pub fn data_mut(&mut self) -> &mut [u8] {
        self.bytes.get_mut(self.start..self.end).unwrap_or_default()
    }

    /// Removes the first `n` bytes.
    pub fn consume(&mut self, n: usize) {
        self.start = self.end.min(self.start + n);
    }

    /// Parses a value at the start of the data, and consumes the bytes that `parse` reports with it.
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

    /// Whether no bytes are buffered.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.start == self.end
    }

    /// Appends as much of `bytes` as fits, and returns how much that was.
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
            let mut buffer = Buffer::new(64);
            let (mut put, mut got, mut next) = (0_usize, 0_usize, 0_u8);
            for (add, take) in steps {
                let bytes: Vec<u8> = (0..add).map(|n| next.wrapping_add(u8::try_from(n).unwrap())).collect();
                let free = 64 - buffer.data().len();
                let n = buffer.append(&bytes);
                prop_assert_eq!(n, add.min(free));
                next = next.wrapping_add(u8::try_from(n).unwrap());
                put += n;
                let take = take.min(buffer.data().len());
                for (at, byte) in buffer.data()[..take].iter().enumerate() {
                    prop_assert_eq!(usize::from(*byte), (got + at) % 256);
                }
                buffer.consume(take);
                got += take;
                prop_assert_eq!(buffer.data().len(), put - got);
            }
        }
    }
}
