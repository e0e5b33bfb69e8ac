//! The queue of a path group.

use std::{
    collections::VecDeque,
    time::{Duration, Instant},
};

use crate::codel::CoDel;

/// Delay always accepted, for the jitter of a busy host.
const MIN_TARGET: Duration = Duration::from_millis(10);

/// Packets that [`Backlog::recent`] examines.
const RECENT: usize = 8;

/// Queue in order of arrival, bounded in bytes and managed by CoDel. Packets need not leave in
/// order: a slow path takes one from further back, so that it arrives when its turn has come
/// (docs/design/path-scheduling.md).
pub struct Backlog<T> {
    slots: VecDeque<Option<Entry<T>>>,
    bytes: u64,
    limit: u64,
    codel: CoDel,
    /// CoDel's drops still to be made. They fall on arriving packets: a waiting one already has its
    /// sequence number, and the receiver would wait for it.
    pending_drops: u32,
}

struct Entry<T> {
    item: T,
    len: u32,
    enqueued: Instant,
}

/// Why a packet was not admitted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AdmitError {
    /// The backlog is full.
    Full,
    /// CoDel dropped it: the queue has been standing for too long.
    Delay,
}

impl<T> Backlog<T> {
    /// An empty backlog of at most `limit` bytes.
    #[must_use]
    pub fn new(limit: u64) -> Self {
        let (slots, codel) = (VecDeque::new(), CoDel::default());
        Self { slots, bytes: 0, limit, codel, pending_drops: 0 }
    }

    /// Changes the limit, bytes. Packets already queued stay.
    pub fn set_limit(&mut self, limit: u64) {
        self.limit = limit;
    }

    /// Sets CoDel's target and interval:
    ///
    /// ```text
    /// target   = 1.5 * spread + max(rtt / 3, 10 ms)  [+ rtt while retransmitting]
    /// interval = max(100 ms, 2 * (rtt + target))
    /// ```
    ///
    /// `spread` is the extra delay of the slowest path in use, `round_trip` the longest RTT without
    /// queues. A third of an RTT keeps the queue from running dry when CUBIC cuts the window to 0.7
    /// (0.43 RTT for one flow alone). While packets are `retransmitting`, those behind a gap leave
    /// the receiver together one RTT late, and so do their acknowledgements.
    pub fn set_target(&mut self, spread: Duration, round_trip: Duration, retransmitting: bool) {
        let target = spread.mul_f64(1.5) + (round_trip / 3).max(MIN_TARGET);
        let target = if retransmitting { target + round_trip } else { target };
        self.codel.set_target(target);
        // A drop is noticed behind this queue, and the reduced window is seen one RTT later.
        self.codel.set_interval((round_trip + target) * 2);
    }

    /// CoDel's target delay.
    #[must_use]
    pub fn target(&self) -> Duration {
        self.codel.target()
    }

    /// Bytes queued.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Whether nothing is queued.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.bytes == 0
    }

    /// The packet at the head.
    #[must_use]
    pub fn peek(&self) -> Option<&T> {
        self.slots.front().and_then(Option::as_ref).map(|entry| &entry.item)
    }

    /// Length of the packet at the head, bytes.
    #[must_use]
    pub fn head_len(&self) -> Option<u32> {
        self.slots.front().and_then(Option::as_ref).map(|entry| entry.len)
    }

    /// Whether to queue a packet of `len` bytes.
    ///
    /// # Errors
    /// The backlog is full, or CoDel drops the packet.
    pub fn admit(&mut self, len: u32) -> Result<(), AdmitError> {
        if self.bytes + u64::from(len) > self.limit {
            return Err(AdmitError::Full);
        }
        if self.pending_drops > 0 {
            self.pending_drops -= 1;
            return Err(AdmitError::Delay);
        }
        Ok(())
    }

    /// The last packet that satisfies `wanted` among the most recent ones.
    pub fn recent(&mut self, wanted: impl Fn(&T) -> bool) -> Option<&mut T> {
        let few = self.slots.iter_mut().rev().take(RECENT).flatten();
        few.map(|entry| &mut entry.item).find(|item| wanted(item))
    }

    /// Queues a packet that was admitted.
    pub fn push(&mut self, now: Instant, len: u32, item: T) {
        self.bytes += u64::from(len);
        self.slots.push_back(Some(Entry { item, len, enqueued: now }));
    }

    /// Removes the first packet behind `skip` bytes whose length satisfies `fits`.
    pub fn take(&mut self, now: Instant, skip: u64, fits: impl Fn(u32) -> bool) -> Option<T> {
        let index = self.index(skip, fits)?;
        let entry = self.slots.get_mut(index)?.take()?;
        self.bytes -= u64::from(entry.len);
        if index == 0 {
            self.run_codel(now, entry.enqueued, entry.len);
        }
        while let Some(None) = self.slots.front() {
            self.slots.pop_front();
        }
        if self.is_empty() {
            // The queue has drained: packets that arrive now have delayed nobody.
            self.pending_drops = 0;
        }
        Some(entry.item)
    }

    /// Index of the first packet behind `skip` bytes whose length satisfies `fits`.
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

    /// Runs CoDel on the packet that leaves the head.
    fn run_codel(&mut self, now: Instant, enqueued: Instant, len: u32) {
        let delay = now.saturating_duration_since(enqueued);
        if self.codel.should_drop(delay, self.bytes <= u64::from(len), now) {
            self.pending_drops = self.pending_drops.saturating_add(1).min(8);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn packets_may_be_taken_from_behind_the_head() {
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
    fn recent_packets_can_be_changed_in_the_queue() {
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
    fn a_path_takes_packets_that_fit() {
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
    fn a_full_backlog_refuses_packets() {
        let mut backlog = Backlog::new(250);
        assert_eq!(backlog.admit(200), Ok(()));
        backlog.push(Instant::now(), 200, ());
        assert_eq!(backlog.admit(51), Err(AdmitError::Full));
        assert_eq!(backlog.admit(50), Ok(()));
    }

    #[test]
    fn a_drained_queue_owes_no_drops() {
        let start = Instant::now();
        let mut backlog = Backlog::new(1 << 20);
        (0..1000).for_each(|n| backlog.push(start, 1000, n));
        for n in 0..1000 {
            assert!(backlog.take(start + Duration::from_millis(10 * n), 0, |_| true).is_some());
        }
        assert_eq!(backlog.admit(1000), Ok(()));
    }

    #[test]
    fn codel_drops_fall_on_arriving_packets() {
        let start = Instant::now();
        let mut backlog = Backlog::new(1 << 20);
        (0..100).for_each(|n| backlog.push(start, 1000, n));
        let mut refused = 0;
        for n in 0..40 {
            let now = start + Duration::from_millis(10 * n);
            assert!(backlog.take(now, 0, |_| true).is_some());
            refused += u32::from(backlog.admit(1000) == Err(AdmitError::Delay));
        }
        assert!((2..10).contains(&refused), "{refused}");
    }
}
