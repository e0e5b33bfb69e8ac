//! The `transport` section.

use std::path::PathBuf;

use hawser_tunnel::config::{Class, Congestion, Oversize, Recovery};
use hawser_wire::{label::wide, tunnel::WIRE_VERSIONS};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::check::{Check, is_default};

/// How packets are carried.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct TransportDocument {
    /// `mptcp`: IP over Multipath TCP, over all paths of a group at once. `quic`: IP in QUIC
    /// datagrams, one connection per path, over all of them at once; always encrypted. `ipip`: IP
    /// in IP, over the first path of the first group only.
    pub(crate) kind: Kind,
    /// Encryption with TLS 1.3; null for none, which `quic` does not allow, and others only with
    /// `insecure`.
    #[serde(default)]
    pub(crate) tls: Option<TlsDocument>,
    /// Must be true for a transport without TLS: anyone on the way can read packets and forge them.
    #[serde(default, skip_serializing_if = "is_default")]
    pub(crate) insecure: bool,
    /// Whether the kernel segments batches of `quic` datagrams (UDP GSO). If left out, a self-test
    /// at the start decides.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) udp_offload: Option<bool>,
    /// Traffic types whose TCP connections `quic` terminates and carries as streams, to peers that
    /// do so too; all other traffic is carried packet by packet.
    #[serde(default, skip_serializing_if = "is_default")]
    pub(crate) tcp_proxy: TcpProxyDocument,
    /// Congestion control of `quic` paths.
    #[serde(default, skip_serializing_if = "is_default")]
    pub(crate) congestion: Congestion,
    /// What happens to packets that a `quic` path loses.
    #[serde(default, skip_serializing_if = "is_default")]
    pub(crate) recovery: Recovery,
    /// Whether `quic` restores the order of each flow before packets leave the tunnel; false only
    /// for comparison.
    #[serde(default = "yes", skip_serializing_if = "is_yes")]
    pub(crate) resequence: bool,
    /// Whether `quic` compresses headers of retransmittable TCP packets; false only for comparison.
    #[serde(default = "yes", skip_serializing_if = "is_yes")]
    pub(crate) header_compression: bool,
    /// Newest wire version that `quic` speaks; with each peer the newest common one is used. Older
    /// ones are for tests.
    #[serde(default = "newest_version", skip_serializing_if = "is_newest")]
    #[schemars(range(min = 1, max = 3))]
    pub(crate) wire_version: u8,
    /// What happens to packets larger than a `quic` path takes.
    #[serde(default, skip_serializing_if = "is_default")]
    pub(crate) oversize: Oversize,
    /// Bits of a `quic` path label for the group or the member path: 6, for 960 branches and 64 groups, or
    /// 5, for 1920 branches and 32 groups. All gateways of a network have the same.
    #[serde(default = "label_bits", skip_serializing_if = "is_label_bits")]
    #[schemars(range(min = 5, max = 6))]
    pub(crate) label_bits: u8,
}

impl TransportDocument {
    /// Layout of path labels.
    pub(crate) fn labels(&self) -> wide::Layout {
        wide::Layout::with_low_bits(self.label_bits).unwrap_or_default()
    }
}

fn label_bits() -> u8 {
    wide::Layout::default().low_bits()
}

#[allow(clippy::trivially_copy_pass_by_ref)] // serde asks with a reference
fn is_label_bits(bits: &u8) -> bool {
    *bits == label_bits()
}

fn newest_version() -> u8 {
    WIRE_VERSIONS.1
}

#[allow(clippy::trivially_copy_pass_by_ref)] // serde asks with a reference
fn is_newest(version: &u8) -> bool {
    *version == newest_version()
}

fn yes() -> bool {
    true
}

#[allow(clippy::trivially_copy_pass_by_ref)] // serde asks with a reference
fn is_yes(value: &bool) -> bool {
    *value
}

/// How TCP of a traffic type is carried; if left out, like any other traffic.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct TcpProxyDocument {
    /// Type I.
    #[serde(rename = "I", default, skip_serializing_if = "Option::is_none")]
    pub(crate) urgent: Option<TcpProxyMode>,
    /// Type II.
    #[serde(rename = "II", default, skip_serializing_if = "Option::is_none")]
    pub(crate) other: Option<TcpProxyMode>,
}

