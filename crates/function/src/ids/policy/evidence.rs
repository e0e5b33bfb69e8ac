//! Different malicious flows of one source, or of one source to one destination. No clock.

use std::collections::VecDeque;

use super::{super::block::Target, recent::Recent};

/// What speaks against sources or pairs.
#[derive(Debug)]
pub(super) struct Evidence {
    enough: usize,
    within_us: u64,
    found: Recent<Target, VecDeque<Flow>>,
}

#[derive(Debug)]
struct Flow {
    number: u64,
    time_us: u64,
}

impl Evidence {
    /// Nothing yet, about `targets` at most. So many flows in this time are enough.
    pub(super) fn new(enough: usize, within_us: u64, targets: usize) -> Self {
        Self { enough, within_us, found: Recent::new(targets) }
    }

    /// Takes a malicious flow of a target; how many different ones there were in the time.
    pub(super) fn take(&mut self, now_us: u64, target: Target, number: u64) -> usize {
        let oldest_us = now_us.saturating_sub(self.within_us);
        let flows = self.found.touch(target);
        flows.retain(|flow| flow.number != number && flow.time_us >= oldest_us);
        if flows.len() >= self.enough {
            flows.pop_front();
        }
        flows.push_back(Flow { number, time_us: now_us });
        flows.len()
    }

    /// Whether so many flows are enough.
    pub(super) fn is_enough(&self, flows: usize) -> bool {
        flows >= self.enough
    }

    /// Forgets what spoke against a target.
    pub(super) fn forget(&mut self, target: &Target) {
        self.found.remove(target);
    }
}
