//! Datagrams that a path takes in fragments only (docs/design/path-mtu.md).

use std::sync::{
    Arc,
    atomic::{AtomicU8, Ordering::Relaxed},
};

use bytes::Bytes;
use hawser_multipath::Retransmittable;
use hawser_wire::fragment::{self, Fragment};

use super::{in_flight::Stored, link::Link};

/// A datagram is lost with its first fragment that is, and has arrived with its last.
const LOST: u8 = 0x80;

/// Outcomes of the fragments of one retransmittable datagram: how many are in flight, or [`LOST`].
/// All are on one thread.
#[derive(Clone, Debug)]
pub(crate) struct FragmentOutcomes(Arc<AtomicU8>);

impl FragmentOutcomes {
    fn new(count: u8) -> Self {
        Self(Arc::new(AtomicU8::new(count)))
    }

    /// A fragment was acknowledged; returns whether all were.
    pub(super) fn on_acked(&self) -> bool {
        let before = self.0.load(Relaxed);
        if before < LOST {
            self.0.store(before.saturating_sub(1), Relaxed);
        }
        before == 1
    }

    /// A fragment was lost; returns whether it is the first.
    pub(super) fn on_lost(&self) -> bool {
        self.0.swap(LOST, Relaxed) < LOST
    }
}

impl Link {
    /// Sends a datagram in fragments; returns whether the connection took all of them.
    pub(crate) fn send_fragments(
        &mut self,
        datagram: &Bytes,
        stored: Option<&Retransmittable<Stored>>,
    ) -> bool {
        let max = self.connection.datagrams().max_size().unwrap_or(0);
        let Some((count, each)) = fragment::cut(datagram.len(), max) else { return false };
        let Ok(count) = u8::try_from(count) else { return false };
        let outcomes = stored.map(|_| FragmentOutcomes::new(count));
        self.fragmented = self.fragmented.wrapping_add(1);
        for (number, contents) in (0..).zip(datagram.chunks(each)) {
            let fragment = Fragment { datagram: self.fragmented, number, last: count - 1 };
            let bytes = [fragment.emit().as_slice(), contents].concat();
            let stored = stored.map(|packet| {
                let item = Stored { fragments: outcomes.clone(), ..packet.item.clone() };
                Retransmittable { item, ..packet.clone() }
            });
            if !self.send(bytes.into(), stored) {
                return false;
            }
        }
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_datagram_has_arrived_with_its_last_fragment() {
        let outcomes = FragmentOutcomes::new(3);
        assert_eq!([(); 3].map(|()| outcomes.clone().on_acked()), [false, false, true]);
    }

    #[test]
    fn a_datagram_is_lost_once() {
        let outcomes = FragmentOutcomes::new(3);
        assert!(!outcomes.on_acked());
        assert!(outcomes.on_lost());
        assert!(!outcomes.on_lost() && !outcomes.on_acked() && !outcomes.on_acked());
    }
}
