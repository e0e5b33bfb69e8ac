//! How much later than others the packets of a flow come.

use std::time::{Duration, Instant};

/// Added to the longest wait seen: what a busy machine is late by.
const MARGIN: Duration = Duration::from_millis(5);

/// Deadline before anything was seen.
const FIRST: Duration = Duration::from_millis(60);

/// Longest deadline, whatever was seen: about the spread between a fibre and a satellite.
const LONGEST: Duration = Duration::from_millis(250);

/// How long a wait counts in full; afterwards it fades by [`FADE`] each such time.
const PERIOD: Duration = Duration::from_secs(1);
const FADE: f64 = 0.8;

/// Follows the longest waits that were not in vain.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Spread {
    /// What is known from the paths themselves.
    floor: Duration,
    longest: Duration,
    current: Duration,
    since: Option<Instant>,
}

impl Spread {
    pub(crate) const fn new() -> Self {
        Self { floor: Duration::ZERO, longest: FIRST, current: Duration::ZERO, since: None }
    }

    /// Waits at least this long from now on: the difference of the paths' delays.
    pub(crate) fn set_floor(&mut self, floor: Duration) {
        self.floor = floor;
    }

    /// Notes how long a packet was waited for that came in the end.
    pub(crate) fn note(&mut self, now: Instant, wait: Duration) {
        self.roll(now);
        self.current = self.current.max(wait);
        self.longest = self.longest.max(wait);
    }

    fn roll(&mut self, now: Instant) {
        let since = *self.since.get_or_insert(now);
        if now.saturating_duration_since(since) >= PERIOD {
            self.longest = self.current.max(self.longest.mul_f64(FADE));
            self.current = Duration::ZERO;
            self.since = Some(now);
        }
    }

    /// How long a missing packet is waited for.
    pub(crate) fn deadline(&self) -> Duration {
        (self.longest.mul_f64(1.25).max(self.floor) + MARGIN).min(LONGEST)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_deadline_follows_what_is_seen() {
        let (start, ms) = (Instant::now(), Duration::from_millis);
        let mut spread = Spread::new();
        assert_eq!(spread.deadline(), ms(80));
        for second in 0..20 {
            spread.note(start + Duration::from_secs(second), ms(20));
        }
        assert_eq!(spread.deadline(), ms(30));
        spread.note(start + Duration::from_secs(20), ms(100));
        assert_eq!(spread.deadline(), ms(130));
        spread.note(start + Duration::from_secs(20), Duration::from_secs(9));
        assert_eq!(spread.deadline(), LONGEST);
    }

    #[test]
    fn paths_set_a_floor() {
        let (start, ms) = (Instant::now(), Duration::from_millis);
        let mut spread = Spread::new();
        for second in 0..40 {
            spread.note(start + Duration::from_secs(second), ms(0));
        }
        assert!(spread.deadline() < ms(7));
        spread.set_floor(ms(40));
        assert_eq!(spread.deadline(), ms(45));
    }
}
