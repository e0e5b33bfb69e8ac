//! Event queue in virtual time.

use std::{
    cmp::{Ordering, Reverse},
    collections::BinaryHeap,
    time::Duration,
};

/// Nanoseconds since the start.
pub(crate) type Nanos = u64;

/// A duration in nanoseconds.
pub(crate) fn nanos(span: Duration) -> Nanos {
    Nanos::try_from(span.as_nanos()).unwrap_or(Nanos::MAX)
}

/// Events by time; events of the same time in the order of their insertion.
pub(crate) struct Events<T> {
    heap: BinaryHeap<Reverse<Entry<T>>>,
    made: u64,
}

struct Entry<T> {
    at: Nanos,
    number: u64,
    event: T,
}

impl<T> Entry<T> {
    fn key(&self) -> (Nanos, u64) {
        (self.at, self.number)
    }
}

impl<T> PartialEq for Entry<T> {
    fn eq(&self, other: &Self) -> bool {
        self.key() == other.key()
    }
}

impl<T> Eq for Entry<T> {}

impl<T> PartialOrd for Entry<T> {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl<T> Ord for Entry<T> {
    fn cmp(&self, other: &Self) -> Ordering {
        self.key().cmp(&other.key())
    }
}

impl<T> Events<T> {
    pub(crate) fn new() -> Self {
        Self { heap: BinaryHeap::new(), made: 0 }
    }

    pub(crate) fn add(&mut self, at: Nanos, event: T) {
        self.made += 1;
        self.heap.push(Reverse(Entry { at, number: self.made, event }));
    }

    /// The next event up to this time.
    pub(crate) fn next(&mut self, until: Nanos) -> Option<(Nanos, T)> {
        if self.heap.peek()?.0.at > until {
            return None;
        }
        self.heap.pop().map(|Reverse(entry)| (entry.at, entry.event))
    }
}
