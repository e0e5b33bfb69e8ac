//! The wide path label: both ports of UDP together, for transports whose agents choose both.
//!
//! The port of each end has ten bits of its branch and six of what that branch tells apart:
//!
//! ```text
//! bits                     15 .. 6                   5 .. 0
//! port of who listens      destination branch + 64   path group
//! port of who connects     source branch + 64        member path, 64 as 0
//! ```
//!
//! Forward, the destination port is that of who listens; on the way back, the source port. Of two branches
//! the one with the lower number connects, so the ports alone say which way a packet goes. No such port is
//! below 4096: those are left for NAT, and for what else the gateway itself sends.

use crate::Malformed;

/// Highest branch.
pub const BRANCH_MAX: u16 = 959;
/// Highest path group.
pub const GROUP_MAX: u8 = 63;
/// Highest member path.
pub const MEMBER_MAX: u8 = 64;

/// What is written for branch 0.
const FIRST: u16 = 64;
/// Bits below the branch.
const LOW: u32 = 6;
const LOW_MASK: u16 = (1 << LOW) - 1;

/// Which way a packet goes on its path.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Direction {
    /// From who connects.
    Forward,
    /// From who listens.
    Return,
}

/// A wide path label. Its parts are in range.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Label {
    destination: u16,
    source: u16,
    member: u8,
    group: u8,
}

impl Label {
    /// The label of member path `member` (1 to 64) of group `group` from branch `source` to `destination`,
    /// which has the higher number; none where a part is out of range.
    #[must_use]
    pub const fn new(destination: u16, source: u16, member: u8, group: u8) -> Option<Self> {
        let branches = destination <= BRANCH_MAX && source < destination;
        if !branches || member == 0 || member > MEMBER_MAX || group > GROUP_MAX {
            return None;
        }
        Some(Self { destination, source, member, group })
    }

    /// The label that the ports of a UDP packet hold, and which way it goes.
    ///
    /// # Errors
    ///
    /// A port is below 4096, or both are of one branch.
    pub fn parse(source_port: u16, destination_port: u16) -> Result<(Self, Direction), Malformed> {
        for (field, offset, port) in
            [("source port", 0, source_port), ("destination port", 2, destination_port)]
        {
            if port >> LOW < FIRST {
                return Err(Malformed {
                    field,
                    offset,
                    found: port.into(),
                    expected: "4096 to 65535",
                });
            }
        }
        let (from, to) = (source_port >> LOW, destination_port >> LOW);
        if from == to {
            let (found, expected) =
                (destination_port.into(), "a port of another branch than the source's");
            return Err(Malformed { field: "destination port", offset: 2, found, expected });
        }
        let direction = if from < to { Direction::Forward } else { Direction::Return };
        let (connects, listens) = match direction {
            Direction::Forward => (source_port, destination_port),
            Direction::Return => (destination_port, source_port),
        };
        let member = match low(connects) {
            0 => MEMBER_MAX,
            member => member,
        };
        let (destination, source) = ((listens >> LOW) - FIRST, (connects >> LOW) - FIRST);
        Ok((Self { destination, source, member, group: low(listens) }, direction))
    }

    /// Source and destination port that hold it.
    #[must_use]
    pub const fn ports(self, direction: Direction) -> (u16, u16) {
        let connects = connector_port(self.source, self.member);
        let listens = listener_port(self.destination, self.group);
        match direction {
            Direction::Forward => (connects, listens),
            Direction::Return => (listens, connects),
        }
    }
}

/// Port on which branch `destination` takes connections of path group `group`. Only what is in range
/// counts.
#[must_use]
pub const fn listener_port(destination: u16, group: u8) -> u16 {
    port(destination, group)
}

/// Port from which branch `source` makes those of member path `member` of any group. Only what is in range
/// counts.
#[must_use]
pub const fn connector_port(source: u16, member: u8) -> u16 {
    port(source, member)
}

const fn port(branch: u16, rest: u8) -> u16 {
    branch.saturating_add(FIRST) << LOW | rest as u16 & LOW_MASK
}

#[allow(clippy::cast_possible_truncation)] // six bits
const fn low(port: u16) -> u8 {
    (port & LOW_MASK) as u8
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn worked_example() {
        let label = |member| Label::new(2, 1, member, 4).unwrap();
        assert_eq!(label(1).ports(Direction::Forward), (0x1041, 0x1084));
        assert_eq!(label(1).ports(Direction::Return), (0x1084, 0x1041));
        assert_eq!(label(64).ports(Direction::Forward), (0x1040, 0x1084));
        assert_eq!((connector_port(0, 0), listener_port(BRANCH_MAX, GROUP_MAX)), (0x1000, 0xffff));
    }

    #[test]
    fn errors_name_the_port() {
        let wrong = |source, destination| Label::parse(source, destination).unwrap_err();
        assert_eq!((wrong(0xfff, 0x1084).field, wrong(0xfff, 0x1084).offset), ("source port", 0));
        assert_eq!((wrong(0x1084, 53).field, wrong(0x1084, 53).found), ("destination port", 53));
        assert_eq!(wrong(0x1084, 0x1090).field, "destination port");
    }

    proptest! {
        #[test]
        fn ports_are_a_label_and_a_direction_or_neither(source_port: u16, destination_port: u16) {
            match Label::parse(source_port, destination_port) {
                Ok((label, direction)) => {
                    prop_assert_eq!(label.ports(direction), (source_port, destination_port));
                    let new = Label::new(label.destination, label.source, label.member, label.group);
                    prop_assert_eq!(new, Some(label));
                }
                Err(_) => prop_assert!(
                    source_port < 4096 || destination_port < 4096
                        || source_port / 64 == destination_port / 64
                ),
            }
        }

        #[test]
        fn parts_survive(d in 0..1000_u16, s in 0..1000_u16, m in 0..70_u8, g in 0..70_u8) {
            match Label::new(d, s, m, g) {
                Some(label) => for direction in [Direction::Forward, Direction::Return] {
                    let (source_port, destination_port) = label.ports(direction);
                    prop_assert!(source_port >= 4096 && destination_port >= 4096);
                    prop_assert_eq!(Label::parse(source_port, destination_port), Ok((label, direction)));
                    prop_assert_eq!((label.destination, label.source), (d, s));
                    prop_assert_eq!((label.member, label.group), (m, g));
                },
                None => prop_assert!(d > 959 || s >= d || m == 0 || m > 64 || g > 63),
            }
        }
    }
}
