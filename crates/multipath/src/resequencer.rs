//! Brings the packets of each flow back into order.
//!
//! A packet that comes in order passes at once: where nothing is reordered, this costs a comparison.
//! Packets behind a gap wait until the missing one comes, is known to be lost, or is late by more than
//! [`Spread`] has seen.

use std::{
    collections::VecDeque,
    time::{Duration, Instant},
};

use crate::{
    past::{MEMORY, Past},
    sequencer::{FLOWS, MAX_PATHS, Tag},
    spread::Spread,
};

/// Numbers that a flow's buffer spans. A packet further ahead begins the flow anew: so far back,
/// nothing is worth waiting for.
const SPAN: u32 = 4096;

/// Packets after the last one that goes again if it is lost for which a flow is taken to be of that kind.
const KEPT: u8 = 32;

/// What has happened so far. `in_order + late + resequenced + duplicates` is what came.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// Came in order, or needs none, and passed at once.
    pub in_order: u64,
    /// Came before one that it belongs behind, and waited.
    pub resequenced: u64,
    /// Came after it had been given up, and passed out of order.
    pub late: u64,
    /// Came for the second time, and went no further.
    pub duplicates: u64,
    /// Known to be lost from those that came after it on all paths, so that nobody waited.
    pub lost: u64,
    /// Waited for in vain until the deadline.
    pub expired: u64,
    /// Given up because too much waited.
    pub overflowed: u64,
}

/// The resequencer of one direction of a path group. `T` is a packet.
pub struct Resequencer<T> {
    flows: Box<[Option<Box<Flow<T>>>]>,
    /// Flows with a gap.
    gaps: Vec<u16>,
    spread: Spread,
    /// Of flows whose packets go again if they are lost.
    resent: Spread,
    held: usize,
    limit: usize,
    counters: Counters,
}

enum Slot<T> {
    Missing,
    /// Will not come.
    Lost,
    Here(T, Instant),
    /// Came, and did not wait for those before it.
    Passed(Instant),
}

impl<T> Slot<T> {
    /// When it came.
    fn came(&self) -> Option<Instant> {
        match self {
            Self::Missing | Self::Lost => None,
            Self::Here(_, at) | Self::Passed(at) => Some(*at),
        }
    }
}

struct Flow<T> {
    /// The number that is next to pass.
    next: u32,
    /// From `next` on; empty without a gap, else `next` is missing.
    slots: VecDeque<Slot<T>>,
    /// When the first packet behind the gap came.
    since: Option<Instant>,
    /// What was given up of those before `next`.
    past: Past,
    /// When those behind the youngest of these had begun to wait.
    gave_up: Option<Instant>,
    /// For each path, the number before which all had left when the packet left that came last on it.
    left: [Option<u32>; MAX_PATHS],
    /// Packets to come of which none need go again for the flow no longer to count as one of those.
    kept: u8,
}

impl<T> Flow<T> {
    fn new() -> Self {
        let (slots, past, left) = (VecDeque::new(), Past::default(), [None; MAX_PATHS]);
        Self { next: 0, slots, since: None, past, gave_up: None, left, kept: 0 }
    }

    fn advance(&mut self, given_up: bool) {
        self.past.note(self.next, given_up);
        self.next = self.next.wrapping_add(1);
    }

    /// Gives up those that must have come by now if they still came on one of these paths; how many.
    fn overtaken(&mut self, paths: u16) -> u64 {
        let used = self.left.iter().enumerate().filter(|(path, _)| paths >> path & 1 == 1);
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

    fn slot(&mut self, ahead: u32) -> Option<&mut Slot<T>> {
        let index = usize::try_from(ahead).ok()?;
        if self.slots.len() <= index {
            self.slots.resize_with(index + 1, || Slot::Missing);
        }
        self.slots.get_mut(index)
    }
}

impl<T> Resequencer<T> {
    /// A resequencer that holds at most so many packets.
    #[must_use]
    pub fn new(limit: usize) -> Self {
        let flows = std::iter::repeat_with(|| None).take(FLOWS).collect();
        let (gaps, counters) = (Vec::with_capacity(64), Counters::default());
        let (spread, resent) = (Spread::new(), Spread::new());
        Self { flows, gaps, spread, resent, held: 0, limit, counters }
    }

