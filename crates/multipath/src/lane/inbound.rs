//! The receiving end of a stream of bytes.

use std::{
    collections::{BTreeMap, VecDeque},
    time::{Duration, Instant},
};

/// Bytes that come in order are kept in blocks of at least so many.
const BLOCK: usize = 16 << 10;

/// Pieces that came before others they belong behind, at most.
const MAX_LATER: usize = 4096;

/// A round trip is not believed to be shorter: a busy machine is late by as much.
const LEAST_ROUND_TRIP: Duration = Duration::from_millis(10);

/// Puts a stream of bytes together from pieces that come in any order and more than once, and says how
/// much more may be sent.
#[derive(Debug)]
pub struct Inbound {
    /// In order: the first byte is number `read`, less what is gone of the first block.
    blocks: VecDeque<Vec<u8>>,
    gone: usize,
    read: u64,
    /// Up to here all has come.
    whole: u64,
    later: BTreeMap<u64, Vec<u8>>,
    held: u64,
    end: Option<u64>,
    /// Behind the last byte that has come.
    last: u64,
    window: u64,
    limit: u64,
    /// When the window was last compared with what is read, and how much had been read by then.
    judged: Option<(Instant, u64)>,
    /// Most bytes since then that a gap has stood before, from it to the last byte that had come.
    torn: u64,
}

/// The other end sent what it may not.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Violation {
    /// More than it has room for.
    Limit,
    /// Beyond the end, or another end.
    End,
    /// Too many pieces.
    Pieces,
}

impl Inbound {
    /// A stream of which the first `window` bytes may be sent.
    #[must_use]
    pub const fn new(window: u64) -> Self {
        Self {
            blocks: VecDeque::new(),
            gone: 0,
            read: 0,
            whole: 0,
            later: BTreeMap::new(),
            held: 0,
            end: None,
            last: 0,
            window,
            limit: window,
            judged: None,
            torn: 0,
        }
    }

    /// Takes a piece; `end` says that nothing follows.
    pub fn insert(&mut self, offset: u64, bytes: &[u8], end: bool) -> Result<(), Violation> {
        let stop = offset.saturating_add(bytes.len() as u64);
        if stop > self.limit {
            return Err(Violation::Limit);
        }
        let beyond = self.end.is_some_and(|known| stop > known || (end && stop != known));
        if beyond || (end && stop < self.last) {
            return Err(Violation::End);
        }
        if end {
            self.end = Some(stop);
        }
        self.last = self.last.max(stop);
        let known = usize::try_from(self.whole.saturating_sub(offset)).unwrap_or(usize::MAX);
        let Some(bytes) = bytes.get(known..).filter(|bytes| !bytes.is_empty()) else {
            return Ok(());
        };
        let offset = offset.max(self.whole);
        if offset == self.whole && self.later.is_empty() {
            self.append(bytes);
            return Ok(());
        }
        self.keep(offset, bytes)?;
        self.torn = self.torn.max(self.last - self.whole);
        self.advance();
        Ok(())
    }

    /// Adds bytes that are next in order.
    fn append(&mut self, bytes: &[u8]) {
        match self.blocks.back_mut() {
            Some(last) if last.len() < BLOCK => last.extend_from_slice(bytes),
            _ => self.blocks.push_back(bytes.to_vec()),
        }
        self.whole += bytes.len() as u64;
        self.held += bytes.len() as u64;
    }

    /// Keeps what is new of a piece for later.
    fn keep(&mut self, offset: u64, bytes: &[u8]) -> Result<(), Violation> {
        let stop = offset + bytes.len() as u64;
        let mut at = offset;
        while at < stop {
            let before = self.later.range(..=at).next_back();
            let covered = before.map_or(0, |(start, piece)| start + piece.len() as u64);
            if covered > at {
                at = covered;
                continue;
            }
            let next = self.later.range(at..).next().map_or(stop, |(start, _)| stop.min(*start));
            let part = |at: u64| usize::try_from(at - offset).unwrap_or(usize::MAX);
            let new = bytes.get(part(at)..part(next)).unwrap_or_default();
            if self.later.len() >= MAX_LATER {
                return Err(Violation::Pieces);
            }
            self.later.insert(at, new.to_vec());
            self.held += new.len() as u64;
            at = next;
        }
        Ok(())
    }

