//! A block: what it covers, why it is there, and how far it is.

use std::net::IpAddr;

use hawser_flowmeter::Tuple;
use ipnet::IpNet;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::document::Scope;

/// Packets that a block covers. What is left out is any.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Target {
    /// Source address.
    pub(crate) source: IpAddr,
    /// Destination address.
    #[serde(default)]
    pub(crate) destination: Option<IpAddr>,
    /// IP protocol number.
    #[serde(default)]
    pub(crate) protocol: Option<u8>,
    /// Source port of TCP or UDP.
    #[serde(default)]
    pub(crate) source_port: Option<u16>,
    /// Destination port of TCP or UDP.
    #[serde(default)]
    pub(crate) destination_port: Option<u16>,
}

impl Target {
    /// What a verdict on a flow covers.
    pub(crate) fn of(tuple: &Tuple, scope: Scope) -> Self {
        let has_ports = tuple.source_port != 0 || tuple.destination_port != 0;
        let is_flow = scope == Scope::Flow;
        Self {
            source: tuple.source,
            destination: (scope != Scope::Source).then_some(tuple.destination),
            protocol: is_flow.then_some(tuple.protocol),
            source_port: (is_flow && has_ports).then_some(tuple.source_port),
            destination_port: (is_flow && has_ports).then_some(tuple.destination_port),
        }
    }

    /// The firewall's rule.
    pub(crate) fn rule(&self, lifetime_s: u64, note: &str) -> Value {
        let host = |address: IpAddr| IpNet::from(address).to_string();
        let ports = |port: Option<u16>| port.map(|port| [port, port]);
        json!({
            "source": host(self.source),
            "destination": self.destination.map(host),
            "protocol": self.protocol,
            "source_ports": ports(self.source_port),
            "destination_ports": ports(self.destination_port),
            "action": "deny",
            "lifetime_s": lifetime_s,
            "note": note,
        })
    }
}

/// Why something is blocked.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub(crate) struct Why {
    /// Who says so: name and version of the model, or what another program says of itself.
    pub(crate) by: String,
    /// Probability that the flow is malicious, 0 to 1.
    pub(crate) score: Option<f64>,
    /// Score from which on the model calls a flow malicious.
    pub(crate) threshold: Option<f64>,
    /// Why the record that was scored was made.
    pub(crate) reason: Option<String>,
    /// The comparisons of the tree that speaks most for malice, from its root on.
    pub(crate) branch: Vec<Comparison>,
    /// All features of the flow, by name.
    pub(crate) features: serde_json::Map<String, Value>,
    /// Different malicious flows of the source or pair that led to it, this one included.
    #[serde(default)]
    pub(crate) flows: u32,
}

/// A comparison of a tree.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub(crate) struct Comparison {
    /// Name of the feature.
    pub(crate) feature: String,
    /// The flow's value.
    pub(crate) value: f64,
    /// What it was compared with.
    pub(crate) threshold: f64,
    /// Whether it was larger.
    pub(crate) is_above: bool,
}

/// How far a block is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub(crate) enum State {
    /// Not all firewalls have it yet.
    Pending,
    /// All firewalls have it.
    InForce,
    /// A firewall has refused it.
    Refused,
    /// Reported only; firewalls know nothing of it.
    DryRun,
}

/// Packets a second, over one period after the other.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Rate {
    since_us: u64,
    packets: u64,
}

impl Rate {
    /// Counts packets. Gives the rate if this ends a period, of this length at least; the first one begins at `begin_us`.
    pub(crate) fn add(
        &mut self,
        begin_us: u64,
        now_us: u64,
        packets: u64,
        period_us: u64,
    ) -> Option<u64> {
        self.since_us = self.since_us.max(begin_us);
        self.packets = self.packets.saturating_add(packets);
        let time_us = now_us.saturating_sub(self.since_us);
        if time_us < period_us.max(1) {
            return None;
        }
        let rate = self.packets.saturating_mul(1_000_000) / time_us;
        *self = Self { since_us: now_us, packets: 0 };
        Some(rate)
    }
}

/// A block. Times are microseconds since 1970.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub(crate) struct Block {
    /// Its number: that of the firewall's rule.
    pub(crate) id: u64,
    /// What it covers.
    pub(crate) target: Target,
    /// How far it is.
    pub(crate) state: State,
    /// The flow, as in its records.
    pub(crate) flow: String,
    /// Time of the flow's first packet.
    pub(crate) first_us: u64,
    /// Time of the verdict.
    pub(crate) decided_us: u64,
    /// Time at which the last firewall had confirmed the rule.
    pub(crate) told_us: Option<u64>,
    /// Time at which the rule removes itself.
    pub(crate) expires_us: u64,
    /// How often it was renewed, since the attack went on.
    pub(crate) renewals: u32,
    /// What still comes against it.
    #[serde(skip)]
    pub(crate) rate: Rate,
    /// The last problem with a firewall.
    pub(crate) error: Option<String>,
    /// Why it is there.
    pub(crate) why: Why,
    /// Firewalls that have yet to confirm, by their places in the configuration.
    #[serde(default)]
    pub(crate) awaited: Vec<usize>,
}
