//! What is known of a path's MTU while it is searched for (docs/design/path-mtu.md).
//!
//! quinn searches by probes and falls back to the minimum when it detects a black hole (RFC 8899),
//! but does not say whether a search is still running. Reporting each value on the way would tell
//! hosts an MTU that holds for a moment, and that they then keep for ten minutes (RFC 8201 section
//! 5.3).

use std::time::{Duration, Instant};

use quinn_proto::PathStats;

use super::sizes::MAX_DATAGRAM;

/// A search is over when no probe was sent for this time and four RTTs: each probe is lost or
/// acknowledged by then, and the search after a black hole has begun.
const QUIET: Duration = Duration::from_millis(400);
const QUIET_RTTS: u32 = 4;

/// Most that counts as time between two calls: if this process had to wait, no probe was sent
/// either.
const STEP: Duration = Duration::from_millis(100);

/// Tracks the search on one path. Sizes are UDP payloads, bytes.
#[derive(Debug)]
pub(crate) struct PathMtu {
    max: u16,
    probes: u64,
    black_holes: u64,
    last: Option<Instant>,
    quiet: Duration,
    confirmed: Option<u16>,
}

impl Default for PathMtu {
    fn default() -> Self {
        Self::new(MAX_DATAGRAM)
    }
}

impl PathMtu {
    /// For a search up to `max`.
    pub(crate) fn new(max: u16) -> Self {
        let (last, quiet, confirmed) = (None, Duration::ZERO, None);
        Self { max, probes: 0, black_holes: 0, last, quiet, confirmed }
    }

    /// Takes note of the present state. To be called often.
    pub(crate) fn update(&mut self, now: Instant, stats: &PathStats) {
        let since = self.last.replace(now).unwrap_or(now);
        if (stats.sent_plpmtud_probes, stats.black_holes_detected)
            == (self.probes, self.black_holes)
        {
            self.quiet += now.saturating_duration_since(since).min(STEP);
        } else {
            self.quiet = Duration::ZERO;
        }
        (self.probes, self.black_holes) = (stats.sent_plpmtud_probes, stats.black_holes_detected);
        let current = stats.current_mtu;
        let proven = current >= self.max || self.confirmed.is_some_and(|known| current >= known);
        if proven || self.quiet >= QUIET + stats.rtt * QUIET_RTTS {
            self.confirmed = Some(current);
        }
    }

    /// The largest datagram, as the last search that ended found it; None before the first has.
    pub(crate) fn confirmed(&self) -> Option<u16> {
        self.confirmed
    }

    /// Whether a search is running whose result may be less than what is confirmed.
    pub(crate) fn is_searching(&self, current: u16) -> bool {
        self.confirmed.is_none_or(|known| current < known)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const RTT: Duration = Duration::from_millis(20);

    /// Lets time pass in steps of 50 ms, and says what is confirmed then.
    fn pass(mtu: &mut PathMtu, now: &mut Instant, ms: u64, stats: &PathStats) -> Option<u16> {
        for _ in 0..ms / 50 {
            *now += Duration::from_millis(50);
            mtu.update(*now, stats);
        }
        mtu.confirmed()
    }

    fn stats(current_mtu: u16, probes: u64, black_holes: u64) -> PathStats {
        let mut stats = PathStats::default();
        (stats.current_mtu, stats.rtt) = (current_mtu, RTT);
        (stats.sent_plpmtud_probes, stats.black_holes_detected) = (probes, black_holes);
        stats
    }

    #[test]
    fn a_size_holds_once_the_search_is_over() {
        let (mut mtu, mut now) = (PathMtu::new(1472), Instant::now());
        for probes in 1..6 {
            assert_eq!(pass(&mut mtu, &mut now, 100, &stats(1336, probes, 0)), None);
        }
        assert_eq!(pass(&mut mtu, &mut now, 600, &stats(1370, 6, 0)), Some(1370));
        assert!(!mtu.is_searching(1370));
    }

    #[test]
    fn the_largest_size_needs_no_wait() {
        let (mut mtu, mut now) = (PathMtu::new(1472), Instant::now());
        assert_eq!(pass(&mut mtu, &mut now, 50, &stats(1472, 8, 0)), Some(1472));
    }

    #[test]
    fn a_smaller_size_holds_after_the_next_search_and_a_larger_one_at_once() {
        let (mut mtu, mut now) = (PathMtu::new(1472), Instant::now());
        pass(&mut mtu, &mut now, 50, &stats(1472, 8, 0));
        assert_eq!(pass(&mut mtu, &mut now, 200, &stats(1200, 8, 1)), Some(1472));
        assert!(mtu.is_searching(1200));
        assert_eq!(pass(&mut mtu, &mut now, 200, &stats(1336, 9, 1)), Some(1472));
        assert_eq!(pass(&mut mtu, &mut now, 600, &stats(1370, 15, 1)), Some(1370));
        assert_eq!(pass(&mut mtu, &mut now, 50, &stats(1421, 16, 1)), Some(1421));
    }

    #[test]
    fn time_in_which_the_process_waits_does_not_count() {
        let (mut mtu, now) = (PathMtu::new(1472), Instant::now());
        mtu.update(now, &stats(1200, 1, 0));
        mtu.update(now + Duration::from_secs(9), &stats(1200, 1, 0));
        assert_eq!(mtu.confirmed(), None);
    }
}
