//! How much a path carries whose delay varies.
//!
//! A single round trip tells nothing there. What keeps its order waits for the slowest before it: round trips lengthen
//! with what the path carries, and acknowledgements come in bunches. Their means over many acknowledgements do tell:
//! as long as they lengthen by less than what is under way, the path carries more, and no queue stands in it.

use std::time::{Duration, Instant};

use crate::filter::WindowedMin;

/// Acknowledgements that a mean is of, at least.
const SAMPLES: u32 = 16;

/// Power of what is under way with which means lengthen without a queue, at most: on a path of 100 Mbit/s with 25 ms of
/// jitter each way, 0.18 from 0.2 to 2.4 MB (`crates/sim`).
const LENGTHENS: f64 = 0.25;

/// Times what was under way with the shortest mean up to which that mean says something.
const REACH: f64 = 2.0;

/// Share by which means may be above the shortest: they scatter by 3 %, the shortest of many is 7 % below. The queue
/// that this leaves is about a quarter of what the path itself holds.
const ABOVE: f64 = 0.2;

/// Means that are above it by less are without a queue.
const CLEAR: f64 = 1.1;

/// Below this share of the most that was carried, the window is too small, whatever round trips say. Without it, a mean
/// that is short by chance takes the window down, that makes round trips shorter still, and so on to a few packets.
const TOO_LITTLE: f64 = 0.85;

/// What the window is multiplied with in a round, at most and at least.
const MOST: f64 = 1.25;
const LEAST: f64 = 0.8;

/// What is acknowledged in one or more rounds.
#[derive(Clone, Copy, Debug, Default)]
struct Sample {
    acked: f64,
    /// Round trips by bytes, and the time in which they were measured, seconds.
    byte_seconds: f64,
    took: f64,
    count: u32,
}

/// What means of round trips say of a path.
#[derive(Clone, Copy, Debug)]
pub(super) struct Load {
    sample: Sample,
    /// The shortest mean, less what is due to what was under way, and how much that was, bytes.
    shortest: WindowedMin<f64>,
    with: f64,
    /// The last mean against the shortest.
    above: f64,
    /// What is carried, bytes a second, and the least time that a byte took, seconds.
    carries: f64,
    fastest: WindowedMin<f64>,
}

impl Load {
    /// Nothing seen yet; what was seen is forgotten after one to two spans.
    pub(super) fn new(span: Duration) -> Self {
        Self {
            sample: Sample::default(),
            shortest: WindowedMin::new(span),
            with: 0.0,
            above: 1.0,
            carries: 0.0,
            fastest: WindowedMin::new(span),
        }
    }

    /// Rounds before are forgotten: in one, the window was not used up.
    pub(super) fn interrupt(&mut self) {
        self.sample = Sample::default();
    }

    /// Adds a round in which the window was used up: bytes acknowledged, their round trips by bytes, the time it
    /// took, and the number of acknowledgements.
    pub(super) fn add(
        &mut self,
        now: Instant,
        acked: f64,
        byte_seconds: f64,
        took: Duration,
        count: u32,
    ) {
        self.sample.acked += acked;
        self.sample.byte_seconds += byte_seconds;
        self.sample.took += took.as_secs_f64();
        self.sample.count += count;
        if self.sample.count >= SAMPLES {
            let Sample { acked, byte_seconds, took, .. } = std::mem::take(&mut self.sample);
            self.judge(now, byte_seconds / acked.max(1.0), acked / took.max(1e-6));
        }
    }

    /// A mean round trip at so many bytes a second.
    fn judge(&mut self, now: Instant, mean: f64, rate: f64) {
        let under_way = (rate * mean).max(1.0); // Little's law
        if under_way > REACH * self.with {
            self.shortest.clear();
        }
        let own = mean / under_way.powf(LENGTHENS);
        self.shortest.note(now, own);
        let shortest = self.shortest.get().unwrap_or(own);
        if shortest >= own {
            self.with = under_way;
        }
        self.above = own / shortest;
        self.carries = if self.carries > 0.0 { 0.75 * self.carries + 0.25 * rate } else { rate };
        self.fastest.note(now, self.carries.recip());
    }

    /// What the window is to be multiplied with, once that can be told; less of it grows where delay that varies is
    /// believed, from 0 to 1, less.
    pub(super) fn factor(&self, belief: f64) -> Option<f64> {
        let fastest = self.fastest.get()?;
        if self.carries * fastest < TOO_LITTLE {
            return Some(1.0 + ABOVE * belief.max(0.25));
        }
        let allowed = 1.0 + ABOVE * belief.max(0.5);
        Some(if self.above < CLEAR { MOST } else { (allowed / self.above).clamp(LEAST, MOST) })
    }
}
