//! The narrow path label: branches, member path and path group of a tunnel packet in one TCP or UDP port.
//!
//! ```text
//!  15      12 11       8 7        4 3        0
//! +----------+----------+----------+----------+
//! | dest.    | source   | member   | path     |   outer destination port; on the return direction,
//! | branch   | branch   | path     | group    |   outer source port
//! +----------+----------+----------+----------+
//! ```
//!
//! Branches and groups are 0 to 15. Member paths are 1 to 16; 16 is written as 0. At the agents themselves
//! source branch and member path are zero (`0xd00g`). Of two branches the one with the lower number connects,
//! so branch 0 is never a destination; and it has no member path 16, whose label would look like an agent's
//! port. [`wide`] labels hold more, in both ports.

pub mod wide;

/// Highest branch number.
pub const BRANCH_MAX: u8 = 15;
/// Highest path group number.
pub const GROUP_MAX: u8 = 15;
/// Highest member path number.
pub const MEMBER_MAX: u8 = 16;

/// A path label, with all parts in range.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Label {
    destination: u8,
    source: u8,
    member: u8,
    group: u8,
}

impl Label {
    /// The label of member path `member` (1 to 16, from branch 0 to 15) of group `group` from branch
    /// `source` to branch `destination` (not 0). `None` if a part is out of range or the branches are equal.
    #[must_use]
    pub const fn new(destination: u8, source: u8, member: u8, group: u8) -> Option<Self> {
        let listens = destination != 0 && destination <= BRANCH_MAX;
        let branches = listens && source <= BRANCH_MAX && destination != source;
        let last = if source == 0 { MEMBER_MAX - 1 } else { MEMBER_MAX };
        if !branches || member == 0 || member > last || group > GROUP_MAX {
            return None;
        }
        Some(Self { destination, source, member, group })
    }

    /// Parses a port. `None` if it holds no label.
    #[must_use]
    pub const fn parse(port: u16) -> Option<Self> {
        let [d_s, m_g] = port.to_be_bytes();
        let member = m_g >> 4;
        let member = if member == 0 { MEMBER_MAX } else { member };
        Self::new(d_s >> 4, d_s & 0xf, member, m_g & 0xf)
    }

    /// The port that holds the label.
    #[must_use]
    pub const fn port(self) -> u16 {
        let d_s = self.destination << 4 | self.source;
        u16::from_be_bytes([d_s, (self.member & 0xf) << 4 | self.group])
    }

    /// The port of the destination's agent, which the switch writes there.
    #[must_use]
    pub const fn agent_port(self) -> u16 {
        agent_port(self.destination as u16, self.group)
    }
}

/// Port on which branch `destination` accepts connections of path group `group`: the label with source
/// branch and member path 0. Only the low four bits of each argument are used.
#[must_use]
pub const fn agent_port(destination: u16, group: u8) -> u16 {
    ((destination & 0xf) << 12) | (group as u16 & 0xf)
}

/// Whether a port is an agent's: `0xd00g`.
#[must_use]
pub const fn is_agent_port(port: u16) -> bool {
    port & 0x0ff0 == 0 && port >> 12 != 0
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn worked_example() {
        assert_eq!(agent_port(2, 4), 0x2004);
        assert_eq!(agent_port(15, 15), 0xf00f);
        let label = |member| Label::new(2, 1, member, 4).unwrap();
        assert_eq!((label(1).port(), label(4).port()), (0x2114, 0x2144));
        assert_eq!(label(16).port(), 0x2104);
        assert_eq!(label(1).agent_port(), 0x2004);
        assert_eq!(Label::new(2, 0, 15, 4).unwrap().port(), 0x20f4);
        assert!(is_agent_port(0x2004) && !is_agent_port(0x2104) && !is_agent_port(0x0004));
    }

    proptest! {
        #[test]
        fn a_port_is_a_label_or_an_agent_port_or_neither(port: u16) {
            if let Some(label) = Label::parse(port) {
                prop_assert_eq!(label.port(), port);
                prop_assert!(is_agent_port(label.agent_port()) && !is_agent_port(port));
            } else {
                let (d, s) = (port >> 12, port >> 8 & 0xf);
                prop_assert!(d == 0 || d == s || is_agent_port(port));
            }
        }

        #[test]
        fn parts_survive(d in 0..20_u8, s in 0..20_u8, m in 0..20_u8, g in 0..20_u8) {
            match Label::new(d, s, m, g) {
                Some(label) => {
                    let read = Label::parse(label.port()).unwrap();
                    prop_assert_eq!(read, label);
                    prop_assert_eq!((read.destination, read.source), (d, s));
                    prop_assert_eq!((read.member, read.group), (m, g));
                }
                None => prop_assert!(
                    d == 0 || d > 15 || s > 15 || d == s || m == 0 || m > 16 || g > 15
                        || (s, m) == (0, 16)
                ),
            }
        }
    }
}
