//! The wide path label: 32 bits in both UDP ports, for the `quic` transport, whose agents choose both.
//!
//! ```text
//!                           15                       6 5             0
//!                          +--------------------------+---------------+
//! port of the listener     | destination branch + 64  |  path group   |
//!                          +--------------------------+---------------+
//! port of the connector    |   source branch + 64     |  member path  |   64 is written as 0
//!                          +--------------------------+---------------+
//! ```
//!
//! The listener's port is the destination port in the forward direction, and the source port in the return
//! direction. Of two branches the one with the lower number connects, so the ports alone give a packet's
//! direction. No label is below 4096: lower ports are left to NAT and to the gateway's own traffic.

use crate::Malformed;

/// Highest branch number.
pub const BRANCH_MAX: u16 = 959;
/// Highest path group number.
pub const GROUP_MAX: u8 = 63;
/// Highest member path number.
pub const MEMBER_MAX: u8 = 64;

/// Added to a branch number, so that no label is below 4096.
const BRANCH_OFFSET: u16 = 64;
/// Bits below the branch.
const LOW_BITS: u32 = 6;
const LOW_MASK: u16 = (1 << LOW_BITS) - 1;

/// Direction of a packet on its path.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Direction {
    /// From the connector to the listener.
    Forward,
    /// From the listener to the connector.
    Return,
}

/// A wide path label, with all parts in range.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Label {
    destination: u16,
    source: u16,
    member: u8,
    group: u8,
}

impl Label {
    /// The label of member path `member` (1 to 64) of group `group` from branch `source` to branch
    /// `destination`, which must have the higher number. `None` if a part is out of range.
    #[must_use]
    pub const fn new(destination: u16, source: u16, member: u8, group: u8) -> Option<Self> {
        let branches = destination <= BRANCH_MAX && source < destination;
        if !branches || member == 0 || member > MEMBER_MAX || group > GROUP_MAX {
            return None;
        }
        Some(Self { destination, source, member, group })
    }

    /// Parses the ports of a UDP packet into the label and the packet's direction.
    ///
    /// # Errors
    ///
    /// A port is below 4096, or both ports are of the same branch.
    pub fn parse(source_port: u16, destination_port: u16) -> Result<(Self, Direction), Malformed> {
        for (field, offset, port) in
            [("source port", 0, source_port), ("destination port", 2, destination_port)]
        {
            if port >> LOW_BITS < BRANCH_OFFSET {
                return Err(Malformed {
                    field,
                    offset,
                    found: port.into(),
                    expected: "4096 to 65535",
                });
            }
        }
        let (from, to) = (source_port >> LOW_BITS, destination_port >> LOW_BITS);
        if from == to {
            let (found, expected) =
                (destination_port.into(), "a port of another branch than the source's");
            return Err(Malformed { field: "destination port", offset: 2, found, expected });
        }
        let direction = if from < to { Direction::Forward } else { Direction::Return };
        let (connector, listener) = match direction {
            Direction::Forward => (source_port, destination_port),
            Direction::Return => (destination_port, source_port),
        };
        let member = match low(connector) {
            0 => MEMBER_MAX,
            member => member,
        };
        let (destination, source) = (branch(listener), branch(connector));
        Ok((Self { destination, source, member, group: low(listener) }, direction))
    }

    /// Source and destination port of a packet in this direction.
    #[must_use]
    pub const fn ports(self, direction: Direction) -> (u16, u16) {
        let connector = connector_port(self.source, self.member);
        let listener = listener_port(self.destination, self.group);
        match direction {
            Direction::Forward => (connector, listener),
            Direction::Return => (listener, connector),
        }
    }
}

/// Port on which branch `destination` accepts connections of path group `group`. Both must be in range.
#[must_use]
pub const fn listener_port(destination: u16, group: u8) -> u16 {
    port(destination, group)
}

/// Port from which branch `source` connects for member path `member` of any group. Both must be in range.
#[must_use]
pub const fn connector_port(source: u16, member: u8) -> u16 {
    port(source, member)
}

const fn port(branch: u16, low: u8) -> u16 {
    branch.saturating_add(BRANCH_OFFSET) << LOW_BITS | low as u16 & LOW_MASK
}

/// The branch of a label's port, which is at least 4096.
const fn branch(port: u16) -> u16 {
    (port >> LOW_BITS) - BRANCH_OFFSET
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
