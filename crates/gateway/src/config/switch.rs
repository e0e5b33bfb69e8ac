//! The `switch` section: WAN ports, and flow entries that forward packets between them.

use std::{
    collections::{BTreeMap, BTreeSet},
    net::{IpAddr, Ipv4Addr, Ipv6Addr},
};

use hawser_wire::{
    label::{self, Label, wide},
    rewrite::{Ports, Tuple},
};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::check::{Check, INTERFACE};

/// The switch between the agent and the WAN ports.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct SwitchDocument {
    /// `bpf`: programs of this gateway on its ports; `openflow`: an OpenFlow switch driven by the
    /// controller, while this gateway leaves the ports alone.
    pub(crate) kind: SwitchKind,
    /// The WAN ports.
    #[schemars(length(min = 1, max = 16))]
    pub(crate) ports: Vec<PortDocument>,
    /// Flow entries. Exact match only: at most one entry matches a packet.
    #[serde(default)]
    #[schemars(length(max = 32_768))]
    pub(crate) entries: Vec<EntryDocument>,
}

/// Implementation of the switch.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
#[schemars(inline)]
pub(crate) enum SwitchKind {
    Bpf,
    Openflow,
}

/// A WAN port.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct PortDocument {
    /// Its name in entries.
    #[schemars(length(min = 1, max = 63))]
    pub(crate) name: String,
    /// Ethernet interface.
    #[schemars(regex(pattern = INTERFACE))]
    pub(crate) interface: String,
    /// Its IPv4 address; null if the port has none. It has an address of at least one version.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) address: Option<String>,
    /// Next hop of packets of IPv4 that leave by this port; given with `address`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) next_hop: Option<String>,
    /// Its IPv6 address; null if entries of IPv6 do not use the port.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) address6: Option<String>,
    /// Next hop of packets of IPv6 that leave by this port, which may be a link-local address; given with
    /// `address6`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) next_hop6: Option<String>,
    /// Kind of access.
    #[serde(rename = "type")]
    pub(crate) kind: PortKind,
}

/// Kind of access at a WAN port.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
#[schemars(inline)]
pub(crate) enum PortKind {
    Internet,
    Leased,
}

/// A flow entry, whose addresses are all of IPv4 or all of IPv6. With a narrow label, in one port, it
/// applies to TCP and UDP alike; with a wide one, in both ports, to UDP.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct EntryDocument {
    /// Its name in counters.
    #[schemars(length(min = 1, max = 127))]
    pub(crate) name: String,
    /// Packets that it matches.
    #[serde(rename = "match")]
    pub(crate) key: MatchDocument,
    /// Fields that it rewrites.
    pub(crate) write: WriteDocument,
    /// Where it sends them.
    pub(crate) output: OutputDocument,
}

/// Packets that an entry matches. For a narrow label exactly one of the ports is given: the
/// destination port in the forward direction of a path, the source port in the return direction. A
/// wide label is both ports.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct MatchDocument {
    /// `agent`: sent by this gateway itself. `wan`: received at a WAN port.
    pub(crate) from: From,
    /// Source address.
    pub(crate) source: String,
    /// Destination address.
    pub(crate) destination: String,
    /// Source port: return direction, or half of a wide label.
    #[serde(default)]
    pub(crate) source_port: Option<u16>,
    /// Destination port: forward direction, or half of a wide label.
    #[serde(default)]
    pub(crate) destination_port: Option<u16>,
}

/// Origin of packets.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "lowercase")]
#[schemars(inline)]
pub(crate) enum From {
    Agent,
    Wan,
}

/// Fields that an entry rewrites.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct WriteDocument {
    /// Source address.
    pub(crate) source: String,
    /// Destination address.
    pub(crate) destination: String,
    /// Replaces the matched port; null for a wide label, which stays.
    #[serde(default)]
    pub(crate) port: Option<u16>,
}

/// Where packets are sent.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(untagged)]
#[schemars(inline)]
pub(crate) enum OutputDocument {
    /// To this gateway's own stack.
    Agent(AgentOutput),
    /// Out of a WAN port.
    Port(PortOutput),
}

