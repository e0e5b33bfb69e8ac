//! Restores the order of each flow (docs/design/resequencing.md).
//!
//! A packet in order is delivered at once: without reordering the cost is one comparison. Packets
//! behind a gap wait until the missing packet arrives, is known to be lost, or its deadline passes
//! ([`DeadlineEstimator`]).
//!
//! A path delivers in order, so packet `n` of a flow is lost once every path in use has delivered a
//! packet that left after it:
//!
//! ```text
//! lost(n)  <=>  n < min over paths p in use of left_before(p)
//! ```

use std::{
    collections::VecDeque,
    time::{Duration, Instant},
};

use crate::{
    abandoned::{AbandonedSet, HISTORY},
    deadline::DeadlineEstimator,
    sequencer::{FLOWS, MAX_PATHS, Tag},
};

/// Sequence numbers that a flow's buffer spans. A packet further ahead restarts the flow.
const WINDOW: u32 = 4096;

/// Consecutive unprotected packets after which a flow is no longer treated as retransmittable.
const PROTECTED_PACKETS: u8 = 32;

/// Packets by the order of their arrival. Their number is `in_order + late + resequenced +
/// duplicates`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// Arrived in order, or need no order: delivered at once.
    pub in_order: u64,
    /// Arrived before a packet that precedes them: buffered.
    pub resequenced: u64,
    /// Arrived after they had been abandoned: delivered out of order.
    pub late: u64,
    /// Arrived before: dropped.
    pub duplicates: u64,
    /// Declared lost because every path in use had passed them.
    pub lost: u64,
    /// Gaps that reached their deadline.
    pub expired: u64,
    /// Gaps abandoned because the buffer was full.
    pub overflowed: u64,
}

/// Resequencer of one direction of a path group. `T` is a packet.
pub struct Resequencer<T> {
    flows: Box<[Option<Box<Flow<T>>>]>,
    /// Flows with a gap.
    gaps: Vec<u16>,
    wait: DeadlineEstimator,
    /// Deadline for flows whose packets are retransmitted.
    retransmit_wait: DeadlineEstimator,
    buffered: usize,
    limit: usize,
    counters: Counters,
}

/// A sequence number of a flow that has not been delivered in order yet.
enum Slot<T> {
    Missing,
    /// Abandoned.
    Lost,
    Buffered(T, Instant),
    /// Delivered out of order, since it need not wait.
    Delivered(Instant),
}

impl<T> Slot<T> {
    /// When the packet arrived.
    fn arrived_at(&self) -> Option<Instant> {
        match self {
            Self::Missing | Self::Lost => None,
            Slot::Buffered(_, at) | Slot::Delivered(at) => Some(*at),
        }
    }
}

/// One flow.
struct Flow<T> {
    /// Next sequence number to be delivered in order.
    next: u32,
    /// Slots from `next` on. Empty without a gap; otherwise `next` is missing.
    slots: VecDeque<Slot<T>>,
    /// When the first packet behind the gap arrived.
    gap_since: Option<Instant>,
    /// Abandoned sequence numbers before `next`.
    abandoned: AbandonedSet,
    /// [`Flow::gap_since`] of the gap abandoned last.
    abandoned_gap_since: Option<Instant>,
    /// Per path, [`Tag::left_before`] of the last packet that arrived on it.
    left_before: [Option<u32>; MAX_PATHS],
    /// Unprotected packets still to see before the flow stops being treated as retransmittable.
    protected_for: u8,
}

impl<T> Flow<T> {
    fn new() -> Self {
        let (slots, abandoned, left_before) =
            (VecDeque::new(), AbandonedSet::default(), [None; MAX_PATHS]);
        Self {
            next: 0,
            slots,
            gap_since: None,
            abandoned,
            abandoned_gap_since: None,
            left_before,
            protected_for: 0,
        }
    }

    fn advance(&mut self, abandoned: bool) {
        self.abandoned.set(self.next, abandoned);
        self.next = self.next.wrapping_add(1);
    }

    /// Declares lost every missing packet that all these paths have passed; returns how many.
    fn declare_lost_behind(&mut self, paths: u16) -> u64 {
        let used = self.left_before.iter().enumerate().filter(|(path, _)| paths >> path & 1 == 1);
        let ahead = |(_, left): (usize, &Option<u32>)| {
            left.map_or(0, |left| left.wrapping_sub(self.next).cast_signed().max(0))
        };
        let until = used.map(ahead).min().unwrap_or(0).cast_unsigned();
        let mut lost = 0;
        for slot in self.slots.iter_mut().take(until as usize) {
            if let Slot::Missing = slot {
                *slot = Slot::Lost;
                lost += 1;
            }
        }
        lost
    }

