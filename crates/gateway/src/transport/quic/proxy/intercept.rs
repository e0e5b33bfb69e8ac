//! Interception (docs/design/tcp-proxy.md): nftables delivers connections to the gateway's sockets
//! with their addresses and ports kept (TPROXY), and a routing rule delivers marked packets
//! locally.
//!
//! The table keeps the name `hawser_lane` of earlier versions, so that an upgraded gateway replaces
//! what the previous one left behind.

use std::{fmt::Write as _, net::IpAddr, process::Child};

use hawser_netdev::routes::{self, Family, Routes};
use hawser_tunnel::config::{Class, Peer};
use hawser_wire::tunnel::OwnAddresses;

use crate::{
    config::{Config, TcpProxyDocument, classifier::Type},
    nft::{self, conditions, family_of, header, list, prefixes},
};

/// Packet mark for local delivery, and number of its routing table ("HL").
const MARK: u32 = 0x484c;

/// After the rules of local breakout: packets of an intercepted connection must not leave there.
const PRIORITY: &str = "mangle + 1";

/// Adds the routing rules, if the configuration needs them.
pub(crate) async fn set(routes: &Routes, config: &Config) -> Result<(), routes::Error> {
    for family in families(config) {
        routes.add_local_delivery(family, MARK).await?;
    }
    Ok(())
}

/// Removes what [`set`] and [`Intercept`] installed.
pub(crate) async fn remove(routes: &Routes, config: &Config) -> anyhow::Result<()> {
    if !config.document.transport.tcp_proxy.is_used() {
        return Ok(());
    }
    nft::run("table inet hawser_lane\ndelete table inet hawser_lane\n")?;
    for family in [Family::V4, Family::V6] {
        routes.remove_local_delivery(family, MARK).await?;
    }
    Ok(())
}

/// Address families that the proxy carries: IPv6 if peers have such prefixes.
fn families(config: &Config) -> Vec<Family> {
    let every = config.peers.iter().flat_map(|peer| &peer.prefixes);
    let v6 = every.map(family_of).find(|family| *family == Family::V6);
    let used = config.document.transport.tcp_proxy.is_used();
    [Family::V4].into_iter().chain(v6).filter(|_| used).collect()
}

/// Ports of the listening sockets; the second if the kernel has IPv6.
#[derive(Clone, Copy)]
pub(super) struct Ports {
    pub(super) v4: u16,
    pub(super) v6: Option<u16>,
}

/// The rules in force. They are replaced in the background while packets pass.
pub(super) struct Intercept {
    rules: String,
    running: Option<Child>,
}

impl Intercept {
    /// Installs the first rules, which shows whether the kernel supports them.
    pub(super) fn new(rules: String) -> anyhow::Result<Self> {
        nft::run(&rules)?;
        Ok(Self { rules, running: None })
    }

    /// Starts replacing the rules; returns whether these are in force already.
    pub(super) fn change(&mut self, rules: String) -> bool {
        if let Some(child) = &mut self.running {
            if matches!(child.try_wait(), Ok(None)) {
                return false;
            }
            if let Some(Err(error)) = self.running.take().map(nft::ended) {
                tracing::warn!(error = format!("{error:#}"), "rules of the TCP proxy");
            }
        }
        if rules == self.rules {
            return true;
        }
        match nft::start(&rules) {
            Ok(child) => (self.running, self.rules) = (Some(child), rules),
            Err(error) => tracing::warn!(error = format!("{error:#}"), "rules of the TCP proxy"),
        }
        false
    }
}

