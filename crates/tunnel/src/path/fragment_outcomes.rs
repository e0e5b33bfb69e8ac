//! Outcomes of datagrams that were sent in fragments.

use std::sync::{
    Arc,
    atomic::{AtomicU8, Ordering::Relaxed},
};

/// A datagram is lost with its first fragment that is, and has arrived with its last.
const LOST: u8 = 0x80;

/// Outcomes of the fragments of one retransmittable datagram: how many are in flight, or [`LOST`].
/// All are on one thread.
#[derive(Clone, Debug)]
pub(crate) struct FragmentOutcomes(Arc<AtomicU8>);

impl FragmentOutcomes {
    pub(super) fn new(count: u8) -> Self {
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
