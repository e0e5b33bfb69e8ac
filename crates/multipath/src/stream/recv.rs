//! Receiving end of a byte stream: reassembly and flow control.

use std::{
    collections::{BTreeMap, VecDeque},
    time::{Duration, Instant},
};

/// Contiguous bytes are stored in blocks of at least this size.
const BLOCK: usize = 16 << 10;

/// Out-of-order chunks stored per stream.
const MAX_CHUNKS: usize = 4096;

/// Minimum RTT assumed by flow control: a busy host is late by as much.
const MIN_RTT: Duration = Duration::from_millis(10);

/// Reassembles a byte stream from chunks in any order, possibly duplicated, and grants credit for
/// more (RFC 9000 section 4).
#[derive(Debug)]
pub struct RecvStream {
    /// Contiguous bytes from offset `read`; `consumed` bytes of the first block have been read.
    blocks: VecDeque<Vec<u8>>,
    consumed: usize,
    read: u64,
    /// Everything before this offset has arrived.
    contiguous: u64,
    out_of_order: BTreeMap<u64, Vec<u8>>,
    buffered: u64,
    final_size: Option<u64>,
    /// Offset behind the highest byte that has arrived.
    highest: u64,
    window: u64,
    max_offset: u64,
    /// When the window was last compared with the read rate, and `read` at that time.
    tuned: Option<(Instant, u64)>,
    /// Largest distance since then from a gap to the highest byte.
    max_gap: u64,
}

/// The peer violated the protocol.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StreamError {
    /// It sent more than it was granted (`FLOW_CONTROL_ERROR`, RFC 9000 section 20.1).
    FlowControl,
    /// Data behind the end, or a different end (`FINAL_SIZE_ERROR`).
    FinalSize,
    /// Too many out-of-order chunks.
    TooManyChunks,
}

impl RecvStream {
    /// A stream with an initial window of `window` bytes.
    #[must_use]
    pub const fn new(window: u64) -> Self {
        Self {
            blocks: VecDeque::new(),
            consumed: 0,
            read: 0,
            contiguous: 0,
            out_of_order: BTreeMap::new(),
            buffered: 0,
            final_size: None,
            highest: 0,
            window,
            max_offset: window,
            tuned: None,
            max_gap: 0,
        }
    }

    /// Inserts a chunk; `end` says that it is the last of the stream.
    pub fn insert(&mut self, offset: u64, bytes: &[u8], end: bool) -> Result<(), StreamError> {
        let stop = offset.saturating_add(bytes.len() as u64);
        if stop > self.max_offset {
            return Err(StreamError::FlowControl);
        }
        let beyond = self.final_size.is_some_and(|known| stop > known || (end && stop != known));
        if beyond || (end && stop < self.highest) {
            return Err(StreamError::FinalSize);
        }
        if end {
            self.final_size = Some(stop);
        }
        self.highest = self.highest.max(stop);
        let known = usize::try_from(self.contiguous.saturating_sub(offset)).unwrap_or(usize::MAX);
        let Some(bytes) = bytes.get(known..).filter(|bytes| !bytes.is_empty()) else {
            return Ok(());
        };
        let offset = offset.max(self.contiguous);
        if offset == self.contiguous && self.out_of_order.is_empty() {
            self.append(bytes);
            return Ok(());
        }
        self.insert_out_of_order(offset, bytes)?;
        self.max_gap = self.max_gap.max(self.highest - self.contiguous);
        self.advance();
        Ok(())
    }

    /// Appends contiguous bytes.
    fn append(&mut self, bytes: &[u8]) {
        match self.blocks.back_mut() {
            Some(last) if last.len() < BLOCK => last.extend_from_slice(bytes),
            _ => self.blocks.push_back(bytes.to_vec()),
        }
        self.contiguous += bytes.len() as u64;
        self.buffered += bytes.len() as u64;
    }

    /// Stores the parts of a chunk that have not arrived before.
    fn insert_out_of_order(&mut self, offset: u64, bytes: &[u8]) -> Result<(), StreamError> {
        let stop = offset + bytes.len() as u64;
        let mut at = offset;
        while at < stop {
            let before = self.out_of_order.range(..=at).next_back();
            let covered = before.map_or(0, |(start, piece)| start + piece.len() as u64);
            if covered > at {
                at = covered;
                continue;
            }
            let next =
                self.out_of_order.range(at..).next().map_or(stop, |(start, _)| stop.min(*start));
            let part = |at: u64| usize::try_from(at - offset).unwrap_or(usize::MAX);
            let new = bytes.get(part(at)..part(next)).unwrap_or_default();
            if self.out_of_order.len() >= MAX_CHUNKS {
                return Err(StreamError::TooManyChunks);
            }
            self.out_of_order.insert(at, new.to_vec());
            self.buffered += new.len() as u64;
            at = next;
        }
        Ok(())
    }

