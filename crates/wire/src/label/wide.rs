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
//!
//! That is the layout with 6 low bits. A network of more branches has 5: 128 is added to a branch, and
//! member path 32 is written as 0. All gateways of a network have the same [`Layout`]; ports do not tell.

use crate::Malformed;

/// Lowest label.
pub const MIN: u16 = 4096;
/// Branches in the layout that has most.
pub const BRANCHES: usize = Layout::LowBits5.branch_max() as usize + 1;
/// Path groups between two branches in the layout that has most.
pub const GROUPS: usize = Layout::LowBits6.group_max() as usize + 1;

/// How a port is divided between the branch and, in its low bits, the path group or the member path.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Layout {
    /// 1920 branches, 32 groups between two of them, and 32 members.
    LowBits5,
    /// 960 branches, 64 groups between two of them, and 64 members.
    #[default]
    LowBits6,
}

impl Layout {
    /// All layouts.
    pub const ALL: [Self; 2] = [Self::LowBits5, Self::LowBits6];

    /// Number of low bits.
    #[must_use]
    pub const fn low_bits(self) -> u8 {
        match self {
            Self::LowBits5 => 5,
            Self::LowBits6 => 6,
        }
    }

    /// The layout with so many low bits.
    #[must_use]
    pub fn with_low_bits(bits: u8) -> Option<Self> {
        Self::ALL.into_iter().find(|layout| layout.low_bits() == bits)
    }

    /// Highest branch number.
    #[must_use]
    pub const fn branch_max(self) -> u16 {
        (u16::MAX >> self.low_bits()) - self.branch_offset()
    }

    /// Highest path group number.
    #[must_use]
    pub const fn group_max(self) -> u8 {
        (1 << self.low_bits()) - 1
    }

    /// Highest member path number.
    #[must_use]
    pub const fn member_max(self) -> u8 {
        1 << self.low_bits()
    }

    /// Port on which branch `destination` accepts connections of path group `group`. Both must be in range.
    #[must_use]
    pub const fn listener_port(self, destination: u16, group: u8) -> u16 {
        self.port(destination, group)
    }

    /// Port from which branch `source` connects for member path `member` of any group. Both must be in range.
    #[must_use]
    pub const fn connector_port(self, source: u16, member: u8) -> u16 {
        self.port(source, member)
    }

    /// Added to a branch number, so that no label is below [`MIN`].
    const fn branch_offset(self) -> u16 {
        MIN >> self.low_bits()
    }

    const fn port(self, branch: u16, low: u8) -> u16 {
        let low = low & self.group_max();
        branch.saturating_add(self.branch_offset()) << self.low_bits() | low as u16
    }

    /// The branch of a label's port, which is at least [`MIN`].
    const fn branch(self, port: u16) -> u16 {
        (port >> self.low_bits()) - self.branch_offset()
    }

    #[allow(clippy::cast_possible_truncation)] // six bits at most
    const fn low(self, port: u16) -> u8 {
        port as u8 & self.group_max()
    }
}

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
    layout: Layout,
    destination: u16,
    source: u16,
    member: u8,
    group: u8,
}

impl Label {
    /// The label of member path `member` (from 1) of group `group` from branch `source` to branch
    /// `destination`, which must have the higher number. `None` if a part is out of range.
    #[must_use]
    pub const fn new(
        layout: Layout,
        destination: u16,
        source: u16,
        member: u8,
        group: u8,
    ) -> Option<Self> {
        let branches = destination <= layout.branch_max() && source < destination;
        let member_known = member != 0 && member <= layout.member_max();
        if !branches || !member_known || group > layout.group_max() {
            return None;
        }
        Some(Self { layout, destination, source, member, group })
    }

    /// Parses the ports of a UDP packet into the label and the packet's direction.
    ///
    /// # Errors
    ///
    /// A port is below 4096, or both ports are of the same branch.
    pub fn parse(
        layout: Layout,
        source_port: u16,
        destination_port: u16,
    ) -> Result<(Self, Direction), Malformed> {
        for (field, offset, port) in
            [("source port", 0, source_port), ("destination port", 2, destination_port)]
        {
            if port < MIN {
                return Err(Malformed {
                    field,
                    offset,
                    found: port.into(),
                    expected: "4096 to 65535",
                });
            }
        }
        let (from, to) = (layout.branch(source_port), layout.branch(destination_port));
        if from == to {
            let (found, expected) =
                (destination_port.into(), "a port of another branch than the source's");
            return Err(Malformed { field: "destination port", offset: 2, found, expected });
        }
        let (direction, connector, listener) = if from < to {
            (Direction::Forward, source_port, destination_port)
        } else {
            (Direction::Return, destination_port, source_port)
        };
        let member = match layout.low(connector) {
            0 => layout.member_max(),
            member => member,
        };
        let (destination, source) = (layout.branch(listener), layout.branch(connector));
        Ok((Self { layout, destination, source, member, group: layout.low(listener) }, direction))
    }

