//! Frames of trains in flight. They measure the path by themselves, and overload it on purpose: the
//! path model, which is that of the traffic, sees neither their acknowledgements nor their losses.

use std::{
    collections::VecDeque,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Instant,
};

/// Frames of trains in flight: send time and bytes. Send times are unique and ascend.
#[derive(Clone, Debug, Default)]
pub(crate) struct Probes(Arc<Mutex<VecDeque<(Instant, u64)>>>);

impl Probes {
    fn get(&self) -> MutexGuard<'_, VecDeque<(Instant, u64)>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn sent(&self, at: Instant, bytes: u64) {
        self.get().push_back((at, bytes));
    }

    /// Whether what was sent at this time, and is acknowledged now, was one of them.
    pub(super) fn acked(&self, sent: Instant) -> bool {
        let mut all = self.get();
        let found = all.binary_search_by_key(&sent, |(at, _)| *at);
        found.is_ok_and(|index| all.remove(index).is_some())
    }

    /// Those sent up to this time are lost; returns their bytes.
    pub(super) fn lost(&self, sent: Instant) -> u64 {
        let mut all = self.get();
        let count = all.partition_point(|(at, _)| *at <= sent);
        all.drain(..count).map(|(_, bytes)| bytes).sum()
    }

    pub(super) fn bytes(&self) -> u64 {
        self.get().iter().map(|(_, bytes)| bytes).sum()
    }
}
