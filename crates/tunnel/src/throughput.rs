//! Average throughput of path groups, by which flows may be placed (docs/design/flow-placement.md).

use std::{
    collections::HashMap,
    time::{Duration, Instant},
};

/// Time over which bytes are counted before they enter an average.
const INTERVAL: Duration = Duration::from_secs(1);

/// Intervals over which an average is taken: the weight of the last one is `1 / INTERVALS`.
const INTERVALS: u64 = 8;

/// Bytes a second of a group that carries nothing to speak of: keepalives, idle sessions. Such
/// seconds say nothing of what it can carry.
const IDLE: u64 = 2_000;

/// What a group has carried.
#[derive(Clone, Copy, Debug, Default)]
struct Average {
    /// Bytes sent in all, when last looked at.
    sent: u64,
    /// Bytes a second; 0 until it carried something.
    rate: u64,
}

/// Averages of all groups, by the numbers of peer and group.
pub(crate) struct Throughput {
    averages: HashMap<(u16, u8), Average>,
    last: Instant,
}

impl Throughput {
    pub(crate) fn new(now: Instant) -> Self {
        Self { averages: HashMap::new(), last: now }
    }

    /// Whether an interval is over; then the bytes that each group has sent are to be told, with
    /// the time since the last such call.
    pub(crate) fn due(&mut self, now: Instant) -> Option<Duration> {
        let passed = now.saturating_duration_since(self.last);
        (passed >= INTERVAL).then(|| {
            self.last = now;
            passed
        })
    }

    /// A group has sent so many bytes in all, and the last call was `passed` ago.
    pub(crate) fn note(&mut self, peer: u16, group: u8, sent: u64, passed: Duration) {
        let average = self.averages.entry((peer, group)).or_default();
        // Less than before: it is a new group with an old number.
        let added = sent.checked_sub(average.sent);
        average.sent = sent;
        let Some(added) = added else {
            average.rate = 0;
            return;
        };
        let passed = u64::try_from(passed.as_millis()).unwrap_or(u64::MAX).max(1);
        let rate = added.saturating_mul(1000) / passed;
        if rate >= IDLE {
            average.rate = match average.rate {
                0 => rate,
                old => (old.saturating_mul(INTERVALS - 1).saturating_add(rate)) / INTERVALS,
            };
        }
    }

    /// Bytes a second that a group carries while it carries anything; None until it has.
    pub(crate) fn of(&self, peer: u16, group: u8) -> Option<u64> {
        let rate = self.averages.get(&(peer, group))?.rate;
        (rate > 0).then_some(rate)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    #[test]
    fn idle_seconds_do_not_count() {
        let mut throughput = Throughput::new(Instant::now());
        assert_eq!(throughput.of(2, 0), None);
        throughput.note(2, 0, 1_000_000, SECOND);
        (0..100).for_each(|_| throughput.note(2, 0, 1_000_500, SECOND));
        assert_eq!(throughput.of(2, 0), Some(1_000_000));
    }

    #[test]
    fn the_average_follows_what_the_group_carries() {
        let mut throughput = Throughput::new(Instant::now());
        let mut sent = 0;
        for rate in [8_000_000; 3].into_iter().chain([1_000_000; 40]) {
            sent += rate;
            throughput.note(2, 0, sent, SECOND);
        }
        let rate = throughput.of(2, 0).unwrap();
        assert!((1_000_000..1_100_000).contains(&rate), "{rate}");
    }

    #[test]
    fn a_new_group_with_an_old_number_starts_anew() {
        let mut throughput = Throughput::new(Instant::now());
        throughput.note(2, 0, 9_000_000, SECOND);
        throughput.note(2, 0, 10, SECOND);
        assert_eq!(throughput.of(2, 0), None);
        throughput.note(2, 0, u64::MAX, SECOND);
        assert!(throughput.of(2, 0).is_some(), "nothing overflows");
    }

    #[test]
    fn late_calls_change_no_rate() {
        let start = Instant::now();
        let mut throughput = Throughput::new(start);
        assert_eq!(throughput.due(start + SECOND / 2), None);
        let passed = throughput.due(start + SECOND * 4).unwrap();
        throughput.note(2, 0, 4_000_000, passed);
        assert_eq!(throughput.of(2, 0), Some(1_000_000));
    }
}
