//! The gateway's configuration.

use std::{
    collections::BTreeSet,
    net::{IpAddr, Ipv4Addr},
    path::PathBuf,
};

use ipnet::IpNet;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::config::{FieldError, Invalid, prefix_schema, prefixes_schema, typed};

/// Configuration of one gateway (MMSG) of an SD-WAN.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(title = "hawserd gateway configuration")]
pub(crate) struct Config {
    /// Version of this format.
    #[schemars(range(min = 1, max = 1))]
    pub(crate) version: u32,
    /// Name of this branch; with TLS also the name in its certificate.
    #[schemars(regex(pattern = NAME))]
    pub(crate) branch: String,
    /// Number of this branch in path labels.
    #[schemars(range(min = 1, max = 15))]
    pub(crate) id: u8,
    /// Unix socket of the control API.
    #[schemars(length(min = 1, max = 107))]
    pub(crate) control: PathBuf,
    /// The device through which packets for other branches come and go.
    pub(crate) tun: Tun,
    /// Source of packets that the gateway itself sends to other branches: its LAN address.
    #[serde(default)]
    pub(crate) source: Option<Ipv4Addr>,
    /// How packets are carried.
    pub(crate) transport: Transport,
    /// Bytes held for each path group of a peer while its connection is slow or down.
    #[serde(default = "default_queue_bytes")]
    #[schemars(range(min = 65_536, max = 1_073_741_824))]
    pub(crate) queue_bytes: u32,
    /// The other branches.
    #[schemars(length(max = 14))]
    pub(crate) peers: Vec<Peer>,
}

/// A DNS label in lower case (RFC 1035 section 2.3.1): with TLS it stands in a certificate.
const NAME: &str = r"^[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?$";

fn default_queue_bytes() -> u32 {
    1_000_000
}

/// The TUN device.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Tun {
    /// Its name.
    #[schemars(regex(pattern = r"^[A-Za-z0-9][A-Za-z0-9._-]{0,14}$"))]
    pub(crate) name: String,
    /// Its MTU; the `ipip` transport lowers it to what fits into the path.
    #[schemars(range(min = 1280, max = 65_535))]
    pub(crate) mtu: u16,
    /// Its address and prefix length, if it has one of its own.
    #[serde(default)]
    #[schemars(schema_with = "optional_prefix")]
    pub(crate) address: Option<IpNet>,
}

fn optional_prefix(generator: &mut schemars::SchemaGenerator) -> schemars::Schema {
    schemars::json_schema!({"anyOf": [prefix_schema(generator), {"type": "null"}]})
}

/// How packets are carried.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Transport {
    /// `mptcp`: IP over Multipath TCP, over all paths of a group at once. `ipip`: IP in IP, over the
    /// first path of the first group only.
    pub(crate) kind: Kind,
    /// Encryption of `mptcp` with TLS 1.3; null for none.
    #[serde(default)]
    pub(crate) tls: Option<Tls>,
}

/// A transport.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
#[schemars(inline)]
pub(crate) enum Kind {
    Mptcp,
    Ipip,
}

/// Files in PEM form.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Tls {
    /// Certificate (chain) of this branch; its subject alternative name is the branch's name.
    pub(crate) certificate: PathBuf,
    /// Its private key.
    pub(crate) key: PathBuf,
    /// Certificate of the authority that signs those of all branches.
    pub(crate) ca: PathBuf,
}

/// Another branch.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Peer {
    /// Its name.
    #[schemars(regex(pattern = NAME))]
    pub(crate) branch: String,
    /// Its number in path labels. Of two branches the one with the lower number connects.
    #[schemars(range(min = 1, max = 15))]
    pub(crate) id: u8,
    /// Addresses behind it, such as `10.2.0.0/24`.
    #[schemars(schema_with = "prefixes_schema", length(min = 1, max = 1024))]
    pub(crate) prefixes: Vec<IpNet>,
    /// Path groups: each is one connection.
    #[schemars(length(min = 1, max = 16))]
    pub(crate) groups: Vec<Group>,
}

/// Member paths that together carry one connection.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Group {
    /// Number of the group in path labels.
    #[schemars(range(max = 15))]
    pub(crate) id: u8,
    /// The paths. The first subflow takes the first; the kernel's path manager makes the others.
    #[schemars(length(min = 1, max = 16))]
    pub(crate) paths: Vec<Path>,
}

/// One path, as a pair of WAN addresses.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Path {
    /// Address of this gateway.
    pub(crate) local: IpAddr,
    /// Address of the peer.
    pub(crate) remote: IpAddr,
}

