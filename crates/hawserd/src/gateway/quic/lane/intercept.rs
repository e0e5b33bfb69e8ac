//! How connections come to the gateway: nftables leads their packets to its sockets, addresses and ports
//! kept (TPROXY), and a routing rule takes in what nftables has marked (docs/adr/0135).

use std::{fmt::Write as _, net::Ipv4Addr, process::Child};

use hawser_netdev::routes::{self, Routes};

use crate::gateway::{
    config::{self, Class, Config, LaneDocument, classifier::Type},
    nft::{self, conditions, list, prefixes},
};

/// Mark of packets that are for our sockets, and number of their routing table ("HL").
const MARK: u32 = 0x484c;

/// Behind the rules of local breakout: what belongs to a connection of ours does not leave there.
const PRIORITY: &str = "mangle + 1";

/// Takes in what is marked, where the configuration needs it.
pub(in crate::gateway) async fn set(routes: &Routes, config: &Config) -> Result<(), routes::Error> {
    if config.document.transport.lane.is_used() { routes.keep_marked(MARK).await } else { Ok(()) }
}

/// Takes away what [`set`] and [`Intercept`] made.
pub(in crate::gateway) async fn remove(routes: &Routes, config: &Config) -> anyhow::Result<()> {
    if config.document.transport.lane.is_used() {
        nft::run("table inet hawser_lane\ndelete table inet hawser_lane\n")?;
        routes.forget_kept(MARK).await?;
    }
    Ok(())
}

/// The rules in force. They change while packets pass: nobody waits for that.
pub(super) struct Intercept {
    rules: String,
    running: Option<Child>,
}

impl Intercept {
    /// Puts the first rules in force, and so finds out whether the kernel has what they need.
    pub(super) fn new(rules: String) -> anyhow::Result<Self> {
        nft::run(&rules)?;
        Ok(Self { rules, running: None })
    }

    /// Begins to put these rules in force; whether that is so already.
    pub(super) fn change(&mut self, rules: String) -> bool {
        if let Some(child) = &mut self.running {
            if matches!(child.try_wait(), Ok(None)) {
                return false;
            }
            if let Some(Err(error)) = self.running.take().map(nft::ended) {
                tracing::warn!(error = format!("{error:#}"), "rules of the TCP lane");
            }
        }
        if rules == self.rules {
            return true;
        }
        match nft::start(&rules) {
            Ok(child) => (self.running, self.rules) = (Some(child), rules),
            Err(error) => tracing::warn!(error = format!("{error:#}"), "rules of the TCP lane"),
        }
        false
    }
}

/// The table, in the place of one there may be. Connections to `peers` are led to the port, but for those
/// to the gateways' own addresses, which are beside them.
pub(super) fn ruleset<'a>(
    config: &Config,
    port: u16,
    peers: impl Iterator<Item = (&'a config::Peer, Ipv4Addr)> + Clone,
) -> String {
    let tun = &config.document.tun.name;
    let from = config.classifier.as_ref().map_or_else(
        || format!("iifname != {{ \"{tun}\", \"lo\" }}"),
        |classifier| format!("iifname \"{}\"", classifier.lan),
    );
    let own = list(
        peers
            .clone()
            .map(|(_, own)| own)
            .filter(|own| !own.is_unspecified())
            .map(|own| own.to_string()),
    );
    let own = own.map_or(String::new(), |own| format!("ip daddr != {own} "));
    let new = prefixes(peers.map(|(peer, _)| peer)).map_or(String::new(), |peers| {
        format!(
            "\t\t{from} ip daddr {peers} {own}tcp flags & (fin | syn | rst | ack) == syn jump types\n"
        )
    });
    let types = types(config);
    format!(
        "table inet hawser_lane\n\
         delete table inet hawser_lane\n\
         table inet hawser_lane {{\n\
         \tchain take {{\n\
         \t\tmeta l4proto tcp tproxy ip to 127.0.0.1:{port} meta mark set {MARK:#x} accept\n\
         \t}}\n\
         \tchain types {{\n\
         {types}\
         \t}}\n\
         \tchain divert {{\n\
         \t\ttype filter hook prerouting priority {PRIORITY};\n\
         \t\tmeta nfproto ipv4 meta l4proto tcp socket transparent 1 meta mark set {MARK:#x} accept\n\
         {new}\
         \t}}\n\
         }}\n"
    )
}

/// Which types of traffic are taken.
fn types(config: &Config) -> String {
    let lane = config.document.transport.lane;
    let mut rules = String::new();
    let Some(classifier) = &config.classifier else {
        return format!("\t\t{}\n", verdict(lane, Type::II));
    };
    for rule in &classifier.rules {
        if let Some(conditions) = conditions(rule) {
            let _ = writeln!(rules, "\t\t{conditions}{}", verdict(lane, rule.kind));
        }
    }
    let _ = writeln!(rules, "\t\t{}", verdict(lane, classifier.default));
    rules
}

fn verdict(lane: LaneDocument, kind: Type) -> &'static str {
    let takes = match kind {
        Type::I => lane.takes(Class::I),
        Type::II => lane.takes(Class::II),
        Type::III => false,
    };
    if takes { "goto take" } else { "return" }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::gateway::config::{parse, tests::sample};

    #[test]
    fn only_types_that_opt_in_are_taken() {
        let mut document = sample();
        let tls = json!({"certificate": "a", "key": "b", "ca": "c"});
        document["transport"] = json!({"kind": "quic", "tls": tls, "lane": {"II": "tcp"}});
        document["classifier"] = json!({"lan": "lan", "default": "II", "rules": [
            {"name": "voice", "dscp": 46, "type": "I"},
            {"name": "web", "protocol": "tcp", "destination_ports": [80, 443], "type": "III"},
            {"name": "bulk", "source": "10.1.0.0/25", "type": "II"},
        ]});
        let config = parse(&document).unwrap();
        assert_eq!(
            types(&config),
            "\t\tip dscp 46 return\n\
             \t\tmeta l4proto 6 th dport 80-443 return\n\
             \t\tip saddr 10.1.0.0/25 goto take\n\
             \t\tgoto take\n"
        );
        let peers = [(&config.peers[0], Ipv4Addr::new(10, 2, 0, 1))];
        let text = ruleset(&config, 5000, peers.into_iter());
        let new = "iifname \"lan\" ip daddr { 10.2.0.0/24 } ip daddr != { 10.2.0.1 } tcp flags";
        assert!(text.contains(new), "{text}");
        assert!(!ruleset(&config, 5000, [].into_iter()).contains("jump"), "nobody takes the lane");
    }
}