    /// The slot `ahead` of [`Flow::next`], created as missing if necessary.
    fn slot(&mut self, ahead: u32) -> Option<&mut Slot<T>> {
        let index = usize::try_from(ahead).ok()?;
        if self.slots.len() <= index {
            self.slots.resize_with(index + 1, || Slot::Missing);
        }
        self.slots.get_mut(index)
    }
}

impl<T> Resequencer<T> {
    /// A resequencer that buffers at most `limit` packets.
    #[must_use]
    pub fn new(limit: usize) -> Self {
        let flows = std::iter::repeat_with(|| None).take(FLOWS).collect();
        let (gaps, counters) = (Vec::with_capacity(64), Counters::default());
        let (wait, retransmit_wait) = (DeadlineEstimator::new(), DeadlineEstimator::new());
        Self { flows, gaps, wait, retransmit_wait, buffered: 0, limit, counters }
    }

    /// Forgets all flows and drops what is buffered. Counters are kept.
    pub fn reset(&mut self) {
        self.flows.fill_with(|| None);
        self.gaps.clear();
        self.buffered = 0;
    }

    /// Counters since the start.
    #[must_use]
    pub fn counters(&self) -> Counters {
        self.counters
    }

    /// Packets buffered.
    #[must_use]
    pub fn buffered(&self) -> usize {
        self.buffered
    }

    /// How long a missing packet is waited for, unless it is retransmitted.
    #[must_use]
    pub fn deadline(&self) -> Duration {
        self.wait.deadline()
    }

    /// Sets the minimum wait: `spread` is the difference of the paths' delays; packets that are
    /// retransmitted get `round_trip` more.
    pub fn set_min_wait(&mut self, spread: Duration, round_trip: Duration) {
        self.wait.set_floor(spread);
        self.retransmit_wait.set_floor(spread + round_trip);
    }

    /// Takes a packet that arrived on a path and passes to `deliver` whatever is now in order. A
    /// packet that need not be `ordered` is delivered at once; packets behind it wait for it
    /// nevertheless.
    pub fn push(
        &mut self,
        now: Instant,
        path: usize,
        tag: Tag,
        (packet, ordered): (T, bool),
        deliver: &mut impl FnMut(T),
    ) {
        let Some(flow) = self.flows.get_mut(usize::from(tag.flow)) else { return };
        let flow = flow.get_or_insert_with(|| Box::new(Flow::new()));
        if let (Some(left), Some(before)) = (flow.left_before.get_mut(path), tag.left_before()) {
            *left = Some(before);
        }
        flow.protected_for = if tag.retransmittable {
            PROTECTED_PACKETS
        } else {
            flow.protected_for.saturating_sub(1)
        };
        let ahead = tag.sequence.wrapping_sub(flow.next);
        if ahead == 0 && flow.slots.is_empty() {
            flow.advance(false);
            self.counters.in_order += 1;
            deliver(packet);
            return;
        }
        if ahead > u32::MAX / 2 {
            self.on_late(now, tag, packet, deliver);
        } else if ahead >= WINDOW {
            self.restart(now, tag, packet, deliver);
        } else {
            self.buffer(now, tag, ahead, (packet, ordered), deliver);
        }
        self.detect_loss(now, tag, deliver);
        if self.buffered > self.limit {
            self.abandon_gap(now, tag.flow, deliver);
            self.counters.overflowed += 1;
        }
    }

    /// A packet behind [`Flow::next`]: one that was abandoned, or a duplicate.
    fn on_late(&mut self, now: Instant, tag: Tag, packet: T, deliver: &mut impl FnMut(T)) {
        let Some(flow) = known(&mut self.flows, tag.flow) else { return };
        // Beyond the history it may be a duplicate, and nothing is delivered twice.
        let ago = flow.next.wrapping_sub(tag.sequence);
        if ago > HISTORY || !flow.abandoned.remove(tag.sequence) {
            self.counters.duplicates += 1;
            return;
        }
        if let Some(since) = flow.abandoned_gap_since {
            let waited = now.saturating_duration_since(since);
            if flow.protected_for > 0 { &mut self.retransmit_wait } else { &mut self.wait }
                .on_gap_filled(now, waited);
        }
        self.counters.late += 1;
        deliver(packet);
    }

    /// A packet beyond [`WINDOW`]: restarts the flow behind it.
    fn restart(&mut self, now: Instant, tag: Tag, packet: T, deliver: &mut impl FnMut(T)) {
        while self.abandon_gap(now, tag.flow, deliver) {}
        let Some(flow) = known(&mut self.flows, tag.flow) else { return };
        flow.next = tag.sequence.wrapping_add(1);
        flow.abandoned = AbandonedSet::default();
        self.counters.in_order += 1;
        deliver(packet);
    }

