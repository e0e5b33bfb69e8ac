//! The `transport` section: how packets are carried.

use std::path::PathBuf;

use hawser_netdev::tun;
use hawser_tunnel::config::{Class, Congestion, Recovery};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::{Check, Document, is_default};

/// How packets are carried.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct TransportDocument {
    /// `mptcp`: IP over Multipath TCP, over all paths of a group at once. `quic`: IP in QUIC datagrams,
    /// one connection a path, over all of them at once; always encrypted. `ipip`: IP in IP, over the
    /// first path of the first group only.
    pub(crate) kind: Kind,
    /// Encryption with TLS 1.3; null for none, which `quic` does not allow.
    #[serde(default)]
    pub(crate) tls: Option<TlsDocument>,
    /// Whether the kernel cuts batches of `quic` datagrams (UDP GSO); left out: where a self-test at the
    /// start finds that it does so rightly.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) udp_offload: Option<bool>,
    /// Types of traffic whose TCP connections `quic` terminates and carries as streams, to peers that do so
    /// too; all other traffic goes packet by packet.
    #[serde(default, skip_serializing_if = "is_default")]
    pub(crate) lane: LaneDocument,
    /// How much of `quic` may be under way on a path.
    #[serde(default, skip_serializing_if = "is_default")]
    pub(crate) congestion: Congestion,
    /// What becomes of packets of `quic` that a path loses.
    #[serde(default, skip_serializing_if = "is_default")]
    pub(crate) recovery: Recovery,
    /// Whether `quic` brings the packets of a flow back into order before they leave the tunnel; false only
    /// to see what that is worth.
    #[serde(default = "yes", skip_serializing_if = "is_yes")]
    pub(crate) resequence: bool,
    /// Whether `quic` compresses the headers of packets of TCP, where what is lost is sent again; false only to see
    /// what that is worth.
    #[serde(default = "yes", skip_serializing_if = "is_yes")]
    pub(crate) header_compression: bool,
}

fn yes() -> bool {
    true
}

#[allow(clippy::trivially_copy_pass_by_ref)] // serde asks with a reference
fn is_yes(value: &bool) -> bool {
    *value
}

/// How TCP of a type of traffic is carried; left out: as any other traffic.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct LaneDocument {
    /// Of urgent traffic.
    #[serde(rename = "I", default, skip_serializing_if = "Option::is_none")]
    pub(crate) urgent: Option<Lane>,
    /// Of all other.
    #[serde(rename = "II", default, skip_serializing_if = "Option::is_none")]
    pub(crate) other: Option<Lane>,
}

/// A way for TCP.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
#[schemars(inline)]
pub(crate) enum Lane {
    Tcp,
}

impl LaneDocument {
    /// Whether TCP of a class is terminated.
    pub(crate) fn takes(self, class: Class) -> bool {
        match class {
            Class::I => self.urgent.is_some(),
            Class::II => self.other.is_some(),
        }
    }

    /// Whether that of any class is.
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
    /// SHA-256 fingerprints of certificates that are not believed though the authority signed them:
    /// connections of who shows one end at once.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 4096), inner(regex(pattern = FINGERPRINT)))]
    pub(crate) revoked: Vec<String>,
    /// A file of further ones, one a line; `#` begins a comment. It is read again with each new
    /// configuration.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) revoked_file: Option<PathBuf>,
}

/// 32 bytes in hexadecimal, with or without colons between them.
const FINGERPRINT: &str = "^[0-9A-Fa-f]{2}(:?[0-9A-Fa-f]{2}){31}$";

/// Finds what does not go together.
pub(super) fn check(check: &mut Check, document: &Document) {
    if document.transport.kind == Kind::Ipip && document.transport.tls.is_some() {
        let found = serde_json::to_value(&document.transport.tls).unwrap_or_default();
        check.error("transport.tls", found, "null, for ipip is not encrypted");
    }
    if document.transport.kind == Kind::Quic && document.transport.tls.is_none() {
        check.error("transport.tls", Value::Null, "files, for quic is always encrypted");
    }
    if document.transport.kind != Kind::Quic && document.transport.lane.is_used() {
        let found = serde_json::to_value(document.transport.lane).unwrap_or_default();
        check.error("transport.lane", found, "nothing, for only quic has a lane for TCP");
    }
    if document.transport.kind != Kind::Quic && document.transport.congestion != Congestion::Delay {
        let found = serde_json::to_value(document.transport.congestion).unwrap_or_default();
        check.error("transport.congestion", found, "nothing, for only quic has one of its own");
    }
    if document.transport.kind != Kind::Quic && document.transport.recovery != Recovery::Resend {
        let found = serde_json::to_value(document.transport.recovery).unwrap_or_default();
        check.error("transport.recovery", found, "nothing, for only quic loses single packets");
    }
    if document.transport.kind != Kind::Quic && !document.transport.resequence {
        check.error("transport.resequence", false, "nothing, for only quic sends out of order");
    }
    if document.transport.kind != Kind::Quic && !document.transport.header_compression {
        check.error("transport.header_compression", false, "nothing, for only quic has it");
    }
    if document.tun.name.len() > tun::MAX_NAME_LEN {
        check.error("tun.name", document.tun.name.as_str(), "at most 15 characters");
    }
}
