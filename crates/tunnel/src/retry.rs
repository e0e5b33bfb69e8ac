//! Exponential backoff of connection attempts.

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

    /// An attempt failed.
    pub fn failed(&mut self, now: Instant) {
        let (first, longest) = BACKOFF;
        let pause = first.saturating_mul(1 << self.attempts.min(16)).min(longest);
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
            retry.failed(now);
            pauses.push(retry.at.unwrap() - now);
        }
        let milliseconds: Vec<_> = pauses.iter().map(Duration::as_millis).collect();
        assert_eq!(milliseconds[..4], [100, 200, 400, 800]);
        assert_eq!(milliseconds[39], 5000);
    }
}
