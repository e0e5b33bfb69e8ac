//! Compiles rules on flows into tables for tuple space search (`bpf/rules.h`).

#![allow(unsafe_code)] // plain data for the kernel's maps

use std::{
    collections::{BTreeMap, HashMap, hash_map},
    net::IpAddr,
    ops::RangeInclusive,
};

use crate::{
    codes,
    flow::{Fields, Flow, mapped},
};

/// Tuples at most of one set: combinations of bits that its rules match.
pub const TUPLES_MAX: u32 = codes::rules::RULES_TUPLES;
/// Entries of a set at most, after port ranges are split.
pub const ENTRIES_MAX: usize = 4_000_000;

/// An address prefix. A prefix of length 0 matches both families.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Prefix {
    address: u128,
    length: u8,
}

impl Prefix {
    /// Every address of either family.
    pub const ANY: Self = Self { address: 0, length: 0 };

    /// The prefix of this length in bits, in the address's family.
    #[must_use]
    pub fn new(address: IpAddr, length: u8) -> Self {
        let before = if address.is_ipv4() { 96 } else { 0 };
        let length = length.saturating_add(before).min(128);
        Self { address: mapped(address) & bits(length), length }
    }
}

fn bits(length: u8) -> u128 {
    u128::MAX.checked_shl(128 - u32::from(length)).unwrap_or(0)
}

/// The match of a rule. `None` and defaults match everything.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Match {
    /// Source addresses.
    pub source: Prefix,
    /// Destination addresses.
    pub destination: Prefix,
    /// Source ports.
    pub source_ports: RangeInclusive<u16>,
    /// Destination ports.
    pub destination_ports: RangeInclusive<u16>,
    /// Protocol number.
    pub protocol: Option<u8>,
    /// Differentiated services code point.
    pub dscp: Option<u8>,
    /// Number of the ingress port.
    pub port: Option<u16>,
}

impl Default for Match {
    fn default() -> Self {
        Self {
            source: Prefix::ANY,
            destination: Prefix::ANY,
            source_ports: 0..=u16::MAX,
            destination_ports: 0..=u16::MAX,
            protocol: None,
            dscp: None,
            port: None,
        }
    }
}

impl Match {
    /// Masks and values that together are equivalent to the rule. A port range becomes at most 30 prefixes.
    fn expand(&self) -> impl Iterator<Item = (Flow, Flow)> {
        let sources = prefixes(&self.source_ports);
        let destinations = prefixes(&self.destination_ports);
        sources
            .into_iter()
            .flat_map(move |source| {
                let pairs =
                    destinations.clone().into_iter().map(move |destination| (source, destination));
                pairs.collect::<Vec<_>>()
            })
            .map(|(source, destination)| self.masked(source, destination))
            .collect::<Vec<_>>()
            .into_iter()
    }

    fn masked(&self, source: (u16, u16), destination: (u16, u16)) -> (Flow, Flow) {
        let mask = Fields {
            source: bits(self.source.length),
            destination: bits(self.destination.length),
            source_port: source.0,
            destination_port: destination.0,
            protocol: self.protocol.map_or(0, |_| u8::MAX),
            dscp: self.dscp.map_or(0, |_| u8::MAX),
            port: self.port.map_or(0, |_| u16::MAX),
        };
        let value = Fields {
            source: self.source.address,
            destination: self.destination.address,
            source_port: source.1,
            destination_port: destination.1,
            protocol: self.protocol.unwrap_or(0),
            dscp: self.dscp.unwrap_or(0),
            port: self.port.unwrap_or(0),
        };
        (mask.into(), value.into())
    }
}

/// Masks and values that together are equivalent to a range: the largest aligned blocks, in ascending order.
fn prefixes(range: &RangeInclusive<u16>) -> Vec<(u16, u16)> {
    let (mut next, end) = (u32::from(*range.start()), u32::from(*range.end()) + 1);
    let mut found = Vec::new();
    while next < end {
        let aligned = if next == 0 { 16 } else { next.trailing_zeros() };
        let fitting = (end - next).ilog2();
        let size = 1 << aligned.min(fitting);
        #[allow(clippy::cast_possible_truncation)] // both are below 2^16
        found.push(((0x1_0000 - size) as u16, next as u16));
        next += size;
    }
    found
}

