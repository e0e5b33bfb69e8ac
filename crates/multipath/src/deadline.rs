//! Deadline for missing packets, from how long successful waits took.

use std::time::{Duration, Instant};

/// Margin for the scheduling delay of a busy host.
const HOST_NOISE: Duration = Duration::from_millis(5);

/// Wait assumed before the first measurement.
const INITIAL_WAIT: Duration = Duration::from_millis(60);

/// Maximum deadline: about the delay difference between fibre and satellite.
const MAX_DEADLINE: Duration = Duration::from_millis(250);

/// The estimate decays by the factor [`DECAY`] per interval.
const DECAY_INTERVAL: Duration = Duration::from_secs(1);
const DECAY: f64 = 0.8;

/// Tracks the longest recent wait that ended with the missing packet's arrival.
#[derive(Clone, Copy, Debug)]
pub(crate) struct DeadlineEstimator {
    /// Minimum, from the difference of the paths' delays.
    floor: Duration,
    longest: Duration,
    current: Duration,
    since: Option<Instant>,
}

impl DeadlineEstimator {
    pub(crate) const fn new() -> Self {
        Self { floor: Duration::ZERO, longest: INITIAL_WAIT, current: Duration::ZERO, since: None }
    }

    /// Sets the minimum wait, from the difference of the paths' delays.
    pub(crate) fn set_floor(&mut self, floor: Duration) {
        self.floor = floor;
    }

    /// A missing packet arrived after `wait`.
    pub(crate) fn on_gap_filled(&mut self, now: Instant, wait: Duration) {
        self.roll(now);
        self.current = self.current.max(wait);
        self.longest = self.longest.max(wait);
    }

    fn roll(&mut self, now: Instant) {
        let since = *self.since.get_or_insert(now);
        if now.saturating_duration_since(since) >= DECAY_INTERVAL {
            self.longest = self.current.max(self.longest.mul_f64(DECAY));
            self.current = Duration::ZERO;
            self.since = Some(now);
        }
    }

    /// How long to wait for a missing packet.
    pub(crate) fn deadline(&self) -> Duration {
        (self.longest.mul_f64(1.25).max(self.floor) + HOST_NOISE).min(MAX_DEADLINE)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_deadline_follows_successful_waits() {
        let (start, ms) = (Instant::now(), Duration::from_millis);
        let mut estimator = DeadlineEstimator::new();
        assert_eq!(estimator.deadline(), ms(80));
        for second in 0..20 {
            estimator.on_gap_filled(start + Duration::from_secs(second), ms(20));
        }
        assert_eq!(estimator.deadline(), ms(30));
        estimator.on_gap_filled(start + Duration::from_secs(20), ms(100));
        assert_eq!(estimator.deadline(), ms(130));
        estimator.on_gap_filled(start + Duration::from_secs(20), Duration::from_secs(9));
        assert_eq!(estimator.deadline(), MAX_DEADLINE);
    }

    #[test]
    fn paths_set_a_floor() {
        let (start, ms) = (Instant::now(), Duration::from_millis);
        let mut estimator = DeadlineEstimator::new();
        for second in 0..40 {
            estimator.on_gap_filled(start + Duration::from_secs(second), ms(0));
        }
        assert!(estimator.deadline() < ms(7));
        estimator.set_floor(ms(40));
        assert_eq!(estimator.deadline(), ms(45));
    }
}
