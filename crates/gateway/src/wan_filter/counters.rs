//! Counters of the WAN filter.

use anyhow::Context;
use prometheus_client::{
    metrics::{counter::Counter, family::Family},
    registry::Registry,
};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::rules::COUNTER;
use crate::causes::{Cause, causes};

/// What WAN interfaces did not take, by cause: frames and packets.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub(crate) struct WanDrops {
    /// Frames of a VLAN that is not listed.
    vlan: u64,
    /// Frames of another Ethernet type than those of IP, ARP, `PPPoE` and port authentication.
    ethernet_type: u64,
    /// From an address of the gateway itself, or of a host on its LAN.
    spoofed: u64,
    /// For a broadcast or multicast address.
    multicast: u64,
    /// For another host, so that the gateway would forward them.
    not_local: u64,
    /// UDP for ports that would be the gateway's if its path labels had the other number of low bits: the
    /// sender has another `label_bits`.
    pub(super) other_label_bits: u64,
    /// Of no connection, such as a TCP segment that opens none.
    invalid: u64,
    /// TCP and UDP for services of the gateway that are not open, answers to nothing among them.
    closed_service: u64,
    /// ICMP other than answers and errors, such as echo requests and redirects.
    icmp: u64,
    /// Of another IP protocol.
    protocol: u64,
}

impl WanDrops {
    /// Reads what `nft -j list counters` prints.
    pub(super) fn parse(text: &str) -> anyhow::Result<Self> {
        let listing: Value = serde_json::from_str(text).context("nft -j")?;
        let items = listing.get("nftables").and_then(Value::as_array).context("nft -j")?;
        let mut found = serde_json::to_value(Self::default())?;
        for counter in items.iter().filter_map(|item| item.get("counter")) {
            let name = counter.get("name").and_then(Value::as_str);
            let name = name.and_then(|name| name.strip_prefix(COUNTER));
            let packets = counter.get("packets").and_then(Value::as_u64);
            let (Some(name), Some(packets)) = (name, packets) else { continue };
            if let Some(place) = found.get_mut(name) {
                *place = json!(packets);
            }
        }
        Ok(serde_json::from_value(found)?)
    }

    /// Adds others' counts.
    pub(super) fn add(&mut self, other: Self) {
        let Self { vlan, ethernet_type, spoofed, multicast, not_local, other_label_bits, .. } =
            other;
        let Self { invalid, closed_service, icmp, protocol, .. } = other;
        self.vlan += vlan;
        self.ethernet_type += ethernet_type;
        self.spoofed += spoofed;
        self.multicast += multicast;
        self.not_local += not_local;
        self.other_label_bits += other_label_bits;
        self.invalid += invalid;
        self.closed_service += closed_service;
        self.icmp += icmp;
        self.protocol += protocol;
    }
}

/// Registers the metrics.
pub(crate) fn register(registry: &mut Registry, drops: &WanDrops) {
    let family = Family::<Cause, Counter>::default();
    for (cause, count) in causes(drops) {
        family.get_or_create(&Cause { cause }).inc_by(count);
    }
    registry.register("wan_dropped_packets", "Packets that WAN interfaces did not take", family);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counters_are_read_by_name() {
        let text = r#"{"nftables": [{"metainfo": {"version": "1.0.6"}},
            {"counter": {"family": "netdev", "name": "dropped_vlan", "table": "hawser_wan", "packets": 3, "bytes": 9}},
            {"counter": {"family": "inet", "name": "dropped_icmp", "table": "hawser_wan", "packets": 2, "bytes": 9}},
            {"counter": {"family": "inet", "name": "dropped_of_a_later_version", "packets": 2}}]}"#;
        let mut drops = WanDrops::parse(text).unwrap();
        assert_eq!(drops, WanDrops { vlan: 3, icmp: 2, ..WanDrops::default() });
        drops.add(drops);
        assert_eq!(drops, WanDrops { vlan: 6, icmp: 4, ..WanDrops::default() });
        assert!(WanDrops::parse("{}").is_err());
    }
}
