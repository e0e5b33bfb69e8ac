//! Packet delivery traces in mahimahi's format (Netravali et al., "Mahimahi", USENIX ATC 2015; `mm-link(1)`).
//!
//! Each line is a time in milliseconds at which 1504 bytes can be delivered: a delivery opportunity. A time
//! that occurs twice gives two opportunities. After the last line the trace repeats; its last time is the
//! next round's zero.

use std::num::NonZeroU64;

use crate::time::Instant;

/// Bytes of one delivery opportunity: mahimahi's `PACKET_SIZE`, an MTU and the TUN header.
pub const OPPORTUNITY_BYTES: u32 = 1504;

/// Longest trace, in opportunities (40 MB): 12 Gbit/s for 10 s, or 12 Mbit/s for almost 3 h.
const OPPORTUNITIES_MAX: usize = 10_000_000;

const NANOS_PER_MS: u64 = 1_000_000;

/// Why a trace is invalid. Lines count from 1.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TraceError {
    /// A line that is not a time.
    #[error("line {line}: found {found:?}, expected milliseconds as a whole number below 2^32")]
    NotANumber {
        /// Line number.
        line: usize,
        /// The line, truncated.
        found: String,
    },
    /// A time before that of the previous line.
    #[error("line {line}: found {found} ms after {previous} ms, expected times that do not fall")]
    Falls {
        /// Line number.
        line: usize,
        /// Time of this line, ms.
        found: u32,
        /// Time of the previous line, ms.
        previous: u32,
    },
    /// No lines, or only the time 0.
    #[error("found no time above 0 ms, expected at least one")]
    Empty,
    /// Too many lines.
    #[error("found more than {OPPORTUNITIES_MAX} lines")]
    TooLong,
}

/// A trace, which repeats forever.
#[derive(Debug, PartialEq, Eq)]
pub struct Trace {
    /// Opportunities in ms since the start of a round, not decreasing. Not empty; the last is above 0.
    times: Box<[u32]>,
    /// Length of a round, ns.
    period: NonZeroU64,
}

impl Trace {
    /// Parses a trace.
    ///
    /// # Errors
    /// The first [`TraceError`], with its line.
    pub fn parse(text: &str) -> Result<Self, TraceError> {
        let mut times = Vec::new();
        for (index, line) in text.lines().enumerate() {
            if times.len() == OPPORTUNITIES_MAX {
                return Err(TraceError::TooLong);
            }
            times.push(parse_line(index + 1, line, times.last().copied())?);
        }
        Self::from_times(times)
    }

    /// Mean rate, bit/s.
    #[must_use]
    pub fn mean_bits_per_second(&self) -> f64 {
        let bits = self.times.len() as f64 * f64::from(OPPORTUNITY_BYTES) * 8.0;
        bits * 1e9 / self.period.get() as f64
    }

    fn from_times(times: Vec<u32>) -> Result<Self, TraceError> {
        let last = u64::from(times.last().copied().unwrap_or(0));
        let period = NonZeroU64::new(last * NANOS_PER_MS).ok_or(TraceError::Empty)?;
        Ok(Self { times: times.into_boxed_slice(), period })
    }

    /// Time of an opportunity, ns since the start of the trace.
    fn nanos(&self, place: Place) -> u64 {
        let within = self.times.get(place.index).map_or(0, |ms| u64::from(*ms) * NANOS_PER_MS);
        place.round.saturating_mul(self.period.get()).saturating_add(within)
    }

    /// The first opportunity at or after `nanos` ns since the start of the trace.
    fn place_at(&self, nanos: u64) -> Place {
        // The end of a round belongs to that round: its last opportunity precedes the next round's zero.
        let round = nanos.saturating_sub(1) / self.period;
        let within = nanos - round * self.period.get();
        let index = self.times.partition_point(|ms| u64::from(*ms) * NANOS_PER_MS < within);
        Place { round, index }.or_next_round(self.times.len())
    }

    fn after(&self, place: Place) -> Place {
        Place { round: place.round, index: place.index + 1 }.or_next_round(self.times.len())
    }
}

fn parse_line(line: usize, text: &str, previous: Option<u32>) -> Result<u32, TraceError> {
    let found: u32 = text
        .trim()
        .parse()
        .map_err(|_| TraceError::NotANumber { line, found: text.chars().take(40).collect() })?;
    match previous {
        Some(previous) if found < previous => Err(TraceError::Falls { line, found, previous }),
        _ => Ok(found),
    }
}