/// Parses a configuration, naming everything that is wrong with it.
pub(crate) fn parse(value: &Value) -> Result<Config, Invalid> {
    let config: Config = typed(value)?;
    let mut check = Check::default();
    check.identities(&config);
    for (i, peer) in config.peers.iter().enumerate() {
        check.peer(i, peer);
    }
    if config.transport.kind == Kind::Ipip {
        check.ipip(&config);
    }
    if check.errors.is_empty() { Ok(config) } else { Err(Invalid { errors: check.errors }) }
}

impl Config {
    /// What cannot change while the gateway runs, and differs from `new`.
    pub(crate) fn fixed_differences(&self, new: &Self) -> Vec<FieldError> {
        let fixed = |config: &Self| {
            let Self { branch, id, control, tun, transport, .. } = config;
            [
                ("branch", json!(branch)),
                ("id", json!(id)),
                ("control", json!(control)),
                ("tun.name", json!(tun.name)),
                ("transport.kind", json!(transport.kind)),
            ]
        };
        fixed(self)
            .into_iter()
            .zip(fixed(new))
            .filter(|(old, new)| old != new)
            .map(|((field, old), (_, new))| {
                FieldError::new(field, new, format!("{old}, which needs a restart to change"))
            })
            .collect()
    }
}

/// Collects what the schema cannot say.
#[derive(Default)]
struct Check {
    errors: Vec<FieldError>,
    prefixes: BTreeSet<IpNet>,
}

impl Check {
    fn error(&mut self, field: &str, found: impl Serialize, expected: &str) {
        self.errors.push(FieldError::new(field, json!(found), expected));
    }

    /// Names and numbers of branches must be unique.
    fn identities(&mut self, config: &Config) {
        let mut names = BTreeSet::from([config.branch.as_str()]);
        let mut ids = BTreeSet::from([config.id]);
        for (i, peer) in config.peers.iter().enumerate() {
            if !names.insert(&peer.branch) {
                let field = format!("peers[{i}].branch");
                self.error(&field, &peer.branch, "a name that no other branch has");
            }
            if !ids.insert(peer.id) {
                let field = format!("peers[{i}].id");
                self.error(&field, peer.id, "a number that no other branch has");
            }
        }
    }

    fn peer(&mut self, i: usize, peer: &Peer) {
        for (j, prefix) in peer.prefixes.iter().enumerate() {
            self.prefix(&format!("peers[{i}].prefixes[{j}]"), *prefix);
        }
        let mut ids = BTreeSet::new();
        for (j, group) in peer.groups.iter().enumerate() {
            let field = format!("peers[{i}].groups[{j}]");
            if !ids.insert(group.id) {
                self.error(&format!("{field}.id"), group.id, "a number that no other group has");
            }
            for (k, path) in group.paths.iter().enumerate() {
                self.path(&format!("{field}.paths[{k}]"), *path);
            }
        }
    }

    fn prefix(&mut self, field: &str, prefix: IpNet) {
        if prefix != prefix.trunc() {
            self.error(field, prefix, &format!("{}, without host bits", prefix.trunc()));
        } else if !self.prefixes.insert(prefix) {
            self.error(field, prefix, "a prefix that is not already behind a branch");
        }
    }

    fn path(&mut self, field: &str, path: Path) {
        for (name, address) in [("local", path.local), ("remote", path.remote)] {
            if address.is_unspecified() || address.is_multicast() {
                self.error(&format!("{field}.{name}"), address, "the address of one host");
            }
        }
        if path.local.is_ipv4() != path.remote.is_ipv4() {
            let field = format!("{field}.remote");
            self.error(&field, path.remote, "an address of the same family as `local`");
        }
    }

