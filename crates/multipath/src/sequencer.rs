//! Sequence numbers of the packets of each flow.

use std::{
    collections::VecDeque,
    time::{Duration, Instant},
};

/// Flow identifiers. Flows that share one are resequenced together, and may wait for each other.
pub const FLOWS: usize = 4096;

/// Maximum number of member paths in a group.
pub const MAX_PATHS: usize = 16;

/// Time after which no packet is in flight on a path any more.
const PATH_TIMEOUT: Duration = Duration::from_millis(500);

/// What the tunnel header tells the receiver about the order of a flow.
///
/// A path delivers in order. A packet is lost once every path that the flow uses has delivered a
/// packet that left after it. A retransmittable packet ([`crate::Retransmittable`]) counts as not
/// having left until it is acknowledged or abandoned.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tag {
    /// Flow identifier, below [`FLOWS`].
    pub flow: u16,
    /// Sequence number within the flow. Wraps around.
    pub sequence: u32,
    /// Distance to the flow's first packet that had not left when this one did; 0 if all before it
    /// had. [`Tag::UNKNOWN`] if it does not fit.
    pub behind: u16,
    /// Bitmap of paths on which packets of the flow may be in flight: bit `i` for path `i`.
    pub paths: u16,
    /// Whether the packet is sent again if it is lost.
    pub retransmittable: bool,
}

impl Tag {
    /// Value of [`Tag::behind`] for a distance that does not fit.
    pub const UNKNOWN: u16 = u16::MAX;

    /// All packets of the flow before this sequence number had left when this packet did.
    pub(crate) fn left_before(&self) -> Option<u32> {
        let next = self.sequence.wrapping_add(1);
        (self.behind != Self::UNKNOWN).then(|| next.wrapping_sub(self.behind.into()))
    }
}

/// Assigns the sequence numbers of one direction of a path group.
pub struct Sequencer {
    flows: Box<[Option<Box<Flow>>]>,
}

#[derive(Default)]
struct Flow {
    next: u32,
    /// First sequence number that has not left, and for each from there on whether it has.
    first_pending: u32,
    departed: VecDeque<bool>,
    /// Bitmaps of paths used since `since`, and in the interval before.
    paths: [u16; 2],
    since: Option<Instant>,
}

impl Default for Sequencer {
    fn default() -> Self {
        Self { flows: std::iter::repeat_with(|| None).take(FLOWS).collect() }
    }
}

/// Flow identifier for a hash.
#[must_use]
#[allow(clippy::cast_possible_truncation)] // what is retransmittable is what is wanted
pub fn flow_bucket(hash: u64) -> u16 {
    (hash ^ hash >> 32) as u16 % FLOWS as u16
}

impl Sequencer {
    /// Sequence number for the flow's next packet. Call it in the order of the packets' arrival.
    pub fn next_sequence(&mut self, flow: u16) -> u32 {
        let Some(flow) = self.flow(flow) else { return 0 };
        let sequence = flow.next;
        flow.next = sequence.wrapping_add(1);
        sequence
    }

    /// Sequence number assigned last; none if the flow has none.
    #[must_use]
    pub fn last_sequence(&self, flow: u16) -> Option<u32> {
        let known = self.flows.get(usize::from(flow))?.as_ref()?;
        Some(known.next.wrapping_sub(1))
    }

    /// Tag of a packet that is sent on a path now. For a `retransmittable` one [`Self::complete`]
    /// must follow.
    pub fn tag(
        &mut self,
        now: Instant,
        flow: u16,
        sequence: u32,
        path: usize,
        retransmittable: bool,
    ) -> Tag {
        let Some(known) = self.flow(flow) else { return Tag { flow, sequence, ..Tag::default() } };
        if !retransmittable {
            known.mark_departed(sequence);
        }
        let paths = known.use_path(now, path);
        let behind = sequence.wrapping_add(1).wrapping_sub(known.first_pending);
        let behind = if behind > u32::MAX / 2 { 0 } else { behind };
        let behind = u16::try_from(behind).unwrap_or(Tag::UNKNOWN);
        Tag { flow, sequence, behind, paths, retransmittable }
    }

    /// A retransmittable packet was acknowledged or abandoned: it will not be sent again.
    pub fn complete(&mut self, flow: u16, sequence: u32) {
        if let Some(known) = self.flow(flow) {
            known.mark_departed(sequence);
        }
    }

