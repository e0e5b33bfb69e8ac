//! What becomes of verdicts: a block, or nothing, for a reason that is counted. No I/O, no clock.

mod evidence;
mod recent;

use std::{
    collections::{BTreeMap, HashMap, VecDeque},
    net::IpAddr,
};

use hawser_flowmeter::Tuple;
use hawser_wire::flow::mix;
use ipnet::IpNet;

use self::{evidence::Evidence, recent::Recent};
use super::{
    block::{Block, Rate, State, Target, Why},
    document::{Scope, Verdicts, network},
};

const MINUTE_US: u64 = 60_000_000;
const SECOND_US: u64 = 1_000_000;
/// Longest time over which the packets of what is blocked are counted to renew its block: five windows.
const RATE_PERIOD_US: u64 = 10 * SECOND_US;
const SCOPES: [Scope; 3] = [Scope::Flow, Scope::Pair, Scope::Source];

/// A record that the model calls malicious.
#[derive(Clone, Debug)]
pub(crate) struct Accusation {
    /// The flow.
    pub(crate) tuple: Tuple,
    /// Whether the tuple's source is known to have begun it.
    pub(crate) is_begun: bool,
    /// Whether it is over, so that a block of the flow alone would meet nothing.
    pub(crate) is_over: bool,
    /// Number of the flow; no other one has it.
    pub(crate) number: u64,
    /// The flow, as in its records.
    pub(crate) flow: String,
    /// Time of the first packet that the record covers, microseconds since 1970.
    pub(crate) first_us: u64,
    /// Packets that the record covers, both directions.
    pub(crate) packets: u64,
}

/// Packets of a flow in an interval.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Heard {
    /// The flow.
    pub(crate) tuple: Tuple,
    /// Packets of its source, and of its destination.
    pub(crate) packets: [u64; 2],
    /// Time of the first one, microseconds since 1970.
    pub(crate) first_us: u64,
}