    /// Source and destination port of a packet in this direction.
    #[must_use]
    pub const fn ports(self, direction: Direction) -> (u16, u16) {
        let connector = self.layout.connector_port(self.source, self.member);
        let listener = self.layout.listener_port(self.destination, self.group);
        match direction {
            Direction::Forward => (connector, listener),
            Direction::Return => (listener, connector),
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn layout() -> impl Strategy<Value = Layout> {
        prop::sample::select(&Layout::ALL)
    }

    /// The same as in `tests/unit/overlay/test_overlay_switch.py`: low bits, destination, source, member,
    /// group; port of the connector and of the listener.
    const VECTORS: [(u8, [u16; 4], (u16, u16)); 7] = [
        (6, [2, 1, 1, 4], (0x1041, 0x1084)),
        (6, [2, 1, 64, 4], (0x1040, 0x1084)),
        (6, [959, 0, 63, 63], (0x103f, 0xffff)),
        (5, [2, 1, 1, 4], (0x1021, 0x1044)),
        (5, [2, 1, 32, 4], (0x1020, 0x1044)),
        (5, [960, 959, 16, 26], (0x87f0, 0x881a)),
        (5, [1919, 0, 31, 31], (0x101f, 0xffff)),
    ];

    #[test]
    fn worked_examples() {
        for (bits, [destination, source, member, group], (connector, listener)) in VECTORS {
            let layout = Layout::with_low_bits(bits).unwrap();
            let [member, group] = [member, group].map(|low| u8::try_from(low).unwrap());
            let label = Label::new(layout, destination, source, member, group).unwrap();
            assert_eq!(label.ports(Direction::Forward), (connector, listener));
            assert_eq!(label.ports(Direction::Return), (listener, connector));
        }
    }

    #[test]
    fn ranges_of_the_layouts() {
        let range = |layout: Layout| (layout.branch_max(), layout.group_max(), layout.member_max());
        assert_eq!(range(Layout::LowBits5), (1919, 31, 32));
        assert_eq!(range(Layout::LowBits6), (959, 63, 64));
        assert_eq!([4, 5, 6, 7].map(Layout::with_low_bits), {
            [None, Some(Layout::LowBits5), Some(Layout::LowBits6), None]
        });
        assert_eq!((BRANCHES, GROUPS), (1920, 64));
    }

    #[test]
    fn errors_name_the_port() {
        let wrong =
            |source, destination| Label::parse(Layout::LowBits6, source, destination).unwrap_err();
        assert_eq!((wrong(0xfff, 0x1084).field, wrong(0xfff, 0x1084).offset), ("source port", 0));
        assert_eq!((wrong(0x1084, 53).field, wrong(0x1084, 53).found), ("destination port", 53));
        assert_eq!(wrong(0x1084, 0x10a4).field, "destination port");
        assert!(Label::parse(Layout::LowBits5, 0x1084, 0x10a4).is_ok());
    }

    proptest! {
        #[test]
        fn ports_are_a_label_and_a_direction_or_neither(
            layout in layout(), source_port: u16, destination_port: u16,
        ) {
            match Label::parse(layout, source_port, destination_port) {
                Ok((label, direction)) => {
                    prop_assert_eq!(label.ports(direction), (source_port, destination_port));
                    let Label { destination, source, member, group, .. } = label;
                    prop_assert_eq!(Label::new(layout, destination, source, member, group), Some(label));
                }
                Err(_) => prop_assert!(
                    source_port < MIN || destination_port < MIN
                        || source_port >> layout.low_bits() == destination_port >> layout.low_bits()
                ),
            }
        }

        #[test]
        fn parts_survive(
            layout in layout(), d in 0..2000_u16, s in 0..2000_u16, m in 0..70_u8, g in 0..70_u8,
        ) {
            let (branches, low) = if layout == Layout::LowBits5 { (1920, 32) } else { (960, 64) };
            let fits = d < branches && s < d && m > 0 && m <= low && g < low;
            let label = Label::new(layout, d, s, m, g);
            prop_assert_eq!(label.is_some(), fits);
            for (label, direction) in
                label.into_iter().flat_map(|label| [(label, Direction::Forward), (label, Direction::Return)])
            {
                let (source_port, destination_port) = label.ports(direction);
                prop_assert!(source_port >= MIN && destination_port >= MIN);
                let parsed = Label::parse(layout, source_port, destination_port);
                prop_assert_eq!(parsed, Ok((label, direction)));
                prop_assert_eq!((label.destination, label.source), (d, s));
                prop_assert_eq!((label.member, label.group), (m, g));
            }
        }

        #[test]
        fn a_branch_that_listens_has_other_ports_in_the_other_layout(
            branch in 1..=959_u16, one in 0..64_u8, other in 0..32_u8,
        ) {
            let ports = (
                Layout::LowBits6.listener_port(branch, one),
                Layout::LowBits5.listener_port(branch, other),
            );
            prop_assert_ne!(ports.0, ports.1);
        }
    }
}