/// The nftables table, replacing an existing one. Connections to hosts of `peers` are intercepted,
/// except those to the gateways' own addresses and those of `full` clients.
pub(super) fn ruleset<'a>(
    config: &Config,
    ports: Ports,
    peers: &(impl Iterator<Item = (&'a Peer, OwnAddresses)> + Clone),
    full: &[IpAddr],
) -> String {
    let own = |of: fn(&OwnAddresses) -> Option<String>| {
        list(peers.clone().filter_map(|(_, own)| of(&own)))
    };
    let [mut chains, mut new] = [String::new(), String::new()];
    let v4 = (Family::V4, Some(ports.v4), own(|own| own.v4.map(|own| own.to_string())));
    let v6 = (Family::V6, ports.v6, own(|own| own.v6.map(|own| own.to_string())));
    let families = families(config);
    for (family, port, own) in [v4, v6] {
        let Some(port) = port.filter(|_| families.contains(&family)) else { continue };
        chains += &tproxy_chains(config, family, port);
        if let Some(peers) = prefixes(family, peers.clone().map(|(peer, _)| peer)) {
            let of_family = full.iter().filter(|client| client.is_ipv4() == (family == Family::V4));
            let full = list(of_family.map(ToString::to_string));
            new += &new_connections(config, family, &peers, (own, full));
        }
    }
    format!(
        "table inet hawser_lane\n\
         delete table inet hawser_lane\n\
         table inet hawser_lane {{\n\
         {chains}\
         \tchain divert {{\n\
         \t\ttype filter hook prerouting priority {PRIORITY};\n\
         \t\tmeta l4proto tcp socket transparent 1 meta mark set {MARK:#x} accept\n\
         {new}\
         \t}}\n\
         }}\n"
    )
}

/// Rule that selects new connections to hosts of peers.
fn new_connections(
    config: &Config,
    family: Family,
    peers: &str,
    (own, full): (Option<String>, Option<String>),
) -> String {
    let (ip, tun) = (header(family), &config.document.tun.name);
    let from = config.classifier.as_ref().map_or_else(
        || format!("iifname != {{ \"{tun}\", \"lo\" }}"),
        |classifier| format!("iifname \"{}\"", classifier.lan),
    );
    let own = own.map_or(String::new(), |own| format!("{ip} daddr != {own} "));
    let full = full.map_or(String::new(), |full| format!("{ip} saddr != {full} "));
    format!(
        "\t\t{from} {ip} daddr {peers} {own}{full}tcp flags & (fin | syn | rst | ack) == syn jump {ip}_types\n"
    )
}

/// Chains that select by traffic type, and intercept.
fn tproxy_chains(config: &Config, family: Family, port: u16) -> String {
    let (ip, types) = (header(family), type_rules(config, family));
    let loopback = match family {
        Family::V4 => "127.0.0.1",
        Family::V6 => "[::1]",
    };
    format!(
        "\tchain {ip}_take {{\n\
         \t\tmeta l4proto tcp tproxy {ip} to {loopback}:{port} meta mark set {MARK:#x} accept\n\
         \t}}\n\
         \tchain {ip}_types {{\n\
         {types}\
         \t}}\n"
    )
}

/// Rules that decide by traffic type.
fn type_rules(config: &Config, family: Family) -> String {
    let (tcp_proxy, ip) = (config.document.transport.tcp_proxy, header(family));
    let verdict =
        |kind| if takes(tcp_proxy, kind) { format!("goto {ip}_take") } else { "return".into() };
    let mut rules = String::new();
    let Some(classifier) = &config.classifier else {
        return format!("\t\t{}\n", verdict(Type::II));
    };
    for rule in &classifier.rules {
        if let Some(conditions) = conditions(family, rule) {
            let _ = writeln!(rules, "\t\t{conditions}{}", verdict(rule.kind));
        }
    }
    let _ = writeln!(rules, "\t\t{}", verdict(classifier.default));
    rules
}

fn takes(tcp_proxy: TcpProxyDocument, kind: Type) -> bool {
    match kind {
        Type::I => tcp_proxy.takes(Class::I),
        Type::II => tcp_proxy.takes(Class::II),
        Type::III => false,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::config::{parse, tests::sample};

    #[test]
    fn only_types_that_opt_in_are_intercepted() {
        let mut document = sample();
        let tls = json!({"certificate": "a", "key": "b", "ca": "c"});
        document["transport"] = json!({"kind": "quic", "tls": tls, "tcp_proxy": {"II": "tcp"}});
        document["classifier"] = json!({"lan": "lan", "default": "II", "rules": [
            {"name": "voice", "dscp": 46, "type": "I"},
            {"name": "web", "protocol": "tcp", "destination_ports": [80, 443], "type": "III"},
            {"name": "bulk", "source": "10.1.0.0/25", "type": "II"},
        ]});
        let config = parse(&document).unwrap();
        assert_eq!(
            type_rules(&config, Family::V4),
            "\t\tip dscp 46 return\n\
             \t\tmeta l4proto 6 th dport 80-443 return\n\
             \t\tip saddr 10.1.0.0/25 goto ip_take\n\
             \t\tgoto ip_take\n"
        );
        assert_eq!(
            type_rules(&config, Family::V6),
            "\t\tip6 dscp 46 return\n\t\tmeta l4proto 6 th dport 80-443 return\n\t\tgoto ip6_take\n"
        );
    }

    #[test]
    fn each_family_has_its_rules() {
        let mut document = sample();
        document["peers"][0]["prefixes"] = json!(["10.2.0.0/24", "2001:db8:2::/64"]);
        let tls = json!({"certificate": "a", "key": "b", "ca": "c"});
        document["transport"] = json!({"kind": "quic", "tls": tls, "tcp_proxy": {"II": "tcp"}});
        document["classifier"] = json!({"lan": "lan", "default": "II", "rules": []});
        let config = parse(&document).unwrap();
        let own = OwnAddresses { v4: "10.2.0.1".parse().ok(), v6: None };
        let peers = [(&config.peers[0], own)];
        let both = Ports { v4: 5000, v6: Some(5001) };
        let text = ruleset(&config, both, &peers.into_iter(), &[]);
        let v4 = "iifname \"lan\" ip daddr { 10.2.0.0/24 } ip daddr != { 10.2.0.1 } tcp flags";
        let v6 = "iifname \"lan\" ip6 daddr { 2001:db8:2::/64 } tcp flags";
        assert!(text.contains(v4) && text.contains(v6), "{text}");
        assert!(text.contains("tproxy ip6 to [::1]:5001"), "{text}");
        let full = [[10, 1, 0, 9].into(), "2001:db8:1::9".parse().unwrap()];
        let text = ruleset(&config, both, &peers.into_iter(), &full);
        let v4 = "ip daddr != { 10.2.0.1 } ip saddr != { 10.1.0.9 } tcp flags";
        assert!(text.contains(v4) && text.contains("ip6 saddr != { 2001:db8:1::9 } tcp"), "{text}");
        let without = ruleset(&config, Ports { v4: 5000, v6: None }, &peers.into_iter(), &[]);
        assert!(!without.contains("ip6"), "{without}");
        assert!(
            !ruleset(&config, both, &[].into_iter(), &[]).contains("jump"),
            "no peer takes part"
        );
    }
}
