//! The delay line: packets in flight, in order or free to overtake.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};

use crate::time::Instant;

/// A packet in flight, and when it is due.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Entry<T> {
    pub(crate) due: Instant,
    pub(crate) packet: T,
    /// Whether a duplicate of the packet follows.
    pub(crate) more: bool,
}

/// A delay line. Almost all packets use the first-in, first-out part, which needs no sorting.
#[derive(Debug)]
pub(crate) struct DelayLine<T> {
    in_order: VecDeque<Entry<T>>,
    unordered: BinaryHeap<Reverse<Ranked<T>>>,
    serial: u64,
    /// When the last packet in order is due: no other in order may be due earlier.
    last: Instant,
}

impl<T: Copy> DelayLine<T> {
    pub(crate) fn new() -> Self {
        Self {
            in_order: VecDeque::new(),
            unordered: BinaryHeap::new(),
            serial: 0,
            last: Instant::default(),
        }
    }

    /// Adds a packet that is due at `due`, or when the previous packet in order is due, if that is later.
    /// Returns whether it was.
    pub(crate) fn push_in_order(&mut self, due: Instant, packet: T, more: bool) -> bool {
        let held = due < self.last;
        self.last = self.last.max(due);
        self.in_order.push_back(Entry { due: self.last, packet, more });
        held
    }

    /// Adds a packet that is due at `due`, whatever its order.
    pub(crate) fn push_unordered(&mut self, due: Instant, packet: T, more: bool) {
        self.serial += 1;
        let entry = Entry { due, packet, more };
        self.unordered.push(Reverse(Ranked { serial: self.serial, entry }));
    }

    /// When the next packet is due.
    pub(crate) fn next_due(&self) -> Option<Instant> {
        let in_order = self.in_order.front().map(|entry| entry.due);
        let unordered = self.unordered.peek().map(|Reverse(ranked)| ranked.entry.due);
        match (in_order, unordered) {
            (Some(one), Some(other)) => Some(one.min(other)),
            (one, other) => one.or(other),
        }
    }

    /// The next packet, if it is due at `now`.
    pub(crate) fn pop(&mut self, now: Instant) -> Option<Entry<T>> {
        let due = self.next_due().filter(|due| *due <= now)?;
        if self.in_order.front().is_some_and(|entry| entry.due == due) {
            self.in_order.pop_front()
        } else {
            self.unordered.pop().map(|Reverse(ranked)| ranked.entry)
        }
    }

    pub(crate) fn len(&self) -> usize {
        self.in_order.len() + self.unordered.len()
    }
}

/// An entry, ordered by due time and then by insertion.
#[derive(Debug)]
struct Ranked<T> {
    serial: u64,
    entry: Entry<T>,
}

impl<T> Ranked<T> {
    fn rank(&self) -> (Instant, u64) {
        (self.entry.due, self.serial)
    }
}

impl<T> PartialEq for Ranked<T> {
    fn eq(&self, other: &Self) -> bool {
        self.rank() == other.rank()
    }
}

impl<T> Eq for Ranked<T> {}

impl<T> PartialOrd for Ranked<T> {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl<T> Ord for Ranked<T> {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        self.rank().cmp(&other.rank())
    }
}