    /// Moves what has come in order by now to where it is read from.
    fn advance(&mut self) {
        while let Some(entry) = self.later.first_entry()
            && *entry.key() == self.whole
        {
            let piece = entry.remove();
            self.held -= piece.len() as u64;
            self.append(&piece);
        }
    }

    /// The next bytes, as far as they are in one place.
    #[must_use]
    pub fn ready(&self) -> Option<&[u8]> {
        self.blocks.front().and_then(|block| block.get(self.gone..)).filter(|rest| !rest.is_empty())
    }

    /// All bytes that are in order, at most so many places.
    pub fn all_ready(&self) -> impl Iterator<Item = &[u8]> {
        let first = self.ready();
        let others = self.blocks.iter().skip(1).map(Vec::as_slice);
        first.into_iter().chain(others)
    }

    /// The next `len` bytes have been read; no more than there are.
    pub fn consume(&mut self, len: usize) {
        let mut left = len;
        while left > 0
            && let Some(block) = self.blocks.front()
        {
            let rest = block.len() - self.gone;
            let taken = left.min(rest);
            self.gone += taken;
            self.read += taken as u64;
            self.held -= taken as u64;
            left -= taken;
            if taken == rest {
                self.blocks.pop_front();
                self.gone = 0;
            }
        }
    }

    /// Whether all has been read that will ever come.
    #[must_use]
    pub fn is_finished(&self) -> bool {
        self.end == Some(self.read)
    }

    /// Bytes in it.
    #[must_use]
    pub const fn held(&self) -> u64 {
        self.held
    }

    /// Bytes that may stand in it.
    #[must_use]
    pub const fn window(&self) -> u64 {
        self.window
    }

    /// Bytes that the other end may send, counted from the beginning.
    #[must_use]
    pub const fn limit(&self) -> u64 {
        self.limit
    }

