//! Rules of the WAN filter.

use std::{collections::BTreeSet, fmt::Write as _, net::IpAddr};

use hawser_tunnel::Service;
use hawser_wire::{
    ipv4::protocol::{TCP, UDP},
    label::{self, wide::Layout},
};

use crate::{
    config::{Config, Kind, wan::Wan},
    nft::list,
};

/// Name of both tables.
pub(super) const TABLE: &str = "hawser_wan";

/// After connection tracking (-200), before the classifier's marks (-150).
const PRIORITY: &str = "mangle - 10";

/// Ethernet types that pass: IP, ARP, `PPPoE` discovery and sessions (RFC 2516), and port authentication
/// (IEEE 802.1X).
const ETHERNET_TYPES: &str = "{ ip, ip6, arp, 0x8863, 0x8864, 0x888e }";

/// What counters' names begin with, since some causes are words of nftables.
pub(super) const COUNTER: &str = "dropped_";

/// Counters in each table, as [`super::WanDrops`] names them.
const FRAME_CAUSES: [&str; 2] = ["vlan", "ethernet_type"];
const PACKET_CAUSES: [&str; 8] = [
    "spoofed",
    "multicast",
    "not_local",
    "other_label_bits",
    "invalid",
    "closed_service",
    "icmp",
    "protocol",
];

/// What removes a table, whether it exists or not.
pub(super) fn removed(family: &str) -> String {
    format!("table {family} {TABLE}\ndelete table {family} {TABLE}\n")
}

/// Both tables, replacing existing ones. `present` are the WAN interfaces that exist.
pub(super) fn ruleset(config: &Config, wan: &Wan, present: &BTreeSet<&str>) -> String {
    let tunnels = Tunnels::of(config);
    let mut text = removed("netdev") + &removed("inet");
    frames(&mut text, wan, present);
    packets(&mut text, config, wan, &tunnels);
    text
}

fn names<'a>(names: impl Iterator<Item = &'a str>) -> Option<String> {
    list(names.map(|name| format!("\"{name}\"")))
}

fn counters(text: &mut String, causes: &[&str]) {
    for cause in causes {
        let _ = writeln!(text, "\tcounter {COUNTER}{cause} {{\n\t}}");
    }
}

/// What is not IP, and frames of VLANs. A frame of VLAN 0 has a priority only, and is treated as one
/// without a tag (IEEE 802.1Q section 9.6).
fn frames(text: &mut String, wan: &Wan, present: &BTreeSet<&str>) {
    let _ = writeln!(text, "table netdev {TABLE} {{");
    counters(text, &FRAME_CAUSES);
    if let Some(devices) = names(present.iter().copied()) {
        let vlans = list(wan.vlans.iter().map(ToString::to_string));
        let vlans = vlans.map_or(String::new(), |vlans| format!("\t\tvlan id {vlans} accept\n"));
        let _ = write!(
            text,
            "\tchain frames {{\n\
             \t\ttype filter hook ingress devices = {devices} priority -500;\n\
             {vlans}\
             \t\tether type 8021ad counter name dropped_vlan drop\n\
             \t\tvlan id != 0 counter name dropped_vlan drop\n\
             \t\tmeta protocol != {ETHERNET_TYPES} counter name dropped_ethernet_type drop\n\
             \t}}\n"
        );
    }
    text.push_str("}\n");
}

/// IP packets. Those of tunnels are not tracked: that would cost each of them more, and a flood of
/// forged ones would fill the table of connections.
fn packets(text: &mut String, config: &Config, wan: &Wan, tunnels: &Tunnels) {
    let interfaces = names(wan.interfaces.iter().map(String::as_str)).unwrap_or_default();
    let (mut arriving, mut leaving) = (String::new(), String::new());
    if let Some((protocol, ports)) = tunnels.ports() {
        let _ = writeln!(arriving, "\t\tiifname {interfaces} {protocol} dport {ports} notrack");
        let _ = writeln!(leaving, "\t\toifname {interfaces} {protocol} sport {ports} notrack");
    }
    let _ = writeln!(text, "table inet {TABLE} {{");
    counters(text, &PACKET_CAUSES);
    let _ = write!(
        text,
        "\tchain untracked_arriving {{\n\
         \t\ttype filter hook prerouting priority raw;\n\
         {arriving}\
         \t}}\n\
         \tchain untracked_leaving {{\n\
         \t\ttype filter hook output priority raw;\n\
         {leaving}\
         \t}}\n\
         \tchain arriving {{\n\
         \t\ttype filter hook prerouting priority {PRIORITY};\n\
         \t\tiifname {interfaces} jump check\n\
         \t}}\n\
         \tchain check {{\n"
    );
    tunnels.accept(text);
    spoofed(text, config);
    text.push_str(ASKED_FOR);
    services(text, wan);
    tunnels.misdirected(text);
    text.push_str(DROPPED);
    text.push_str("\t}\n}\n");
}

