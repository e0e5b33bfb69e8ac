//! The gateway's configuration: the document as written, and its validated form.

mod check;
mod class;
pub(crate) mod classifier;
mod document;
pub(crate) mod ends;
mod local;
mod rendezvous;
pub(crate) mod switch;
mod transport;
pub(crate) mod wan;

use std::{
    collections::BTreeSet,
    net::{IpAddr, Ipv4Addr, Ipv6Addr},
};

use hawser_daemon::{
    config::{FieldError, Invalid, typed},
    renamed::{Renamed, accept_old_names},
};
use hawser_netdev::tun;
use hawser_tunnel::{
    INNER_MTU, PathId, Permissions,
    config::{Group, Oversize, Path, Peer},
};
use hawser_wire::label;
use ipnet::IpNet;
use serde::Serialize;
use serde_json::Value;

use self::{
    check::Check,
    class::SlaDocument,
    classifier::Classifier,
    document::{GroupDocument, PeerDocument},
    ends::{Ends, PathDocument},
    switch::Switch,
    wan::Wan,
};
pub(crate) use self::{
    document::Document,
    transport::{Kind, TcpProxyDocument, TlsDocument},
};

/// A validated configuration.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Config {
    pub(crate) document: Document,
    pub(crate) address: Option<IpNet>,
    pub(crate) source: Option<Ipv4Addr>,
    pub(crate) source6: Option<Ipv6Addr>,
    pub(crate) permissions: Permissions,
    pub(crate) prohibited: Vec<IpNet>,
    /// With the addresses that are known at present.
    pub(crate) peers: Vec<Peer>,
    /// Ends of the paths of all peers' groups, in their order.
    pub(crate) ends: Vec<Ends>,
    /// Number of the branch that introduces gateways to each other.
    pub(crate) rendezvous: Option<u16>,
    pub(crate) switch: Option<Switch>,
    pub(crate) classifier: Option<Classifier>,
    /// None: WAN interfaces are like all others.
    pub(crate) wan: Option<Wan>,
}

/// Old names of fields, accepted in this version.
const RENAMED: [Renamed; 1] = [Renamed { object: "transport", old: "lane", new: "tcp_proxy" }];

/// Parses a configuration and reports all errors in it.
pub(crate) fn parse(value: &Value) -> Result<Config, Invalid> {
    let document: Document = typed(&accept_old_names(value, &RENAMED))?;
    let mut check = Check::default();
    let address = document.tun.address.as_deref();
    let address = address.and_then(|text| check.read("tun.address", text, "10.1.0.1/24"));
    let source = document.source.as_deref();
    let source = source.and_then(|text| check.read("source", text, "10.1.0.1"));
    let source6 = document.source6.as_deref();
    let source6 = source6.and_then(|text| check.read("source6", text, "2001:db8:1::1"));
    transport::check(&mut check, &document.transport);
    let quic = document.transport.kind == Kind::Quic;
    document.max_rate_bps.check(&mut check, quic, document.classifier.is_some());
    if document.tun.name.len() > tun::MAX_NAME_LEN {
        check.error("tun.name", document.tun.name.as_str(), "at most 15 characters");
    }
    check.identities(&document);
    let permissions = local::check(&mut check, document.local.as_deref(), &document.services);
    let (peers, ends) = check.peers(&document);
    let rendezvous = rendezvous::check(&mut check, &document, &ends);
    let prohibited = check.prohibited(&document);
    let agents = agents(&peers);
    let switch = document.switch.as_ref();
    let labels = document.transport.labels();
    let switch = switch.map(|section| switch::check(&mut check, section, &agents, labels));
    let classifier = document.classifier.as_ref();
    let classifier =
        classifier.map(|section| classifier::check(&mut check, section, switch.is_some()));
    let wan = document.wan.as_ref();
    let wan = wan.map(|section| wan::check(&mut check, section, &ends, switch.as_ref()));
    let config = Config {
        document,
        address,
        source,
        source6,
        permissions,
        prohibited,
        peers,
        ends,
        rendezvous,
        switch,
        classifier,
        wan,
    };
    check.numbers(&config.document);
    if config.document.transport.kind == Kind::Ipip {
        check.ipip(&config);
    }
    if check.errors.is_empty() { Ok(config) } else { Err(Invalid { errors: check.errors }) }
}

