//! Packets that wait for a path.

use std::{
    collections::VecDeque,
    time::{Duration, Instant},
};

use crate::codel::CoDel;

/// Delay that is always accepted.
const LEAST_TARGET: Duration = Duration::from_millis(10);

/// Packets that [`Backlog::recent`] looks at.
const RECENT: usize = 8;

/// Packets in the order in which they came, bounded in bytes. They need not leave in that order: a slow
/// path takes a packet from further back, so that it arrives when its turn has come.
pub struct Backlog<T> {
    slots: VecDeque<Option<Entry<T>>>,
    bytes: u64,
    limit: u64,
    codel: CoDel,
    /// Packets that are still to be refused because others have stood too long. A packet that waits has
    /// its number already, and the other end would wait for it: so the next one to come pays.
    owed: u32,
}

struct Entry<T> {
    item: T,
    len: u32,
    since: Instant,
}

/// Why a packet was not taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refused {
    /// There is no room.
    Full,
    /// Others have stood for too long.
    Delay,
}

impl<T> Backlog<T> {
    /// An empty backlog that takes so many bytes.
    #[must_use]
    pub fn new(limit: u64) -> Self {
        let (slots, codel) = (VecDeque::new(), CoDel::default());
        Self { slots, bytes: 0, limit, codel, owed: 0 }
    }

    /// Changes how much it takes. What is in it stays.
    pub fn set_limit(&mut self, limit: u64) {
        self.limit = limit;
    }

    /// Accepts from now on that packets wait so long that all paths are kept busy: `spread` is how much
    /// longer a packet takes on the slowest path in use, `round_trip` the longest without queues.
    ///
    /// A flow whose window is cut by CUBIC (to 0.7) keeps a queue of 0.43 round trips from running dry. Where
    /// packets are `resent`, those behind them leave the other end together, a round trip late, and so do their
    /// acknowledgements and what comes upon these.
    pub fn accept(&mut self, spread: Duration, round_trip: Duration, resent: bool) {
        let target = spread.mul_f64(1.5) + (round_trip / 3).max(LEAST_TARGET);
        let target = if resent { target + round_trip } else { target };
        self.codel.set_target(target);
        // A loss is seen behind what stands here, and shows here when the window has shrunk, a round trip later.
        self.codel.set_interval((round_trip + target) * 2);
    }

    /// Delay that is accepted.
    #[must_use]
    pub fn target(&self) -> Duration {
        self.codel.target()
    }