/// The value of an entry: number and action of its rule.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Found {
    rule: u32,
    action: u32,
}

#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Key {
    flow: Flow,
    tuple: [u8; 4],
}

#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Tuple {
    mask: Flow,
    first: [u8; 4],
}

const _: () = {
    assert!(size_of::<Key>() == 44);
    assert!(size_of::<Tuple>() == 44);
};

// SAFETY: `repr(C)` structures of integers and bytes whose sizes leave no padding: every byte
// is initialised and every bit pattern is a value.
unsafe impl aya::Pod for Found {}
// SAFETY: as above.
unsafe impl aya::Pod for Key {}
// SAFETY: as above.
unsafe impl aya::Pod for Tuple {}

/// Why a list of rules cannot be compiled.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TooMany {
    /// They match too many combinations of bits.
    #[error(
        "the rules match {0} combinations of prefix lengths, ports and fields; at most 2048 are possible"
    )]
    Combinations(usize),
    /// They need too many entries, because of port ranges.
    #[error("the rules and their port ranges need more than 4000000 entries")]
    Entries,
}

/// A compiled set of rules.
#[derive(Clone, Debug, Default)]
pub struct Set {
    pub(crate) tuples: Vec<Tuple>,
    pub(crate) entries: HashMap<Key, Found>,
}

impl Set {
    /// Compiles rules, each with its action. The first rule that matches applies.
    pub fn compile(rules: &[(Match, u32)]) -> Result<Self, TooMany> {
        let mut groups: BTreeMap<Flow, (u32, HashMap<Flow, Found>)> = BTreeMap::new();
        let mut entries = 0;
        for (rule, (what, action)) in (0..).zip(rules) {
            for (mask, value) in what.expand() {
                let (_, group) = groups.entry(mask).or_insert_with(|| (rule, HashMap::new()));
                if let hash_map::Entry::Vacant(place) = group.entry(value) {
                    place.insert(Found { rule, action: *action });
                    entries += 1;
                }
            }
            if entries > ENTRIES_MAX {
                return Err(TooMany::Entries);
            }
        }
        if groups.len() > TUPLES_MAX as usize {
            return Err(TooMany::Combinations(groups.len()));
        }
        Ok(Self::number(groups))
    }

    /// Numbers tuples in the order of their first rule.
    fn number(groups: BTreeMap<Flow, (u32, HashMap<Flow, Found>)>) -> Self {
        let mut groups: Vec<_> = groups.into_iter().collect();
        groups.sort_by_key(|(_, (first, _))| *first);
        let mut set = Self::default();
        for (number, (mask, (first, group))) in (0_u32..).zip(groups) {
            set.tuples.push(Tuple { mask, first: first.to_ne_bytes() });
            let tuple = number.to_ne_bytes();
            set.entries.extend(group.into_iter().map(|(flow, found)| (Key { flow, tuple }, found)));
        }
        set
    }

    /// Number of tuples.
    #[must_use]
    pub fn combinations(&self) -> usize {
        self.tuples.len()
    }

