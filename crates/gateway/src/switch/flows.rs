//! Configured entries as entries of the eBPF programs.

use std::{
    collections::{BTreeMap, BTreeSet},
    net::IpAddr,
};

use anyhow::Context;
use hawser_bpf::switch::{COUNTS, Count, Flow, From, Output};
use hawser_netdev::interface;
use hawser_wire::rewrite::Tuple;

use super::counters::EntryCounters;
use crate::config::switch as config;

/// A switch with resolved interfaces.
pub(super) struct Flows {
    pub(super) interfaces: BTreeSet<String>,
    /// Addresses of the ports, and whether NAT is used there.
    pub(super) addresses: Vec<(IpAddr, bool)>,
    /// Names and entries, with no counter assigned yet.
    pub(super) entries: Vec<(String, Flow)>,
}

impl Flows {
    /// Resolves the interfaces. With `nat`, ports of type `internet` also carry local breakout.
    pub(super) fn resolve(section: &config::Switch, nat: bool) -> anyhow::Result<Self> {
        let indices = section
            .ports
            .iter()
            .map(|port| {
                let found = interface::find(&port.interface);
                let found = found.with_context(|| format!("interface {}", port.interface))?;
                anyhow::Ok((found.index, port))
            })
            .collect::<Result<Vec<_>, _>>()?;
        let entries = section.entries.iter();
        let entries = entries.map(|entry| Ok((entry.name.clone(), flow(entry, &indices)?)));
        Ok(Self {
            entries: entries.collect::<anyhow::Result<_>>()?,
            interfaces: section.ports.iter().map(|port| port.interface.clone()).collect(),
            addresses: section
                .ports
                .iter()
                .flat_map(|port| port.addresses().map(move |address| (address, port)))
                .map(|(address, port)| (address, nat && port.kind == config::PortKind::Internet))
                .collect(),
        })
    }
}

fn flow(entry: &config::Entry, ports: &[(u32, &config::Port)]) -> anyhow::Result<Flow> {
    let from = match entry.from {
        config::From::Agent => From::Agent,
        config::From::Wan => From::Wan,
    };
    let output = match entry.output {
        config::Output::Agent => Output::Agent,
        config::Output::Port { port, class } => {
            let (interface, port) = ports.get(port).context("port of an entry")?;
            let next_hop = port.next_hop_for(entry.write.source).context("next hop of a port")?;
            let interface = *interface;
            Output::Port { interface, next_hop, priority: class.unwrap_or(0) }
        }
    };
    Ok(Flow { from, key: entry.key, write: entry.write, output, count: 0 })
}

/// Assigns counters to entries. An entry that stays keeps its counter.
#[derive(Default)]
pub(super) struct Names {
    in_order: Vec<(String, u32)>,
    places: BTreeMap<(String, From, Tuple), u32>,
}

impl Names {
    /// Assigns a counter to each entry of the next set; returns those that must be reset to zero.
    pub(super) fn assign(
        &self,
        entries: &[(String, Flow)],
    ) -> anyhow::Result<(Self, Vec<Flow>, Vec<u32>)> {
        let taken: BTreeSet<u32> = self.places.values().copied().collect();
        let mut free = (0..COUNTS).filter(|index| !taken.contains(index));
        let (mut flows, mut fresh) = (Vec::new(), Vec::new());
        let mut next = Self::default();
        for (name, flow) in entries {
            let identity = (name.clone(), flow.from, flow.key);
            let kept = self.places.get(&identity).copied();
            let count = kept.or_else(|| free.next()).context("too many entries")?;
            if kept.is_none() {
                fresh.push(count);
            }
            flows.push(Flow { count, ..*flow });
            next.in_order.push((name.clone(), count));
            next.places.insert(identity, count);
        }
        Ok((next, flows, fresh))
    }

    /// Counters of all entries, in their order.
    pub(super) fn counters<E>(
        &self,
        read: impl Fn(u32) -> Result<Count, E>,
    ) -> Result<Vec<EntryCounters>, E> {
        let counters = |(name, index): &(String, u32)| {
            let Count { packets, bytes } = read(*index)?;
            Ok(EntryCounters { name: name.clone(), packets, bytes })
        };
        self.in_order.iter().map(counters).collect()
    }
}

#[cfg(test)]
mod tests {
    use hawser_wire::rewrite::Ports;

    use super::*;

    fn entry(name: &str, port: u16) -> (String, Flow) {
        let any = IpAddr::from([127, 0, 0, 1]);
        let tuple = Tuple { source: any, destination: any, ports: Ports::Source(port) };
        let output = Output::Agent;
        let flow = Flow { from: From::Wan, key: tuple, write: tuple, output, count: 0 };
        (name.into(), flow)
    }

    #[test]
    fn entries_that_stay_keep_their_counters() {
        let names = Names::default();
        let (names, flows, fresh) = names.assign(&[entry("a", 1), entry("b", 2)]).unwrap();
        assert_eq!(fresh, [0, 1]);
        assert_eq!(flows.iter().map(|flow| flow.count).collect::<Vec<_>>(), [0, 1]);
        let (names, flows, fresh) = names.assign(&[entry("c", 3), entry("b", 2)]).unwrap();
        assert_eq!(flows.iter().map(|flow| flow.count).collect::<Vec<_>>(), [2, 1]);
        assert_eq!(fresh, [2], "and nothing of an old set counts into those of a new one");
        let read = |index: u32| Ok::<_, ()>(Count { packets: index.into(), bytes: 0 });
        let counters = names.counters(read).unwrap();
        assert_eq!((counters[0].name.as_str(), counters[0].packets), ("c", 2));
    }

    #[test]
    fn a_full_set_can_be_replaced_by_another() {
        let set = |offset: u16| {
            let ports = 0..u16::try_from(hawser_bpf::switch::ENTRIES_MAX).unwrap();
            ports.map(|port| entry("x", port + offset)).collect::<Vec<_>>()
        };
        let (names, ..) = Names::default().assign(&set(0)).unwrap();
        let (_, _, fresh) = names.assign(&set(32_768)).unwrap();
        assert_eq!(fresh[0], hawser_bpf::switch::ENTRIES_MAX);
    }
}