    /// Moves chunks that have become contiguous to the blocks.
    fn advance(&mut self) {
        while let Some(entry) = self.out_of_order.first_entry()
            && *entry.key() == self.contiguous
        {
            let piece = entry.remove();
            self.buffered -= piece.len() as u64;
            self.append(&piece);
        }
    }

    /// The next contiguous bytes, as far as they are in one block.
    #[must_use]
    pub fn ready(&self) -> Option<&[u8]> {
        self.blocks
            .front()
            .and_then(|block| block.get(self.consumed..))
            .filter(|rest| !rest.is_empty())
    }

    /// All contiguous bytes, block by block.
    pub fn all_ready(&self) -> impl Iterator<Item = &[u8]> {
        let first = self.ready();
        let others = self.blocks.iter().skip(1).map(Vec::as_slice);
        first.into_iter().chain(others)
    }

    /// The next `len` contiguous bytes have been read.
    pub fn consume(&mut self, len: usize) {
        let mut left = len;
        while left > 0
            && let Some(block) = self.blocks.front()
        {
            let rest = block.len() - self.consumed;
            let taken = left.min(rest);
            self.consumed += taken;
            self.read += taken as u64;
            self.buffered -= taken as u64;
            left -= taken;
            if taken == rest {
                self.blocks.pop_front();
                self.consumed = 0;
            }
        }
    }

    /// Whether the whole stream has been read.
    #[must_use]
    pub fn is_finished(&self) -> bool {
        self.final_size == Some(self.read)
    }

    /// Bytes buffered.
    #[must_use]
    pub const fn buffered(&self) -> u64 {
        self.buffered
    }

    /// Window, bytes.
    #[must_use]
    pub const fn window(&self) -> u64 {
        self.window
    }

    /// Offset up to which the peer may send.
    #[must_use]
    pub const fn max_offset(&self) -> u64 {
        self.max_offset
    }