    /// Bytes that wait.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Whether nothing waits.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.bytes == 0
    }

    /// The packet that has waited longest.
    #[must_use]
    pub fn peek(&self) -> Option<&T> {
        self.slots.front().and_then(Option::as_ref).map(|entry| &entry.item)
    }

    /// Bytes of the packet that has waited longest.
    #[must_use]
    pub fn head(&self) -> Option<u32> {
        self.slots.front().and_then(Option::as_ref).map(|entry| entry.len)
    }

    /// Whether a packet of so many bytes would be taken.
    ///
    /// # Errors
    /// Why it would not.
    pub fn admit(&mut self, len: u32) -> Result<(), Refused> {
        if self.bytes + u64::from(len) > self.limit {
            return Err(Refused::Full);
        }
        if self.owed > 0 {
            self.owed -= 1;
            return Err(Refused::Delay);
        }
        Ok(())
    }

    /// The last `wanted` packet among the few that came last and wait still.
    pub fn recent(&mut self, wanted: impl Fn(&T) -> bool) -> Option<&mut T> {
        let few = self.slots.iter_mut().rev().take(RECENT).flatten();
        few.map(|entry| &mut entry.item).find(|item| wanted(item))
    }

    /// Takes a packet that was admitted.
    pub fn push(&mut self, now: Instant, len: u32, item: T) {
        self.bytes += u64::from(len);
        self.slots.push_back(Some(Entry { item, len, since: now }));
    }

    /// Takes out the first packet behind `skip` bytes whose length `fits`; none where there is none.
    pub fn take(&mut self, now: Instant, skip: u64, fits: impl Fn(u32) -> bool) -> Option<T> {
        let index = self.index(skip, fits)?;
        let entry = self.slots.get_mut(index)?.take()?;
        self.bytes -= u64::from(entry.len);
        if index == 0 {
            self.judge(now, entry.since, entry.len);
        }
        while let Some(None) = self.slots.front() {
            self.slots.pop_front();
        }
        if self.is_empty() {
            // Who comes now has made nobody wait.
            self.owed = 0;
        }
        Some(entry.item)
    }

    /// Where the first packet stands behind `skip` bytes whose length `fits`.
    fn index(&self, skip: u64, fits: impl Fn(u32) -> bool) -> Option<usize> {
        let mut before = 0;
        for (index, slot) in self.slots.iter().enumerate() {
            if let Some(Entry { len, .. }) = slot {
                if before >= skip && fits(*len) {
                    return Some(index);
                }
                before += u64::from(*len);
            }
        }
        None
    }

    /// The head leaves: notes whether it has stood too long.
    fn judge(&mut self, now: Instant, since: Instant, len: u32) {
        let delay = now.saturating_duration_since(since);
        if self.codel.drops(delay, self.bytes <= u64::from(len), now) {
            self.owed = self.owed.saturating_add(1).min(8);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_packet_may_leave_from_further_back() {
        let now = Instant::now();
        let mut backlog = Backlog::new(10_000);
        (0..6).for_each(|n| backlog.push(now, 100, n));
        assert_eq!(backlog.peek(), Some(&0));
        let mut take = |skip| backlog.take(now, skip, |_| true);
        assert_eq!(
            [250, 250, 0, 200, 200].map(&mut take),
            [Some(3), Some(4), Some(0), Some(5), None]
        );
        assert_eq!([0, 0, 0].map(take), [Some(1), Some(2), None]);
        assert!(backlog.is_empty());
    }

    #[test]
    fn what_came_lately_may_be_changed_while_it_waits() {
        let now = Instant::now();
        let mut backlog = Backlog::new(10_000);
        assert_eq!(backlog.recent(|_| true), None);
        (0..20).for_each(|n| backlog.push(now, 100, n));
        assert_eq!(backlog.recent(|n| *n < 10), None, "too long ago");
        backlog.recent(|n| n % 5 == 1).into_iter().for_each(|n| *n = 70);
        assert_eq!(backlog.take(now, 1600, |_| true), Some(70));
        assert_eq!(backlog.recent(|n| n % 5 == 1), None, "it is gone");
        assert_eq!(backlog.recent(|_| true), Some(&mut 19));
    }

    #[test]
    fn a_path_takes_what_fits() {
        let now = Instant::now();
        let mut backlog = Backlog::new(10_000);
        for len in [200, 1400, 1400, 1000, 1400] {
            backlog.push(now, len, len);
        }
        let mut take = |skip| backlog.take(now, skip, |len| len <= 1200);
        assert_eq!([300, 300, 0, 0].map(&mut take), [Some(1000), None, Some(200), None]);
        assert_eq!(backlog.bytes(), 3 * 1400);
    }

    #[test]
    fn a_full_backlog_takes_nothing() {
        let mut backlog = Backlog::new(250);
        assert_eq!(backlog.admit(200), Ok(()));
        backlog.push(Instant::now(), 200, ());
        assert_eq!(backlog.admit(51), Err(Refused::Full));
        assert_eq!(backlog.admit(50), Ok(()));
    }

    #[test]
    fn nobody_pays_for_what_has_drained() {
        let start = Instant::now();
        let mut backlog = Backlog::new(1 << 20);
        (0..1000).for_each(|n| backlog.push(start, 1000, n));
        for n in 0..1000 {
            assert!(backlog.take(start + Duration::from_millis(10 * n), 0, |_| true).is_some());
        }
        assert_eq!(backlog.admit(1000), Ok(()));
    }

    #[test]
    fn when_it_stands_the_next_packet_pays() {
        let start = Instant::now();
        let mut backlog = Backlog::new(1 << 20);
        (0..100).for_each(|n| backlog.push(start, 1000, n));
        let mut refused = 0;
        for n in 0..40 {
            let now = start + Duration::from_millis(10 * n);
            assert!(backlog.take(now, 0, |_| true).is_some());
            refused += u32::from(backlog.admit(1000) == Err(Refused::Delay));
        }
        assert!((2..10).contains(&refused), "{refused}");
    }
}