    /// Begins anew: what waits is dropped, what has been counted stays.
    pub fn reset(&mut self) {
        self.flows.fill_with(|| None);
        self.gaps.clear();
        self.held = 0;
    }

    /// What has happened so far.
    #[must_use]
    pub fn counters(&self) -> Counters {
        self.counters
    }

    /// Packets that wait.
    #[must_use]
    pub fn held(&self) -> usize {
        self.held
    }

    /// How long a missing packet is waited for at present.
    #[must_use]
    pub fn deadline(&self) -> Duration {
        self.spread.deadline()
    }

    /// Waits at least this long from now on: the difference of the paths' delays. For packets that go again
    /// where they are lost, `round_trip` longer.
    pub fn set_spread(&mut self, spread: Duration, round_trip: Duration) {
        self.spread.set_floor(spread);
        self.resent.set_floor(spread + round_trip);
    }

    /// Takes a packet that came on a path; gives `pass` what may now go on, in order. Where the packet `waits` for
    /// nobody, it goes on at once, and others wait for it as for any.
    pub fn push(
        &mut self,
        now: Instant,
        path: usize,
        tag: Tag,
        (packet, waits): (T, bool),
        pass: &mut impl FnMut(T),
    ) {
        let Some(flow) = self.flows.get_mut(usize::from(tag.flow)) else { return };
        let flow = flow.get_or_insert_with(|| Box::new(Flow::new()));
        if let (Some(left), Some(before)) = (flow.left.get_mut(path), tag.left_before()) {
            *left = Some(before);
        }
        flow.kept = if tag.kept { KEPT } else { flow.kept.saturating_sub(1) };
        let ahead = tag.sequence.wrapping_sub(flow.next);
        if ahead == 0 && flow.slots.is_empty() {
            flow.advance(false);
            self.counters.in_order += 1;
            pass(packet);
            return;
        }
        if ahead > u32::MAX / 2 {
            self.past(now, tag, packet, pass);
        } else if ahead >= SPAN {
            self.restart(now, tag, packet, pass);
        } else {
            self.hold(now, tag, ahead, (packet, waits), pass);
        }
        self.lose(now, tag, pass);
        if self.held > self.limit {
            self.give_up(now, tag.flow, pass);
            self.counters.overflowed += 1;
        }
    }

    /// A packet whose turn has been: it was given up, or has come already.
    fn past(&mut self, now: Instant, tag: Tag, packet: T, pass: &mut impl FnMut(T)) {
        let Some(flow) = known(&mut self.flows, tag.flow) else { return };
        // What is longer ago than is known may have come already: nothing passes twice.
        let ago = flow.next.wrapping_sub(tag.sequence);
        if ago > MEMORY || !flow.past.take(tag.sequence) {
            self.counters.duplicates += 1;
            return;
        }
        if let Some(since) = flow.gave_up {
            let wait = now.saturating_duration_since(since);
            if flow.kept > 0 { &mut self.resent } else { &mut self.spread }.note(now, wait);
        }
        self.counters.late += 1;
        pass(packet);
    }

    /// A packet from so far ahead that the flow begins anew behind it.
    fn restart(&mut self, now: Instant, tag: Tag, packet: T, pass: &mut impl FnMut(T)) {
        while self.give_up(now, tag.flow, pass) {}
        let Some(flow) = known(&mut self.flows, tag.flow) else { return };
        flow.next = tag.sequence.wrapping_add(1);
        flow.past = Past::default();
        self.counters.in_order += 1;
        pass(packet);
    }

    fn hold(
        &mut self,
        now: Instant,
        tag: Tag,
        ahead: u32,
        (packet, waits): (T, bool),
        pass: &mut impl FnMut(T),
    ) {
        let Some(flow) = known(&mut self.flows, tag.flow) else { return };
        let Some(slot) = flow.slot(ahead) else { return };
        if slot.came().is_some() {
            self.counters.duplicates += 1;
            return;
        }
        if waits {
            *slot = Slot::Here(packet, now);
            self.held += 1;
        } else {
            *slot = Slot::Passed(now);
            pass(packet);
        }
        let held = waits && ahead > 0;
        self.counters.resequenced += u64::from(held);
        self.counters.in_order += u64::from(!held);
        match flow.since {
            Some(since) if ahead == 0 => {
                let wait = now.saturating_duration_since(since);
                if flow.kept > 0 { &mut self.resent } else { &mut self.spread }.note(now, wait);
            }
            None => {
                flow.since = Some(now);
                self.gaps.push(tag.flow);
            }
            Some(_) => {}
        }
        self.drain(now, tag.flow, pass);
    }