/// To this gateway's own stack.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
#[schemars(inline)]
pub(crate) enum AgentOutput {
    Agent,
}

/// Out of a WAN port.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(inline)]
pub(crate) struct PortOutput {
    /// Name of the port.
    pub(crate) port: String,
    /// Class of the port's shaper as a kernel handle (`1:10` is 0x10010); null keeps the packet's
    /// priority.
    #[serde(default)]
    pub(crate) class: Option<u32>,
}

/// A validated switch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Switch {
    pub(crate) kind: SwitchKind,
    pub(crate) ports: Vec<Port>,
    pub(crate) entries: Vec<Entry>,
}

/// A WAN port.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Port {
    pub(crate) interface: String,
    /// Address and next hop; of at least one version.
    pub(crate) ipv4: Option<(Ipv4Addr, Ipv4Addr)>,
    /// The same.
    pub(crate) ipv6: Option<(Ipv6Addr, Ipv6Addr)>,
    pub(crate) kind: PortKind,
}

impl Port {
    /// Whether the address is one of the port's.
    fn has(&self, address: IpAddr) -> bool {
        self.addresses().any(|own| own == address)
    }

    /// Its addresses.
    pub(crate) fn addresses(&self) -> impl Iterator<Item = IpAddr> {
        let ipv4 = self.ipv4.map(|(address, _)| address.into());
        ipv4.into_iter().chain(self.ipv6.map(|(address, _)| address.into()))
    }

    /// The next hop of an entry with this address.
    pub(crate) fn next_hop_for(&self, address: IpAddr) -> Option<IpAddr> {
        match address {
            IpAddr::V4(_) => self.ipv4.map(|(_, next_hop)| next_hop.into()),
            IpAddr::V6(_) => self.ipv6.map(|(_, next_hop)| next_hop.into()),
        }
    }
}

/// A flow entry.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Entry {
    pub(crate) name: String,
    pub(crate) from: From,
    pub(crate) key: Tuple,
    pub(crate) write: Tuple,
    pub(crate) output: Output,
}

/// Where packets are sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Output {
    Agent,
    /// Index of the port.
    Port {
        port: usize,
        class: Option<u32>,
    },
}

/// Validates the section, field by field. `agents` are addresses of the agent, at the ports too; `layout` is
/// that of wide labels.
pub(super) fn check(
    check: &mut Check,
    document: &SwitchDocument,
    agents: &BTreeSet<IpAddr>,
    layout: wide::Layout,
) -> Switch {
    let ports: Vec<_> = document.ports.iter().enumerate().map(|(i, p)| port(check, i, p)).collect();
    unique_ports(check, document);
    let names: BTreeMap<&str, usize> =
        document.ports.iter().enumerate().map(|(i, port)| (port.name.as_str(), i)).collect();
    let ports: Vec<Port> = ports.into_iter().flatten().collect();
    let mut switch = Switch { kind: document.kind, entries: Vec::new(), ports };
    if switch.ports.len() < document.ports.len() {
        return switch; // entries cannot be judged without the addresses
    }
    let (mut keys, mut entry_names) = (BTreeSet::new(), BTreeSet::new());
    for (i, entry) in document.entries.iter().enumerate() {
        let field = format!("switch.entries[{i}]");
        if !entry_names.insert(entry.name.as_str()) {
            let found = entry.name.as_str();
            check.error(&format!("{field}.name"), found, "a name that no other entry has");
        }
        let Some(parsed) = parse_entry(check, &field, entry, &names) else { continue };
        labels(check, &field, &parsed, layout);
        addresses(check, &field, &parsed, &switch.ports, agents);
        if keys.insert((parsed.from, parsed.key)) {
            switch.entries.push(parsed);
        } else {
            let found = serde_json::to_value(&entry.key).unwrap_or_default();
            check.error(&format!("{field}.match"), found, "packets that no entry before matches");
        }
    }
    switch
}