    fn flow(&mut self, flow: u16) -> Option<&mut Flow> {
        self.flows.get_mut(usize::from(flow)).map(|flow| &mut **flow.get_or_insert_default())
    }
}

impl Flow {
    /// Marks a packet as having left; this may happen twice. Numbers not assigned yet are ignored:
    /// they would move `first_pending` past `next`, and the next call would allocate up to 2^32
    /// entries.
    fn mark_departed(&mut self, sequence: u32) {
        let ahead = sequence.wrapping_sub(self.first_pending);
        if ahead >= self.next.wrapping_sub(self.first_pending) {
            return;
        }
        let index = ahead as usize;
        if self.departed.len() <= index {
            self.departed.resize(index + 1, false);
        }
        if let Some(departed) = self.departed.get_mut(index) {
            *departed = true;
        }
        while self.departed.pop_front_if(|departed| *departed).is_some() {
            self.first_pending = self.first_pending.wrapping_add(1);
        }
    }

    /// Records the path and returns the bitmap of paths in use.
    fn use_path(&mut self, now: Instant, path: usize) -> u16 {
        let since = *self.since.get_or_insert(now);
        let age = now.saturating_duration_since(since);
        if age >= PATH_TIMEOUT {
            let [newer, _] = self.paths;
            self.paths = [0, if age < PATH_TIMEOUT * 2 { newer } else { 0 }];
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
        let numbers = [1, 1, 2, 1].map(|flow| sequencer.next_sequence(flow));
        assert_eq!(numbers, [0, 1, 0, 2]);
        assert_eq!(
            [0, 1, 2, u16::MAX].map(|flow| sequencer.last_sequence(flow)),
            [None, Some(2), Some(0), None]
        );
    }

    #[test]
    fn a_tag_has_the_distance_to_the_first_pending_packet() {
        let (mut sequencer, now) = (Sequencer::default(), Instant::now());
        (0..6).for_each(|_| assert!(sequencer.next_sequence(7) < 6));
        let mut behind = |sequence| sequencer.tag(now, 7, sequence, 0, false).behind;
        // Order of departure: 0, 3, 1, 5, 2, 4.
        assert_eq!([0, 3, 1, 5, 2, 4].map(&mut behind), [0, 3, 0, 4, 0, 0]);
    }

    #[test]
    fn retransmittable_packets_are_pending_until_complete() {
        let (mut sequencer, now) = (Sequencer::default(), Instant::now());
        let send = |sequencer: &mut Sequencer, retransmittable| {
            let sequence = sequencer.next_sequence(7);
            sequencer.tag(now, 7, sequence, 0, retransmittable).behind
        };
        let behind =
            [true, true, false].map(|retransmittable| send(&mut sequencer, retransmittable));
        assert_eq!(behind, [1, 2, 3]);
        sequencer.complete(7, 1);
        assert_eq!(send(&mut sequencer, false), 4);
        sequencer.complete(7, 0);
        assert_eq!(send(&mut sequencer, true), 1);
        // Again, and numbers that were never assigned.
        (0..9).for_each(|sequence| sequencer.complete(7, sequence));
        assert!(
            sequencer.flow(7).is_some_and(|flow| flow.departed.len() < 9),
            "unassigned numbers take no memory"
        );
        assert_eq!(send(&mut sequencer, false), 0);
    }

    #[test]
    fn a_tag_has_the_paths_in_use() {
        let (mut sequencer, start) = (Sequencer::default(), Instant::now());
        let mut paths = |ms, path| {
            let sequence = sequencer.next_sequence(7);
            sequencer.tag(start + Duration::from_millis(ms), 7, sequence, path, false).paths
        };
        assert_eq!((paths(0, 0), paths(10, 2), paths(400, 0)), (0b001, 0b101, 0b101));
        assert_eq!((paths(600, 0), paths(1200, 1), paths(9000, 3)), (0b101, 0b011, 0b1000));
    }

    #[test]
    fn values_out_of_range_are_harmless() {
        let (mut sequencer, now) = (Sequencer::default(), Instant::now());
        assert_eq!(sequencer.next_sequence(u16::MAX), 0);
        assert_eq!(sequencer.tag(now, u16::MAX, 3, 99, false).paths, 0);
        assert_eq!(sequencer.tag(now, 1, 77_000, 99, true).paths, 0);
        assert!(usize::from(flow_bucket(u64::MAX)) < FLOWS);
    }
}
