//! Mean RTT over load: window growth on paths where jitter hides the queue.
//!
//! A path that keeps order while its delay varies delivers in bunches, and a single RTT does not
//! show a queue. Means do. By Little's law the data in flight is `rate * mean_rtt`. Without a queue
//! the mean grows with at most the fourth root of the data in flight; with a queue, in proportion
//! to it.

use std::time::{Duration, Instant};

use crate::filter::WindowedMin;

/// ACK frames that one mean needs.
const MIN_SAMPLES: u32 = 16;

/// Exponent with which the mean RTT grows with the data in flight while there is no queue.
/// Measured: 0.18 from 0.2 to 2.4 MB on 100 Mbit/s with 25 ms of jitter each way (`crates/sim`).
const GROWTH_EXPONENT: f64 = 0.25;

/// Factor by which the data in flight may exceed that of the minimum before the minimum is dropped.
const VALID_RANGE: f64 = 2.0;

/// Target of the mean over the minimum, less one. Means scatter by 3 %, and the minimum of many is
/// 7 % below the average. The queue that this leaves is about a quarter of the data in flight.
const TARGET_EXCESS: f64 = 0.2;

/// Ratio of mean to minimum below which there is no queue.
const EMPTY_RATIO: f64 = 1.1;

/// Fraction of the best rate below which the window grows whatever the RTT says. Otherwise a mean
/// that is low by chance shrinks the window, which lowers the RTT further, down to a few packets.
const MIN_RATE_SHARE: f64 = 0.85;

/// Bounds of the factor on the window per round.
const MAX_GAIN: f64 = 1.25;
const MIN_GAIN: f64 = 0.8;

/// Sums over one or more rounds.
#[derive(Clone, Copy, Debug, Default)]
struct Sample {
    acked: f64,
    /// Sum of RTT times bytes, and the length of these rounds, seconds.
    byte_seconds: f64,
    elapsed: f64,
    count: u32,
}

/// Mean RTT of a path against its minimum.
#[derive(Clone, Copy, Debug)]
pub(super) struct MeanRtt {
    sample: Sample,
    /// Minimum of mean RTT divided by `in_flight^GROWTH_EXPONENT`, and the bytes in flight then.
    min_mean: WindowedMin<f64>,
    min_in_flight: f64,
    /// The last value over the minimum.
    excess: f64,
    /// Smoothed rate, bytes/s, and the minimum of its reciprocal.
    rate: f64,
    min_byte_time: WindowedMin<f64>,
}

impl MeanRtt {
    /// No measurement yet; minima expire after one to two `span`s.
    pub(super) fn new(span: Duration) -> Self {
        Self {
            sample: Sample::default(),
            min_mean: WindowedMin::new(span),
            min_in_flight: 0.0,
            excess: 1.0,
            rate: 0.0,
            min_byte_time: WindowedMin::new(span),
        }
    }

    /// Discards the rounds gathered so far: one was app-limited.
    pub(super) fn discard_round(&mut self) {
        self.sample = Sample::default();
    }

    /// Adds a round that was not app-limited: bytes acknowledged, sum of RTT times bytes, its
    /// length, and its number of ACK frames.
    pub(super) fn add_round(
        &mut self,
        now: Instant,
        acked: f64,
        byte_seconds: f64,
        elapsed: Duration,
        count: u32,
    ) {
        self.sample.acked += acked;
        self.sample.byte_seconds += byte_seconds;
        self.sample.elapsed += elapsed.as_secs_f64();
        self.sample.count += count;
        if self.sample.count >= MIN_SAMPLES {
            let Sample { acked, byte_seconds, elapsed, .. } = std::mem::take(&mut self.sample);
            self.update(now, byte_seconds / acked.max(1.0), acked / elapsed.max(1e-6));
        }
    }

    /// Takes a mean RTT, seconds, at a rate, bytes/s.
    fn update(&mut self, now: Instant, mean: f64, rate: f64) {
        let in_flight = (rate * mean).max(1.0); // Little's law
        if in_flight > VALID_RANGE * self.min_in_flight {
            self.min_mean.clear();
        }
        let intrinsic = mean / in_flight.powf(GROWTH_EXPONENT);
        self.min_mean.note(now, intrinsic);
        let min_mean = self.min_mean.get().unwrap_or(intrinsic);
        if min_mean >= intrinsic {
            self.min_in_flight = in_flight;
        }
        self.excess = intrinsic / min_mean;
        self.rate = if self.rate > 0.0 { 0.75 * self.rate + 0.25 * rate } else { rate };
        self.min_byte_time.note(now, self.rate.recip());
    }

    /// Factor on the window, once it is known. A lower jitter share, 0 to 1, lowers the target.
    pub(super) fn window_gain(&self, jitter_share: f64) -> Option<f64> {
        let min_byte_time = self.min_byte_time.get()?;
        if self.rate * min_byte_time < MIN_RATE_SHARE {
            return Some(1.0 + TARGET_EXCESS * jitter_share.max(0.25));
        }
        let target = 1.0 + TARGET_EXCESS * jitter_share.max(0.5);
        Some(if self.excess < EMPTY_RATIO {
            MAX_GAIN
        } else {
            (target / self.excess).clamp(MIN_GAIN, MAX_GAIN)
        })
    }
}