/// An opportunity: round of the trace, and line.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
struct Place {
    round: u64,
    index: usize,
}

impl Place {
    fn or_next_round(self, lines: usize) -> Self {
        if self.index < lines { self } else { Self { round: self.round + 1, index: 0 } }
    }
}

/// Position in a trace.
#[derive(Clone, Debug)]
pub(crate) struct Cursor {
    start: Instant,
    place: Place,
    /// Unused bytes of the current opportunity.
    left: u32,
}

impl Cursor {
    /// The start of a trace that starts at `start`.
    pub(crate) fn new(start: Instant) -> Self {
        Self { start, place: Place::default(), left: OPPORTUNITY_BYTES }
    }

    /// When a packet of `size` bytes is delivered whose service starts at `from`.
    ///
    /// Unused bytes of an opportunity serve the next packet only if that packet is already waiting.
    pub(crate) fn serve(&mut self, trace: &Trace, from: Instant, size: u32) -> Instant {
        let since = from.as_nanos().saturating_sub(self.start.as_nanos());
        let place = trace.place_at(since);
        if place > self.place {
            self.go_to(place);
        }
        let mut need = size;
        while need > self.left {
            need -= self.left;
            self.go_to(trace.after(self.place));
        }
        self.left -= need;
        Instant::from_nanos(self.start.as_nanos().saturating_add(trace.nanos(self.place)))
    }

    fn go_to(&mut self, place: Place) {
        *self = Self { start: self.start, place, left: OPPORTUNITY_BYTES };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = NANOS_PER_MS;

    fn serve_all(trace: &Trace, packets: &[(u64, u32)]) -> Vec<u64> {
        let mut cursor = Cursor::new(Instant::from_nanos(0));
        let mut free = 0;
        let mut done = Vec::new();
        for (at, size) in packets {
            let from = Instant::from_nanos((at * MS).max(free));
            free = cursor.serve(trace, from, *size).as_nanos();
            done.push(free / MS);
        }
        done
    }

    #[test]
    fn each_line_delivers_1504_bytes() {
        let trace = Trace::parse("1\n1\n4\n").unwrap();
        assert_eq!(serve_all(&trace, &[(0, 1504), (0, 1504), (0, 1504)]), [1, 1, 4]);
    }

    #[test]
    fn small_packets_share_an_opportunity_and_large_ones_take_several() {
        let trace = Trace::parse("1\n2\n3\n").unwrap();
        assert_eq!(serve_all(&trace, &[(0, 752), (0, 752), (0, 1)]), [1, 1, 2]);
        assert_eq!(serve_all(&trace, &[(0, 3008), (0, 1505)]), [2, 4]);
    }

    #[test]
    fn unused_bytes_at_the_end_of_a_round_serve_the_next_packet() {
        let trace = Trace::parse("4\n8\n12\n").unwrap();
        let done = serve_all(&trace, &[(0, 1514); 10]);
        assert_eq!(done, [8, 12, 16, 20, 24, 28, 32, 36, 40, 44]);
    }

    #[test]
    fn opportunities_without_waiting_packets_are_lost() {
        let trace = Trace::parse("1\n2\n10\n").unwrap();
        assert_eq!(serve_all(&trace, &[(0, 100), (3, 1500)]), [1, 10]);
    }

    #[test]
    fn the_last_time_is_the_next_zero() {
        let trace = Trace::parse("0\n5\n").unwrap();
        assert_eq!(
            serve_all(&trace, &[(0, 1504), (1, 1504), (6, 1504), (1_000_001, 1504)]),
            [0, 5, 10, 1_000_005]
        );
    }

    #[test]
    fn mean_rate_of_one_line_a_millisecond_is_12_mbit() {
        let trace = Trace::parse("1\n2\n3\n4").unwrap();
        assert!((trace.mean_bits_per_second() - 12.032e6).abs() < 1.0);
    }

    #[test]
    fn errors_name_the_line() {
        let not_a_number = TraceError::NotANumber { line: 2, found: "x".into() };
        assert_eq!(Trace::parse("1\nx\n"), Err(not_a_number));
        let falls = TraceError::Falls { line: 3, found: 4, previous: 5 };
        assert_eq!(Trace::parse("1\n5\n4\n"), Err(falls));
        assert_eq!(Trace::parse(""), Err(TraceError::Empty));
        assert_eq!(Trace::parse("0\n0\n"), Err(TraceError::Empty));
        assert!(Trace::parse("-1\n").is_err());
        assert!(Trace::parse("4294967296\n").is_err());
    }
}
