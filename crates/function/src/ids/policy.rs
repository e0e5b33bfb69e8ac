//! What becomes of verdicts: a block, or nothing, for a reason that is counted. No I/O, no clock.

use std::{
    collections::{BTreeMap, HashMap, VecDeque},
    net::IpAddr,
};

use hawser_wire::flow::mix;
use ipnet::IpNet;

use super::{
    block::{Block, State, Target, Why},
    document::{Scope, Verdicts, network},
};

const MINUTE_US: u64 = 60_000_000;
const SECOND_US: u64 = 1_000_000;

/// A flow that is called malicious.
#[derive(Clone, Debug)]
pub(crate) struct Finding {
    /// What would be blocked.
    pub(crate) target: Target,
    /// The flow, as in its records.
    pub(crate) flow: String,
    /// Time of its first packet, microseconds since 1970.
    pub(crate) first_us: u64,
}

/// What becomes of a verdict.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Decision {
    /// A new block of this number.
    Block(u64),
    /// The block of this number holds longer.
    Renew(u64),
    /// It is blocked already, for long enough.
    Known,
    /// The source is on the allow list.
    Allowed,
    /// An operator has taken the block back.
    Pardoned,
    /// There were too many in the last minute.
    Limited,
    /// There are too many blocks.
    Full,
}

/// Blocks, and the rules by which they come and go.
pub(crate) struct Policy {
    settings: Verdicts,
    allow: Vec<IpNet>,
    blocks: BTreeMap<u64, Block>,
    by_target: HashMap<Target, u64>,
    pardons: HashMap<Target, u64>,
    recent: VecDeque<u64>,
    seed: u64,
    drawn: u64,
}

impl Policy {
    /// With the blocks that were stored. `seed`: of their numbers, random.
    pub(crate) fn new(settings: Verdicts, stored: Vec<Block>, seed: u64) -> Self {
        let allow = settings.allow.iter().filter_map(|text| network(text)).collect();
        let by_target = stored.iter().map(|block| (block.target, block.id)).collect();
        let blocks = stored.into_iter().map(|block| (block.id, block)).collect();
        let (pardons, recent) = (HashMap::new(), VecDeque::new());
        Self { settings, allow, blocks, by_target, pardons, recent, seed, drawn: 0 }
    }

    /// What a verdict covers. `is_begun`: the flow's source is known to have begun it.
    pub(crate) fn scope(&self, is_begun: bool) -> Scope {
        if is_begun { self.settings.scope } else { Scope::Flow }
    }

    /// Decides on a verdict. `why` is asked for a new block only.
    pub(crate) fn decide(
        &mut self,
        now_us: u64,
        finding: &Finding,
        why: impl FnOnce() -> Why,
    ) -> Decision {
        if self.is_allowed(finding.target.source) {
            return Decision::Allowed;
        }
        if self.pardons.get(&finding.target).is_some_and(|until| now_us < *until) {
            return Decision::Pardoned;
        }
        let lifetime_us = u64::from(self.settings.lifetime_s) * SECOND_US;
        let known = self.by_target.get(&finding.target).copied();
        let left = known.and_then(|id| self.blocks.get(&id)).map(|block| block.expires_us);
        let left = left.map(|expires_us| expires_us.saturating_sub(now_us));
        if left.is_some_and(|left| left > lifetime_us / 2) {
            return Decision::Known;
        }
        if known.is_none() && self.blocks.len() >= self.settings.blocks_max as usize {
            return Decision::Full;
        }
        if !self.takes_turn(now_us) {
            return Decision::Limited;
        }
        let expires_us = now_us + lifetime_us;
        if let Some(block) = known.and_then(|id| self.blocks.get_mut(&id)) {
            block.expires_us = expires_us;
            block.renewals += 1;
            return Decision::Renew(block.id);
        }
        Decision::Block(self.insert(now_us, expires_us, finding, why()))
    }

