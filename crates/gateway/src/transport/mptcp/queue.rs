//! Queue of records in front of a connection: bounded, in order, contiguous in memory.

use std::{collections::VecDeque, time::Instant};

use hawser_multipath::CoDel;
use hawser_wire::record;

/// A queue of records, bounded in bytes and managed by CoDel.
#[derive(Debug)]
pub(super) struct Queue {
    /// Concatenated records; those before `head` are gone.
    bytes: Vec<u8>,
    head: usize,
    entries: VecDeque<Entry>,
    limit: usize,
    codel: CoDel,
}

#[derive(Clone, Copy, Debug)]
struct Entry {
    len: usize,
    since: Instant,
}

impl Queue {
    /// An empty queue of at most `limit` bytes.
    pub(super) fn new(limit: usize) -> Self {
        Self {
            bytes: Vec::new(),
            head: 0,
            entries: VecDeque::new(),
            limit,
            codel: CoDel::default(),
        }
    }

    /// Changes the limit, bytes. Records already queued stay.
    pub(super) fn set_limit(&mut self, limit: usize) {
        self.limit = limit;
    }

    /// Bytes queued.
    pub(super) fn len(&self) -> usize {
        self.bytes.len() - self.head
    }

    /// Whether nothing is queued.
    pub(super) fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// Queues as many of the whole `records` as fit; returns how many did not.
    pub(super) fn push(&mut self, mut records: &[u8], now: Instant) -> u64 {
        let mut dropped = 0;
        while let Some(len) = record::emitted_len(records) {
            let Some((record, rest)) = records.split_at_checked(len) else { break };
            if self.len() + len > self.limit {
                dropped += 1;
            } else {
                self.append(record, now);
            }
            records = rest;
        }
        dropped
    }

    fn append(&mut self, record: &[u8], since: Instant) {
        // Moved only when as much is gone as is left, so that each byte is moved about once.
        if self.head > self.bytes.len() / 2 {
            self.bytes.drain(..self.head);
            self.head = 0;
        }
        self.bytes.extend_from_slice(record);
        self.entries.push_back(Entry { len: record.len(), since });
    }

    /// The oldest records, as many as fit into `limit` bytes but at least one.
    pub(super) fn front(&self, limit: usize) -> &[u8] {
        let mut end = 0;
        for Entry { len, .. } in &self.entries {
            if end > 0 && end + len > limit {
                break;
            }
            end += len;
        }
        self.bytes.get(self.head..self.head + end).unwrap_or_default()
    }

    /// Removes the oldest records, `n` bytes of them.
    pub(super) fn consume(&mut self, mut n: usize) {
        while let Some(Entry { len, .. }) = self.entries.pop_front_if(|entry| entry.len <= n) {
            self.head += len;
            n -= len;
        }
        if self.entries.is_empty() {
            self.bytes.clear();
            self.head = 0;
        }
    }

    /// Lets CoDel drop the oldest packets; returns how many. Of a GSO packet it drops one segment:
    /// a record holds a whole window of a slow connection, whose loss TCP would notice only by its
    /// retransmission timeout.
    pub(super) fn prune(&mut self, now: Instant) -> u64 {
        let mut dropped = 0;
        while let Some(since) = self.entries.front().map(|entry| entry.since) {
            let delay = now.saturating_duration_since(since);
            if !self.codel.should_drop(delay, self.len() <= record::MAX_LEN, now) {
                break;
            }
            self.drop_oldest();
            dropped += 1;
        }
        dropped
    }

    fn drop_oldest(&mut self) {
        let Some(entry) = self.entries.front_mut() else { return };
        let len = entry.len;
        let oldest = self.bytes.get_mut(self.head..self.head + len);
        match oldest.and_then(record::drop_first_segment) {
            Some(gone) => {
                self.head += gone;
                entry.len -= gone;
            }
            None => self.consume(len),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use hawser_wire::record::{Protocol, Record, Segmentation};
    use proptest::prelude::*;

    use super::*;

    fn record(len: usize, fill: u8) -> Vec<u8> {
        let header = record::packet_header(u16::try_from(len).unwrap(), false);
        [header.as_slice(), &vec![fill; len]].concat()
    }

    #[test]
    fn a_full_queue_drops_arriving_records() {
        let mut queue = Queue::new(250);
        let records = [record(97, 1), record(97, 2), record(97, 3), record(27, 4)].concat();
        assert_eq!(queue.push(&records, Instant::now()), 1);
        assert_eq!(queue.len(), 230);
        assert_eq!(queue.front(0), record(97, 1));
        queue.consume(230);
        assert!(queue.is_empty());
    }

    #[test]
    fn codel_drops_the_oldest_record() {
        let mut queue = Queue::new(1 << 20);
        let start = Instant::now();
        for n in 0..20 {
            queue.push(&record(60_000, n), start);
        }
        let late = start + Duration::from_millis(200);
        assert_eq!(queue.prune(start + Duration::from_millis(50)), 0);
        assert_eq!(queue.prune(late), 1);
        assert_eq!(queue.front(0), record(60_000, 1));
        queue.consume(queue.len() - 60_003);
        assert_eq!(
            queue.prune(late + Duration::from_secs(9)),
            0,
            "one record is no standing queue"
        );
    }

    #[test]
    fn one_segment_of_a_gso_packet_is_dropped() {
        let cut = Segmentation::new(Protocol::TcpV4, 1400, 20, 16, false);
        let mut packet = vec![0; 40 + 40 * 1400];
        packet[..4].copy_from_slice(&[0x45, 0, 0xda, 0xe8]);
        (packet[9], packet[32]) = (6, 0x50);
        let sum = hawser_wire::checksum::Sum::default().bytes(&packet[..20]).finish();
        packet[10..12].copy_from_slice(&sum);
        let header = record::packet_header(u16::try_from(packet.len()).unwrap(), true);
        let record = [header.as_slice(), &packet, &cut.emit()].concat();
        let (mut queue, start) = (Queue::new(1 << 20), Instant::now());
        for _ in 0..9 {
            queue.push(&record, start);
        }
        let late = start + Duration::from_millis(200);
        assert_eq!((queue.prune(start + Duration::from_millis(50)), queue.prune(late)), (0, 1));
        assert_eq!(queue.len(), 9 * record.len() - 1400);
        let front = queue.front(0).to_vec();
        assert_eq!(front.len(), record.len() - 1400);
        assert!(matches!(Record::parse(&front), Ok(Some((Record::Segments(..), _)))));
        queue.consume(front.len());
        assert_eq!(queue.front(0), record);
    }

    proptest! {
        #[test]
        fn records_leave_in_order(
            actions in proptest::collection::vec((0..300_usize, 0..900_usize), 1..100)
        ) {
            let mut queue = Queue::new(usize::MAX);
            let (mut sent, mut seen) = (Vec::new(), Vec::new());
            for (n, (len, take)) in actions.into_iter().enumerate() {
                let record = record(len, u8::try_from(n % 256).unwrap());
                sent.extend_from_slice(&record);
                queue.push(&record, Instant::now());
                let front = queue.front(take).to_vec();
                queue.consume(front.len());
                seen.extend(front);
            }
            seen.extend_from_slice(queue.front(usize::MAX));
            prop_assert_eq!(sent, seen);
        }
    }
}
