//! Local breakout: Type III traffic leaves through NAT at WAN ports of type `internet`.
//!
//! nftables marks it on arrival from the LAN, a routing rule directs marked packets to the next
//! hops of those ports, and nftables masquerades them (docs/design/flow-placement.md).

mod exits;

use std::fmt::Write as _;

use hawser_netdev::routes::{Family, Routes};

pub(super) use self::exits::Follower;
use self::exits::{Exit, MARK, exits, follow};
use super::{
    config::{
        Config,
        classifier::{Classifier, Type},
    },
    nft::{conditions, family_of, header, list, prefixes, run},
};

/// Source ports of NAT: below all path labels, whose first nibble is never zero.
const PORTS: &str = "1024-4095";

/// Least burst of a rate limit, bytes: two packets as large as offloads make them. Above that it is
/// 100 ms at the rate, for TCP to reach it without a queue.
const MIN_BURST: u64 = 128 << 10;

/// Makes the kernel match the configuration.
pub(super) async fn set(routes: &Routes, old: Option<&Config>, new: &Config) -> anyhow::Result<()> {
    match parts(new) {
        Some((classifier, exits)) => {
            run(&ruleset(classifier, &exits, new))?;
            follow(routes, new).await
        }
        None if old.is_some_and(|old| parts(old).is_some()) => clear(routes).await,
        None => Ok(()),
    }
}

/// Removes what [`set`] installed for a configuration.
pub(super) async fn remove(routes: &Routes, config: &Config) -> anyhow::Result<()> {
    if parts(config).is_some() { clear(routes).await } else { Ok(()) }
}

async fn clear(routes: &Routes) -> anyhow::Result<()> {
    run("delete table inet hawser\n")?;
    routes.remove_marked_route(Family::V4, MARK).await?;
    Ok(routes.remove_marked_route(Family::V6, MARK).await?)
}

/// Classifier and internet ports. Without WAN ports breakout is left to the operator's routing.
fn parts(config: &Config) -> Option<(&Classifier, Vec<Exit<'_>>)> {
    config.classifier.as_ref().zip(exits(config))
}

