//! Exponential backoff of connection attempts, with jitter.

use std::time::{Duration, Instant};

/// First and maximum pause between attempts.
const BACKOFF: (Duration, Duration) = (Duration::from_millis(100), Duration::from_secs(5));

/// When to try a connection again: the pause doubles with each failed attempt.
#[derive(Clone, Copy, Debug, Default)]
pub struct Retry {
    attempts: u32,
    at: Option<Instant>,
}

impl Retry {
    /// Whether the pause is over.
    #[must_use]
    pub fn is_due(&self, now: Instant) -> bool {
        self.at.is_none_or(|at| at <= now)
    }

    /// Failed attempts.
    #[must_use]
    pub fn attempts(&self) -> u32 {
        self.attempts
    }

    /// An attempt failed. `random` shortens the pause by up to a half, so that many peers of a
    /// gateway that restarts do not come back at the same moment.
    pub fn failed(&mut self, now: Instant, random: u64) {
        let (first, longest) = BACKOFF;
        let pause = first.saturating_mul(1 << self.attempts.min(16)).min(longest);
        let share = u32::try_from(random % 1024).unwrap_or(0);
        let pause = pause / 2 + pause / 2 * (1024 - share) / 1024;
        self.attempts = self.attempts.saturating_add(1);
        self.at = Some(now + pause);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_double_up_to_a_limit() {
        let now = Instant::now();
        let mut retry = Retry::default();
        assert!(retry.is_due(now));
        let mut pauses = Vec::new();
        for _ in 0..40 {
            retry.failed(now, 0);
            pauses.push(retry.at.unwrap() - now);
        }
        let milliseconds: Vec<_> = pauses.iter().map(Duration::as_millis).collect();
        assert_eq!(milliseconds[..4], [100, 200, 400, 800]);
        assert_eq!(milliseconds[39], 5000);
    }

    #[test]
    fn jitter_shortens_a_pause_by_at_most_a_half() {
        let now = Instant::now();
        for random in 0..3000 {
            let mut retry = Retry::default();
            retry.failed(now, random);
            let pause = retry.at.unwrap() - now;
            assert!((50..=100).contains(&pause.as_millis()), "{pause:?}");
        }
    }
}
