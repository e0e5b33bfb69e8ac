//! Ends of member paths: addresses, interfaces and names.

use std::net::IpAddr;

use hawser_netdev::routes::Family;
use hawser_tunnel::{PathId, config::Path};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::check::{Check, INTERFACE, is_default};

/// A member path, as a pair of WAN addresses. `local` or `interface` is given, or both.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct PathDocument {
    /// Address of this gateway. If left out, that of `interface`, whichever it has.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) local: Option<String>,
    /// Interface whose address the path has, and by which alone its packets leave and arrive. If
    /// left out, routing decides.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(regex(pattern = INTERFACE))]
    pub(crate) interface: Option<String>,
    /// Version of IP, where neither `local` nor `remote` is an address.
    #[serde(default, skip_serializing_if = "is_default")]
    pub(crate) family: FamilyDocument,
    /// Address of the peer, or its DNS name. May be left out if the peer connects, because its
    /// number is the lower one, and proves who it is by TLS.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) remote: Option<String>,
}

/// Version of IP of a path.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
#[schemars(inline)]
pub(crate) enum FamilyDocument {
    /// Whichever both ends have, in the order in which the name's addresses are found; IPv4 if
    /// there is no name.
    #[default]
    Any,
    Ipv4,
    Ipv6,
}

/// Where the addresses of a member path come from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Ends {
    pub(crate) path: PathId,
    pub(crate) interface: Option<String>,
    pub(crate) local: Option<IpAddr>,
    pub(crate) remote: Remote,
    /// None: any.
    pub(crate) family: Option<Family>,
}

/// The peer's end of a path.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Remote {
    /// The peer connects from wherever it is.
    Unknown,
    Address(IpAddr),
    Name(String),
}

impl Ends {
    /// The addresses that are known already.
    pub(crate) fn fixed(&self) -> Path {
        let remote = match self.remote {
            Remote::Address(address) => Some(address),
            _ => None,
        };
        Path { local: self.local, remote, ..Path::default() }
    }
}

/// Parses the ends of a path. `needs_remote`: this side connects to the peer, or knows it by its
/// address only.
pub(super) fn parse(
    check: &mut Check,
    field: &str,
    document: &PathDocument,
    path: PathId,
    needs_remote: bool,
) -> Option<Ends> {
    let local_field = format!("{field}.local");
    if document.local.is_none() && document.interface.is_none() {
        check.error(&local_field, serde_json::Value::Null, "an address, or `interface` beside it");
        return None;
    }
    let local = document.local.as_deref().map(|text| check.host(&local_field, text));
    let remote =
        remote(check, &format!("{field}.remote"), document.remote.as_deref(), needs_remote)?;
    let local = local.map_or(Some(None), |local| local.map(Some))?;
    let ends = Ends { path, interface: document.interface.clone(), local, remote, family: None };
    let family = family(check, field, document, &ends)?;
    Some(Ends { family, ..ends })
}

fn remote(check: &mut Check, field: &str, text: Option<&str>, needed: bool) -> Option<Remote> {
    match text {
        None if needed => {
            let expected = "an address or name, unless the peer connects and there is TLS, or there is a rendezvous";
            check.error(field, serde_json::Value::Null, expected);
            None
        }
        None => Some(Remote::Unknown),
        Some(text) if is_name(text) => Some(Remote::Name(text.to_owned())),
        Some(text) => check.host(field, text).map(Remote::Address),
    }
}

/// Whether a text has the form of a DNS name (RFC 1123 section 2.1), and is no IPv4 address: its
/// last label is not all digits.
fn is_name(text: &str) -> bool {
    let text = text.strip_suffix('.').unwrap_or(text);
    let is_label = |label: &str| {
        let inner = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'-' || byte == b'_';
        (1..=63).contains(&label.len())
            && label.bytes().all(inner)
            && !label.starts_with('-')
            && !label.ends_with('-')
    };
    let last = text.rsplit('.').next().unwrap_or_default();
    text.len() <= 253
        && text.split('.').all(is_label)
        && last.bytes().any(|byte| !byte.is_ascii_digit())
}