fn port(check: &mut Check, i: usize, document: &PortDocument) -> Option<Port> {
    let field = |name: &str| format!("switch.ports[{i}].{name}");
    let [address, next_hop] = [&document.address, &document.next_hop].map(Option::as_deref);
    let [address6, next_hop6] = [&document.address6, &document.next_hop6].map(Option::as_deref);
    if let (None, None, None, None) = (address, next_hop, address6, next_hop6) {
        let expected = "an IPv4 address, or address6 and next_hop6";
        check.error(&field("address"), serde_json::Value::Null, expected);
        return None;
    }
    let fields = [field("address"), field("next_hop")];
    let ipv4 = ends(check, &fields, (address, next_hop), "IPv4", Check::host_v4);
    let fields = [field("address6"), field("next_hop6")];
    let ipv6 = ends(check, &fields, (address6, next_hop6), "IPv6", Check::host_v6);
    let (interface, kind) = (document.interface.clone(), document.kind);
    Some(Port { interface, ipv4, ipv6, kind })
}

/// Gives address and next hop of one version, of which both are given or none.
fn ends<T>(
    check: &mut Check,
    fields: &[String; 2],
    given: (Option<&str>, Option<&str>),
    version: &str,
    host: fn(&mut Check, &str, &str) -> Option<T>,
) -> Option<(T, T)> {
    let missing = match given {
        (None, None) => return None,
        (Some(address), Some(next_hop)) => {
            let address = host(check, &fields[0], address);
            let next_hop = host(check, &fields[1], next_hop);
            return Some((address?, next_hop?));
        }
        (Some(_), None) => &fields[1],
        (None, Some(_)) => &fields[0],
    };
    let expected =
        format!("an {version} address, as a port's address and next hop are given together");
    check.error(missing, serde_json::Value::Null, &expected);
    None
}

fn unique_ports(check: &mut Check, document: &SwitchDocument) {
    type Value = fn(&PortDocument) -> Option<&str>;
    let name: Value = |port| Some(&port.name);
    let interface: Value = |port| Some(&port.interface);
    let address: Value = |port| port.address.as_deref();
    let address6: Value = |port| port.address6.as_deref();
    let values =
        [("name", name), ("interface", interface), ("address", address), ("address6", address6)];
    for (what, value) in values {
        let mut seen = BTreeSet::new();
        for (i, port) in document.ports.iter().enumerate() {
            if let Some(found) = value(port).filter(|found| !seen.insert(*found)) {
                let field = format!("switch.ports[{i}].{what}");
                check.error(&field, found, "one that no other port has");
            }
        }
    }
}

fn parse_entry(
    check: &mut Check,
    field: &str,
    document: &EntryDocument,
    names: &BTreeMap<&str, usize>,
) -> Option<Entry> {
    let (key, write) = (&document.key, &document.write);
    let source = check.host(&format!("{field}.match.source"), &key.source);
    let is_ipv6 = source.map(|source| source.is_ipv6());
    let mut other = |what: &str, text: &str| {
        let field = format!("{field}.{what}");
        let address = check.host(&field, text)?;
        if is_ipv6.is_some_and(|is_ipv6| is_ipv6 != address.is_ipv6()) {
            check.error(&field, text, "an address of the same version of IP as match.source");
            return None;
        }
        Some(address)
    };
    let destination = other("match.destination", &key.destination);
    let to_source = other("write.source", &write.source);
    let to_destination = other("write.destination", &write.destination);
    let ports = ports(check, field, document);
    let output = output(check, field, &document.output, names);
    let (ports, written) = ports?;
    Some(Entry {
        name: document.name.clone(),
        from: key.from,
        key: Tuple { source: source?, destination: destination?, ports },
        write: Tuple { source: to_source?, destination: to_destination?, ports: written },
        output: output?,
    })
}

