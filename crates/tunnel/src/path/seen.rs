//! Telling the peer where its packets come from, and packets of other paths.

use std::{
    net::SocketAddr,
    time::{Duration, Instant},
};

use bytes::Bytes;
use hawser_wire::rendezvous::Message;

use super::Link;

/// How often a new address is told, for datagrams may be lost, and at which interval.
const TIMES: u32 = 3;
const INTERVAL: Duration = Duration::from_secs(1);

/// Interval at which it is told then.
const LONG_INTERVAL: Duration = Duration::from_secs(30);

/// Bytes of relayed datagrams that may wait for the connection's window.
const RELAY_QUEUE: u64 = 64 << 10;

/// Where the peer is seen.
#[derive(Default)]
pub(crate) struct Seen {
    /// Its address, and since when.
    at: Option<(SocketAddr, Instant)>,
    /// How often it has been told, and when it is next.
    told: u32,
    next: Option<Instant>,
}

impl Link {
    /// Tells the peer from where its packets come, when that is new and then now and again.
    pub(crate) fn tell_observed(&mut self, now: Instant) {
        let address = self.connection.remote_address();
        if self.seen.at.is_none_or(|(known, _)| known != address) {
            self.seen = Seen { at: Some((address, now)), ..Seen::default() };
        }
        if self.relayed || self.seen.next.is_some_and(|at| at > now) {
            return;
        }
        self.seen.told = self.seen.told.saturating_add(1);
        let pause = if self.seen.told < TIMES { INTERVAL } else { LONG_INTERVAL };
        self.seen.next = Some(now + pause);
        self.send(Message::Observed(address).emit().into(), None);
    }

    /// Where the peer has been seen for at least this time: a new address is not proved yet (RFC 9000
    /// section 9.3.1).
    pub(crate) fn seen_for(&self, time: Duration, now: Instant) -> Option<SocketAddr> {
        let (address, since) = self.seen.at?;
        let settled = now.saturating_duration_since(since) >= time;
        (settled && address == self.connection.remote_address()).then_some(address)
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
