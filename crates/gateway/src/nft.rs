//! nftables rules, and the program that loads them.

use std::{
    fmt::Write as _,
    io::{self, Write as _},
    process::{Child, Command, Stdio},
};

use anyhow::Context;
use hawser_netdev::routes::Family;
use hawser_tunnel::config::Peer;
use ipnet::IpNet;

use super::config::classifier::Rule;

/// An anonymous set; none if it would be empty.
pub(super) fn list(items: impl Iterator<Item = String>) -> Option<String> {
    let items: Vec<_> = items.collect();
    (!items.is_empty()).then(|| format!("{{ {} }}", items.join(", ")))
}

/// Prefixes of one family behind peers.
pub(super) fn prefixes<'a>(
    family: Family,
    peers: impl Iterator<Item = &'a Peer>,
) -> Option<String> {
    let every = peers.flat_map(|peer| &peer.prefixes);
    list(every.filter(|net| family_of(net) == family).map(ToString::to_string))
}

/// Address family of a network.
pub(super) fn family_of(net: &IpNet) -> Family {
    match net {
        IpNet::V4(_) => Family::V4,
        IpNet::V6(_) => Family::V6,
    }
}

/// nftables' name for the IP header of a family.
pub(super) fn header(family: Family) -> &'static str {
    match family {
        Family::V4 => "ip",
        Family::V6 => "ip6",
    }
}

/// Match expression of a classifier rule for one family, with a trailing space; none if the rule
/// concerns the other family.
pub(super) fn conditions(family: Family, rule: &Rule) -> Option<String> {
    let (mut line, ip) = (String::new(), header(family));
    for (what, net) in [("saddr", rule.source), ("daddr", rule.destination)] {
        match net {
            Some(net) if family_of(&net) != family => return None,
            Some(net) => drop(write!(line, "{ip} {what} {net} ")),
            None => {}
        }
    }
    match rule.protocol {
        Some(protocol) => drop(write!(line, "meta l4proto {protocol} ")),
        None if rule.wants_ports() => line.push_str("meta l4proto { tcp, udp } "),
        None => {}
    }
    for (what, range) in [("sport", rule.source_ports), ("dport", rule.destination_ports)] {
        if let Some([low, high]) = range {
            let _ = write!(line, "th {what} {low}-{high} ");
        }
    }
    if let Some(dscp) = rule.dscp {
        let _ = write!(line, "{ip} dscp {dscp} ");
    }
    Some(line)
}

/// Loads rules atomically.
pub(super) fn run(rules: &str) -> anyhow::Result<()> {
    ended(start(rules)?)
}

/// Starts loading rules.
pub(super) fn start(rules: &str) -> anyhow::Result<Child> {
    let mut command = Command::new("nft");
    command.args(["-f", "-"]).stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::piped());
    let mut process = command.spawn().map_err(cannot_run)?;
    if let Some(mut input) = process.stdin.take() {
        input.write_all(rules.as_bytes()).context("nft")?;
    }
    Ok(process)
}

/// Counters of a table, as JSON (libnftables-json(5)).
pub(super) fn counters(family: &str, table: &str) -> anyhow::Result<String> {
    let listing = ["-j", "list", "counters", "table", family, table];
    let done = Command::new("nft").args(listing).output().map_err(cannot_run)?;
    anyhow::ensure!(done.status.success(), "nft: {}", String::from_utf8_lossy(&done.stderr).trim());
    String::from_utf8(done.stdout).context("nft")
}

fn cannot_run(error: io::Error) -> anyhow::Error {
    match error.kind() {
        io::ErrorKind::NotFound => anyhow::anyhow!("nft not found (Debian package nftables)"),
        _ => error.into(),
    }
}

/// Waits for the program and returns whether it accepted the rules.
pub(super) fn ended(process: Child) -> anyhow::Result<()> {
    let done = process.wait_with_output().context("nft")?;
    anyhow::ensure!(done.status.success(), "nft: {}", String::from_utf8_lossy(&done.stderr).trim());
    Ok(())
}