/// Addresses that the agent connects from and listens on.
fn agents(peers: &[Peer]) -> BTreeSet<IpAddr> {
    let paths = peers.iter().flat_map(|peer| &peer.groups).flat_map(|group| &group.paths);
    paths.filter_map(|path| path.local).collect()
}

impl Config {
    /// MTU of the device at the start, lowered to what the transport carries. With `quic` it follows the paths from then on.
    pub(crate) fn mtu(&self) -> u16 {
        let mtu = self.document.tun.mtu;
        match self.document.transport.kind {
            Kind::Quic if self.document.transport.oversize == Oversize::Fragment => mtu,
            Kind::Quic => mtu.min(INNER_MTU),
            Kind::Mptcp | Kind::Ipip => mtu,
        }
    }

    /// Whether packets of IPv6 are carried.
    pub(crate) fn has_ipv6(&self) -> bool {
        let is_v6 = |prefix: &IpNet| matches!(prefix, IpNet::V6(_));
        let behind = |peer: &Peer| peer.prefixes.iter().any(is_v6);
        self.source6.is_some()
            || self.address.as_ref().is_some_and(is_v6)
            || self.peers.iter().any(behind)
    }

    /// Fields that differ from `new` and cannot change while the gateway runs.
    pub(crate) fn fixed_differences(&self, new: &Self) -> Vec<FieldError> {
        let fixed = |document: &Document| {
            let Document { branch, id, control, tun, transport, .. } = document;
            [
                ("branch", Value::from(branch.as_str())),
                ("id", (*id).into()),
                ("control", control.to_string_lossy().into()),
                ("tun.name", tun.name.as_str().into()),
                ("transport.kind", value(transport.kind)),
                ("transport.tcp_proxy", value(transport.tcp_proxy)),
                ("transport.congestion", value(transport.congestion)),
                ("transport.recovery", value(transport.recovery)),
                ("transport.resequence", transport.resequence.into()),
                ("transport.header_compression", transport.header_compression.into()),
                ("transport.wire_version", transport.wire_version.into()),
                ("transport.oversize", value(transport.oversize)),
                ("transport.label_bits", transport.label_bits.into()),
            ]
        };
        let mut errors = self.lost_encryption(new);
        let fixed = fixed(&self.document)
            .into_iter()
            .zip(fixed(&new.document))
            .filter(|(old, new)| old != new)
            .map(|((field, old), (_, new))| {
                FieldError::new(field, new, format!("{old}; a change needs a restart"))
            });
        errors.extend(fixed);
        errors
    }

    /// Logs what leaves the gateway open.
    pub(crate) fn warn(&self) {
        if self.document.transport.insecure {
            tracing::warn!("no TLS: anyone on the way can read packets and forge them");
        }
        if self.permissions.local.is_none() {
            tracing::warn!("no `local` prefixes: peers reach the gateway and all that it reaches");
        }
        if self.wan.is_none() {
            tracing::warn!("no `wan` interfaces: what arrives there is not filtered");
        }
    }

    /// Encryption can be turned on while the gateway runs, but not off.
    fn lost_encryption(&self, new: &Self) -> Vec<FieldError> {
        let is_lost = self.document.transport.tls.is_some() && new.document.transport.tls.is_none();
        let error = FieldError::new(
            "transport.tls",
            Value::Null,
            "files; TLS cannot be turned off without a restart",
        );
        Vec::from_iter(is_lost.then_some(error))
    }
}

fn value(part: impl Serialize) -> Value {
    serde_json::to_value(part).unwrap_or_default()
}

impl Check {
    fn prohibited(&mut self, document: &Document) -> Vec<IpNet> {
        let numbered = document.prohibited.iter().enumerate();
        let parsed = numbered.map(|(i, text)| self.prefix(&format!("prohibited[{i}]"), text));
        parsed.flatten().collect()
    }

    /// Names and numbers of branches must be unique.
    fn identities(&mut self, document: &Document) {
        let mut names = BTreeSet::from([document.branch.as_str()]);
        let mut ids = BTreeSet::from([document.id]);
        for (i, peer) in document.peers.iter().enumerate() {
            if !names.insert(&peer.branch) {
                let field = format!("peers[{i}].branch");
                self.error(&field, peer.branch.as_str(), "a name that no other branch has");
            }
            if !ids.insert(peer.id) {
                self.error(&format!("peers[{i}].id"), peer.id, "a number that no other branch has");
            }
        }
    }

