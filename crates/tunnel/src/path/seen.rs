//! Where a peer is seen, and when it is to be told.

use std::{
    net::SocketAddr,
    time::{Duration, Instant},
};

/// How often a new address is told, for datagrams may be lost, and at which interval.
const TIMES: u32 = 3;
const INTERVAL: Duration = Duration::from_secs(1);

/// Interval at which it is told then.
const LONG_INTERVAL: Duration = Duration::from_secs(30);

/// Where the peer is seen.
#[derive(Default)]
pub(crate) struct Seen {
    /// Its address, and since when.
    at: Option<(SocketAddr, Instant)>,
    /// How often it has been told, and when it is next.
    told: u32,
    next: Option<Instant>,
}

impl Seen {
    /// Takes the address at which the peer is now.
    pub(super) fn note(&mut self, address: SocketAddr, now: Instant) {
        if self.at.is_none_or(|(known, _)| known != address) {
            *self = Self { at: Some((address, now)), ..Self::default() };
        }
    }

    /// Whether it is to be told now; then it counts as told.
    pub(super) fn is_due(&mut self, now: Instant) -> bool {
        if self.next.is_some_and(|at| at > now) {
            return false;
        }
        self.told = self.told.saturating_add(1);
        self.next = Some(now + if self.told < TIMES { INTERVAL } else { LONG_INTERVAL });
        true
    }

    /// Where the peer has been for at least this time.
    pub(super) fn settled(&self, time: Duration, now: Instant) -> Option<SocketAddr> {
        let (address, since) = self.at?;
        (now.saturating_duration_since(since) >= time).then_some(address)
    }
}
