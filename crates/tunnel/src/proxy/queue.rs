//! What a path group has of the TCP proxy: messages and connections that wait, and their numbers.

use std::{
    collections::{BTreeSet, VecDeque},
    time::Duration,
};

use hawser_wire::{proxy::Message, tunnel::OwnAddresses};

use crate::{counters::LaneCounters, path::EncodedMessage};

/// What packets or messages have had more than the other is remembered up to so many bytes.
const MOST_LEAD: i64 = 32 << 10;

/// Numbers that a peer gave of late, at most.
const REMEMBERED: usize = 4096;

/// Connections whose bytes are counted to see whether slow paths are worth it.
pub(crate) const COUNTED: usize = 32;

/// What waits to be sent to the peer.
#[derive(Default)]
pub(crate) struct ProxyQueue {
    /// Where the peer takes part: its own addresses.
    pub(crate) peer: Option<OwnAddresses>,
    /// What is sent first: control messages, and messages that are sent again.
    pub(crate) first: VecDeque<EncodedMessage>,
    /// Connections that may have something to send, in turn.
    pub(crate) turns: VecDeque<usize>,
    pub(crate) numbers: Numbers,
    /// Connections of ours that ended before the peer had opened them.
    abandoned: BTreeSet<u32>,
    pub(crate) round_trip: Duration,
    /// Bytes that packets have been given more than messages, of late.
    lead: i64,
    pub(crate) flows: u32,
    pub(crate) counters: LaneCounters,
}

impl ProxyQueue {
    /// Whether nothing waits.
    pub(crate) fn is_idle(&self) -> bool {
        self.first.is_empty() && self.turns.is_empty()
    }

    /// Packets have been given so many bytes; both get the same where both wait.
    pub(crate) fn note_packet(&mut self, bytes: u64) {
        self.lead += i64::try_from(bytes).unwrap_or(i64::MAX);
    }

    /// A message has been given so many bytes, of which `data` are a connection's own.
    pub(crate) fn note_message(&mut self, bytes: u64, data: u64) {
        self.counters.sent_bytes += data;
        self.lead -= i64::try_from(bytes).unwrap_or(i64::MAX);
    }

    /// Whether messages go before packets.
    pub(crate) fn goes_first(&mut self) -> bool {
        self.lead = self.lead.clamp(-MOST_LEAD, MOST_LEAD);
        !self.is_idle() && self.lead > 0
    }

    /// Bytes that wait to be sent first, about.
    pub(crate) fn first_bytes(&self) -> u64 {
        self.first.iter().take(COUNTED).map(|message| message.len() as u64).sum()
    }

    /// A connection ended before the peer had opened it.
    pub(crate) fn abandon(&mut self, number: u32) {
        self.abandoned.insert(number);
        if self.abandoned.len() > REMEMBERED {
            self.abandoned.pop_first();
        }
    }

    /// Whether that had become of a connection; asked once.
    pub(crate) fn was_abandoned(&mut self, number: u32) -> bool {
        self.abandoned.remove(&number)
    }

    /// Sends a message without data.
    pub(crate) fn send_control(&mut self, message: &Message) {
        self.first.push_back(EncodedMessage::new(message, bytes::Bytes::new()));
    }

    /// Sends messages again that a path did not deliver, before all others.
    pub(crate) fn requeue(&mut self, messages: Vec<EncodedMessage>) {
        self.counters.resent += messages.len() as u64;
        for message in messages.into_iter().rev() {
            self.first.push_front(message);
        }
    }
}

/// Numbers of connections.
#[derive(Default)]
pub(crate) struct Numbers {
    next: u32,
    /// Those that the peer gave, from `floor` on: each is opened once.
    seen: BTreeSet<u32>,
    floor: u32,
}

impl Numbers {
    /// The next of ours.
    pub(crate) fn ours(&mut self, even: bool) -> u32 {
        let number = self.next << 1 | u32::from(!even);
        self.next = (self.next + 1) & (u32::MAX >> 1);
        number
    }

    /// Whether the peer gives this number for the first time.
    pub(crate) fn is_new(&mut self, number: u32, even: bool) -> bool {
        if (number & 1 == 0) != even || number < self.floor || !self.seen.insert(number) {
            return false;
        }
        while self.seen.len() > REMEMBERED {
            self.floor = self.seen.pop_first().map_or(self.floor, |first| first + 1);
        }
        true
    }

    /// The peer has begun anew.
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
        assert_eq!([numbers.ours(true), numbers.ours(true)], [0, 2]);
        assert_eq!(numbers.ours(false), 5);
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
