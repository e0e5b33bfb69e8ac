//! Numbers of packets within their flow.

use std::{
    collections::VecDeque,
    time::{Duration, Instant},
};

/// Flows that are told apart. Two that share a number are resequenced as one, which costs nothing but
/// waiting for each other.
pub const FLOWS: usize = 4096;

/// Member paths of a group, at most.
pub const MAX_PATHS: usize = 16;

/// Longer than a packet is under way on any path.
const UNDER_WAY: Duration = Duration::from_millis(500);

/// What a packet carries so that the other end can restore its flow's order.
///
/// Paths keep order. So a packet of a flow that left before another one, and has not come when on every
/// path that it may have taken a packet has come that left after it, is lost. One that goes again if it is
/// lost ([`crate::Recovery`]) counts as one that has not left until that is settled.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tag {
    /// Its flow, below [`FLOWS`].
    pub flow: u16,
    /// Its number within the flow. Wraps around.
    pub sequence: u32,
    /// When it left, the flow's packets before [`Tag::sequence`] that had not left yet began so far back;
    /// 0: all had left. [`Tag::UNKNOWN`] where it does not fit.
    pub behind: u16,
    /// Paths on which packets of the flow may be under way: bit `i` for path `i`.
    pub paths: u16,
    /// Whether it goes again if it is lost.
    pub kept: bool,
}

impl Tag {
    /// Says in [`Tag::behind`] that nothing is said.
    pub const UNKNOWN: u16 = u16::MAX;

    /// All packets of the flow before this number had left when this packet did.
    pub(crate) fn left_before(&self) -> Option<u32> {
        let next = self.sequence.wrapping_add(1);
        (self.behind != Self::UNKNOWN).then(|| next.wrapping_sub(self.behind.into()))
    }
}

/// Gives out numbers. One for each direction of a group.
pub struct Sequencer {
    flows: Box<[Option<Box<Flow>>]>,
}

#[derive(Default)]
struct Flow {
    next: u32,
    /// The first number that has not left; and of those from it on, which have.
    first: u32,
    left: VecDeque<bool>,
    /// Paths on which packets left since `since`, and those of the span before.
    paths: [u16; 2],
    since: Option<Instant>,
}

impl Default for Sequencer {
    fn default() -> Self {
        Self { flows: std::iter::repeat_with(|| None).take(FLOWS).collect() }
    }
}

/// The flow's number from its hash.
#[must_use]
#[allow(clippy::cast_possible_truncation)] // what is kept is what is wanted
pub fn flow(hash: u64) -> u16 {
    (hash ^ hash >> 32) as u16 % FLOWS as u16
}

impl Sequencer {
    /// The number of a flow's next packet. To be called in the order in which the flow's packets came.
    pub fn number(&mut self, flow: u16) -> u32 {
        let Some(flow) = self.flow(flow) else { return 0 };
        let sequence = flow.next;
        flow.next = sequence.wrapping_add(1);
        sequence
    }

    /// The number that a flow's last packet has got; none where there was none.
    #[must_use]
    pub fn last(&self, flow: u16) -> Option<u32> {
        let known = self.flows.get(usize::from(flow))?.as_ref()?;
        Some(known.next.wrapping_sub(1))
    }

    /// The tag of a packet that now goes on a path; one that is `kept` is to be settled later.
    pub fn tag(&mut self, now: Instant, flow: u16, sequence: u32, path: usize, kept: bool) -> Tag {
        let Some(known) = self.flow(flow) else { return Tag { flow, sequence, ..Tag::default() } };
        if !kept {
            known.leave(sequence);
        }
        let paths = known.note(now, path);
        let behind = sequence.wrapping_add(1).wrapping_sub(known.first);
        let behind = if behind > u32::MAX / 2 { 0 } else { behind };
        let behind = u16::try_from(behind).unwrap_or(Tag::UNKNOWN);
        Tag { flow, sequence, behind, paths, kept }
    }

    /// A packet that was kept will not go again: it has come, or is given up.
    pub fn settle(&mut self, flow: u16, sequence: u32) {
        if let Some(known) = self.flow(flow) {
            known.leave(sequence);
        }
    }

    fn flow(&mut self, flow: u16) -> Option<&mut Flow> {
        self.flows.get_mut(usize::from(flow)).map(|flow| &mut **flow.get_or_insert_default())
    }
}