/// Packets of the gateway's own tunnels.
enum Tunnels {
    /// UDP.
    Quic {
        /// Ports on which peers connect.
        ports: String,
        /// Ports that these would be in the other layout of path labels.
        other: String,
    },
    /// TCP ports on which peers connect.
    Mptcp(BTreeSet<u16>),
    /// Peers' addresses.
    Ipip(BTreeSet<IpAddr>),
}

impl Tunnels {
    fn of(config: &Config) -> Self {
        let id = config.document.id;
        let transport = &config.document.transport;
        match transport.kind {
            Kind::Quic => {
                let ports = |layout: Layout| {
                    let [first, last] =
                        [0, layout.group_max()].map(|group| layout.listener_port(id, group));
                    format!("{first}-{last}")
                };
                let others = Layout::ALL.into_iter().filter(|each| *each != transport.labels());
                let other = others.filter(|each| id <= each.branch_max()).map(ports).collect();
                Self::Quic { ports: ports(transport.labels()), other }
            }
            Kind::Mptcp => {
                let connecting = config.peers.iter().filter(|peer| peer.id < id);
                let groups = connecting.flat_map(|peer| &peer.groups);
                Self::Mptcp(groups.map(|group| label::agent_port(id, group.id)).collect())
            }
            Kind::Ipip => {
                let remote = config.ends.iter().filter_map(|end| end.fixed().remote);
                Self::Ipip(remote.collect())
            }
        }
    }

    /// Protocol and ports of this end, where it has ports of its own.
    fn ports(&self) -> Option<(&'static str, String)> {
        match self {
            Self::Quic { ports, .. } => Some(("udp", ports.clone())),
            Self::Mptcp(ports) => {
                list(ports.iter().map(ToString::to_string)).map(|ports| ("tcp", ports))
            }
            Self::Ipip(_) => None,
        }
    }

    fn accept(&self, text: &mut String) {
        if let Some((protocol, ports)) = self.ports() {
            let _ = writeln!(text, "\t\tfib daddr type local {protocol} dport {ports} accept");
        }
        let Self::Ipip(remote) = self else { return };
        for (ip, v4) in [("ip", true), ("ip6", false)] {
            let peers = remote.iter().filter(|address| address.is_ipv4() == v4);
            if let Some(peers) = list(peers.map(ToString::to_string)) {
                let _ = writeln!(
                    text,
                    "\t\tfib daddr type local {ip} saddr {peers} meta l4proto {{ 4, 41 }} accept"
                );
            }
        }
    }

    /// Counts what comes to a port of the other layout. Branch 0, whose ports are in both, never listens.
    fn misdirected(&self, text: &mut String) {
        if let Self::Quic { other, .. } = self
            && !other.is_empty()
        {
            let _ = writeln!(
                text,
                "\t\tfib daddr type local udp dport {other} counter name dropped_other_label_bits drop"
            );
        }
    }
}

/// Sources that cannot be at a WAN interface: the gateway's own, and hosts of its LAN. Connections that
/// these have with the gateway are known, so that forged packets would seem to belong to them.
fn spoofed(text: &mut String, config: &Config) {
    text.push_str("\t\tfib saddr type local counter name dropped_spoofed drop\n");
    if let Some(classifier) = &config.classifier {
        let lan = &classifier.lan;
        let _ = writeln!(text, "\t\tfib saddr oifname \"{lan}\" counter name dropped_spoofed drop");
    }
}

/// Answers, and what configures the interface itself. Errors about tunnels belong to no tracked
/// connection; the kernel compares the packets that they quote with its sockets. A redirect (RFC 1122
/// section 3.2.2.2) would count as an answer.
const ASKED_FOR: &str = "\
\t\ticmp type redirect counter name dropped_icmp drop
\t\ticmpv6 type nd-redirect counter name dropped_icmp drop
\t\tct state established,related accept
\t\tfib daddr type local icmp type { destination-unreachable, time-exceeded, parameter-problem } accept
\t\tfib daddr type local icmpv6 type { destination-unreachable, packet-too-big, time-exceeded, parameter-problem } accept
\t\ticmpv6 type { nd-router-advert, nd-neighbor-solicit, nd-neighbor-advert } ip6 hoplimit 255 accept
\t\ticmpv6 type mld-listener-query ip6 saddr fe80::/10 accept
\t\tudp sport 67 udp dport 68 accept
\t\tip6 saddr fe80::/10 udp sport 547 udp dport 546 accept
";

