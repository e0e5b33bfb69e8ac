//! A token bucket (RFC 2697 section 3, without colours): how much of a class may be sent when.

use std::time::{Duration, Instant};

use crate::rate::Rate;

/// Time for which unused tokens are kept: timers may be this late without lowering the rate.
const BURST_TIME: Duration = Duration::from_millis(10);

/// Least size of the bucket, bytes: one message of the TCP proxy.
const MIN_BURST: f64 = 24_000.0;

/// Limits a rate. Tokens may be overdrawn by one packet, which the next ones then wait for.
#[derive(Clone, Copy, Debug)]
pub struct Limiter {
    rate: Rate,
    tokens: f64,
    updated: Instant,
}

impl Limiter {
    /// A full bucket.
    #[must_use]
    pub fn new(now: Instant, rate: Rate) -> Self {
        Self { rate, tokens: burst(rate), updated: now }
    }

    /// The rate.
    #[must_use]
    pub fn rate(&self) -> Rate {
        self.rate
    }

    /// When the next packet may be sent; None: now.
    pub fn wait(&mut self, now: Instant) -> Option<Instant> {
        self.refill(now);
        if self.tokens > 0.0 {
            return None;
        }
        // One byte more than owed, so that the answer is never now.
        let owed = Duration::try_from_secs_f64((1.0 - self.tokens) / self.rate.bytes_per_second());
        now.checked_add(owed.unwrap_or(Duration::from_secs(1)).min(Duration::from_secs(1)))
    }

    /// A packet of this size, bytes, is sent.
    pub fn take(&mut self, now: Instant, bytes: u64) {
        self.refill(now);
        self.tokens -= bytes as f64;
    }

    fn refill(&mut self, now: Instant) {
        let passed = now.saturating_duration_since(self.updated).as_secs_f64();
        self.updated = self.updated.max(now);
        self.tokens = (self.tokens + passed * self.rate.bytes_per_second()).min(burst(self.rate));
    }
}

fn burst(rate: Rate) -> f64 {
    (rate.bytes_per_second() * BURST_TIME.as_secs_f64()).max(MIN_BURST)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Sends packets of this size for ten seconds as soon as each may be sent; returns the bytes.
    fn sent(rate: f64, size: u64, late: Duration) -> f64 {
        let start = Instant::now();
        let mut limiter = Limiter::new(start, Rate::from_bytes_per_second(rate));
        let (mut now, mut bytes) = (start, 0);
        while now < start + Duration::from_secs(10) {
            while let Some(at) = limiter.wait(now) {
                assert!(at > now);
                now = at + late;
            }
            limiter.take(now, size);
            bytes += size;
        }
        bytes as f64
    }

    #[test]
    fn late_timers_do_not_lower_the_rate() {
        for late in [0, 5, 9].map(Duration::from_millis) {
            let bytes = sent(1e6, 1400, late);
            assert!((0.99e7..1.01e7).contains(&bytes), "{late:?} {bytes}");
        }
    }

    #[test]
    fn a_rate_of_zero_stops_and_is_asked_again() {
        let now = Instant::now();
        let mut limiter = Limiter::new(now, Rate::ZERO);
        limiter.take(now, 1 << 20);
        assert_eq!(limiter.wait(now), Some(now + Duration::from_secs(1)));
    }

    proptest! {
        /// No more than the bucket, the rate and one packet is ever sent.
        #[test]
        fn the_rate_is_never_exceeded(rate in 1000.0..1e9_f64, size in 40_u64..65_536) {
            prop_assume!(rate * 10.0 / size as f64 <= 1e6);
            let bytes = sent(rate, size, Duration::ZERO);
            prop_assert!(bytes <= rate * 10.0 * 1.001 + burst(Rate::from_bytes_per_second(rate)) + 2.0 * size as f64);
        }
    }
}