    /// All peers, and the ends of the paths to them.
    fn peers(&mut self, document: &Document) -> (Vec<Peer>, Vec<Ends>) {
        let mut ends = Vec::new();
        let numbered = document.peers.iter().enumerate();
        let peers = numbered.map(|(i, peer)| self.peer(document, i, peer, &mut ends)).collect();
        (peers, ends)
    }

    fn peer(
        &mut self,
        own: &Document,
        i: usize,
        document: &PeerDocument,
        ends: &mut Vec<Ends>,
    ) -> Peer {
        let mut prefixes = Vec::new();
        for (j, text) in document.prefixes.iter().enumerate() {
            prefixes.extend(self.prefix(&format!("peers[{i}].prefixes[{j}]"), text));
        }
        let mut ids = BTreeSet::new();
        let mut groups = Vec::new();
        for (j, group) in document.groups.iter().enumerate() {
            let field = format!("peers[{i}].groups[{j}]");
            if !ids.insert(group.id) {
                self.error(&format!("{field}.id"), group.id, "a number that no other group has");
            }
            let connects =
                own.id < document.id && !rendezvous::may_introduce(own, &document.branch);
            let needs_remote = connects || own.transport.tls.is_none();
            let (paths, found) = self.paths(&field, group, document.id, needs_remote);
            if group.sla.is_some() && own.transport.kind != Kind::Quic {
                let expected = "none: only quic measures its paths";
                self.error(&format!("{field}.sla"), "thresholds", expected);
            }
            let sla = group.sla.as_ref().map(SlaDocument::thresholds);
            let GroupDocument { id, class, otherwise, .. } = *group;
            groups.push(Group { id, class, sla, otherwise, paths });
            ends.extend(found);
        }
        Peer { branch: document.branch.clone(), id: document.id, prefixes, groups }
    }

    /// Paths of a group, with the addresses that are known, and where their addresses come from.
    fn paths(
        &mut self,
        field: &str,
        of: &GroupDocument,
        peer: u16,
        needs_remote: bool,
    ) -> (Vec<Path>, Vec<Ends>) {
        let parse = |(member, path): (u8, &PathDocument)| {
            let id = PathId { peer, group: of.id, member };
            ends::parse(self, &format!("{field}.paths[{member}]"), path, id, needs_remote)
        };
        let ends: Vec<_> = (0..).zip(&of.paths).filter_map(parse).collect();
        (ends.iter().map(Ends::fixed).collect(), ends)
    }

    /// Numbers of branches and groups fit into path labels.
    fn numbers(&mut self, document: &Document) {
        let labels = document.transport.labels();
        let (branch_max, group_max, of) = match document.transport.kind {
            Kind::Mptcp => (label::BRANCH_MAX.into(), label::GROUP_MAX, "mptcp".to_owned()),
            Kind::Quic | Kind::Ipip => {
                let of = format!("label_bits {}", labels.low_bits());
                (labels.branch_max(), labels.group_max(), of)
            }
        };
        let branches = format!("0 to {branch_max}, for {of}");
        if document.id > branch_max {
            self.error("id", document.id, &branches);
        }
        for (i, peer) in document.peers.iter().enumerate() {
            if peer.id > branch_max {
                self.error(&format!("peers[{i}].id"), peer.id, &branches);
            }
            for (j, group) in peer.groups.iter().enumerate() {
                if group.id > group_max {
                    let expected = format!("0 to {group_max}, for {of}");
                    self.error(&format!("peers[{i}].groups[{j}].id"), group.id, &expected);
                }
            }
        }
    }

