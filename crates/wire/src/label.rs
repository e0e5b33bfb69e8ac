//! The path label of the outer header: which branches a packet goes between, and by which path.
//!
//! Sixteen bits in the outer destination port (source port on the way back): destination branch, source
//! branch, member path and path group, 4 bits each, 0x`dsmg`. At the agents both middle nibbles are
//! zero. Branches and groups are 0 to 15, member paths 1 to 16, where 16 is written as nibble 0. Branch
//! 0 listens nowhere, as of two branches the lower connects, and has no member path 16, which would
//! look like a port of an agent. [`wide`] labels hold more, in both ports.

pub mod wide;

/// Highest branch.
pub const BRANCH_MAX: u8 = 15;
/// Highest path group.
pub const GROUP_MAX: u8 = 15;
/// Highest member path.
pub const MEMBER_MAX: u8 = 16;

/// A path label on the WAN. Its parts are in range.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Label {
    destination: u8,
    source: u8,
    member: u8,
    group: u8,
}

impl Label {
    /// The label of member path `member` (1 to 16, from branch 0 to 15) of group `group` from branch
    /// `source` to `destination`, which is not 0; none where a part is out of range or the branches are
    /// the same.
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

    /// The label that a port holds; none where it is no label.
    #[must_use]
    pub const fn parse(port: u16) -> Option<Self> {
        let [d_s, m_g] = port.to_be_bytes();
        let member = m_g >> 4;
        let member = if member == 0 { MEMBER_MAX } else { member };
        Self::new(d_s >> 4, d_s & 0xf, member, m_g & 0xf)
    }

    /// The port that holds it.
    #[must_use]
    pub const fn port(self) -> u16 {
        let d_s = self.destination << 4 | self.source;
        u16::from_be_bytes([d_s, (self.member & 0xf) << 4 | self.group])
    }

    /// The agent's port that it stands for.
    #[must_use]
    pub const fn agent_port(self) -> u16 {
        port(self.destination as u16, self.group)
    }
}

/// Port on which branch `destination` takes connections of path group `group`: the label with source
/// and member path still zero. Only the low four bits of each count.
#[must_use]
pub const fn port(destination: u16, group: u8) -> u16 {
    ((destination & 0xf) << 12) | (group as u16 & 0xf)
}

/// Whether agents use this port: 0x`d00g`.
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
        assert_eq!(port(2, 4), 0x2004);
        assert_eq!(port(15, 15), 0xf00f);
        let label = |member| Label::new(2, 1, member, 4).unwrap();
        assert_eq!((label(1).port(), label(4).port()), (0x2114, 0x2144));
        assert_eq!(label(16).port(), 0x2104);
        assert_eq!(label(1).agent_port(), 0x2004);
        assert_eq!(Label::new(2, 0, 15, 4).unwrap().port(), 0x20f4);
        assert!(is_agent_port(0x2004) && !is_agent_port(0x2104) && !is_agent_port(0x0004));
    }

    proptest! {
        #[test]
        fn a_port_is_a_label_an_agents_port_or_neither(port: u16) {
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
