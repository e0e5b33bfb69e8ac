//! Different malicious flows of a source or pair, or malicious records of a flow. No clock.

use std::{collections::VecDeque, hash::Hash};

use super::recent::Recent;

/// What speaks against sources, pairs or flows, K.
#[derive(Debug)]
pub(super) struct Evidence<K> {
    enough: usize,
    within_us: u64,
    found: Recent<K, VecDeque<Item>>,
}

#[derive(Debug)]
struct Item {
    number: u64,
    time_us: u64,
}

impl<K: Copy + Eq + Hash> Evidence<K> {
    /// Nothing yet, against `keys` at most. So many items in this time are enough.
    pub(super) fn new(enough: usize, within_us: u64, keys: usize) -> Self {
        Self { enough, within_us, found: Recent::new(keys) }
    }

    /// Takes an item that speaks against a key; how many different ones there were in the time.
    pub(super) fn take(&mut self, now_us: u64, key: K, number: u64) -> usize {
        let oldest_us = now_us.saturating_sub(self.within_us);
        let items = self.found.touch(key);
        items.retain(|item| item.number != number && item.time_us >= oldest_us);
        if items.len() >= self.enough {
            items.pop_front();
        }
        items.push_back(Item { number, time_us: now_us });
        items.len()
    }

    /// Whether so many items are enough.
    pub(super) fn is_enough(&self, items: usize) -> bool {
        items >= self.enough
    }

    /// Forgets what spoke against a key.
    pub(super) fn forget(&mut self, key: &K) {
        self.found.remove(key);
    }
}
