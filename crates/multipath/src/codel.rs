//! Controlled delay (RFC 8289): drops at the head of a queue that stands, not of one that a burst filled.

use std::time::{Duration, Instant};

/// Delay that is always accepted, unless another is asked for (RFC 8289 section 4.3).
const TARGET: Duration = Duration::from_millis(5);

/// Time for which the delay must be above the target before anything is dropped, unless a longer one is
/// asked for: that of a slow round trip (RFC 8289 section 4.3).
const INTERVAL: Duration = Duration::from_millis(100);

/// The state of RFC 8289 section 5.
#[derive(Debug)]
pub struct CoDel {
    target: Duration,
    interval: Duration,
    /// When the delay will have been above the target for an interval.
    first_above: Option<Instant>,
    /// When to drop the next one; only while dropping.
    drop_next: Option<Instant>,
    /// Drops since dropping began, and when it began the last time.
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
    /// Accepts this delay from now on.
    pub fn set_target(&mut self, target: Duration) {
        self.target = target;
    }

    /// Accepts a longer one for this long; for as long as usual where that is more.
    pub fn set_interval(&mut self, interval: Duration) {
        self.interval = interval.max(INTERVAL);
    }

    /// The delay that is accepted.
    #[must_use]
    pub fn target(&self) -> Duration {
        self.target
    }

    /// Whether to drop what is at the head and has waited for `delay`. To be asked of each head in turn,
    /// until the answer is no. `small` says that what is left is no more than one burst.
    pub fn drops(&mut self, delay: Duration, small: bool, now: Instant) -> bool {
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

    /// Whether the delay has been above the target for an interval.
    fn is_standing(&mut self, delay: Duration, small: bool, now: Instant) -> bool {
        if delay < self.target || small {
            self.first_above = None;
            return false;
        }
        now >= *self.first_above.get_or_insert(now + self.interval)
    }

    /// Begins to drop; where it left off, if it did so not long ago.
    fn begin(&mut self, now: Instant) {
        let recent = self.last_drop_next.is_some_and(|last| now < last + self.interval * 16);
        let delta = self.count.saturating_sub(self.last_count);
        self.count = if recent && delta > 1 { delta } else { 1 };
        self.last_count = self.count;
        self.drop_next = Some(now + self.spacing());
    }

    /// Time to the next drop: shorter with the square root of those that were made.
    fn spacing(&self) -> Duration {
        self.interval.div_f64(f64::from(self.count.max(1)).sqrt())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Drops in each of `seconds`, of a queue whose head has always waited for `delay`, looked at every
    /// millisecond.
    fn drops(delay: Duration, small: bool, seconds: usize) -> Vec<usize> {
        let (mut codel, start) = (CoDel::default(), Instant::now());
        let at = |ms: usize| start + Duration::from_millis(ms as u64);
        let second = |codel: &mut CoDel, s: usize| {
            (0..1000).filter(|ms| codel.drops(delay, small, at(s * 1000 + ms))).count()
        };
        (0..seconds).map(|s| second(&mut codel, s)).collect()
    }

    #[test]
    fn a_short_or_small_queue_is_left_alone() {
        assert_eq!(drops(Duration::from_millis(4), false, 3), [0, 0, 0]);
        assert_eq!(drops(Duration::from_secs(4), true, 3), [0, 0, 0]);
    }

    #[test]
    fn drops_come_faster_while_the_queue_stands() {
        let seen = drops(Duration::from_millis(50), false, 4);
        assert!(seen.is_sorted() && seen[0] > 10 && seen[3] > 2 * seen[0], "{seen:?}");
    }

    #[test]
    fn a_burst_is_let_through() {
        let (mut codel, now) = (CoDel::default(), Instant::now());
        let high = Duration::from_millis(80);
        assert!(!codel.drops(high, false, now));
        assert!(!codel.drops(high, false, now + Duration::from_millis(99)));
        assert!(!codel.drops(Duration::ZERO, false, now + Duration::from_millis(99)));
        assert!(!codel.drops(high, false, now + Duration::from_millis(150)));
        assert!(codel.drops(high, false, now + Duration::from_millis(250)));
        assert!(!codel.drops(high, false, now + Duration::from_millis(251)), "one at a time");
    }
}
