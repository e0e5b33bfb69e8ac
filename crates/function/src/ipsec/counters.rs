//! Counters of the threads that carry packets.

use std::{
    collections::BTreeMap,
    sync::atomic::{AtomicU64, Ordering},
};

use hawser_esp as esp;

use super::super::report::Tally;

/// Packets and bytes.
#[derive(Default)]
pub(super) struct Count {
    packets: AtomicU64,
    bytes: AtomicU64,
}

impl Count {
    pub(super) fn add(&self, packets: usize, bytes: usize) {
        self.packets.fetch_add(packets as u64, Ordering::Relaxed);
        self.bytes.fetch_add(bytes as u64, Ordering::Relaxed);
    }

    pub(super) fn tally(&self) -> Tally {
        let load = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        Tally { packets: load(&self.packets), bytes: load(&self.bytes) }
    }
}

/// Why a packet was dropped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Cause {
    /// There is no outbound SA.
    NoAssociation,
    /// The sequence numbers are exhausted.
    Exhausted,
    /// The inner packet does not match the selectors of its SA (RFC 4301 sections 5.1 and 5.2), or is not IPv4.
    Selector,
    /// Its headers contradict each other.
    Malformed,
    /// From another address than that of the remote end.
    UnknownSource,
    /// ESP with an unknown SPI.
    UnknownSpi,
    /// ESP with a sequence number that was received before or is too old.
    Replayed,
    /// ESP that fails authentication.
    NotAuthentic,
    /// Dummy packet (RFC 4303 section 2.6).
    Dummy,
    /// The outer header has a congestion mark, and the inner packet is not ECN-capable.
    Congestion,
    /// Sending failed.
    SendFailed,
    /// Writing to the device failed.
    WriteFailed,
}

impl Cause {
    const ALL: [(Self, &'static str); 12] = [
        (Self::NoAssociation, "no_association"),
        (Self::Exhausted, "exhausted"),
        (Self::Selector, "selector"),
        (Self::Malformed, "malformed"),
        (Self::UnknownSource, "unknown_source"),
        (Self::UnknownSpi, "unknown_spi"),
        (Self::Replayed, "replayed"),
        (Self::NotAuthentic, "not_authentic"),
        (Self::Dummy, "dummy"),
        (Self::Congestion, "congestion"),
        (Self::SendFailed, "send_failed"),
        (Self::WriteFailed, "write_failed"),
    ];
}

impl From<esp::Cause> for Cause {
    fn from(cause: esp::Cause) -> Self {
        match cause {
            esp::Cause::Malformed => Self::Malformed,
            esp::Cause::UnknownSpi => Self::UnknownSpi,
            esp::Cause::Replayed => Self::Replayed,
            esp::Cause::NotAuthentic => Self::NotAuthentic,
            esp::Cause::Dummy => Self::Dummy,
        }
    }
}

/// All counters of one end.
#[derive(Default)]
pub(super) struct Counters {
    /// Inner packets sent into the tunnel.
    pub(super) sealed: Count,
    /// Inner packets received from the tunnel.
    pub(super) opened: Count,
    /// IKE messages received on the same port and passed to charon.
    pub(super) ike: Count,
    drops: [AtomicU64; Cause::ALL.len()],
}

impl Counters {
    pub(super) fn dropped(&self, cause: Cause, packets: usize) {
        if let Some(counter) = self.drops.get(cause as usize) {
            counter.fetch_add(packets as u64, Ordering::Relaxed);
        }
    }

    pub(super) fn drops(&self) -> BTreeMap<&'static str, u64> {
        let each = |(cause, name): &(Cause, _)| {
            let counter = self.drops.get(*cause as usize)?;
            Some((*name, counter.load(Ordering::Relaxed)))
        };
        Cause::ALL.iter().filter_map(each).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_cause_has_its_counter() {
        for (at, (cause, name)) in Cause::ALL.iter().enumerate() {
            assert_eq!(*cause as usize, at);
            let counters = Counters::default();
            counters.dropped(*cause, 3);
            let counted: Vec<_> = counters.drops().into_iter().filter(|(_, n)| *n > 0).collect();
            assert_eq!(counted, [(*name, 3)]);
        }
    }
}