/// How the TCP proxy carries connections.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
#[schemars(inline)]
pub(crate) enum TcpProxyMode {
    Tcp,
}

impl TcpProxyDocument {
    /// Whether TCP connections of a class are terminated.
    pub(crate) fn takes(self, class: Class) -> bool {
        match class {
            Class::I => self.urgent.is_some(),
            Class::II => self.other.is_some(),
        }
    }

    /// Whether those of any class are.
    pub(crate) fn is_used(self) -> bool {
        self.takes(Class::I) || self.takes(Class::II)
    }
}

/// A transport.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
#[schemars(inline)]
pub(crate) enum Kind {
    Mptcp,
    Ipip,
    Quic,
}

/// Files in PEM form.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct TlsDocument {
    /// Certificate (chain) of this branch; its subject alternative name is the branch's name.
    pub(crate) certificate: PathBuf,
    /// Its private key.
    pub(crate) key: PathBuf,
    /// Certificate of the authority that signs those of all branches.
    pub(crate) ca: PathBuf,
    /// SHA-256 fingerprints of certificates that are refused although the authority signed them.
    /// Connections that use one are closed at once.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 4096), inner(regex(pattern = FINGERPRINT)))]
    pub(crate) revoked: Vec<String>,
    /// File of further fingerprints, one per line; `#` starts a comment. It is read again with each
    /// new configuration.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) revoked_file: Option<PathBuf>,
}

/// 32 bytes in hexadecimal, with or without colons in between.
const FINGERPRINT: &str = "^[0-9A-Fa-f]{2}(:?[0-9A-Fa-f]{2}){31}$";

/// Reports combinations that are not allowed.
pub(super) fn check(check: &mut Check, document: &TransportDocument) {
    if document.kind == Kind::Ipip && document.tls.is_some() {
        let found = serde_json::to_value(&document.tls).unwrap_or_default();
        check.error("transport.tls", found, "null, since ipip is not encrypted");
    }
    if document.kind == Kind::Quic && document.tls.is_none() {
        check.error("transport.tls", Value::Null, "files, since quic is always encrypted");
    }
    let plain = document.kind != Kind::Quic && document.tls.is_none();
    if plain && !document.insecure {
        let expected = "true, since without TLS packets can be read and forged on the way";
        check.error("transport.insecure", false, expected);
    }
    if document.insecure && document.tls.is_some() {
        check.error("transport.insecure", true, "false, since TLS is on");
    }
    if document.kind != Kind::Quic {
        only_quic(check, document);
    }
}

/// Reports settings of `quic` beside another transport.
fn only_quic(check: &mut Check, document: &TransportDocument) {
    if document.tcp_proxy.is_used() {
        let found = serde_json::to_value(document.tcp_proxy).unwrap_or_default();
        check.error("transport.tcp_proxy", found, "nothing, since only quic has a TCP proxy");
    }
    if document.congestion != Congestion::Delay {
        let found = serde_json::to_value(document.congestion).unwrap_or_default();
        check.error("transport.congestion", found, "nothing, since only quic has this setting");
    }
    if document.recovery != Recovery::Resend {
        let found = serde_json::to_value(document.recovery).unwrap_or_default();
        check.error("transport.recovery", found, "nothing, since only quic loses single packets");
    }
    if !document.resequence {
        check.error("transport.resequence", false, "nothing, since only quic sends out of order");
    }
    if !document.header_compression {
        check.error(
            "transport.header_compression",
            false,
            "nothing, since only quic has this setting",
        );
    }
    if !is_newest(&document.wire_version) {
        let found = document.wire_version;
        check.error("transport.wire_version", found, "nothing, since only quic has this setting");
    }
    if document.oversize != Oversize::Answer {
        let found = serde_json::to_value(document.oversize).unwrap_or_default();
        check.error("transport.oversize", found, "nothing, since only quic fragments");
    }
    if !is_label_bits(&document.label_bits) {
        let found = document.label_bits;
        check.error("transport.label_bits", found, "nothing, since only quic has wide labels");
    }
}