    /// The `ipip` transport carries IPv4 in IPv4, in clear, and tells peers apart by their address.
    fn ipip(&mut self, config: &Config) {
        if let Some(tls) = &config.transport.tls {
            self.error("transport.tls", tls, "null, for ipip is not encrypted");
        }
        let mut pairs = BTreeSet::new();
        for (i, peer) in config.peers.iter().enumerate() {
            let Some(path) = peer.groups.first().and_then(|group| group.paths.first()) else {
                continue;
            };
            let field = format!("peers[{i}].groups[0].paths[0].remote");
            if path.remote.is_ipv6() {
                self.error(&field, path.remote, "an IPv4 address, for ipip");
            }
            if !pairs.insert((path.local, path.remote)) {
                self.error(&field, path.remote, "a path that no other peer has, for ipip");
            }
            for (j, prefix) in peer.prefixes.iter().enumerate() {
                if matches!(prefix, IpNet::V6(_)) {
                    let field = format!("peers[{i}].prefixes[{j}]");
                    self.error(&field, prefix, "an IPv4 prefix, for ipip");
                }
            }
        }
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use serde_json::json;

    use super::*;

    pub(crate) fn sample() -> Value {
        json!({
            "version": 1, "branch": "b1", "id": 1, "control": "gw1.sock",
            "tun": {"name": "hawser0", "mtu": 1500, "address": null},
            "source": "10.1.0.1",
            "transport": {"kind": "mptcp", "tls": null},
            "queue_bytes": 1_000_000,
            "peers": [{
                "branch": "b2", "id": 2, "prefixes": ["10.2.0.0/24"],
                "groups": [{"id": 0, "paths": [{"local": "198.18.0.2", "remote": "198.18.0.10"}]}],
            }],
        })
    }

    fn with(pointer: &str, value: Value) -> Value {
        let mut document = sample();
        *document.pointer_mut(pointer).expect("the sample has it") = value;
        document
    }

    fn fields(document: &Value) -> Vec<String> {
        parse(document).unwrap_err().errors.into_iter().map(|error| error.field).collect()
    }

    #[test]
    fn the_sample_is_good() {
        let config = parse(&sample()).unwrap();
        assert_eq!(config.peers[0].groups[0].paths[0].remote, IpAddr::from([198, 18, 0, 10]));
        assert_eq!(config.source, Some(Ipv4Addr::new(10, 1, 0, 1)));
    }

    #[test]
    fn every_error_names_its_field() {
        let cases = [
            ("/version", json!(2), "version"),
            ("/branch", json!("B 1"), "branch"),
            ("/id", json!(16), "id"),
            ("/id", json!(2), "peers[0].id"),
            ("/branch", json!("b2"), "peers[0].branch"),
            ("/source", json!("10.1.0"), "source"),
            ("/queue_bytes", json!(-1), "queue_bytes"),
            ("/tun/mtu", json!(100), "tun.mtu"),
            ("/tun/name", json!("a-name-that-is-long"), "tun.name"),
            ("/tun/address", json!("10.1.0.1"), "tun.address"),
            ("/peers/0/prefixes", json!([]), "peers[0].prefixes"),
            ("/peers/0/prefixes/0", json!("10.2.0.0/33"), "peers[0].prefixes[0]"),
            ("/peers/0/groups/0/paths/0/local", json!("b1"), "peers[0].groups[0].paths[0].local"),
            ("/transport/kind", json!("quic"), "transport.kind"),
            ("/transport/tls", json!({"certificate": "a", "key": "b"}), "transport.tls.ca"),
            ("/peers/0/prefixes/0", json!("10.2.0.1/24"), "peers[0].prefixes[0]"),
            ("/peers/0/groups/0/id", json!(16), "peers[0].groups[0].id"),
            ("/peers/0/groups/0/paths", json!([]), "peers[0].groups[0].paths"),
            (
                "/peers/0/groups/0/paths/0/remote",
                json!("::1"),
                "peers[0].groups[0].paths[0].remote",
            ),
            (
                "/peers/0/groups/0/paths/0/local",
                json!("0.0.0.0"),
                "peers[0].groups[0].paths[0].local",
            ),
        ];
        for (pointer, value, field) in cases {
            assert_eq!(fields(&with(pointer, value.clone())), [field], "{pointer} = {value}");
        }
    }

    #[test]
    fn all_errors_come_at_once() {
        let mut document = with("/id", json!(0));
        document["mtu"] = json!(1);
        document["peers"][0].as_object_mut().unwrap().remove("branch");
        let mut seen = fields(&document);
        seen.sort();
        assert_eq!(seen, ["id", "mtu", "peers[0].branch"]);
    }

    #[test]
    fn duplicates_are_found() {
        let mut document = sample();
        let twin = document["peers"][0].clone();
        document["peers"].as_array_mut().unwrap().push(twin);
        assert_eq!(fields(&document), ["peers[1].branch", "peers[1].id", "peers[1].prefixes[0]"]);
    }

    #[test]
    fn ipip_is_ipv4_and_plain() {
        let mut document = with("/transport", json!({"kind": "ipip"}));
        assert!(parse(&document).is_ok());
        document["transport"]["tls"] = json!({"certificate": "a", "key": "b", "ca": "c"});
        document["peers"][0]["prefixes"] = json!(["2001:db8::/32"]);
        assert_eq!(fields(&document), ["transport.tls", "peers[0].prefixes[0]"]);
    }

    #[test]
    fn some_changes_need_a_restart() {
        let old = parse(&sample()).unwrap();
        let new = parse(&with("/tun/name", json!("hawser1"))).unwrap();
        assert_eq!(old.fixed_differences(&new)[0].field, "tun.name");
        let new = parse(&with("/queue_bytes", json!(70_000))).unwrap();
        assert_eq!(old.fixed_differences(&new), []);
    }
}