/// The ports that an entry matches, and those that it writes.
fn ports(check: &mut Check, field: &str, document: &EntryDocument) -> Option<(Ports, Ports)> {
    let (key, write) = (&document.key, document.write.port);
    let one = match (key.source_port, key.destination_port) {
        (Some(source), Some(destination)) => {
            let both = Ports::Both { source, destination };
            if let Some(port) = write {
                let expected = "null, since a wide label is not rewritten";
                check.error(&format!("{field}.write.port"), port, expected);
            }
            return write.is_none().then_some((both, both));
        }
        (Some(port), None) => (Ports::Source(port), write.map(Ports::Source)),
        (None, Some(port)) => (Ports::Destination(port), write.map(Ports::Destination)),
        (None, None) => {
            let found = serde_json::to_value(key).unwrap_or_default();
            let expected = "source_port, destination_port, or both of a wide label";
            check.error(&format!("{field}.match"), found, expected);
            return None;
        }
    };
    let (matched, Some(written)) = one else {
        let expected = "the port that replaces the matched one";
        check.error(&format!("{field}.write.port"), serde_json::Value::Null, expected);
        return None;
    };
    Some((matched, written))
}

fn output(
    check: &mut Check,
    field: &str,
    document: &OutputDocument,
    names: &BTreeMap<&str, usize>,
) -> Option<Output> {
    let OutputDocument::Port(PortOutput { port, class }) = document else {
        return Some(Output::Agent);
    };
    let found = names.get(port.as_str());
    if found.is_none() {
        check.error(&format!("{field}.output.port"), port.as_str(), "the name of a port");
    }
    found.map(|index| Output::Port { port: *index, class: *class })
}

/// Packets must be addressed to the gateway and leave with its address: it is never an open relay.
fn addresses(
    check: &mut Check,
    field: &str,
    entry: &Entry,
    ports: &[Port],
    agents: &BTreeSet<IpAddr>,
) {
    let own = |address| ports.iter().any(|port| port.has(address));
    let agent = |address| own(address) || agents.contains(&address);
    let (what, address, known) = match entry.from {
        From::Agent => {
            let source = entry.key.source;
            ("source", source, agent(source))
        }
        From::Wan => {
            let destination = entry.key.destination;
            ("destination", destination, own(destination))
        }
    };
    if !known {
        let field = format!("{field}.match.{what}");
        check.error(&field, address.to_string(), "the address of one of the ports");
    }
    match entry.output {
        Output::Agent if entry.from == From::Agent => {
            check.error(&format!("{field}.output"), "agent", "a port, for packets from the agent");
        }
        Output::Agent if !agent(entry.write.destination) => {
            let found = entry.write.destination.to_string();
            let field = format!("{field}.write.destination");
            check.error(&field, found, "the address of one of the ports, for packets to the agent");
        }
        Output::Port { port, .. }
            if ports.get(port).is_some_and(|port| !port.has(entry.write.source)) =>
        {
            let field = format!("{field}.write.source");
            let found = entry.write.source.to_string();
            check.error(&field, found, "the address of the output port");
        }
        _ => {}
    }
}

/// On the WAN a port is a path label, at the agent its own port. A wide label is the same at both.
fn labels(check: &mut Check, field: &str, entry: &Entry, layout: wide::Layout) {
    let mut port = |field: String, port: u16, agent: bool| {
        if agent && !label::is_agent_port(port) {
            check.error(&field, port, "a port of an agent, 0xd00g, as the source and member are 0");
        } else if !agent && Label::parse(port).is_none() {
            check.error(&field, port, "a path label 0xdsmg of two different branches d and s");
        }
    };
    let (from_agent, to_agent) = (entry.from == From::Agent, entry.output == Output::Agent);
    match (entry.key.ports, entry.write.ports) {
        (Ports::Source(matched), Ports::Source(written)) => {
            port(format!("{field}.match.source_port"), matched, from_agent);
            port(format!("{field}.write.port"), written, to_agent);
        }
        (Ports::Destination(matched), Ports::Destination(written)) => {
            port(format!("{field}.match.destination_port"), matched, from_agent);
            port(format!("{field}.write.port"), written, to_agent);
        }
        (Ports::Both { source, destination }, _) => {
            if let Err(error) = wide::Label::parse(layout, source, destination) {
                let field = match error.field {
                    "source port" => format!("{field}.match.source_port"),
                    _ => format!("{field}.match.destination_port"),
                };
                let expected = format!("{}, as in a wide label", error.expected);
                check.error(&field, error.found, &expected);
            }
        }
        _ => {} // the places are the same
    }
}

#[cfg(test)]
pub(crate) mod tests;