    /// A new limit, if it is so much higher that the other end should know.
    ///
    /// The window doubles, up to `most` bytes, where a whole one is read within two round trips (as Linux
    /// sizes TCP's, `tcp_rcv_space_adjust`), and where gaps took up a quarter of it: paths of unequal delay
    /// need room for what overtakes. Who does not read gets no more.
    pub fn credit(&mut self, now: Instant, round_trip: Duration, most: u64) -> Option<u64> {
        let (since, before) = *self.judged.get_or_insert((now, self.read));
        let limit = self.read + self.window;
        if self.end.is_some() || (limit - self.limit) * 4 < self.window {
            return None;
        }
        let whole_window = self.read - before >= self.window;
        let elapsed = now.saturating_duration_since(since);
        let fast = whole_window && elapsed < round_trip.max(LEAST_ROUND_TRIP) * 2;
        let reads = (self.whole - self.read) * 4 < self.window;
        if reads && (fast || self.torn * 4 > self.window) {
            self.window = (self.window * 2).min(most).max(self.window);
            self.torn = 0;
        }
        if whole_window {
            self.judged = Some((now, self.read));
            self.torn = 0;
        }
        self.limit = self.read + self.window;
        Some(self.limit)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn read_all(inbound: &mut Inbound) -> Vec<u8> {
        let all = inbound.all_ready().flatten().copied().collect::<Vec<_>>();
        inbound.consume(all.len());
        all
    }

    #[test]
    fn what_may_not_be_sent_is_refused() {
        let mut inbound = Inbound::new(10);
        assert_eq!(inbound.insert(8, b"abc", false), Err(Violation::Limit));
        assert_eq!(inbound.insert(4, b"ab", true), Ok(()));
        assert_eq!(inbound.insert(4, b"abc", false), Err(Violation::End));
        assert_eq!(inbound.insert(0, b"abc", true), Err(Violation::End));
        assert_eq!(inbound.insert(0, b"abcd", false), Ok(()));
        assert_eq!(read_all(&mut inbound), b"abcdab");
        assert!(inbound.is_finished());
    }

    #[test]
    fn an_end_before_what_came_is_refused() {
        let mut inbound = Inbound::new(100);
        inbound.insert(10, b"abc", false).unwrap();
        assert_eq!(inbound.insert(0, b"abc", true), Err(Violation::End));
    }

    #[test]
    fn scattered_bytes_are_bounded() {
        let mut inbound = Inbound::new(1 << 20);
        let mut refused = (0..).map(|n| inbound.insert(n * 2 + 1, b"a", false));
        let taken = refused.position(|result| result == Err(Violation::Pieces));
        assert_eq!(taken, Some(MAX_LATER));
    }

    #[test]
    fn the_window_grows_with_what_is_read() {
        let (start, ms) = (Instant::now(), Duration::from_millis);
        let mut inbound = Inbound::new(1000);
        assert_eq!(inbound.credit(start, ms(50), 4000), None, "nothing was read");
        let mut at = 0;
        let mut pass = |inbound: &mut Inbound, len: usize| {
            inbound.insert(at, &vec![0; len], false).unwrap();
            inbound.consume(len);
            at += len as u64;
        };
        pass(&mut inbound, 200);
        assert_eq!(inbound.credit(start, ms(50), 4000), None, "too little to tell");
        pass(&mut inbound, 800);
        assert_eq!(inbound.credit(start + ms(60), ms(50), 4000), Some(3000));
        pass(&mut inbound, 2000);
        assert_eq!(inbound.credit(start + ms(500), ms(50), 4000), Some(5000), "read slowly");
        pass(&mut inbound, 2000);
        assert_eq!(inbound.credit(start + ms(550), ms(50), 3000), Some(8000), "no more than most");
        pass(&mut inbound, 3000);
        assert_eq!(inbound.credit(start + ms(560), ms(50), 1000), Some(11_000), "never shrinks");
    }

    #[test]
    fn gaps_widen_the_window() {
        let (now, least) = (Instant::now(), Duration::ZERO);
        let mut inbound = Inbound::new(1000);
        inbound.insert(100, &[0; 400], false).unwrap();
        inbound.insert(0, &[0; 100], false).unwrap();
        inbound.consume(500);
        assert_eq!(inbound.credit(now, least, 4000), Some(2500));
    }

    #[test]
    fn who_does_not_read_gets_no_more() {
        let mut inbound = Inbound::new(1000);
        inbound.insert(0, &[0; 1000], false).unwrap();
        assert_eq!(inbound.credit(Instant::now(), Duration::ZERO, 9000), None);
        assert_eq!(inbound.insert(1000, b"a", false), Err(Violation::Limit));
    }

    proptest! {
        /// Pieces of any size in any order, some more than once and cut otherwise, give the stream.
        #[test]
        fn the_stream_comes_out_whole(
            pieces in proptest::collection::vec((1..3000_usize, any::<u16>()), 1..60),
            copies in proptest::collection::vec((0..90_000_usize, 1..5000_usize, any::<u16>()), 0..20),
            reads in proptest::collection::vec(0..9000_usize, 1..20),
        ) {
            let len = pieces.iter().map(|(len, _)| len).sum::<usize>();
            let stream: Vec<u8> = (0..len).map(|n| u8::try_from(n % 253).unwrap()).collect();
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
            let mut inbound = Inbound::new(len as u64);
            let (mut seen, mut reads) = (Vec::new(), reads.iter().cycle());
            for (_, from, to) in sent {
                inbound.insert(from as u64, &stream[from..to], to == len).unwrap();
                prop_assert!(inbound.held() + seen.len() as u64 <= len as u64);
                let ready = inbound.ready().unwrap_or_default();
                let part = ready[..ready.len().min(*reads.next().unwrap())].to_vec();
                inbound.consume(part.len());
                seen.extend(part);
            }
            seen.extend(read_all(&mut inbound));
            prop_assert_eq!(seen, stream);
            prop_assert!(inbound.is_finished());
            prop_assert_eq!(inbound.held(), 0);
        }
    }
}
