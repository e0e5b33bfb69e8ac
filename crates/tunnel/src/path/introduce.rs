//! Telling the peer where its packets come from, and packets of other paths.

use std::{
    net::SocketAddr,
    time::{Duration, Instant},
};

use bytes::Bytes;
use hawser_wire::rendezvous::Message;

use super::{Link, link::Queued};

/// Bytes of relayed datagrams that may wait for the connection's window.
const RELAY_QUEUE: u64 = 64 << 10;

impl Link {
    /// Tells the peer from where its packets come, when that is new and then now and again.
    pub(crate) fn tell_observed(&mut self, now: Instant) {
        let address = self.connection.remote_address();
        self.seen.note(address, now);
        if !self.relayed && self.seen.is_due(now) {
            self.tell(Message::Observed(address));
        }
    }

    /// Sends a message of the rendezvous.
    pub(crate) fn tell(&mut self, message: Message) {
        self.send_as(message.emit().into(), Queued::Message);
    }

    /// Where the peer has been seen for at least this time: a new address is not proved yet (RFC 9000
    /// section 9.3.1).
    pub(crate) fn seen_for(&self, time: Duration, now: Instant) -> Option<SocketAddr> {
        let settled = self.seen.settled(time, now);
        settled.filter(|address| *address == self.connection.remote_address())
    }

    /// Sends a datagram of another path, unless too many wait; returns whether it did.
    pub(crate) fn relay(&mut self, now: Instant, datagram: Bytes) -> bool {
        let size = Self::wire_size(datagram.len() as u64);
        self.view(now, RELAY_QUEUE).available_window >= size && self.send(datagram, None)
    }

    /// Longest datagram of another path, bytes.
    pub(crate) fn relay_max(&mut self) -> usize {
        let max = self.connection.datagrams().max_size().unwrap_or(0);
        max.saturating_sub(hawser_wire::rendezvous::RELAYED_HEADER_LEN)
    }
}
