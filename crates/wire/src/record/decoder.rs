//! Records out of a byte stream that arrives in pieces.

use super::{MAX_LEN, Record};
use crate::{Malformed, stream::Window};

/// Reads records from a stream, however it is split. Its memory is bounded by the capacity it is given.
///
/// Bytes go into [`Decoder::space`] and are announced with [`Decoder::filled`]; records come out of
/// [`Decoder::next`]. After an error the stream cannot be followed any more.
#[derive(Debug)]
pub struct Decoder(Window);

impl Decoder {
    /// A decoder of up to `capacity` bytes, but enough for the longest record.
    #[must_use]
    pub fn new(capacity: usize) -> Self {
        Self(Window::new(capacity.max(MAX_LEN)))
    }

    /// Where the next bytes of the stream go: `wanted` bytes or more, as far as the capacity allows. Once
    /// [`Decoder::next`] has given None that is at least as much as the record lacks that has begun.
    pub fn space(&mut self, wanted: usize) -> &mut [u8] {
        self.0.space(wanted)
    }

    /// Says that the first `n` bytes of the space now hold what came next.
    pub fn filled(&mut self, n: usize) {
        self.0.filled(n);
    }

    /// The next record that is complete.
    #[allow(clippy::should_implement_trait)] // an iterator cannot lend what it reads
    pub fn next(&mut self) -> Result<Option<Record<'_>>, Malformed> {
        self.0.read(Record::parse)
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
        wanted: usize,
        mut stream: &[u8],
        sizes: &[usize],
        mut seen: impl FnMut(&Record<'_>),
    ) -> Result<(), Malformed> {
        let mut sizes = sizes.iter().cycle();
        while !stream.is_empty() {
            let space = decoder.space(wanted);
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
            wanted in 1..70_000_usize,
        ) {
            let mut stream = Vec::new();
            for record in &records {
                record.emit(&mut stream);
            }
            let mut expected = records.iter();
            feed(&mut Decoder::new(capacity), wanted, &stream, &sizes, |record| {
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
            feed(&mut Decoder::new(0), 1, &stream, &[1], |_| count += 1).unwrap();
            prop_assert_eq!(count, records.len());
        }

        #[test]
        fn no_stream_panics_or_stalls(
            stream in proptest::collection::vec(any::<u8>(), 0..5000),
            sizes in proptest::collection::vec(1..600_usize, 1..4),
        ) {
            let _ = feed(&mut Decoder::new(0), 1, &stream, &sizes, |_| ());
        }
    }
}