impl Flow {
    /// Marks a packet as having left; it may leave twice. A number that was not given out yet is ignored:
    /// it would move `first` past `next`, and the next call would allocate up to 2^32 entries.
    fn leave(&mut self, sequence: u32) {
        let ahead = sequence.wrapping_sub(self.first);
        if ahead >= self.next.wrapping_sub(self.first) {
            return;
        }
        let index = ahead as usize;
        if self.left.len() <= index {
            self.left.resize(index + 1, false);
        }
        if let Some(left) = self.left.get_mut(index) {
            *left = true;
        }
        while self.left.pop_front_if(|left| *left).is_some() {
            self.first = self.first.wrapping_add(1);
        }
    }

    /// Notes the path; says which ones packets may be under way on.
    fn note(&mut self, now: Instant, path: usize) -> u16 {
        let since = *self.since.get_or_insert(now);
        let age = now.saturating_duration_since(since);
        if age >= UNDER_WAY {
            let [newer, _] = self.paths;
            self.paths = [0, if age < UNDER_WAY * 2 { newer } else { 0 }];
            self.since = Some(now);
        }
        let [newer, older] = &mut self.paths;
        *newer |= 1_u16.checked_shl(u32::try_from(path).unwrap_or(u32::MAX)).unwrap_or(0);
        *newer | *older
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_flow_is_numbered_by_itself() {
        let mut sequencer = Sequencer::default();
        let numbers = [1, 1, 2, 1].map(|flow| sequencer.number(flow));
        assert_eq!(numbers, [0, 1, 0, 2]);
        assert_eq!(
            [0, 1, 2, u16::MAX].map(|flow| sequencer.last(flow)),
            [None, Some(2), Some(0), None]
        );
    }

    #[test]
    fn a_tag_tells_what_has_not_left_yet() {
        let (mut sequencer, now) = (Sequencer::default(), Instant::now());
        (0..6).for_each(|_| assert!(sequencer.number(7) < 6));
        let mut behind = |sequence| sequencer.tag(now, 7, sequence, 0, false).behind;
        // 0 leaves; 3 before 1 and 2; then 1, 5, 2, and 4 last.
        assert_eq!([0, 3, 1, 5, 2, 4].map(&mut behind), [0, 3, 0, 4, 0, 0]);
    }

    #[test]
    fn what_is_kept_has_not_left_until_it_is_settled() {
        let (mut sequencer, now) = (Sequencer::default(), Instant::now());
        let send = |sequencer: &mut Sequencer, kept| {
            let sequence = sequencer.number(7);
            sequencer.tag(now, 7, sequence, 0, kept).behind
        };
        let behind = [true, true, false].map(|kept| send(&mut sequencer, kept));
        assert_eq!(behind, [1, 2, 3]);
        sequencer.settle(7, 1);
        assert_eq!(send(&mut sequencer, false), 4);
        sequencer.settle(7, 0);
        assert_eq!(send(&mut sequencer, true), 1);
        // Once more, and what never was.
        (0..9).for_each(|sequence| sequencer.settle(7, sequence));
        assert!(
            sequencer.flow(7).is_some_and(|flow| flow.left.len() < 9),
            "no room for what never was"
        );
        assert_eq!(send(&mut sequencer, false), 0);
    }

    #[test]
    fn a_tag_tells_the_paths_in_use() {
        let (mut sequencer, start) = (Sequencer::default(), Instant::now());
        let mut paths = |ms, path| {
            let sequence = sequencer.number(7);
            sequencer.tag(start + Duration::from_millis(ms), 7, sequence, path, false).paths
        };
        assert_eq!((paths(0, 0), paths(10, 2), paths(400, 0)), (0b001, 0b101, 0b101));
        assert_eq!((paths(600, 0), paths(1200, 1), paths(9000, 3)), (0b101, 0b011, 0b1000));
    }

    #[test]
    fn what_is_out_of_range_is_harmless() {
        let (mut sequencer, now) = (Sequencer::default(), Instant::now());
        assert_eq!(sequencer.number(u16::MAX), 0);
        assert_eq!(sequencer.tag(now, u16::MAX, 3, 99, false).paths, 0);
        assert_eq!(sequencer.tag(now, 1, 77_000, 99, true).paths, 0);
        assert!(usize::from(flow(u64::MAX)) < FLOWS);
    }
}
