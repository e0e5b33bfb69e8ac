//! Rules of the routing policy database (`ip-rule(8)`), through netlink.

use std::net::IpAddr;

use ipnet::IpNet;
use rtnetlink::packet_route::{
    AddressFamily,
    rule::{RuleAction, RuleAttribute, RuleHeader, RuleMessage, RulePortRange},
};

use crate::routes::{Error, Family, Routes, exists, ignore_missing};

/// Selector and priority of a rule. A `None` matches everything.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rule {
    /// IP version.
    pub family: Family,
    /// Priority; lower ones are evaluated first.
    pub priority: u32,
    /// Source prefix.
    pub source: Option<IpNet>,
    /// Destination prefix.
    pub destination: Option<IpNet>,
    /// Incoming interface.
    pub incoming: Option<String>,
    /// IP protocol number.
    pub protocol: Option<u8>,
    /// First and last source port.
    pub source_ports: Option<(u16, u16)>,
    /// First and last destination port.
    pub destination_ports: Option<(u16, u16)>,
}

/// Action of a rule.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    /// Look the packet up in this routing table.
    Lookup(u32),
    /// Drop the packet.
    Blackhole,
}

impl Routes {
    /// Adds a rule after others of the same priority, unless it exists.
    pub async fn add_rule(&self, rule: &Rule, action: Action) -> Result<(), Error> {
        let mut request = self.handle().rule().add();
        *request.message_mut() = message(rule, action);
        match request.execute().await {
            Err(rtnetlink::Error::NetlinkError(message)) if exists(message.raw_code()) => Ok(()),
            result => result.map_err(|source| failed(rule, source)),
        }
    }

    /// Removes a rule, if it exists.
    pub async fn remove_rule(&self, rule: &Rule, action: Action) -> Result<(), Error> {
        let done = self.handle().rule().del(message(rule, action)).execute().await;
        ignore_missing(done).map_err(|source| failed(rule, source))
    }
}

fn failed(rule: &Rule, source: rtnetlink::Error) -> Error {
    Error::new(format!("rule with priority {}", rule.priority), source)
}

fn message(rule: &Rule, action: Action) -> RuleMessage {
    let family = match rule.family {
        Family::V4 => AddressFamily::Inet,
        Family::V6 => AddressFamily::Inet6,
    };
    let length = |prefix: Option<IpNet>| prefix.map_or(0, |prefix| prefix.prefix_len());
    let mut message = RuleMessage::default();
    message.header = RuleHeader {
        family,
        src_len: length(rule.source),
        dst_len: length(rule.destination),
        action: match action {
            Action::Lookup(_) => RuleAction::ToTable,
            Action::Blackhole => RuleAction::Blackhole,
        },
        ..RuleHeader::default()
    };
    let address = |prefix: Option<IpNet>| prefix.map(|prefix| -> IpAddr { prefix.network() });
    let ports = |range: Option<(u16, u16)>| range.map(|(start, end)| RulePortRange { start, end });
    let table = match action {
        Action::Lookup(table) => Some(table),
        Action::Blackhole => None,
    };
    message.attributes.push(RuleAttribute::Priority(rule.priority));
    message.attributes.extend(
        [
            address(rule.source).map(RuleAttribute::Source),
            address(rule.destination).map(RuleAttribute::Destination),
            rule.incoming.clone().map(RuleAttribute::Iifname),
            rule.protocol.map(|protocol| RuleAttribute::IpProtocol(protocol.into())),
            ports(rule.source_ports).map(RuleAttribute::SourcePortRange),
            ports(rule.destination_ports).map(RuleAttribute::DestinationPortRange),
            table.map(RuleAttribute::Table),
        ]
        .into_iter()
        .flatten(),
    );
    message
}
