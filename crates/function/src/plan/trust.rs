//! Which ports and forwarders packets on paths are accepted from (RFC 8300 section 8).

use std::{collections::BTreeSet, net::Ipv4Addr};

use hawser_daemon::config::FieldError;
use serde_json::json;

use crate::document::{Document, Port};

const PORTS: &str = "`trusted: true` at these ports, behind which are forwarders and functions (RFC 8300 section 8)";

/// Reports ports that packets on paths need but that are not trusted, all in one error, and forwarders that are
/// missing. `is_function`: the node is a function, which takes part in paths at one port or more.
pub(super) fn check(is_function: bool, document: &Document) -> Vec<FieldError> {
    let mut errors = Vec::new();
    let lacking = lacking(is_function, document);
    if !lacking.is_empty() {
        errors.push(FieldError::new("ports", json!(lacking), PORTS));
    }
    let ports = document.ports.iter().enumerate();
    for (at, _) in ports.filter(|(_, port)| port.trusted && port.proxy.is_some()) {
        let expected = "false: an SFC-unaware function sends packets without NSH";
        errors.push(FieldError::new(&format!("ports[{at}].trusted"), true, expected));
    }
    let takes = |port: &&Port| port.trusted && port.address.is_some();
    if let Some(port) =
        document.ports.iter().find(takes).filter(|_| forwarders(document).is_empty())
    {
        let name = &port.name;
        let expected = format!("addresses that send VXLAN-GPE to port {name}, or no address there");
        errors.push(FieldError::new("forwarders", json!([]), expected));
    }
    errors
}

/// Names of the ports that should be trusted: those of next hops, and at a function at least one.
fn lacking(is_function: bool, document: &Document) -> BTreeSet<&str> {
    let used: BTreeSet<_> =
        document.hops.iter().flat_map(|hop| &hop.to).map(|target| target.port.as_str()).collect();
    let alone = is_function
        && !document.ports.is_empty()
        && !document.ports.iter().any(|port| port.trusted || port.mirror);
    let needs = |port: &&Port| used.contains(port.name.as_str()) || alone;
    let ports = document.ports.iter().filter(|port| !port.trusted && port.proxy.is_none());
    ports.filter(needs).map(|port| port.name.as_str()).collect()
}

/// Addresses from which VXLAN-GPE is accepted: forwarders that are named, and those of next hops.
pub(super) fn forwarders(document: &Document) -> BTreeSet<Ipv4Addr> {
    let targets = document.hops.iter().flat_map(|hop| &hop.to);
    let remotes = targets.filter_map(|target| Some(target.vxlan_gpe?.remote));
    remotes.chain(document.forwarders.iter().copied()).collect()
}
