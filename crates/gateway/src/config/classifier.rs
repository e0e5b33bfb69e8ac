//! The `classifier` section: which LAN traffic is of Type I, II or III.

use std::net::IpAddr;

use hawser_wire::ipv4::protocol;
use ipnet::IpNet;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::check::{Check, INTERFACE};

/// Classifies LAN traffic. Type I is urgent and Type II other traffic between branches; Type III is
/// everything else, and leaves through NAT at a WAN port of type `internet`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct ClassifierDocument {
    /// LAN interface.
    #[schemars(regex(pattern = INTERFACE))]
    pub(crate) lan: String,
    /// In order; the first match decides. Types I and II apply only to destinations behind peers.
    #[serde(default)]
    #[schemars(length(max = 256))]
    pub(crate) rules: Vec<RuleDocument>,
    /// Type of traffic to peers that no rule matches.
    #[serde(default = "default_type")]
    #[schemars(extend("enum" = ["II", "III"]))]
    pub(crate) default: Type,
    /// WAN interfaces where Type III leaves, by the default routes that they have in the main table,
    /// whichever these are. With a switch, its ports of type `internet` are meant.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 16), inner(regex(pattern = INTERFACE)))]
    pub(crate) internet: Vec<String>,
}

fn default_type() -> Type {
    Type::II
}

/// A type of traffic, in descending priority.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(inline)]
#[allow(clippy::upper_case_acronyms)] // numerals
pub(crate) enum Type {
    I,
    II,
    III,
}

/// One rule. Null matches everything.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct RuleDocument {
    /// Its name.
    #[schemars(length(min = 1, max = 127))]
    pub(crate) name: String,
    /// Source prefix.
    #[serde(default)]
    pub(crate) source: Option<String>,
    /// Destination prefix.
    #[serde(default)]
    pub(crate) destination: Option<String>,
    /// Protocol: `tcp`, `udp`, `icmp` or a number.
    #[serde(default)]
    pub(crate) protocol: Option<ProtocolDocument>,
    /// First and last source port; TCP and UDP only.
    #[serde(default)]
    pub(crate) source_ports: Option<[u16; 2]>,
    /// First and last destination port; TCP and UDP only.
    #[serde(default)]
    pub(crate) destination_ports: Option<[u16; 2]>,
    /// Differentiated services code point.
    #[serde(default)]
    #[schemars(range(max = 63))]
    pub(crate) dscp: Option<u8>,
    /// Type of matching traffic.
    #[serde(rename = "type")]
    pub(crate) kind: Type,
}

/// A protocol by name or number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(untagged)]
#[schemars(inline)]
pub(crate) enum ProtocolDocument {
    Name(ProtocolName),
    Number(u8),
}

/// A protocol by name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
#[schemars(inline)]
pub(crate) enum ProtocolName {
    Tcp,
    Udp,
    Icmp,
}

impl ProtocolDocument {
    fn number(self) -> u8 {
        match self {
            Self::Name(ProtocolName::Tcp) => protocol::TCP,
            Self::Name(ProtocolName::Udp) => protocol::UDP,
            Self::Name(ProtocolName::Icmp) => protocol::ICMP,
            Self::Number(number) => number,
        }
    }
}

/// A validated classifier.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Classifier {
    pub(crate) lan: String,
    pub(crate) rules: Vec<Rule>,
    pub(crate) default: Type,
    pub(crate) internet: Vec<String>,
}

/// One rule.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Rule {
    pub(crate) source: Option<IpNet>,
    pub(crate) destination: Option<IpNet>,
    pub(crate) protocol: Option<u8>,
    pub(crate) source_ports: Option<[u16; 2]>,
    pub(crate) destination_ports: Option<[u16; 2]>,
    pub(crate) dscp: Option<u8>,
    pub(crate) kind: Type,
}

impl Rule {
    /// Whether it matches on ports.
    pub(crate) fn wants_ports(&self) -> bool {
        self.source_ports.is_some() || self.destination_ports.is_some()
    }
}

impl Classifier {
    /// Type of a packet to a peer. `ports` are source and destination port, for TCP and UDP.
    pub(crate) fn classify(
        &self,
        (source, destination): (IpAddr, IpAddr),
        protocol: u8,
        ports: Option<(u16, u16)>,
        dscp: u8,
    ) -> Type {
        let within = |range: Option<[u16; 2]>, port: Option<u16>| {
            range.is_none_or(|[low, high]| port.is_some_and(|port| (low..=high).contains(&port)))
        };
        let matches = |rule: &&Rule| {
            rule.source.is_none_or(|net| net.contains(&source))
                && rule.destination.is_none_or(|net| net.contains(&destination))
                && rule.protocol.is_none_or(|wanted| wanted == protocol)
                && within(rule.source_ports, ports.map(|(source, _)| source))
                && within(rule.destination_ports, ports.map(|(_, destination)| destination))
                && rule.dscp.is_none_or(|wanted| wanted == dscp)
        };
        self.rules.iter().find(matches).map_or(self.default, |rule| rule.kind)
    }
}

