//! Packets under way: those in order, and those that others may overtake.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};

use crate::time::Instant;

/// A packet and when it arrives.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Airborne<T> {
    pub(crate) due: Instant,
    pub(crate) packet: T,
    /// Whether a copy of the packet follows.
    pub(crate) more: bool,
}

/// A delay line. Almost all packets go through the first-in first-out part, which costs nothing to
/// sort.
#[derive(Debug)]
pub(crate) struct Flight<T> {
    in_order: VecDeque<Airborne<T>>,
    overtakable: BinaryHeap<Reverse<Ranked<T>>>,
    serial: u64,
    /// When the last packet in order arrives: none may come before it.
    last: Instant,
}

impl<T: Copy> Flight<T> {
    pub(crate) fn new() -> Self {
        Self {
            in_order: VecDeque::new(),
            overtakable: BinaryHeap::new(),
            serial: 0,
            last: Instant::default(),
        }
    }

    /// Adds a packet that comes at `due`, but not before any packet added so before. Tells whether
    /// it had to wait for one.
    pub(crate) fn push_in_order(&mut self, due: Instant, packet: T, more: bool) -> bool {
        let held = due < self.last;
        self.last = self.last.max(due);
        self.in_order.push_back(Airborne { due: self.last, packet, more });
        held
    }

    /// Adds a packet that comes at `due`, whatever is before or behind it.
    pub(crate) fn push_anywhere(&mut self, due: Instant, packet: T, more: bool) {
        self.serial += 1;
        let entry = Airborne { due, packet, more };
        self.overtakable.push(Reverse(Ranked { serial: self.serial, entry }));
    }

    /// When the first packet arrives.
    pub(crate) fn next_due(&self) -> Option<Instant> {
        let in_order = self.in_order.front().map(|entry| entry.due);
        let overtakable = self.overtakable.peek().map(|Reverse(ranked)| ranked.entry.due);
        match (in_order, overtakable) {
            (Some(one), Some(other)) => Some(one.min(other)),
            (one, other) => one.or(other),
        }
    }

    /// The first packet that has arrived by `now`.
    pub(crate) fn pop(&mut self, now: Instant) -> Option<Airborne<T>> {
        let due = self.next_due().filter(|due| *due <= now)?;
        if self.in_order.front().is_some_and(|entry| entry.due == due) {
            self.in_order.pop_front()
        } else {
            self.overtakable.pop().map(|Reverse(ranked)| ranked.entry)
        }
    }

    pub(crate) fn len(&self) -> usize {
        self.in_order.len() + self.overtakable.len()
    }
}

/// Sorted by arrival; packets that arrive together, by departure.
#[derive(Debug)]
struct Ranked<T> {
    serial: u64,
    entry: Airborne<T>,
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