    /// Returns a new maximum offset once a quarter of the window has been read.
    ///
    /// The window doubles, up to `max_window` bytes, if a whole window was read within two RTTs (as
    /// in Linux, `tcp_rcv_space_adjust`), or if gaps took up a quarter of it, since paths of
    /// unequal delay need room for out-of-order data. It does not grow for a reader that falls
    /// behind.
    pub fn update_credit(&mut self, now: Instant, rtt: Duration, max_window: u64) -> Option<u64> {
        let (since, before) = *self.tuned.get_or_insert((now, self.read));
        let limit = self.read + self.window;
        if self.final_size.is_some() || (limit - self.max_offset) * 4 < self.window {
            return None;
        }
        let whole_window = self.read - before >= self.window;
        let elapsed = now.saturating_duration_since(since);
        let fast = whole_window && elapsed < rtt.max(MIN_RTT) * 2;
        let reads = (self.contiguous - self.read) * 4 < self.window;
        if reads && (fast || self.max_gap * 4 > self.window) {
            self.window = (self.window * 2).min(max_window).max(self.window);
            self.max_gap = 0;
        }
        if whole_window {
            self.tuned = Some((now, self.read));
            self.max_gap = 0;
        }
        self.max_offset = self.read + self.window;
        Some(self.max_offset)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn read_all(stream: &mut RecvStream) -> Vec<u8> {
        let all = stream.all_ready().flatten().copied().collect::<Vec<_>>();
        stream.consume(all.len());
        all
    }

    #[test]
    fn protocol_violations_are_refused() {
        let mut stream = RecvStream::new(10);
        assert_eq!(stream.insert(8, b"abc", false), Err(StreamError::FlowControl));
        assert_eq!(stream.insert(4, b"ab", true), Ok(()));
        assert_eq!(stream.insert(4, b"abc", false), Err(StreamError::FinalSize));
        assert_eq!(stream.insert(0, b"abc", true), Err(StreamError::FinalSize));
        assert_eq!(stream.insert(0, b"abcd", false), Ok(()));
        assert_eq!(read_all(&mut stream), b"abcdab");
        assert!(stream.is_finished());
    }

    #[test]
    fn a_final_size_below_received_data_is_refused() {
        let mut stream = RecvStream::new(100);
        stream.insert(10, b"abc", false).unwrap();
        assert_eq!(stream.insert(0, b"abc", true), Err(StreamError::FinalSize));
    }

    #[test]
    fn out_of_order_chunks_are_bounded() {
        let mut stream = RecvStream::new(1 << 20);
        let mut refused = (0..).map(|n| stream.insert(n * 2 + 1, b"a", false));
        let taken = refused.position(|result| result == Err(StreamError::TooManyChunks));
        assert_eq!(taken, Some(MAX_CHUNKS));
    }

    #[test]
    fn the_window_grows_with_the_read_rate() {
        let (start, ms) = (Instant::now(), Duration::from_millis);
        let mut stream = RecvStream::new(1000);
        assert_eq!(stream.update_credit(start, ms(50), 4000), None, "nothing was read");
        let mut at = 0;
        let mut pass = |stream: &mut RecvStream, len: usize| {
            stream.insert(at, &vec![0; len], false).unwrap();
            stream.consume(len);
            at += len as u64;
        };
        pass(&mut stream, 200);
        assert_eq!(stream.update_credit(start, ms(50), 4000), None, "too little to tell");
        pass(&mut stream, 800);
        assert_eq!(stream.update_credit(start + ms(60), ms(50), 4000), Some(3000));
        pass(&mut stream, 2000);
        assert_eq!(stream.update_credit(start + ms(500), ms(50), 4000), Some(5000), "read slowly");
        pass(&mut stream, 2000);
        assert_eq!(
            stream.update_credit(start + ms(550), ms(50), 3000),
            Some(8000),
            "no more than max_window"
        );
        pass(&mut stream, 3000);
        assert_eq!(
            stream.update_credit(start + ms(560), ms(50), 1000),
            Some(11_000),
            "never shrinks"
        );
    }

    #[test]
    fn gaps_widen_the_window() {
        let (now, least) = (Instant::now(), Duration::ZERO);
        let mut stream = RecvStream::new(1000);
        stream.insert(100, &[0; 400], false).unwrap();
        stream.insert(0, &[0; 100], false).unwrap();
        stream.consume(500);
        assert_eq!(stream.update_credit(now, least, 4000), Some(2500));
    }

    #[test]
    fn a_slow_reader_gets_no_more_credit() {
        let mut stream = RecvStream::new(1000);
        stream.insert(0, &[0; 1000], false).unwrap();
        assert_eq!(stream.update_credit(Instant::now(), Duration::ZERO, 9000), None);
        assert_eq!(stream.insert(1000, b"a", false), Err(StreamError::FlowControl));
    }

    proptest! {
        /// Chunks of any size in any order, some duplicated with other boundaries, yield the
        /// stream.
        #[test]
        fn any_order_of_chunks_yields_the_stream(
            pieces in proptest::collection::vec((1..3000_usize, any::<u16>()), 1..60),
            copies in proptest::collection::vec((0..90_000_usize, 1..5000_usize, any::<u16>()), 0..20),
            reads in proptest::collection::vec(0..9000_usize, 1..20),
        ) {
            let len = pieces.iter().map(|(len, _)| len).sum::<usize>();
            let original: Vec<u8> = (0..len).map(|n| u8::try_from(n % 253).unwrap()).collect();
            let mut at = 0;
            let mut sent = Vec::new();
            for (len, turn) in pieces {
                sent.push((turn, at, at + len));
                at += len;
            }
            sent.extend(copies.iter().map(|(from, count, turn)| {
                let from = from % len;
                (*turn, from, (from + count).min(len))
            }));
            sent.sort_unstable();
            let mut stream = RecvStream::new(len as u64);
            let (mut seen, mut reads) = (Vec::new(), reads.iter().cycle());
            for (_, from, to) in sent {
                stream.insert(from as u64, &original[from..to], to == len).unwrap();
                prop_assert!(stream.buffered() + seen.len() as u64 <= len as u64);
                let ready = stream.ready().unwrap_or_default();
                let part = ready[..ready.len().min(*reads.next().unwrap())].to_vec();
                stream.consume(part.len());
                seen.extend(part);
            }
            seen.extend(read_all(&mut stream));
            prop_assert_eq!(seen, original);
            prop_assert!(stream.is_finished());
            prop_assert_eq!(stream.buffered(), 0);
        }
    }
}