/// The nftables table, replacing an existing one.
fn ruleset(classifier: &Classifier, exits: &[Exit<'_>], config: &Config) -> String {
    let lan = &classifier.lan;
    let ports = list(exits.iter().map(|exit| format!("\"{}\"", exit.interface)));
    let [rules, rules6] = [Family::V4, Family::V6].map(|f| lan_rules(classifier, config, f));
    let nat = ports.as_deref().map_or(String::new(), |ports| {
        format!(
            "\t\tiifname \"{lan}\" oifname {ports} meta l4proto {{ tcp, udp }} masquerade to :{PORTS}\n\
             \t\tiifname \"{lan}\" oifname {ports} masquerade\n"
        )
    });
    let limit = limit(lan, config);
    let others = ports.map_or(String::new(), |ports| format!("oifname != {ports} "));
    format!(
        "table inet hawser\n\
         delete table inet hawser\n\
         table inet hawser {{\n\
         \tchain classify {{\n\
         \t\ttype filter hook prerouting priority mangle;\n\
         \t\tiifname \"{lan}\" meta nfproto ipv4 jump lan\n\
         \t\tiifname \"{lan}\" meta nfproto ipv6 jump lan6\n\
         \t}}\n\
         \tchain lan {{\n\
         {rules}\
         \t}}\n\
         \tchain lan6 {{\n\
         {rules6}\
         \t}}\n\
         \tchain direct {{\n\
         \t\tmeta mark set {MARK:#x}\n\
         \t}}\n\
         \tchain forward {{\n\
         \t\ttype filter hook forward priority filter;\n\
         \t\tiifname \"{lan}\" meta mark {MARK:#x} {others}counter drop\n\
         {limit}\
         \t}}\n\
         \tchain nat {{\n\
         \t\ttype nat hook postrouting priority srcnat;\n\
         {nat}\
         \t}}\n\
         }}\n"
    )
}

/// Rules for packets of a family from the LAN: which leave directly.
fn lan_rules(classifier: &Classifier, config: &Config, family: Family) -> String {
    let (mut rules, ip) = (String::new(), header(family));
    let prohibited = config.prohibited.iter().filter(|net| family_of(net) == family);
    if let Some(nets) = list(prohibited.map(ToString::to_string)) {
        let _ = writeln!(rules, "\t\t{ip} daddr {nets} return");
    }
    match prefixes(family, config.peers.iter()) {
        Some(peers) => drop(writeln!(rules, "\t\t{ip} daddr != {peers} goto direct")),
        None => rules.push_str("\t\tgoto direct\n"),
    }
    for rule in &classifier.rules {
        if let Some(conditions) = conditions(family, rule) {
            let _ = writeln!(rules, "\t\t{conditions}{}", verdict(rule.kind));
        }
    }
    let _ = writeln!(rules, "\t\t{}", verdict(classifier.default));
    rules
}

/// The rule that limits the rate of what leaves directly, if it is limited.
fn limit(lan: &str, config: &Config) -> String {
    config.document.max_rate_bps.direct.map_or(String::new(), |bps| {
        let (rate, burst) = (bps / 8, (bps / 8 / 10).max(MIN_BURST));
        format!(
            "\t\tiifname \"{lan}\" meta mark {MARK:#x} \
             limit rate over {rate} bytes/second burst {burst} bytes counter drop\n"
        )
    })
}

fn verdict(kind: Type) -> &'static str {
    if kind == Type::III { "goto direct" } else { "return" }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::config::{
        parse,
        switch::tests::switched,
        tests::{fields, sample},
    };

    #[test]
    fn rules_follow_the_classifier() {
        let mut document = switched();
        document["classifier"] = json!({"lan": "lan", "default": "II", "rules": [
            {"name": "voice", "dscp": 46, "type": "I"},
            {"name": "web", "protocol": "tcp", "destination_ports": [80, 443], "type": "III"},
            {"name": "office", "source": "10.1.0.0/25", "source_ports": [5, 9], "type": "II"},
            {"name": "six", "source": "2001:db8::/32", "type": "I"},
        ]});
        let config = parse(&document).unwrap();
        let (classifier, exits) = parts(&config).unwrap();
        let text = ruleset(classifier, &exits, &config);
        let lan = text.split("chain lan {\n").nth(1).unwrap().split("\t}").next().unwrap();
        assert_eq!(
            lan,
            "\t\tip daddr != { 10.2.0.0/24 } goto direct\n\
             \t\tip dscp 46 return\n\
             \t\tmeta l4proto 6 th dport 80-443 goto direct\n\
             \t\tip saddr 10.1.0.0/25 meta l4proto { tcp, udp } th sport 5-9 return\n\
             \t\treturn\n"
        );
        let lan6 = text.split("chain lan6 {\n").nth(1).unwrap().split("\t}").next().unwrap();
        assert_eq!(
            lan6,
            "\t\tgoto direct\n\
             \t\tip6 dscp 46 return\n\
             \t\tmeta l4proto 6 th dport 80-443 goto direct\n\
             \t\tip6 saddr 2001:db8::/32 return\n\
             \t\treturn\n"
        );
        assert!(text.contains("oifname { \"wa\" } masquerade"), "not at the leased port: {text}");
        assert!(!text.contains("limit"), "{text}");
        document["peers"] = json!([]);
        let config = parse(&document).unwrap();
        let (classifier, exits) = parts(&config).unwrap();
        assert!(ruleset(classifier, &exits, &config).contains("lan {\n\t\tgoto direct\n"));
    }

    #[test]
    fn interfaces_without_a_switch_may_break_out() {
        let mut document = sample();
        document["classifier"] = json!({"lan": "lan"});
        assert!(parts(&parse(&document).unwrap()).is_none());
        document["classifier"]["internet"] = json!(["wan0", "ppp0"]);
        let config = parse(&document).unwrap();
        let (classifier, exits) = parts(&config).unwrap();
        let text = ruleset(classifier, &exits, &config);
        assert!(text.contains("oifname { \"wan0\", \"ppp0\" } masquerade\n"), "{text}");
        let mut document = switched();
        document["classifier"] = json!({"lan": "lan", "internet": ["wan0"]});
        assert_eq!(fields(&document), ["classifier.internet"]);
    }

    #[test]
    fn prohibited_prefixes_never_break_out_and_the_rest_is_limited() {
        let mut document = switched();
        document["classifier"] = json!({"lan": "lan"});
        document["prohibited"] = json!(["10.3.0.0/24", "10.4.0.0/24", "2001:db8::/32"]);
        document["max_rate_bps"] = json!({"III": 80_000_000});
        let config = parse(&document).unwrap();
        let (classifier, exits) = parts(&config).unwrap();
        let text = ruleset(classifier, &exits, &config);
        let first = "chain lan {\n\t\tip daddr { 10.3.0.0/24, 10.4.0.0/24 } return\n";
        assert!(text.contains(first), "{text}");
        let limit = "limit rate over 10000000 bytes/second burst 1000000 bytes counter drop\n";
        assert!(text.contains(limit), "{text}");
    }
}