    /// The `ipip` transport identifies peers by address.
    fn ipip(&mut self, config: &Config) {
        let mut pairs = BTreeSet::new();
        let mut ends = config.ends.iter();
        for (i, peer) in config.peers.iter().enumerate() {
            for (k, group) in peer.groups.iter().enumerate() {
                let all: Vec<_> = ends.by_ref().take(group.paths.len()).collect();
                let Some(first) = all.first() else { continue };
                let field = format!("peers[{i}].groups[{k}].paths[0].remote");
                let Path { local, remote, .. } = first.fixed();
                let Some(remote) = remote else {
                    self.error(&field, Value::Null, "an address, for ipip");
                    continue;
                };
                if !pairs.insert((local, first.interface.as_deref(), remote)) {
                    let found = remote.to_string();
                    self.error(&field, found, "a path that no other group has, for ipip");
                }
            }
        }
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use hawser_tunnel::config::Class;
    use serde_json::json;

    use super::*;

    pub(crate) fn sample() -> Value {
        json!({
            "version": 1, "branch": "b1", "id": 1, "control": "gw1.sock",
            "tun": {"name": "hawser0", "mtu": 1500, "address": null},
            "source": "10.1.0.1",
            "transport": {"kind": "mptcp", "tls": null, "insecure": true},
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

    pub(crate) fn fields(document: &Value) -> Vec<String> {
        parse(document).unwrap_err().errors.into_iter().map(|error| error.field).collect()
    }

    #[test]
    fn the_sample_is_good() {
        let config = parse(&sample()).unwrap();
        assert_eq!(config.peers[0].groups[0].paths[0].remote, Some([198, 18, 0, 10].into()));
        assert_eq!(config.source, Some(Ipv4Addr::new(10, 1, 0, 1)));
    }

    #[test]
    fn every_error_names_its_field() {
        let cases = [
            ("/version", json!(2), "version"),
            ("/branch", json!("B 1"), "branch"),
            ("/id", json!(16), "id"),
            ("/id", json!(960), "id"),
            ("/peers/0/id", json!(16), "peers[0].id"),
            ("/id", json!(2), "peers[0].id"),
            ("/branch", json!("b2"), "peers[0].branch"),
            ("/source", json!("10.1.0"), "source"),
            ("/queue_bytes", json!(-1), "queue_bytes"),
            ("/tun/mtu", json!(100), "tun.mtu"),
            ("/tun/name", json!("a-name-that-is-long"), "tun.name"),
            ("/tun/address", json!("10.1.0.1"), "tun.address"),
            ("/transport/kind", json!("gre"), "transport.kind"),
            ("/transport/tls", json!({"certificate": "a", "key": "b"}), "transport.tls.ca"),
            ("/peers/0/prefixes/0", json!("10.2.0.1/24"), "peers[0].prefixes[0]"),
            ("/peers/0/groups/0/id", json!(16), "peers[0].groups[0].id"),
            ("/peers/0/groups/0/id", json!(64), "peers[0].groups[0].id"),
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
    fn the_old_name_of_the_tcp_proxy_is_accepted_but_not_beside_the_new_one() {
        let tls = json!({"certificate": "a", "key": "b", "ca": "c"});
        let named = |name: &str| {
            let mut document = with("/transport", json!({"kind": "quic", "tls": tls}));
            document["transport"][name] = json!({"II": "tcp"});
            document
        };
        let old = parse(&named("lane")).unwrap();
        assert_eq!(old, parse(&named("tcp_proxy")).unwrap());
        let shown = serde_json::to_value(old.document).unwrap();
        assert_eq!(shown["transport"]["tcp_proxy"], json!({"II": "tcp"}));
        assert_eq!(shown["transport"].get("lane"), None);
        let mut both = named("lane");
        both["transport"]["tcp_proxy"] = json!({"I": "tcp"});
        assert_eq!(fields(&both), ["transport.lane"]);
    }

    #[test]
    fn prohibited_prefixes_are_behind_no_peer() {
        let mut document = sample();
        document["prohibited"] = json!(["10.3.0.0/24", "2001:db8:3::/48"]);
        assert_eq!(parse(&document).unwrap().prohibited.len(), 2);
        document["prohibited"] = json!(["10.2.0.0/24", "10.3.0.1/24"]);
        assert_eq!(fields(&document), ["prohibited[0]", "prohibited[1]"]);
    }

    #[test]
    fn own_addresses_are_of_their_family() {
        let mut document = sample();
        document["source6"] = json!("2001:db8:1::1");
        assert_eq!(parse(&document).unwrap().source6, "2001:db8:1::1".parse().ok());
        document["source6"] = json!("10.1.0.1");
        assert_eq!(fields(&document), ["source6"]);
    }

    #[test]
    fn all_errors_are_reported_at_once() {
        let mut document = with("/id", json!(1920));
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
    fn labels_of_quic_are_wide() {
        let tls = json!({"certificate": "a", "key": "b", "ca": "c"});
        let mut document = with("/transport", json!({"kind": "quic", "tls": tls}));
        (document["id"], document["peers"][0]["id"]) = (json!(700), json!(959));
        document["peers"][0]["groups"][0]["id"] = json!(63);
        assert!(parse(&document).is_ok());
        document["peers"][0]["id"] = json!(960);
        assert_eq!(fields(&document), ["peers[0].id"]);
        document["transport"]["label_bits"] = json!(5);
        assert_eq!(fields(&document), ["peers[0].groups[0].id"]);
        document["peers"][0]["groups"][0]["id"] = json!(31);
        document["peers"][0]["id"] = json!(1919);
        assert!(parse(&document).is_ok());
        for bits in [4, 7] {
            document["transport"]["label_bits"] = json!(bits);
            assert_eq!(fields(&document), ["transport.label_bits"]);
        }
        (document["peers"][0]["id"], document["peers"][0]["groups"][0]["id"]) =
            (json!(959), json!(63));
        document["transport"] = json!({"kind": "mptcp", "insecure": true});
        assert_eq!(fields(&document), ["id", "peers[0].id", "peers[0].groups[0].id"]);
    }

    #[test]
    fn quic_is_encrypted() {
        assert_eq!(fields(&with("/transport", json!({"kind": "quic"}))), ["transport.tls"]);
    }

    #[test]
    fn plain_transports_are_called_insecure() {
        let tls = json!({"certificate": "a", "key": "b", "ca": "c"});
        for kind in ["mptcp", "ipip"] {
            let plain = with("/transport", json!({"kind": kind}));
            assert_eq!(fields(&plain), ["transport.insecure"]);
        }
        let both = json!({"kind": "mptcp", "tls": tls, "insecure": true});
        assert_eq!(fields(&with("/transport", both)), ["transport.insecure"]);
        let sealed = parse(&with("/transport", json!({"kind": "mptcp", "tls": tls}))).unwrap();
        let plain = parse(&sample()).unwrap();
        assert_eq!(sealed.fixed_differences(&plain)[0].field, "transport.tls");
        assert_eq!(plain.fixed_differences(&sealed), []);
    }

    #[test]
    fn only_quic_has_a_tcp_proxy() {
        let tls = json!({"certificate": "a", "key": "b", "ca": "c"});
        let with_proxy = |kind, tcp_proxy| {
            with("/transport", json!({"kind": kind, "tls": tls.clone(), "tcp_proxy": tcp_proxy}))
        };
        let config = parse(&with_proxy("quic", json!({"II": "tcp"}))).unwrap();
        let tcp_proxy = config.document.transport.tcp_proxy;
        assert_eq!((tcp_proxy.takes(Class::I), tcp_proxy.takes(Class::II)), (false, true));
        assert_eq!(fields(&with_proxy("mptcp", json!({"II": "tcp"}))), ["transport.tcp_proxy"]);
        assert_eq!(fields(&with_proxy("quic", json!({"III": "tcp"}))), ["transport.tcp_proxy.III"]);
        assert_eq!(fields(&with_proxy("quic", json!({"I": "udp"}))), ["transport.tcp_proxy.I"]);
        let other = parse(&with_proxy("quic", json!({}))).unwrap();
        assert_eq!(config.fixed_differences(&other)[0].field, "transport.tcp_proxy");
    }

    #[test]
    fn only_quic_has_these_settings() {
        let tls = json!({"certificate": "a", "key": "b", "ca": "c"});
        let made = |kind, congestion, resequence| {
            let recovery = if resequence { "resend" } else { "none" };
            let transport = json!({"kind": kind, "tls": tls.clone(), "congestion": congestion, "recovery": recovery,
                "resequence": resequence, "header_compression": resequence});
            with("/transport", transport)
        };
        let [plain, chosen] = [made("quic", "delay", true), made("quic", "bbr", false)];
        let differences = parse(&plain).unwrap().fixed_differences(&parse(&chosen).unwrap());
        let all = ["congestion", "recovery", "resequence", "header_compression"];
        let all = all.map(|field| format!("transport.{field}"));
        assert!(differences.iter().map(|error| &error.field).eq(&all), "{differences:?}");
        assert_eq!(fields(&made("mptcp", "cubic", false)), all);
        assert_eq!(fields(&made("quic", "vegas", true)), ["transport.congestion"]);
    }

    #[test]
    fn ipip_is_plain() {
        let mut document = with("/transport", json!({"kind": "ipip", "insecure": true}));
        document["peers"][0]["prefixes"] = json!(["10.2.0.0/24", "2001:db8::/32"]);
        assert!(parse(&document).is_ok());
        document["transport"]["tls"] = json!({"certificate": "a", "key": "b", "ca": "c"});
        assert_eq!(fields(&document), ["transport.tls", "transport.insecure"]);
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
