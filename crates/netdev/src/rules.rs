//! Rules of the kernel's routing policy (`ip rule`), through netlink.

use std::net::IpAddr;

use ipnet::IpNet;
use rtnetlink::packet_route::{
    AddressFamily,
    rule::{RuleAction, RuleAttribute, RuleHeader, RuleMessage, RulePortRange},
};

use crate::routes::{Error, Family, Routes, is_there, unless_gone};

/// Which packets a rule is for, and its place among others. What is left out matches all.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rule {
    /// Version of IP.
    pub family: Family,
    /// Lower ones come first.
    pub priority: u32,
    /// Where packets come from.
    pub source: Option<IpNet>,
    /// Where they go.
    pub destination: Option<IpNet>,
    /// Interface they come in by.
    pub incoming: Option<String>,
    /// Protocol number.
    pub protocol: Option<u8>,
    /// First and last source port.
    pub source_ports: Option<(u16, u16)>,
    /// First and last destination port.
    pub destination_ports: Option<(u16, u16)>,
}

/// What a rule does with its packets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    /// They are routed by this table.
    Lookup(u32),
    /// They are dropped.
    Blackhole,
}

impl Routes {
    /// Adds a rule, unless it is there. It comes behind others of its priority.
    pub async fn add_rule(&self, rule: &Rule, action: Action) -> Result<(), Error> {
        let mut request = self.handle().rule().add();
        *request.message_mut() = message(rule, action);
        match request.execute().await {
            Err(rtnetlink::Error::NetlinkError(message)) if is_there(message.raw_code()) => Ok(()),
            result => result.map_err(|source| failed(rule, source)),
        }
    }

    /// Removes a rule, if it is there.
    pub async fn remove_rule(&self, rule: &Rule, action: Action) -> Result<(), Error> {
        let done = self.handle().rule().del(message(rule, action)).execute().await;
        unless_gone(done).map_err(|source| failed(rule, source))
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
