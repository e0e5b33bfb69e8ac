//! The `wan` section: interfaces that take only what the gateway asked for.

use std::collections::BTreeSet;

use hawser_tunnel::Service;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{
    check::{Check, INTERFACE, is_default},
    ends::Ends,
    local::{self, ServiceDocument},
    switch::{Switch, SwitchKind},
};

/// The last VLAN identifier (IEEE 802.1Q: 4095 is reserved).
const VLAN_MAX: u16 = 4094;

/// The WAN interfaces. What arrives there passes only if it belongs to the gateway's tunnels, answers what
/// the gateway or a host behind it has sent, or is for a service listed here.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct WanDocument {
    /// Their names. They need not exist yet.
    #[schemars(length(min = 1, max = 32), inner(regex(pattern = INTERFACE)))]
    pub(crate) interfaces: Vec<String>,
    /// Services of the gateway itself that everybody may reach through them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 256))]
    pub(crate) services: Vec<ServiceDocument>,
    /// Whether the gateway answers echo requests (ping) there.
    #[serde(default, skip_serializing_if = "is_default")]
    pub(crate) echo: bool,
    /// VLANs on them whose frames pass: those of other interfaces on the same wire, such as the LAN's.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 64), inner(range(min = 1, max = VLAN_MAX)))]
    pub(crate) vlans: Vec<u16>,
}

/// A validated section.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Wan {
    pub(crate) interfaces: BTreeSet<String>,
    pub(crate) services: Vec<Service>,
    pub(crate) echo: bool,
    pub(crate) vlans: BTreeSet<u16>,
}

/// Validates the section: all interfaces that paths and the switch use have to be in it.
pub(super) fn check(
    check: &mut Check,
    document: &WanDocument,
    ends: &[Ends],
    switch: Option<&Switch>,
) -> Wan {
    let interfaces: BTreeSet<_> = document.interfaces.iter().cloned().collect();
    let bpf = switch.filter(|switch| switch.kind == SwitchKind::Bpf);
    let ports = bpf.iter().flat_map(|switch| &switch.ports).map(|port| &port.interface);
    let used: BTreeSet<_> =
        ends.iter().filter_map(|end| end.interface.as_ref()).chain(ports).collect();
    for missing in used.into_iter().filter(|used| !interfaces.contains(*used)) {
        let expected = format!("{missing} as well, which a path or the switch uses");
        check.error("wan.interfaces", document.interfaces.clone(), &expected);
    }
    Wan {
        interfaces,
        services: local::services(check, "wan.services", &document.services),
        echo: document.echo,
        vlans: document.vlans.iter().copied().collect(),
    }
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
    fn interfaces_of_paths_and_ports_have_to_be_listed() {
        let mut document = sample();
        document["peers"][0]["groups"][0]["paths"][0] =
            json!({"interface": "wan0", "remote": "198.18.0.10"});
        document["wan"] = json!({"interfaces": ["wan1"]});
        assert_eq!(fields(&document), ["wan.interfaces"]);
        document["wan"]["interfaces"] = json!(["wan1", "wan0"]);
        assert_eq!(parse(&document).unwrap().wan.unwrap().interfaces.len(), 2);
        let mut document = switched();
        document["wan"] = json!({"interfaces": ["wa"]});
        assert_eq!(fields(&document), ["wan.interfaces"], "not the other port");
    }

    #[test]
    fn what_is_let_in_is_read() {
        let mut document = sample();
        document["wan"] = json!({"interfaces": ["wan0"], "echo": true, "vlans": [7, 4094],
            "services": [{"protocol": "tcp", "port": 22}]});
        let wan = parse(&document).unwrap().wan.unwrap();
        assert!(wan.echo);
        assert_eq!(wan.vlans, BTreeSet::from([7, 4094]));
        assert_eq!(wan.services, [Service::Protocol(6, Some(22))]);
        document["wan"]["services"][0] = json!({"protocol": "any", "port": 22});
        assert_eq!(fields(&document), ["wan.services[0].port"]);
        document["wan"] = json!({"interfaces": ["wan 0"]});
        assert_eq!(fields(&document), ["wan.interfaces[0]"]);
        document["wan"] = json!({"interfaces": ["wan0"], "vlans": [0]});
        assert_eq!(fields(&document), ["wan.vlans[0]"]);
        document["wan"] = json!({"interfaces": []});
        assert_eq!(fields(&document), ["wan.interfaces"]);
    }
}
