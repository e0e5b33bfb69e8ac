//! CoDel (RFC 8289): drops while a queue stands, not while a burst drains.

use std::time::{Duration, Instant};

/// Default target delay (RFC 8289 section 4.3).
const TARGET: Duration = Duration::from_millis(5);

/// Minimum and default interval, a typical long RTT (RFC 8289 section 4.3).
const INTERVAL: Duration = Duration::from_millis(100);

/// State variables of RFC 8289 section 5.
#[derive(Debug)]
pub struct CoDel {
    target: Duration,
    interval: Duration,
    /// When the delay will have been above the target for one interval.
    first_above: Option<Instant>,
    /// When to drop next; none unless in the dropping state.
    drop_next: Option<Instant>,
    /// Drops since entering the dropping state, and that count at the last entry.
    count: u32,
    last_count: u32,
    last_drop_next: Option<Instant>,
}

impl Default for CoDel {
    fn default() -> Self {
        let (first_above, drop_next, last_drop_next) = (None, None, None);
        Self {
            target: TARGET,
            interval: INTERVAL,
            first_above,
            drop_next,
            count: 0,
            last_count: 0,
            last_drop_next,
        }
    }
}

impl CoDel {
    /// Sets the target delay.
    pub fn set_target(&mut self, target: Duration) {
        self.target = target;
    }

    /// Sets the interval, at least [`INTERVAL`].
    pub fn set_interval(&mut self, interval: Duration) {
        self.interval = interval.max(INTERVAL);
    }

    /// Target delay.
    #[must_use]
    pub fn target(&self) -> Duration {
        self.target
    }

    /// Whether to drop the packet at the head, which has been queued for `delay`. Call it for each
    /// head in turn until it returns false. `small` says that no more than one burst remains
    /// queued.
    pub fn should_drop(&mut self, delay: Duration, small: bool, now: Instant) -> bool {
        if !self.is_standing(delay, small, now) {
            self.last_drop_next = self.drop_next.take().or(self.last_drop_next);
            return false;
        }
        match self.drop_next {
            Some(next) if now < next => false,
            Some(next) => {
                self.count += 1;
                self.drop_next = Some(next + self.spacing());
                true
            }
            None => {
                self.begin(now);
                true
            }
        }
    }

    /// Whether the delay has been above the target for one interval.
    fn is_standing(&mut self, delay: Duration, small: bool, now: Instant) -> bool {
        if delay < self.target || small {
            self.first_above = None;
            return false;
        }
        now >= *self.first_above.get_or_insert(now + self.interval)
    }

    /// Enters the dropping state, at the previous drop rate if it was left recently.
    fn begin(&mut self, now: Instant) {
        let recent = self.last_drop_next.is_some_and(|last| now < last + self.interval * 16);
        let delta = self.count.saturating_sub(self.last_count);
        self.count = if recent && delta > 1 { delta } else { 1 };
        self.last_count = self.count;
        self.drop_next = Some(now + self.spacing());
    }

    /// Time to the next drop: `interval / sqrt(count)` (RFC 8289 section 3.3).
    fn spacing(&self) -> Duration {
        self.interval.div_f64(f64::from(self.count.max(1)).sqrt())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Drops in each of `seconds` for a queue whose head always has this delay, polled every
    /// millisecond.
    fn drops(delay: Duration, small: bool, seconds: usize) -> Vec<usize> {
        let (mut codel, start) = (CoDel::default(), Instant::now());
        let at = |ms: usize| start + Duration::from_millis(ms as u64);
        let second = |codel: &mut CoDel, s: usize| {
            (0..1000).filter(|ms| codel.should_drop(delay, small, at(s * 1000 + ms))).count()
        };
        (0..seconds).map(|s| second(&mut codel, s)).collect()
    }

    #[test]
    fn short_queues_see_no_drops() {
        assert_eq!(drops(Duration::from_millis(4), false, 3), [0, 0, 0]);
        assert_eq!(drops(Duration::from_secs(4), true, 3), [0, 0, 0]);
    }

    #[test]
    fn the_drop_rate_grows_while_the_queue_stands() {
        let seen = drops(Duration::from_millis(50), false, 4);
        assert!(seen.is_sorted() && seen[0] > 10 && seen[3] > 2 * seen[0], "{seen:?}");
    }

    #[test]
    fn a_burst_is_not_dropped() {
        let (mut codel, now) = (CoDel::default(), Instant::now());
        let high = Duration::from_millis(80);
        assert!(!codel.should_drop(high, false, now));
        assert!(!codel.should_drop(high, false, now + Duration::from_millis(99)));
        assert!(!codel.should_drop(Duration::ZERO, false, now + Duration::from_millis(99)));
        assert!(!codel.should_drop(high, false, now + Duration::from_millis(150)));
        assert!(codel.should_drop(high, false, now + Duration::from_millis(250)));
        assert!(!codel.should_drop(high, false, now + Duration::from_millis(251)), "one at a time");
    }
}
