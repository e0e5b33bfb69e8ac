//! Retransmission of packets that a path has lost (docs/design/retransmission.md).
//!
//! Inner TCP takes every loss for congestion, and over several paths it sees the losses of all of
//! them at the rate of their sum: 0.5 % of loss keeps it below the rate of one path. The sender
//! therefore keeps packets until they are acknowledged ([`SentPackets`], one per path) and
//! retransmits what a path loses, before all other packets and where it arrives first
//! ([`RetransmitQueue`]). The resequencer at the other end waits for it.

use std::{
    collections::VecDeque,
    time::{Duration, Instant},
};

/// Age at which a packet is abandoned: the receiver no longer waits for it.
const MAX_AGE: Duration = Duration::from_millis(400);

/// Time after a loss during which more retransmissions are expected.
const RECENT_LOSS: Duration = Duration::from_secs(2);

/// Queued packets below which each is sent on two paths. More means that a path went silent, rather
/// than random loss (measurements in docs/design/retransmission.md).
const DUPLICATE_BELOW: usize = 16;

/// Bytes kept per path, and bytes queued for retransmission.
const MAX_BYTES: u64 = 8 << 20;

/// A packet kept until it is acknowledged, and sent again if it is lost.
#[derive(Clone, Debug)]
pub struct Retransmittable<T> {
    /// See [`crate::Tag::flow`].
    pub flow: u16,
    /// See [`crate::Tag::sequence`].
    pub sequence: u32,
    /// Its length, bytes.
    pub len: u32,
    /// When it was first sent.
    pub first_sent: Instant,
    /// The packet.
    pub item: T,
}

/// Retransmittable packets in flight on one path. `K` identifies the transport's packet, increases
/// from one to the next, and may be shared by several of ours.
pub struct SentPackets<K, T> {
    packets: VecDeque<(K, Option<Retransmittable<T>>)>,
    bytes: u64,
}

impl<K, T> Default for SentPackets<K, T> {
    fn default() -> Self {
        Self { packets: VecDeque::new(), bytes: 0 }
    }
}

impl<K: Copy + Ord, T> SentPackets<K, T> {
    /// Whether none is in flight.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.packets.is_empty()
    }

    /// A packet was sent. The oldest are passed to `abandon` when [`MAX_BYTES`] is exceeded.
    pub fn sent(
        &mut self,
        key: K,
        packet: Retransmittable<T>,
        mut abandon: impl FnMut(Retransmittable<T>),
    ) {
        self.bytes += u64::from(packet.len);
        self.packets.push_back((key, Some(packet)));
        while self.bytes > MAX_BYTES
            && let Some((_, oldest)) = self.packets.pop_front()
        {
            if let Some(packet) = oldest {
                self.bytes -= u64::from(packet.len);
                abandon(packet);
            }
        }
    }

    /// Packets sent as `key` were acknowledged.
    pub fn acked(&mut self, key: K, mut on_acked: impl FnMut(Retransmittable<T>)) {
        let first = self.packets.partition_point(|(known, _)| *known < key);
        for (_, packet) in self.packets.iter_mut().skip(first).take_while(|(at, _)| *at == key) {
            if let Some(packet) = packet.take() {
                self.bytes -= u64::from(packet.len);
                on_acked(packet);
            }
        }
        while self.packets.pop_front_if(|(_, packet)| packet.is_none()).is_some() {}
    }

    /// Packets sent as `key` were lost, as were all before it that have not been acknowledged.
    pub fn lost(&mut self, key: K, mut lost: impl FnMut(Retransmittable<T>)) {
        while let Some((_, packet)) = self.packets.pop_front_if(|(known, _)| *known <= key) {
            if let Some(packet) = packet {
                self.bytes -= u64::from(packet.len);
                lost(packet);
            }
        }
    }

    /// Removes all packets, as from a path that is silent.
    pub fn take_all(&mut self) -> impl Iterator<Item = Retransmittable<T>> + use<K, T> {
        self.bytes = 0;
        std::mem::take(&mut self.packets).into_iter().filter_map(|(_, packet)| packet)
    }
}

/// Packets to be retransmitted, oldest loss first.
pub struct RetransmitQueue<T> {
    queue: VecDeque<Retransmittable<T>>,
    bytes: u64,
    last: Option<Instant>,
}

impl<T> Default for RetransmitQueue<T> {
    fn default() -> Self {
        Self { queue: VecDeque::new(), bytes: 0, last: None }
    }
}