/// The one version of IP that all fields ask for, if any does.
#[allow(clippy::option_option)] // None: they contradict each other
fn family(
    check: &mut Check,
    field: &str,
    document: &PathDocument,
    ends: &Ends,
) -> Option<Option<Family>> {
    let of = |address: IpAddr| if address.is_ipv4() { Family::V4 } else { Family::V6 };
    let Path { local, remote, .. } = ends.fixed();
    let (local, remote) = (local.map(of), remote.map(of));
    if local.zip(remote).is_some_and(|(local, remote)| local != remote) {
        let found = document.remote.as_deref().unwrap_or_default();
        let expected = "an address of the same family as `local`";
        check.error(&format!("{field}.remote"), found, expected);
        return None;
    }
    let asked = match document.family {
        FamilyDocument::Any => None,
        FamilyDocument::Ipv4 => Some(Family::V4),
        FamilyDocument::Ipv6 => Some(Family::V6),
    };
    let known = local.or(remote);
    if asked.zip(known).is_some_and(|(asked, known)| asked != known) {
        let found = serde_json::to_value(document.family).unwrap_or_default();
        check.error(&format!("{field}.family"), found, "that of the addresses");
        return None;
    }
    Some(asked.or(known))
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::config::{parse, tests::sample};

    fn fields(path: &Value, own: u16) -> Vec<String> {
        let mut document = sample();
        document["peers"][0]["groups"][0]["paths"][0] = path.clone();
        document["id"] = own.into();
        let tls = json!({"certificate": "a", "key": "b", "ca": "c"});
        document["transport"] = json!({"kind": "mptcp", "tls": tls});
        match parse(&document) {
            Ok(_) => Vec::new(),
            Err(invalid) => invalid.errors.into_iter().map(|error| error.field).collect(),
        }
    }

    #[test]
    fn names_are_told_from_addresses() {
        for name in ["gw2", "gw2.example.org", "gw2.example.org.", "3com.example", "_x.a", "a.b-c"]
        {
            assert!(is_name(name), "{name}");
        }
        for other in ["", ".", "198.18.0.1", "256.1.1.1", "::1", "a..b", "-a.b", "a b", "1.2.3.4."]
        {
            assert!(!is_name(other), "{other:?}");
        }
        assert!(!is_name(&"a".repeat(64)));
        assert!(!is_name(&"a.".repeat(128)));
    }

    #[test]
    fn each_path_has_a_local_end_and_one_to_connect_to() {
        let prefix = "peers[0].groups[0].paths[0]";
        let cases = [
            (json!({"interface": "wan0", "remote": "gw2.example.org"}), 1, None),
            (json!({"interface": "wan0", "remote": "198.18.0.1"}), 1, None),
            (json!({"local": "198.18.0.1", "interface": "wan0", "remote": "gw2"}), 1, None),
            (json!({"interface": "wan0"}), 3, None),
            (json!({"interface": "wan0", "family": "ipv6"}), 3, None),
            (json!({"interface": "wan0"}), 1, Some("remote")),
            (json!({"remote": "gw2"}), 1, Some("local")),
            (json!({"interface": "wan 0", "remote": "gw2"}), 1, Some("interface")),
            (json!({"interface": "wan0", "remote": "198.18.0.256"}), 1, Some("remote")),
            (json!({"local": "198.18.0.1", "remote": "::2"}), 1, Some("remote")),
            (json!({"local": "198.18.0.1", "remote": "b", "family": "ipv6"}), 1, Some("family")),
            (json!({"interface": "wan0", "remote": "::2", "family": "ipv4"}), 1, Some("family")),
        ];
        for (path, own, field) in cases {
            let expected: Vec<_> =
                field.map(|field| format!("{prefix}.{field}")).into_iter().collect();
            assert_eq!(fields(&path, own), expected, "{path}");
        }
    }
}