    /// The block of this number.
    pub(crate) fn block(&self, id: u64) -> Option<&Block> {
        self.blocks.get(&id)
    }

    /// All blocks.
    pub(crate) fn blocks(&self) -> impl Iterator<Item = &Block> {
        self.blocks.values()
    }

    /// Whether firewalls get rules.
    pub(crate) fn is_dry_run(&self) -> bool {
        self.settings.dry_run
    }

    /// Takes a block back. Its target is not blocked again for the lifetime of a block.
    pub(crate) fn take_back(&mut self, now_us: u64, id: u64) -> Option<Block> {
        let block = self.remove(id)?;
        if self.pardons.len() >= self.settings.blocks_max as usize {
            self.pardons.clear(); // rather than without bound
        }
        let until = now_us + u64::from(self.settings.lifetime_s) * SECOND_US;
        self.pardons.insert(block.target, until);
        Some(block)
    }

    /// A firewall has the rule of this block.
    pub(crate) fn confirm(&mut self, now_us: u64, id: u64, firewall: usize) {
        let Some(block) = self.blocks.get_mut(&id) else { return };
        block.awaited.retain(|awaited| *awaited != firewall);
        if block.awaited.is_empty() && block.state == State::Pending {
            block.state = State::InForce;
            block.told_us = Some(now_us);
            block.error = None;
        }
    }

    /// A firewall has not got the rule; with `for_good` it refuses it.
    pub(crate) fn report(&mut self, id: u64, error: String, for_good: bool) {
        let Some(block) = self.blocks.get_mut(&id) else { return };
        block.error = Some(error);
        if for_good {
            block.state = State::Refused;
        }
    }

    /// Forgets blocks whose end has come; how many.
    pub(crate) fn expire(&mut self, now_us: u64) -> usize {
        self.pardons.retain(|_, until| now_us < *until);
        let ended = self.blocks.values().filter(|block| block.expires_us <= now_us);
        let ended: Vec<_> = ended.map(|block| block.id).collect();
        ended.into_iter().filter_map(|id| self.remove(id)).count()
    }

    fn is_allowed(&self, source: IpAddr) -> bool {
        let source = source.to_canonical();
        self.allow.iter().any(|network| network.contains(&source))
    }

    /// Whether the limit of a minute has room for one more, which it then counts.
    fn takes_turn(&mut self, now_us: u64) -> bool {
        while self.recent.front().is_some_and(|time| time + MINUTE_US <= now_us) {
            self.recent.pop_front();
        }
        let has_room = self.recent.len() < self.settings.per_minute as usize;
        if has_room {
            self.recent.push_back(now_us);
        }
        has_room
    }

    fn insert(&mut self, now_us: u64, expires_us: u64, finding: &Finding, why: Why) -> u64 {
        let id = self.draw();
        let dry_run = self.settings.dry_run;
        let block = Block {
            id,
            target: finding.target,
            state: if dry_run { State::DryRun } else { State::Pending },
            flow: finding.flow.clone(),
            first_us: finding.first_us,
            decided_us: now_us,
            told_us: None,
            expires_us,
            renewals: 0,
            error: None,
            why,
            awaited: (0..self.settings.firewalls.len()).filter(|_| !dry_run).collect(),
        };
        self.by_target.insert(block.target, id);
        self.blocks.insert(id, block);
        id
    }

    /// A number that no rule has: random, 53 bits, as JSON's numbers allow.
    fn draw(&mut self) -> u64 {
        loop {
            self.drawn += 1;
            let id = mix(self.seed, self.drawn) >> 11;
            if id > 0 && !self.blocks.contains_key(&id) {
                return id;
            }
        }
    }

    fn remove(&mut self, id: u64) -> Option<Block> {
        let block = self.blocks.remove(&id)?;
        self.by_target.remove(&block.target);
        Some(block)
    }
}

#[cfg(test)]
mod tests;