/// What another program wants blocked, or the policy itself.
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
    /// It is blocked already, or was while these packets came.
    Known,
    /// It speaks against the flow's source, and no more: the flow is over, or too little speaks against it.
    Noted,
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
    /// Until when what operators took back is not blocked again.
    pardons: Recent<Target, u64>,
    /// When blocks ended.
    ends: Recent<Target, u64>,
    /// Flows that speak against sources or pairs.
    evidence: Evidence<Target>,
    /// Records that speak against flows, by the flows' numbers.
    records: Evidence<u64>,
    accused: u64,
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
        let targets = settings.blocks_max as usize;
        let needed = settings.evidence;
        let within_us = u64::from(needed.within_s) * SECOND_US;
        Self {
            settings,
            allow,
            blocks,
            by_target,
            pardons: Recent::new(targets),
            ends: Recent::new(targets),
            evidence: Evidence::new(needed.flows as usize, within_us, targets),
            records: Evidence::new(needed.records as usize, within_us, targets),
            accused: 0,
            recent: VecDeque::new(),
            seed,
            drawn: 0,
        }
    }

    /// Decides on a malicious flow: with enough others its source or pair is blocked, else the flow alone, if its records
    /// are enough for that.
    /// `why` is asked for a new block only.
    pub(crate) fn accuse(
        &mut self,
        now_us: u64,
        accused: Accusation,
        why: impl FnOnce() -> Why,
    ) -> Decision {
        let Accusation { tuple, is_begun, is_over, number, flow, first_us, packets } = accused;
        if self.is_allowed(tuple.source) {
            return Decision::Allowed;
        }
        let scope = if is_begun { self.settings.scope } else { Scope::Flow };
        let (alone, all) = (Target::of(&tuple, Scope::Flow), Target::of(&tuple, scope));
        if self.has_met_block(&tuple, first_us) {
            return Decision::Known;
        }
        if self.is_pardoned(now_us, &all) {
            return Decision::Pardoned;
        }
        let flows = self.evidence.take(now_us, all, number);
        let target = if self.evidence.is_enough(flows) { all } else { alone };
        let is_sure = self.is_sure(now_us, number, packets);
        if target == alone && (is_over || !is_sure) {
            return Decision::Noted;
        }
        let why = || Why { flows: u32::try_from(flows).unwrap_or(u32::MAX), ..why() };
        self.decide(now_us, &Finding { target, flow, first_us }, why)
    }

    /// Counts packets of what is blocked; gives the blocks that are renewed, as a flood still runs against them.
    pub(crate) fn hear(&mut self, now_us: u64, heard: &Heard) -> Vec<u64> {
        if self.by_target.is_empty() {
            return Vec::new();
        }
        let ways = [heard.tuple, heard.tuple.reversed()].into_iter().zip(heard.packets);
        let mut renewed = Vec::new();
        for (tuple, packets) in ways.filter(|(_, packets)| *packets > 0) {
            for scope in SCOPES {
                let id = self.by_target.get(&Target::of(&tuple, scope)).copied();
                renewed.extend(id.filter(|id| self.lasts(now_us, *id, heard.first_us, packets)));
            }
        }
        renewed
    }

    /// Decides on a target. `why` is asked for a new block only.
    pub(crate) fn decide(
        &mut self,
        now_us: u64,
        finding: &Finding,
        why: impl FnOnce() -> Why,
    ) -> Decision {
        if self.is_allowed(finding.target.source) {
            return Decision::Allowed;
        }
        if self.is_pardoned(now_us, &finding.target) {
            return Decision::Pardoned;
        }
        let lifetime_us = self.lifetime_us();
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
        let block = self.remove(now_us, id)?;
        *self.pardons.touch(block.target) = now_us + self.lifetime_us();
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
        let ended = self.blocks.values().filter(|block| block.expires_us <= now_us);
        let ended: Vec<_> = ended.map(|block| block.id).collect();
        ended.into_iter().filter_map(|id| self.remove(now_us, id)).count()
    }

    fn lifetime_us(&self) -> u64 {
        u64::from(self.settings.lifetime_s) * SECOND_US
    }

    /// Whether packets of a flow, or answers to them, were blocked since this time. What a block leaves of a flow, packets
    /// without answers, proves nothing.
    fn has_met_block(&self, tuple: &Tuple, since_us: u64) -> bool {
        let was_blocked = |target: &Target| {
            self.by_target.contains_key(target)
                || self.ends.get(target).is_some_and(|end_us| since_us < *end_us)
        };
        let mut ways = [*tuple, tuple.reversed()].into_iter();
        ways.any(|tuple| SCOPES.iter().any(|scope| was_blocked(&Target::of(&tuple, *scope))))
    }

    /// Takes a malicious record of a flow; whether the flow may be blocked alone.
    fn is_sure(&mut self, now_us: u64, number: u64, packets: u64) -> bool {
        self.accused += 1;
        let records = self.records.take(now_us, number, self.accused);
        self.records.is_enough(records) || packets >= u64::from(self.settings.evidence.packets)
    }

    fn is_pardoned(&self, now_us: u64, target: &Target) -> bool {
        self.pardons.get(target).is_some_and(|until| now_us < *until)
    }

    /// Counts packets that came against a block, since this time; whether they are many enough to renew it.
    fn lasts(&mut self, now_us: u64, id: u64, first_us: u64, packets: u64) -> bool {
        let lifetime_us = self.lifetime_us();
        let Some(block) = self.blocks.get_mut(&id) else { return false };
        if first_us < block.decided_us {
            return false; // some of them passed
        }
        let period_us = RATE_PERIOD_US.min(lifetime_us / 4);
        let rate = block.rate.add(block.decided_us, now_us, packets, period_us);
        let is_late = block.expires_us.saturating_sub(now_us) <= lifetime_us / 2;
        let is_fast = rate.is_some_and(|rate| rate >= u64::from(self.settings.renew_rate));
        if !is_late || !is_fast || !self.takes_turn(now_us) {
            return false;
        }
        if let Some(block) = self.blocks.get_mut(&id) {
            block.expires_us = now_us + lifetime_us;
            block.renewals += 1;
        }
        true
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
            rate: Rate::default(),
            error: None,
            why,
            awaited: (0..self.settings.firewalls.len()).filter(|_| !dry_run).collect(),
        };
        self.evidence.forget(&block.target);
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

    fn remove(&mut self, now_us: u64, id: u64) -> Option<Block> {
        let block = self.blocks.remove(&id)?;
        self.by_target.remove(&block.target);
        *self.ends.touch(block.target) = now_us;
        Some(block)
    }
}

#[cfg(test)]
mod tests;