impl<T> RetransmitQueue<T> {
    /// Whether nothing is queued.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.queue.is_empty()
    }

    /// Whether so few packets are queued that each may be sent on two paths at once. A
    /// retransmission that is lost again delays its flow by another RTT, longer than the receiver
    /// waits: with 2 % of loss, one in fifty.
    #[must_use]
    pub fn may_duplicate(&self) -> bool {
        self.queue.len() < DUPLICATE_BELOW
    }

    /// Whether packets were queued recently, so that packets behind gaps are released in bursts.
    #[must_use]
    pub fn had_recent_loss(&self, now: Instant) -> bool {
        self.last.is_some_and(|last| now.saturating_duration_since(last) < RECENT_LOSS)
    }

    /// Queues a packet that was lost; returns it if it is too old, or there is no room.
    pub fn push(&mut self, now: Instant, packet: Retransmittable<T>) -> Option<Retransmittable<T>> {
        let late = now.saturating_duration_since(packet.first_sent) > MAX_AGE;
        if late || self.bytes + u64::from(packet.len) > MAX_BYTES {
            return Some(packet);
        }
        self.bytes += u64::from(packet.len);
        self.queue.push_back(packet);
        self.last = Some(now);
        None
    }

    /// Removes packets that have become too old.
    pub fn expire(&mut self, now: Instant) -> impl Iterator<Item = Retransmittable<T>> + '_ {
        std::iter::from_fn(move || {
            let head = self.queue.front()?;
            let late = now.saturating_duration_since(head.first_sent) > MAX_AGE;
            if late { self.pop() } else { None }
        })
    }

    /// Length of the next packet, bytes.
    #[must_use]
    pub fn head_len(&self) -> Option<u32> {
        self.queue.front().map(|packet| packet.len)
    }

    /// Removes the next packet.
    pub fn pop(&mut self) -> Option<Retransmittable<T>> {
        let packet = self.queue.pop_front()?;
        self.bytes -= u64::from(packet.len);
        Some(packet)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn packet(first_sent: Instant, sequence: u32, len: u32) -> Retransmittable<()> {
        Retransmittable { flow: 1, sequence, len, first_sent, item: () }
    }

    #[test]
    fn a_loss_includes_unacknowledged_packets_before_it() {
        let now = Instant::now();
        let mut sent_packets = SentPackets::default();
        for n in 0..6_u32 {
            // Two in a packet.
            sent_packets.sent(n / 2, packet(now, n, 100), |_| unreachable!());
        }
        let mut acked = vec![];
        sent_packets.acked(1, |packet| acked.push(packet.sequence));
        sent_packets.acked(1, |packet| acked.push(packet.sequence));
        sent_packets.acked(9, |packet| acked.push(packet.sequence));
        assert_eq!(acked, [2, 3]);
        let mut lost = vec![];
        sent_packets.lost(1, |packet| lost.push(packet.sequence));
        sent_packets.lost(1, |packet| lost.push(packet.sequence));
        assert_eq!((lost, sent_packets.bytes), (vec![0, 1], 200));
        let left: Vec<_> = sent_packets.take_all().map(|packet| packet.sequence).collect();
        assert_eq!((left, sent_packets.bytes, sent_packets.is_empty()), (vec![4, 5], 0, true));
    }

    #[test]
    fn memory_is_bounded() {
        let (now, len) = (Instant::now(), 1 << 20);
        let (mut sent_packets, mut abandoned) = (SentPackets::default(), vec![]);
        (0..10).for_each(|n| {
            sent_packets.sent(n, packet(now, n, len), |old| abandoned.push(old.sequence));
        });
        assert_eq!((abandoned, sent_packets.bytes), (vec![0, 1], MAX_BYTES));
        let mut queue = RetransmitQueue::default();
        let refused = (0..10).filter(|n| queue.push(now, packet(now, *n, len)).is_some()).count();
        assert_eq!((refused, queue.bytes), (2, MAX_BYTES));
        assert!(queue.pop().is_some() && queue.head_len() == Some(len));
    }

    #[test]
    fn few_losses_are_duplicated() {
        let (now, mut queue) = (Instant::now(), RetransmitQueue::default());
        let mut short = |n| {
            assert!(queue.push(now, packet(now, n, 100)).is_none());
            queue.may_duplicate()
        };
        assert!((0..15).all(&mut short) && !short(15));
        assert!(queue.pop().is_some() && queue.may_duplicate());
    }

    #[test]
    fn old_packets_are_not_retransmitted() {
        let first_sent = Instant::now();
        let mut queue = RetransmitQueue::default();
        assert!(queue.push(first_sent + MAX_AGE, packet(first_sent, 1, 10)).is_none());
        assert!(queue.push(first_sent + MAX_AGE * 2, packet(first_sent, 2, 10)).is_some());
        assert_eq!((queue.pop().unwrap().sequence, queue.is_empty()), (1, true));
        assert!(queue.push(first_sent, packet(first_sent, 3, 10)).is_none());
        assert_eq!(
            (
                queue.expire(first_sent + MAX_AGE).count(),
                queue.expire(first_sent + MAX_AGE * 2).count()
            ),
            (0, 1)
        );
        assert!(
            queue.had_recent_loss(first_sent + MAX_AGE)
                && !queue.had_recent_loss(first_sent + RECENT_LOSS * 2)
        );
    }
}
