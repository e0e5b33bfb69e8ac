//! Packets that are sent again where a path loses them.
//!
//! An inner flow takes each loss for congestion, and a flow over several paths sees the losses of all of them
//! at the rate of their sum: one that loses a packet in two hundred would keep it below what one path carries.
//! So the sender keeps what is under way ([`UnderWay`], one for each path), and what its path has lost goes
//! again, before all other, where it arrives first ([`Recovery`]). The resequencer at the other end waits for it.

use std::{
    collections::VecDeque,
    time::{Duration, Instant},
};

/// Packets older than this do not go again: the other end no longer waits for them.
const PATIENCE: Duration = Duration::from_millis(400);

/// Time after a loss in which more is counted on.
const RECENT: Duration = Duration::from_secs(2);

/// Packets that wait to go again up to which a path has lost them by chance, and not all that was under way on it.
const FEW: usize = 16;

/// Bytes that are kept of one path, and that wait to go again, at most.
const LIMIT: u64 = 8 << 20;

/// A packet that may go again.
#[derive(Clone, Debug)]
pub struct Kept<T> {
    /// Its flow and its number there.
    pub flow: u16,
    /// See [`crate::Tag::sequence`].
    pub sequence: u32,
    /// Bytes that it has.
    pub len: u32,
    /// When it left for the first time.
    pub since: Instant,
    /// The packet.
    pub item: T,
}

/// What is under way on a path, by what its transport calls it; `K` grows from packet to packet. A packet of the
/// transport may carry several of ours.
pub struct UnderWay<K, T> {
    packets: VecDeque<(K, Option<Kept<T>>)>,
    bytes: u64,
}

impl<K, T> Default for UnderWay<K, T> {
    fn default() -> Self {
        Self { packets: VecDeque::new(), bytes: 0 }
    }
}

impl<K: Copy + Ord, T> UnderWay<K, T> {
    /// Whether nothing is.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.packets.is_empty()
    }

    /// A packet left. `give_up` gets those for which there is no room any more.
    pub fn sent(&mut self, key: K, packet: Kept<T>, mut give_up: impl FnMut(Kept<T>)) {
        self.bytes += u64::from(packet.len);
        self.packets.push_back((key, Some(packet)));
        while self.bytes > LIMIT
            && let Some((_, oldest)) = self.packets.pop_front()
        {
            if let Some(packet) = oldest {
                self.bytes -= u64::from(packet.len);
                give_up(packet);
            }
        }
    }

    /// What went as `key` came.
    pub fn acked(&mut self, key: K, mut came: impl FnMut(Kept<T>)) {
        let first = self.packets.partition_point(|(known, _)| *known < key);
        for (_, packet) in self.packets.iter_mut().skip(first).take_while(|(at, _)| *at == key) {
            if let Some(packet) = packet.take() {
                self.bytes -= u64::from(packet.len);
                came(packet);
            }
        }
        while self.packets.pop_front_if(|(_, packet)| packet.is_none()).is_some() {}
    }

    /// What went as `key` is lost, and all before it that has not come.
    pub fn lost(&mut self, key: K, mut lost: impl FnMut(Kept<T>)) {
        while let Some((_, packet)) = self.packets.pop_front_if(|(known, _)| *known <= key) {
            if let Some(packet) = packet {
                self.bytes -= u64::from(packet.len);
                lost(packet);
            }
        }
    }

    /// Everything, as from a path that does not answer.
    pub fn take_all(&mut self) -> impl Iterator<Item = Kept<T>> + use<K, T> {
        self.bytes = 0;
        std::mem::take(&mut self.packets).into_iter().filter_map(|(_, packet)| packet)
    }
}

/// What goes again.
pub struct Recovery<T> {
    queue: VecDeque<Kept<T>>,
    bytes: u64,
    last: Option<Instant>,
}

impl<T> Default for Recovery<T> {
    fn default() -> Self {
        Self { queue: VecDeque::new(), bytes: 0, last: None }
    }
}

