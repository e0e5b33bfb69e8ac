//! Decoding of records from a byte stream that arrives in pieces.

use super::{MAX_LEN, Record};
use crate::{Malformed, stream::Buffer};

/// Decodes records from a stream, however it is split. Its memory is bounded by its capacity.
///
/// The caller writes bytes into [`Decoder::space`], calls [`Decoder::filled`], and takes records from
/// [`Decoder::next`]. After an error the rest of the stream cannot be decoded.
#[derive(Debug)]
pub struct Decoder {
    buffer: Buffer,
    room: usize,
}

impl Decoder {
    /// A decoder of `capacity` bytes that accepts at least `room` bytes at a time. Capacity beyond `room`
    /// and the longest record makes it move the start of a record less often.
    #[must_use]
    pub fn new(capacity: usize, room: usize) -> Self {
        let room = room.max(1);
        Self { buffer: Buffer::new(capacity.max(MAX_LEN + room)), room }
    }

    /// Where to write the next bytes of the stream. After [`Decoder::next`] has returned `None` it has at
    /// least `room` bytes.
    pub fn space(&mut self) -> &mut [u8] {
        self.buffer.space(self.room)
    }

    /// Adds the first `n` bytes of the space, which the caller has written, to the stream.
    pub fn filled(&mut self, n: usize) {
        self.buffer.filled(n);
    }

    /// The next complete record.
    #[allow(clippy::should_implement_trait)] // an iterator cannot lend from itself
    pub fn next(&mut self) -> Result<Option<Record<'_>>, Malformed> {
        self.buffer.read(Record::parse)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::record::tests::any_record;

    /// Feeds `stream` in pieces of the given sizes, over and over, and calls `seen` with every record.
    fn feed(
        decoder: &mut Decoder,
        mut stream: &[u8],
        sizes: &[usize],
        mut seen: impl FnMut(&Record<'_>),
    ) -> Result<(), Malformed> {
        let mut sizes = sizes.iter().cycle();
        while !stream.is_empty() {
            let space = decoder.space();
            assert!(!space.is_empty(), "a decoder always takes more");
            let n = (*sizes.next().unwrap()).min(space.len()).min(stream.len());
            space[..n].copy_from_slice(&stream[..n]);
            stream = &stream[n..];
            decoder.filled(n);
            while let Some(record) = decoder.next()? {
                seen(&record);
            }
        }
        Ok(())
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(200))]

        #[test]
        fn any_split_gives_the_same_records(
            records in proptest::collection::vec(any_record(), 1..12),
            sizes in proptest::collection::vec(1..70_000_usize, 1..6),
            capacity in 0..300_000_usize,
            room in 0..70_000_usize,
        ) {
            let mut stream = Vec::new();
            for record in &records {
                record.emit(&mut stream);
            }
            let mut expected = records.iter();
            feed(&mut Decoder::new(capacity, room), &stream, &sizes, |record| {
                assert!(expected.next().expect("no more than were sent").is(record));
            }).unwrap();
            prop_assert!(expected.next().is_none());
        }

        #[test]
        fn single_bytes_give_the_same_records(records in proptest::collection::vec(any_record(), 1..3)) {
            let mut stream = Vec::new();
            for record in &records {
                record.emit(&mut stream);
            }
            let mut count = 0;
            feed(&mut Decoder::new(0, 1), &stream, &[1], |_| count += 1).unwrap();
            prop_assert_eq!(count, records.len());
        }

        #[test]
        fn no_stream_panics_or_stalls(
            stream in proptest::collection::vec(any::<u8>(), 0..5000),
            sizes in proptest::collection::vec(1..600_usize, 1..4),
        ) {
            let _ = feed(&mut Decoder::new(0, 1), &stream, &sizes, |_| ());
        }
    }
}