/// The rest, by cause.
const DROPPED: &str = "\
\t\tfib daddr type { broadcast, multicast, anycast } counter name dropped_multicast drop
\t\tfib daddr type != local counter name dropped_not_local drop
\t\tct state invalid counter name dropped_invalid drop
\t\tmeta l4proto { tcp, udp } counter name dropped_closed_service drop
\t\tmeta l4proto { icmp, ipv6-icmp } counter name dropped_icmp drop
\t\tcounter name dropped_protocol drop
";

fn services(text: &mut String, wan: &Wan) {
    for service in &wan.services {
        let wanted = match *service {
            Service::Any => String::new(),
            Service::Protocol(protocol, None) => format!("meta l4proto {protocol} "),
            Service::Protocol(protocol, Some(port)) => {
                debug_assert!(matches!(protocol, TCP | UDP));
                format!("meta l4proto {protocol} th dport {port} ")
            }
        };
        let _ = writeln!(text, "\t\tfib daddr type local {wanted}accept");
    }
    if wan.echo {
        for echo in ["icmp type", "icmpv6 type"] {
            let _ = writeln!(text, "\t\tfib daddr type local {echo} echo-request accept");
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::config::{parse, tests::sample};

    fn rules(document: &Value) -> String {
        let config = parse(document).unwrap();
        ruleset(&config, config.wan.as_ref().unwrap(), &BTreeSet::from(["wan0"]))
    }

    fn filtered(transport: Value) -> Value {
        let mut document = sample();
        document["transport"] = transport;
        document["wan"] = json!({"interfaces": ["wan0", "ppp0"]});
        document
    }

    #[test]
    fn tunnels_pass_by_their_ports_or_peers() {
        let tls = json!({"certificate": "a", "key": "b", "ca": "c"});
        let mut document = filtered(json!({"kind": "quic", "tls": tls}));
        let text = rules(&document);
        assert!(text.contains("local udp dport 4160-4223 accept\n"), "{text}");
        assert!(text.contains("{ \"ppp0\", \"wan0\" } udp sport 4160-4223 notrack\n"), "{text}");
        let other = "local udp dport 4128-4159 counter name dropped_other_label_bits drop\n";
        assert!(text.contains(other), "{text}");
        document["transport"]["label_bits"] = json!(5);
        let text = rules(&document);
        assert!(text.contains("local udp dport 4128-4159 accept\n"), "{text}");
        let other = "local udp dport 4160-4223 counter name dropped_other_label_bits drop\n";
        assert!(text.contains(other), "{text}");
        document["id"] = json!(960);
        let text = rules(&document);
        assert!(text.contains("local udp dport 34816-34847 accept\n"), "{text}");
        assert!(!text.contains("other_label_bits drop"), "6 bits have no such branch: {text}");
        document["id"] = json!(1);
        document["transport"] = json!({"kind": "mptcp", "tls": tls});
        let text = rules(&document);
        assert!(!text.contains("notrack"), "the peer does not connect: {text}");
        document["id"] = json!(3);
        let text = rules(&document);
        assert!(text.contains("local tcp dport { 12288 } accept\n"), "{text}");
        let text = rules(&filtered(json!({"kind": "ipip", "insecure": true})));
        let accepted = "local ip saddr { 198.18.0.10 } meta l4proto { 4, 41 } accept\n";
        assert!(text.contains(accepted) && !text.contains("ip6 saddr {"), "{text}");
    }

    #[test]
    fn only_interfaces_that_exist_have_a_hook() {
        let mut document = filtered(json!({"kind": "ipip", "insecure": true}));
        document["wan"]["vlans"] = json!([7, 9]);
        let text = rules(&document);
        assert!(text.contains("hook ingress devices = { \"wan0\" } priority"), "{text}");
        assert!(text.contains("\t\tvlan id { 7, 9 } accept\n"), "{text}");
        let config = parse(&document).unwrap();
        let none = ruleset(&config, config.wan.as_ref().unwrap(), &BTreeSet::new());
        assert!(!none.contains("ingress"), "{none}");
    }

    #[test]
    fn services_are_opened_before_the_rest_is_dropped() {
        let mut document = filtered(json!({"kind": "ipip", "insecure": true}));
        document["classifier"] = json!({"lan": "lan"});
        document["wan"]["echo"] = json!(true);
        document["wan"]["services"] =
            json!([{"protocol": "tcp", "port": 22}, {"protocol": "udp"}, {"protocol": "any"}]);
        let text = rules(&document);
        for rule in [
            "local meta l4proto 6 th dport 22 accept\n",
            "local meta l4proto 17 accept\n",
            "local accept\n",
            "local icmp type echo-request accept\n",
            "fib saddr oifname \"lan\" counter name dropped_spoofed drop\n",
        ] {
            let at = text.find(rule).unwrap_or_else(|| panic!("{rule} is missing: {text}"));
            assert!(at < text.find("counter name dropped_closed_service").unwrap());
        }
    }
}
