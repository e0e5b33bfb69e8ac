//! Data rates.

use std::time::Duration;

/// Bytes per second; finite and not negative.
#[derive(Clone, Copy, Debug, Default, PartialEq, PartialOrd)]
pub struct Rate(f64);

impl Rate {
    /// No data.
    pub const ZERO: Self = Self(0.0);

    /// `bytes` in `time`; zero if no time has passed.
    #[must_use]
    pub fn new(bytes: u64, time: Duration) -> Self {
        let seconds = time.as_secs_f64();
        if seconds > 0.0 { Self(bytes as f64 / seconds) } else { Self::ZERO }
    }

    /// From bytes per second. Negative and non-finite values become zero.
    #[must_use]
    pub fn from_bytes_per_second(rate: f64) -> Self {
        if rate.is_finite() && rate > 0.0 { Self(rate) } else { Self::ZERO }
    }

    /// In bytes per second.
    #[must_use]
    pub const fn bytes_per_second(self) -> f64 {
        self.0
    }

    /// In bits per second.
    #[must_use]
    pub fn bits_per_second(self) -> f64 {
        self.0 * 8.0
    }

    /// Time to send `bytes`; [`Duration::MAX`] at rate zero.
    #[must_use]
    pub fn time(self, bytes: u64) -> Duration {
        Duration::try_from_secs_f64(bytes as f64 / self.0).unwrap_or(Duration::MAX)
    }

    /// Bytes sent in `time`.
    #[must_use]
    #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)] // saturates; never negative
    pub fn bytes(self, time: Duration) -> u64 {
        (self.0 * time.as_secs_f64()) as u64
    }
}

impl std::ops::Add for Rate {
    type Output = Self;

    fn add(self, other: Self) -> Self {
        Self::from_bytes_per_second(self.0 + other.0)
    }
}

impl std::iter::Sum for Rate {
    fn sum<I: Iterator<Item = Self>>(rates: I) -> Self {
        rates.fold(Self::ZERO, |sum, rate| sum + rate)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn time_and_bytes_are_inverse() {
        let rate = Rate::new(1500, Duration::from_millis(12));
        assert_eq!(rate.time(1500), Duration::from_millis(12));
        assert_eq!(rate.bytes(Duration::from_millis(24)), 3000);
        assert!((rate.bits_per_second() - 1e6).abs() < 1e-6);
    }

    #[test]
    fn rate_zero_takes_forever() {
        assert_eq!(Rate::ZERO.time(1), Duration::MAX);
        assert_eq!(Rate::from_bytes_per_second(f64::NAN), Rate::ZERO);
        assert_eq!(Rate::new(5, Duration::ZERO), Rate::ZERO);
    }
}