    /// Stores a packet until the gap before it is closed.
    fn buffer(
        &mut self,
        now: Instant,
        tag: Tag,
        ahead: u32,
        (packet, ordered): (T, bool),
        deliver: &mut impl FnMut(T),
    ) {
        let Some(flow) = known(&mut self.flows, tag.flow) else { return };
        let Some(slot) = flow.slot(ahead) else { return };
        if slot.arrived_at().is_some() {
            self.counters.duplicates += 1;
            return;
        }
        if ordered {
            *slot = Slot::Buffered(packet, now);
            self.buffered += 1;
        } else {
            *slot = Slot::Delivered(now);
            deliver(packet);
        }
        let buffered = ordered && ahead > 0;
        self.counters.resequenced += u64::from(buffered);
        self.counters.in_order += u64::from(!buffered);
        match flow.gap_since {
            Some(since) if ahead == 0 => {
                let waited = now.saturating_duration_since(since);
                if flow.protected_for > 0 { &mut self.retransmit_wait } else { &mut self.wait }
                    .on_gap_filled(now, waited);
            }
            None => {
                flow.gap_since = Some(now);
                self.gaps.push(tag.flow);
            }
            Some(_) => {}
        }
        self.release(now, tag.flow, deliver);
    }

    /// Applies the loss rule to the flow of a packet that has just arrived.
    fn detect_loss(&mut self, now: Instant, tag: Tag, deliver: &mut impl FnMut(T)) {
        let Some(flow) = known(&mut self.flows, tag.flow) else { return };
        if flow.gap_since.is_none() {
            return;
        }
        let lost = flow.declare_lost_behind(tag.paths);
        self.counters.lost += lost;
        if lost > 0 {
            self.release(now, tag.flow, deliver);
        }
    }

    /// Delivers the slots at the front of a flow, up to the next gap.
    fn release(&mut self, now: Instant, number: u16, deliver: &mut impl FnMut(T)) {
        let Some(flow) = known(&mut self.flows, number) else { return };
        let mut moved = false;
        while let Some(slot) = flow.slots.pop_front() {
            let lost = match slot {
                Slot::Missing => {
                    flow.slots.push_front(Slot::Missing);
                    break;
                }
                Slot::Lost => true,
                Slot::Buffered(packet, _) => {
                    self.buffered -= 1;
                    deliver(packet);
                    false
                }
                Slot::Delivered(_) => false,
            };
            if lost {
                flow.abandoned_gap_since = flow.gap_since.or(Some(now));
            }
            flow.advance(lost);
            moved = true;
        }
        if moved {
            let since = flow.slots.iter().find_map(Slot::arrived_at);
            if since.is_none() {
                self.gaps.retain(|gap| *gap != number);
            }
            flow.gap_since = since;
        }
    }

    /// Abandons the gap at the front of a flow; returns whether there was one.
    fn abandon_gap(&mut self, now: Instant, number: u16, deliver: &mut impl FnMut(T)) -> bool {
        let Some(flow) = known(&mut self.flows, number) else { return false };
        if flow.gap_since.is_none() {
            flow.slots.clear();
            return false;
        }
        for slot in &mut flow.slots {
            match slot {
                Slot::Missing => *slot = Slot::Lost,
                Slot::Lost => {}
                Slot::Buffered(..) | Slot::Delivered(_) => break,
            }
        }
        self.release(now, number, deliver);
        true
    }

    /// When [`Resequencer::expire`] is due.
    #[must_use]
    pub fn poll_timeout(&self) -> Option<Instant> {
        self.gaps.iter().filter_map(|number| self.deadline_of(*number)).min()
    }

    /// Abandons gaps whose deadline has passed.
    pub fn expire(&mut self, now: Instant, deliver: &mut impl FnMut(T)) {
        while let Some(number) = self.expired(now) {
            self.counters.expired += 1;
            self.abandon_gap(now, number, deliver);
        }
    }

    /// A flow whose deadline has passed.
    fn expired(&self, now: Instant) -> Option<u16> {
        self.gaps
            .iter()
            .find(|number| self.deadline_of(**number).is_some_and(|due| due <= now))
            .copied()
    }

    /// When the deadline of a flow's gap passes.
    fn deadline_of(&self, number: u16) -> Option<Instant> {
        let flow = self.flows.get(usize::from(number))?.as_ref()?;
        let wait = if flow.protected_for > 0 { &self.retransmit_wait } else { &self.wait };
        Some(flow.gap_since? + wait.deadline())
    }
}

/// A flow that has been seen before.
fn known<T>(flows: &mut [Option<Box<Flow<T>>>], number: u16) -> Option<&mut Flow<T>> {
    flows.get_mut(usize::from(number))?.as_deref_mut()
}

#[cfg(test)]
mod tests;