    /// What left before the last packet that came on each path in use, and has not come, is lost.
    fn lose(&mut self, now: Instant, tag: Tag, pass: &mut impl FnMut(T)) {
        let Some(flow) = known(&mut self.flows, tag.flow) else { return };
        if flow.since.is_none() {
            return;
        }
        let lost = flow.overtaken(tag.paths);
        self.counters.lost += lost;
        if lost > 0 {
            self.drain(now, tag.flow, pass);
        }
    }

    /// Passes on what stands at the front of a flow.
    fn drain(&mut self, now: Instant, number: u16, pass: &mut impl FnMut(T)) {
        let Some(flow) = known(&mut self.flows, number) else { return };
        let mut moved = false;
        while let Some(slot) = flow.slots.pop_front() {
            let lost = match slot {
                Slot::Missing => {
                    flow.slots.push_front(Slot::Missing);
                    break;
                }
                Slot::Lost => true,
                Slot::Here(packet, _) => {
                    self.held -= 1;
                    pass(packet);
                    false
                }
                Slot::Passed(_) => false,
            };
            if lost {
                flow.gave_up = flow.since.or(Some(now));
            }
            flow.advance(lost);
            moved = true;
        }
        if moved {
            let since = flow.slots.iter().find_map(Slot::came);
            if since.is_none() {
                self.gaps.retain(|gap| *gap != number);
            }
            flow.since = since;
        }
    }

    /// Gives up what is missing at the front of a flow; whether anything was.
    fn give_up(&mut self, now: Instant, number: u16, pass: &mut impl FnMut(T)) -> bool {
        let Some(flow) = known(&mut self.flows, number) else { return false };
        if flow.since.is_none() {
            flow.slots.clear();
            return false;
        }
        for slot in &mut flow.slots {
            match slot {
                Slot::Missing => *slot = Slot::Lost,
                Slot::Lost => {}
                Slot::Here(..) | Slot::Passed(_) => break,
            }
        }
        self.drain(now, number, pass);
        true
    }

    /// When [`Resequencer::expire`] is to be called.
    #[must_use]
    pub fn poll_timeout(&self) -> Option<Instant> {
        self.gaps.iter().filter_map(|number| self.due(*number)).min()
    }

    /// Gives up what has been waited for too long.
    pub fn expire(&mut self, now: Instant, pass: &mut impl FnMut(T)) {
        while let Some(number) = self.overdue(now) {
            self.counters.expired += 1;
            self.give_up(now, number, pass);
        }
    }

    fn overdue(&self, now: Instant) -> Option<u16> {
        self.gaps.iter().find(|number| self.due(**number).is_some_and(|due| due <= now)).copied()
    }

