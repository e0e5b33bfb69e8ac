//! TCP proxy state of a path group: messages and connections waiting, and connection numbers.

use std::{
    collections::{BTreeSet, VecDeque},
    time::Duration,
};

use hawser_wire::{proxy::Message, tunnel::OwnAddresses};

use crate::{counters::TcpProxyCounters, path::EncodedMessage};

/// Bytes by which packets or messages may be ahead of the other (compare the quantum of deficit
/// round robin).
const MAX_IMBALANCE: i64 = 32 << 10;

/// Connection numbers of the peer that are remembered.
const REMEMBERED: usize = 4096;

/// Connections whose bytes are counted for the scheduler's backlog.
pub(crate) const COUNTED: usize = 32;

/// What waits to be sent to the peer.
#[derive(Default)]
pub(crate) struct ProxyQueue {
    /// The peer's own addresses, if it takes part.
    pub(crate) peer: Option<OwnAddresses>,
    /// Sent first: control messages, and messages that are sent again.
    pub(crate) priority: VecDeque<EncodedMessage>,
    /// Connections that may have something to send, served round robin.
    pub(crate) ready: VecDeque<usize>,
    pub(crate) numbers: Numbers,
    /// Our connections that ended before the peer had opened them.
    abandoned: BTreeSet<u32>,
    pub(crate) rtt: Duration,
    /// Bytes that packets are ahead of messages.
    imbalance: i64,
    pub(crate) flows: u32,
    pub(crate) counters: TcpProxyCounters,
}

impl ProxyQueue {
    /// Whether nothing waits.
    pub(crate) fn is_idle(&self) -> bool {
        self.priority.is_empty() && self.ready.is_empty()
    }

    /// A packet of this size was scheduled. Packets and messages share the paths equally.
    pub(crate) fn note_packet(&mut self, bytes: u64) {
        self.imbalance += i64::try_from(bytes).unwrap_or(i64::MAX);
    }

    /// A message of this size was scheduled, with `data` bytes of a connection.
    pub(crate) fn note_message(&mut self, bytes: u64, data: u64) {
        self.counters.sent_bytes += data;
        self.imbalance -= i64::try_from(bytes).unwrap_or(i64::MAX);
    }

    /// Whether messages go before packets.
    pub(crate) fn goes_first(&mut self) -> bool {
        self.imbalance = self.imbalance.clamp(-MAX_IMBALANCE, MAX_IMBALANCE);
        !self.is_idle() && self.imbalance > 0
    }

    /// Estimate of the bytes in [`Self::priority`].
    pub(crate) fn priority_bytes(&self) -> u64 {
        self.priority.iter().take(COUNTED).map(|message| message.len() as u64).sum()
    }

    /// A connection ended before the peer had opened it.
    pub(crate) fn abandon(&mut self, number: u32) {
        self.abandoned.insert(number);
        if self.abandoned.len() > REMEMBERED {
            self.abandoned.pop_first();
        }
    }

    /// Whether a connection was abandoned; true once.
    pub(crate) fn was_abandoned(&mut self, number: u32) -> bool {
        self.abandoned.remove(&number)
    }

    /// Queues a message without data.
    pub(crate) fn send_control(&mut self, message: &Message) {
        self.priority.push_back(EncodedMessage::new(message, bytes::Bytes::new()));
    }

    /// Queues messages again that a path has not delivered, before all others.
    pub(crate) fn requeue(&mut self, messages: Vec<EncodedMessage>) {
        self.counters.retransmitted += messages.len() as u64;
        for message in messages.into_iter().rev() {
            self.priority.push_front(message);
        }
    }
}

/// Connection numbers: even from the client of the QUIC connections, odd from the server.
#[derive(Default)]
pub(crate) struct Numbers {
    next: u32,
    /// Numbers used by the peer, from `floor` on: each opens one connection.
    seen: BTreeSet<u32>,
    floor: u32,
}

impl Numbers {
    /// The next number of this side.
    pub(crate) fn allocate(&mut self, even: bool) -> u32 {
        let number = self.next << 1 | u32::from(!even);
        self.next = (self.next + 1) & (u32::MAX >> 1);
        number
    }

    /// Whether the peer uses this number for the first time.
    pub(crate) fn is_new(&mut self, number: u32, even: bool) -> bool {
        if (number & 1 == 0) != even || number < self.floor || !self.seen.insert(number) {
            return false;
        }
        while self.seen.len() > REMEMBERED {
            self.floor = self.seen.pop_first().map_or(self.floor, |first| first + 1);
        }
        true
    }

    /// The peer has restarted.
    pub(crate) fn forget_peers(&mut self) {
        (self.seen, self.floor) = (BTreeSet::new(), 0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_number_opens_one_connection() {
        let mut numbers = Numbers::default();
        assert_eq!([numbers.allocate(true), numbers.allocate(true)], [0, 2]);
        assert_eq!(numbers.allocate(false), 5);
        assert!(numbers.is_new(7, false));
        assert!(!numbers.is_new(7, false), "again");
        assert!(!numbers.is_new(8, false), "one of ours");
        assert!(numbers.is_new(3, false), "overtaken");
        for n in 100..100 + 2 * u32::try_from(REMEMBERED).unwrap() {
            numbers.is_new(2 * n + 1, false);
        }
        assert!(!numbers.is_new(9, false), "long ago");
        assert!(numbers.seen.len() <= REMEMBERED);
    }
}