/// Validates the section, field by field.
pub(super) fn check(
    check: &mut Check,
    document: &ClassifierDocument,
    has_switch: bool,
) -> Classifier {
    let rules = document.rules.iter().enumerate().map(|(i, rule)| parse(check, i, rule)).collect();
    let internet = document.internet.clone();
    if has_switch && !internet.is_empty() {
        let expected = "nothing with a switch, whose ports have types";
        check.error("classifier.internet", internet.clone(), expected);
    }
    Classifier { lan: document.lan.clone(), rules, default: document.default, internet }
}

fn parse(check: &mut Check, i: usize, document: &RuleDocument) -> Rule {
    let field = format!("classifier.rules[{i}]");
    let mut net = |what: &str, text: &Option<String>| {
        let text = text.as_deref()?;
        check.network(&format!("{field}.{what}"), text)
    };
    let (source, destination) =
        (net("source", &document.source), net("destination", &document.destination));
    if let (Some(from), Some(to)) = (source, destination)
        && from.addr().is_ipv4() != to.addr().is_ipv4()
    {
        let field = format!("{field}.destination");
        check.error(&field, to.to_string(), "a prefix of the same family as `source`");
    }
    let rule = Rule {
        source,
        destination,
        protocol: document.protocol.map(ProtocolDocument::number),
        source_ports: document.source_ports,
        destination_ports: document.destination_ports,
        dscp: document.dscp,
        kind: document.kind,
    };
    ports(check, &field, &rule);
    rule
}

fn ports(check: &mut Check, field: &str, rule: &Rule) {
    for (what, range) in
        [("source_ports", rule.source_ports), ("destination_ports", rule.destination_ports)]
    {
        if let Some([low, high]) = range
            && low > high
        {
            let found = serde_json::json!([low, high]);
            check.error(&format!("{field}.{what}"), found, "the lower port first");
        }
    }
    let with_ports = [None, Some(protocol::TCP), Some(protocol::UDP)];
    if rule.wants_ports() && !with_ports.contains(&rule.protocol) {
        let field = format!("{field}.protocol");
        check.error(&field, rule.protocol.unwrap_or(0), "tcp, udp or null, since ports are given");
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::super::{
        parse,
        tests::{fields, sample},
    };
    use super::*;

    fn with(rules: &Value) -> Value {
        let mut document = sample();
        document["classifier"] = json!({"lan": "lan", "rules": rules, "default": "II"});
        document
    }

    fn classifier(rules: &Value) -> Classifier {
        parse(&with(rules)).unwrap().classifier.unwrap()
    }

    #[test]
    fn the_first_rule_that_matches_decides() {
        let classifier = classifier(&json!([
            {"name": "voice", "dscp": 46, "type": "I"},
            {"name": "web", "protocol": "tcp", "destination_ports": [80, 443], "type": "III"},
            {"name": "office", "source": "10.1.0.0/25", "type": "I"},
        ]));
        let of = |source: [u8; 4], protocol, port, dscp| {
            let pair = (IpAddr::from(source), IpAddr::from([10, 2, 0, 1]));
            classifier.classify(pair, protocol, port, dscp)
        };
        assert_eq!(of([10, 1, 0, 200], 6, Some((5, 443)), 46), Type::I);
        assert_eq!(of([10, 1, 0, 1], 6, Some((5, 443)), 0), Type::III);
        assert_eq!(of([10, 1, 0, 1], 6, Some((5, 444)), 0), Type::I);
        assert_eq!(of([10, 1, 0, 200], 6, None, 0), Type::II);
        assert_eq!(of([10, 1, 0, 200], 17, Some((5, 443)), 0), Type::II);
    }

    #[test]
    fn every_error_names_its_field() {
        let cases = [
            (json!({"name": "", "type": "I"}), "name"),
            (json!({"name": "r", "type": "IV"}), "type"),
            (json!({"name": "r", "type": "I", "source": "10.0.0.1/8"}), "source"),
            (json!({"name": "r", "type": "I", "protocol": "sctp"}), "protocol"),
            (json!({"name": "r", "type": "I", "protocol": 300}), "protocol"),
            (json!({"name": "r", "type": "I", "dscp": 64}), "dscp"),
            (json!({"name": "r", "type": "I", "source_ports": [2, 1]}), "source_ports"),
            (json!({"name": "r", "type": "I", "source_ports": [2]}), "source_ports"),
            (
                json!({"name": "r", "type": "I", "protocol": "icmp", "source_ports": [1, 2]}),
                "protocol",
            ),
            (
                json!({"name": "r", "type": "I", "source": "10.0.0.0/8", "destination": "::/0"}),
                "destination",
            ),
        ];
        for (rule, field) in cases {
            let seen = fields(&with(&json!([rule])));
            assert_eq!(seen, [format!("classifier.rules[0].{field}")], "{rule}");
        }
        let mut document = with(&json!([]));
        document["classifier"]["default"] = "I".into();
        assert_eq!(fields(&document), ["classifier.default"]);
    }
}
