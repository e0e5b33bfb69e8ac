//! Numbers of packets within their flow.

/// Flows that are told apart. Two that share a number are resequenced as one, which costs nothing but
/// waiting for each other.
pub const FLOWS: usize = 4096;

/// Member paths of a group, at most.
pub const MAX_PATHS: usize = 16;

/// What a packet carries so that the other end can restore its flow's order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Tag {
    /// Its flow, below [`FLOWS`].
    pub flow: u16,
    /// Its number within the flow. Wraps around.
    pub sequence: u32,
    /// How far back the flow's packet before it on the same path lies; 0 where there is none, or where
    /// it does not fit. Paths keep order: so if that packet has not come when this one does, it is lost.
    pub distance: u16,
}

/// Gives out numbers. One for each direction of a group.
pub struct Sequencer {
    flows: Box<[Flow]>,
}

#[derive(Clone, Copy)]
struct Flow {
    next: u32,
    /// The number that went last on each path.
    last: [Option<u32>; MAX_PATHS],
}

impl Default for Sequencer {
    fn default() -> Self {
        Self { flows: vec![Flow { next: 0, last: [None; MAX_PATHS] }; FLOWS].into_boxed_slice() }
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
        let Some(flow) = self.flows.get_mut(usize::from(flow)) else { return 0 };
        let sequence = flow.next;
        flow.next = sequence.wrapping_add(1);
        sequence
    }

    /// The tag of a packet that now goes on a path.
    pub fn tag(&mut self, flow: u16, sequence: u32, path: usize) -> Tag {
        let last = self.flows.get_mut(usize::from(flow)).and_then(|flow| flow.last.get_mut(path));
        let before = last.and_then(|last| last.replace(sequence));
        let distance = before.map_or(0, |before| sequence.wrapping_sub(before));
        Tag { flow, sequence, distance: u16::try_from(distance).unwrap_or(0) }
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
    }

    #[test]
    fn a_tag_tells_what_went_before_on_the_path() {
        let mut sequencer = Sequencer::default();
        let distances = [(0, 0), (5, 1), (1, 0), (9, 1), (4, 1), (70_000, 0)]
            .map(|(sequence, path)| sequencer.tag(7, sequence, path).distance);
        assert_eq!(distances, [0, 0, 1, 4, 0, 0]);
    }

    #[test]
    fn flows_out_of_range_are_harmless() {
        let mut sequencer = Sequencer::default();
        assert_eq!(sequencer.number(u16::MAX), 0);
        assert_eq!(sequencer.tag(u16::MAX, 3, 99).distance, 0);
        assert!(usize::from(flow(u64::MAX)) < FLOWS);
    }
}