    /// When what is missing of a flow has been waited for long enough.
    fn due(&self, number: u16) -> Option<Instant> {
        let flow = self.flows.get(usize::from(number))?.as_ref()?;
        let spread = if flow.kept > 0 { &self.resent } else { &self.spread };
        Some(flow.since? + spread.deadline())
    }
}

/// A flow of which something has come.
fn known<T>(flows: &mut [Option<Box<Flow<T>>>], number: u16) -> Option<&mut Flow<T>> {
    flows.get_mut(usize::from(number))?.as_deref_mut()
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Bench {
        resequencer: Resequencer<u32>,
        passed: Vec<u32>,
        start: Instant,
        /// Those in use.
        paths: u16,
        /// Whether packets go again.
        kept: bool,
        /// Whether they wait.
        waits: bool,
    }

    impl Bench {
        fn new(limit: usize) -> Self {
            let (resequencer, start) = (Resequencer::new(limit), Instant::now());
            Self { resequencer, passed: vec![], start, paths: 0b11, kept: false, waits: true }
        }

        fn at(&self, ms: u64) -> Instant {
            self.start + Duration::from_millis(ms)
        }

        fn push(&mut self, ms: u64, path: usize, sequence: u32, behind: u16) {
            let tag = Tag { flow: 5, sequence, behind, paths: self.paths, kept: self.kept };
            let now = self.at(ms);
            let packet = (sequence, self.waits);
            self.resequencer.push(now, path, tag, packet, &mut |packet| self.passed.push(packet));
        }

        fn expire(&mut self, ms: u64) {
            let now = self.at(ms);
            self.resequencer.expire(now, &mut |packet| self.passed.push(packet));
        }
    }

    #[test]
    fn what_comes_in_order_passes_at_once() {
        let mut bench = Bench::new(10);
        (0..5).for_each(|n| bench.push(0, 0, n, 0));
        assert_eq!(bench.passed, [0, 1, 2, 3, 4]);
        assert_eq!((bench.resequencer.held(), bench.resequencer.poll_timeout()), (0, None));
        assert_eq!(bench.resequencer.counters().in_order, 5);
    }

    #[test]
    fn what_overtakes_waits() {
        let mut bench = Bench::new(10);
        bench.push(0, 0, 0, 0);
        bench.push(1, 1, 2, 0);
        bench.push(2, 1, 3, 0);
        assert_eq!(bench.passed, [0]);
        bench.push(9, 0, 1, 0);
        assert_eq!(bench.passed, [0, 1, 2, 3]);
        assert_eq!(bench.resequencer.poll_timeout(), None);
    }

    #[test]
    fn what_needs_no_order_waits_for_nobody() {
        let mut bench = Bench::new(10);
        bench.push(0, 0, 0, 0);
        bench.waits = false;
        (3..40).for_each(|n| bench.push(1, 1, n, 0));
        bench.push(2, 1, 5, 0);
        bench.waits = true;
        bench.push(3, 1, 40, 0);
        assert_eq!(bench.passed, (0..1).chain(3..40).collect::<Vec<_>>());
        assert_eq!(bench.resequencer.held(), 1);
        bench.push(4, 0, 1, 0);
        bench.expire(100);
        assert_eq!(bench.passed[38..], [1, 40]);
        bench.push(101, 0, 2, 0);
        assert_eq!(bench.passed.last(), Some(&2));
        let counters = bench.resequencer.counters();
        let Counters { in_order, late, resequenced, duplicates, .. } = counters;
        assert_eq!((in_order, late, resequenced, duplicates), (39, 1, 1, 1));
        assert_eq!(bench.resequencer.poll_timeout(), None);
    }

    #[test]
    fn losses_on_the_only_path_are_not_waited_for() {
        let mut bench = Bench::new(10);
        bench.paths = 0b01;
        bench.push(0, 0, 0, 0);
        bench.push(1, 0, 4, 0); // three in a row
        assert_eq!(bench.passed, [0, 4]);
        assert_eq!(bench.resequencer.counters().lost, 3);
        // one was not lost after all
        bench.push(2, 0, 1, 0);
        assert_eq!(bench.passed, [0, 4, 1]);
        bench.push(3, 0, 1, 0);
        assert_eq!(bench.resequencer.counters().duplicates, 1);
    }

    #[test]
    fn what_all_paths_have_overtaken_is_lost() {
        let mut bench = Bench::new(10);
        bench.push(0, 0, 0, 0);
        bench.push(1, 1, 3, 0);
        bench.push(2, 0, 5, 3); // 3 was the first that had not left: so 1 had, and 2
        assert_eq!(bench.passed, [0, 3]);
        bench.push(3, 1, 4, 0);
        assert_eq!(
            (bench.passed.as_slice(), bench.resequencer.held()),
            ([0, 3, 4, 5].as_slice(), 0)
        );
        assert_eq!(bench.resequencer.counters().lost, 2);
    }

    #[test]
    fn what_had_not_left_is_waited_for() {
        let mut bench = Bench::new(10);
        bench.paths = 0b01;
        bench.push(0, 0, 0, 0);
        bench.push(1, 0, 3, 2); // 2 had not left then, 1 had
        assert_eq!((bench.passed.as_slice(), bench.resequencer.held()), ([0].as_slice(), 1));
        bench.push(2, 0, 2, 0);
        assert_eq!(bench.passed, [0, 2, 3]);
    }

    #[test]
    fn a_loss_on_another_path_is_waited_for_until_the_deadline() {
        let mut bench = Bench::new(10);
        bench.push(0, 0, 0, 0);
        bench.push(1, 1, 2, 0);
        let deadline = bench.resequencer.deadline();
        assert_eq!(bench.resequencer.poll_timeout(), Some(bench.at(1) + deadline));
        bench.expire(20);
        assert_eq!(bench.passed, [0]);
        bench.expire(1 + u64::try_from(deadline.as_millis()).unwrap());
        assert_eq!(bench.passed, [0, 2]);
        assert_eq!(bench.resequencer.counters().expired, 1);
    }

    #[test]
    fn gaps_that_are_old_are_given_up_together() {
        let mut bench = Bench::new(100);
        for n in [1, 3, 5, 7] {
            bench.push(0, 1, n, 0);
        }
        bench.expire(500);
        assert_eq!(bench.passed, [1, 3, 5, 7]);
        assert_eq!(bench.resequencer.poll_timeout(), None);
    }

    #[test]
    fn what_goes_again_is_waited_for_longer() {
        for (kept, passed) in [(false, [0, 2].as_slice()), (true, &[0, 1, 2])] {
            let mut bench = Bench { kept, ..Bench::new(10) };
            let ms = Duration::from_millis;
            bench.resequencer.set_spread(ms(10), ms(100));
            bench.push(0, 0, 0, 1);
            bench.push(1, 1, 2, 3);
            bench.expire(100);
            bench.push(105, 0, 1, 0);
            bench.push(106, 0, 2, 0);
            assert_eq!(bench.passed.get(..passed.len()), Some(passed));
            assert_eq!(bench.resequencer.counters().duplicates, 1);
        }
    }

    #[test]
    fn copies_from_long_ago_do_not_pass() {
        let mut bench = Bench::new(10);
        (0..20_000).filter(|n| *n != 19_000).for_each(|n| bench.push(0, 0, n, 0));
        for n in [19_999, 19_000, 19_000, 15_000, 3] {
            bench.push(1, 0, n, 0);
        }
        assert_eq!(bench.passed.len(), 20_000);
        assert_eq!(bench.passed.last(), Some(&19_000));
        assert_eq!(bench.resequencer.counters().duplicates, 4);
    }

    #[test]
    fn memory_is_bounded() {
        let mut bench = Bench::new(10);
        (0..1000).for_each(|n| bench.push(0, 1, 1 + 2 * n, 0));
        assert!(bench.resequencer.held() <= 10);
        assert!(bench.passed.is_sorted() && bench.passed.len() >= 990);
    }

    #[test]
    fn a_flow_far_ahead_begins_anew() {
        let mut bench = Bench::new(10);
        bench.push(0, 0, 0, 0);
        bench.push(0, 0, 2, 0);
        bench.push(0, 0, 1_000_000, 0);
        bench.push(0, 0, 1_000_001, 0);
        assert_eq!(bench.passed, [0, 2, 1_000_000, 1_000_001]);
    }

    #[test]
    fn copies_pass_once() {
        let mut bench = Bench::new(10);
        for (n, behind) in [(0, 0), (1, 0), (3, 2)] {
            bench.push(0, 0, n, behind);
            bench.push(0, 1, n, behind);
        }
        bench.push(0, 0, 2, 0);
        assert_eq!(bench.passed, [0, 1, 2, 3]);
        assert_eq!(bench.resequencer.counters().duplicates, 3);
    }

    #[test]
    fn numbers_wrap_around() {
        let mut bench = Bench::new(10);
        bench.push(0, 0, u32::MAX / 2, 0);
        bench.push(0, 0, u32::MAX - 1, 0);
        bench.push(0, 0, 0, 0);
        bench.push(0, 1, u32::MAX, 0);
        assert_eq!(bench.passed, [u32::MAX / 2, u32::MAX - 1, u32::MAX, 0]);
    }
}