    /// Number and action of the first rule that matches a flow, found as in the program.
    #[must_use]
    pub fn find(&self, flow: &Flow) -> Option<(u32, u32)> {
        let mut best: Option<Found> = None;
        for (number, tuple) in (0_u32..).zip(&self.tuples) {
            let first = u32::from_ne_bytes(tuple.first);
            if best.is_some_and(|best| first > best.rule) {
                break;
            }
            let key = Key { flow: flow.masked(&tuple.mask), tuple: number.to_ne_bytes() };
            let found = self.entries.get(&key).copied();
            best = best.into_iter().chain(found).min_by_key(|found| found.rule);
        }
        best.map(|found| (found.rule, found.action))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn address(number: u8) -> IpAddr {
        IpAddr::from([10, 0, number >> 4, number])
    }

    prop_compose! {
        fn range()(a: u16, b: u16) -> RangeInclusive<u16> { a.min(b)..=a.max(b) }
    }

    fn some_range() -> impl Strategy<Value = RangeInclusive<u16>> {
        prop_oneof![Just(0..=u16::MAX), (0..8_u16).prop_map(|port| port..=port), range()]
    }

    prop_compose! {
        fn prefix()(number in 0..8_u8, length in prop_oneof![Just(0_u8), 24..=32_u8]) -> Prefix {
            if length == 0 { Prefix::ANY } else { Prefix::new(address(number), length) }
        }
    }

    prop_compose! {
        fn rule()(
            source in prefix(),
            destination in prefix(),
            source_ports in some_range(),
            destination_ports in some_range(),
            protocol in prop::option::of(prop_oneof![Just(6_u8), Just(17)]),
            dscp in prop::option::of(0..2_u8),
            port in prop::option::of(0..2_u16),
        ) -> Match {
            Match { source, destination, source_ports, destination_ports, protocol, dscp, port }
        }
    }

    prop_compose! {
        fn fields()(
            source in 0..8_u8,
            destination in 0..8_u8,
            source_port in prop_oneof![0..8_u16, any::<u16>()],
            destination_port in prop_oneof![0..8_u16, any::<u16>()],
            protocol in prop_oneof![Just(6_u8), Just(17)],
            dscp in 0..2_u8,
            port in 0..2_u16,
        ) -> Fields {
            let (source, destination) = (mapped(address(source)), mapped(address(destination)));
            Fields { source, destination, source_port, destination_port, protocol, dscp, port }
        }
    }

    fn matches(rule: &Match, flow: &Fields) -> bool {
        let within = |prefix: Prefix, address| address & bits(prefix.length) == prefix.address;
        within(rule.source, flow.source)
            && within(rule.destination, flow.destination)
            && rule.source_ports.contains(&flow.source_port)
            && rule.destination_ports.contains(&flow.destination_port)
            && rule.protocol.is_none_or(|protocol| protocol == flow.protocol)
            && rule.dscp.is_none_or(|dscp| dscp == flow.dscp)
            && rule.port.is_none_or(|port| port == flow.port)
    }

    proptest! {
        #[test]
        fn the_first_rule_wins(
            rules in prop::collection::vec(rule(), 0..30),
            flows in prop::collection::vec(fields(), 1..50),
        ) {
            let numbered: Vec<_> = rules.iter().cloned().zip(100..).collect();
            let set = Set::compile(&numbered).unwrap();
            for flow in flows {
                let expected = rules.iter().position(|rule| matches(rule, &flow));
                let found = set.find(&flow.into());
                prop_assert_eq!(found.map(|(rule, _)| rule as usize), expected);
                prop_assert!(found.is_none_or(|(rule, action)| action == rule + 100));
            }
        }

        #[test]
        fn blocks_of_a_range_are_the_range(range in range(), port: u16) {
            let blocks = prefixes(&range);
            prop_assert!(blocks.len() <= 30);
            let hits = blocks.iter().filter(|(mask, value)| port & mask == *value).count();
            prop_assert_eq!(hits, usize::from(range.contains(&port)));
        }
    }

    #[test]
    fn too_many_combinations_are_refused() {
        let rules: Vec<_> = (0..=32)
            .flat_map(|a| (0..=64).map(move |b| (a, b)))
            .map(|(a, b)| {
                let v6 = IpAddr::from([0x20, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0]);
                let (source, destination) = (Prefix::new(address(1), a), Prefix::new(v6, b + 1));
                (Match { source, destination, ..Match::default() }, 0)
            })
            .collect();
        assert_eq!(Set::compile(&rules).unwrap_err(), TooMany::Combinations(33 * 65));
    }
}