impl<T> Recovery<T> {
    /// Whether nothing waits to go again.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.queue.is_empty()
    }

    /// Whether so little waits that what goes again may go on two paths at once. One that is lost once more holds its
    /// flow up for another round trip, which is longer than the other end waits: where 2 % are lost, one of fifty.
    #[must_use]
    pub fn is_short(&self) -> bool {
        self.queue.len() < FEW
    }

    /// Whether packets have gone again of late, so that what is behind them comes in bursts.
    #[must_use]
    pub fn is_recent(&self, now: Instant) -> bool {
        self.last.is_some_and(|last| now.saturating_duration_since(last) < RECENT)
    }

    /// A path lost a packet. Gives it back where it is of no use any more.
    pub fn add(&mut self, now: Instant, packet: Kept<T>) -> Option<Kept<T>> {
        let late = now.saturating_duration_since(packet.since) > PATIENCE;
        if late || self.bytes + u64::from(packet.len) > LIMIT {
            return Some(packet);
        }
        self.bytes += u64::from(packet.len);
        self.queue.push_back(packet);
        self.last = Some(now);
        None
    }

    /// What has waited for too long to go again.
    pub fn expire(&mut self, now: Instant) -> impl Iterator<Item = Kept<T>> + '_ {
        std::iter::from_fn(move || {
            let head = self.queue.front()?;
            let late = now.saturating_duration_since(head.since) > PATIENCE;
            if late { self.take() } else { None }
        })
    }

    /// Bytes of the packet that goes next.
    #[must_use]
    pub fn head(&self) -> Option<u32> {
        self.queue.front().map(|packet| packet.len)
    }

    /// The packet that goes next.
    pub fn take(&mut self) -> Option<Kept<T>> {
        let packet = self.queue.pop_front()?;
        self.bytes -= u64::from(packet.len);
        Some(packet)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kept(since: Instant, sequence: u32, len: u32) -> Kept<()> {
        Kept { flow: 1, sequence, len, since, item: () }
    }

    #[test]
    fn what_did_not_come_before_what_is_lost_is_lost_too() {
        let now = Instant::now();
        let mut under_way = UnderWay::default();
        for n in 0..6_u32 {
            // Two in a packet.
            under_way.sent(n / 2, kept(now, n, 100), |_| unreachable!());
        }
        let mut came = vec![];
        under_way.acked(1, |packet| came.push(packet.sequence));
        under_way.acked(1, |packet| came.push(packet.sequence));
        under_way.acked(9, |packet| came.push(packet.sequence));
        assert_eq!(came, [2, 3]);
        let mut lost = vec![];
        under_way.lost(1, |packet| lost.push(packet.sequence));
        under_way.lost(1, |packet| lost.push(packet.sequence));
        assert_eq!((lost, under_way.bytes), (vec![0, 1], 200));
        let left: Vec<_> = under_way.take_all().map(|packet| packet.sequence).collect();
        assert_eq!((left, under_way.bytes, under_way.is_empty()), (vec![4, 5], 0, true));
    }

    #[test]
    fn memory_is_bounded() {
        let (now, len) = (Instant::now(), 1 << 20);
        let (mut under_way, mut given_up) = (UnderWay::default(), vec![]);
        (0..10)
            .for_each(|n| under_way.sent(n, kept(now, n, len), |old| given_up.push(old.sequence)));
        assert_eq!((given_up, under_way.bytes), (vec![0, 1], LIMIT));
        let mut recovery = Recovery::default();
        let refused = (0..10).filter(|n| recovery.add(now, kept(now, *n, len)).is_some()).count();
        assert_eq!((refused, recovery.bytes), (2, LIMIT));
        assert!(recovery.take().is_some() && recovery.head() == Some(len));
    }

    #[test]
    fn what_is_lost_by_chance_goes_twice() {
        let (now, mut recovery) = (Instant::now(), Recovery::default());
        let mut short = |n| {
            assert!(recovery.add(now, kept(now, n, 100)).is_none());
            recovery.is_short()
        };
        assert!((0..15).all(&mut short) && !short(15));
        assert!(recovery.take().is_some() && recovery.is_short());
    }

    #[test]
    fn what_is_old_does_not_go_again() {
        let since = Instant::now();
        let mut recovery = Recovery::default();
        assert!(recovery.add(since + PATIENCE, kept(since, 1, 10)).is_none());
        assert!(recovery.add(since + PATIENCE * 2, kept(since, 2, 10)).is_some());
        assert_eq!((recovery.take().unwrap().sequence, recovery.is_empty()), (1, true));
        assert!(recovery.add(since, kept(since, 3, 10)).is_none());
        assert_eq!(
            (
                recovery.expire(since + PATIENCE).count(),
                recovery.expire(since + PATIENCE * 2).count()
            ),
            (0, 1)
        );
        assert!(recovery.is_recent(since + PATIENCE) && !recovery.is_recent(since + RECENT * 2));
    }
}
