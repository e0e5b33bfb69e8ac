//! The configuration as it is written.

use std::path::PathBuf;

use hawser_tunnel::config::{Class, Otherwise, Placement};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{
    check::{INTERFACE, is_default},
    class::{MaxRateDocument, SlaDocument},
    classifier::ClassifierDocument,
    ends::PathDocument,
    local::ServiceDocument,
    switch::SwitchDocument,
    transport::TransportDocument,
    wan::WanDocument,
};

/// Configuration of one gateway (MMSG) of an SD-WAN.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(title = "hawserd gateway configuration")]
pub(crate) struct Document {
    /// Version of this format.
    #[schemars(range(min = 1, max = 1))]
    pub(crate) version: u32,
    /// Name of this branch; with TLS also the name in its certificate.
    #[schemars(regex(pattern = NAME))]
    pub(crate) branch: String,
    /// Number of this branch in path labels; with `mptcp` at most 15, with 6 `label_bits` at most 959.
    #[schemars(range(max = 1919))]
    pub(crate) id: u16,
    /// Unix socket of the control API.
    #[schemars(length(min = 1, max = 107))]
    pub(crate) control: PathBuf,
    /// TUN device for packets to and from other branches.
    pub(crate) tun: TunDocument,
    /// Source address of packets that the gateway itself sends to other branches: its LAN address.
    #[serde(default)]
    pub(crate) source: Option<String>,
    /// The same for IPv6.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) source6: Option<String>,
    /// Prefixes behind this gateway, such as `10.1.0.0/24`: peers reach hosts there and nothing else.
    /// If left out, they reach whatever the gateway does, itself included.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 1024))]
    pub(crate) local: Option<Vec<String>>,
    /// Services on the gateway's own addresses in `local` that peers may reach. Echo and errors of
    /// ICMP, and answers to the gateway itself, always pass.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 256))]
    pub(crate) services: Vec<ServiceDocument>,
    /// Prefixes that neither this branch reaches nor packets from it: they are answered with
    /// "administratively prohibited", and do not leave by a WAN port.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 4096))]
    pub(crate) prohibited: Vec<String>,
    /// How packets are carried.
    pub(crate) transport: TransportDocument,
    /// Name of the branch that introduces gateways behind NATs to each other (`quic`): this one, or a
    /// peer with a higher number. Paths to other peers then need no `remote`, and lead through that
    /// branch if no direct connection can be opened.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(regex(pattern = NAME))]
    pub(crate) rendezvous: Option<String>,
    /// Limit of each path group's queue, bytes.
    #[serde(default = "default_queue_bytes")]
    #[schemars(range(min = 65_536, max = 1_073_741_824))]
    pub(crate) queue_bytes: u32,
    /// How flows are placed on the path groups of a peer.
    #[serde(default, skip_serializing_if = "is_default")]
    pub(crate) placement: Placement,
    /// Most that this branch sends of each type of traffic.
    #[serde(default, skip_serializing_if = "is_default")]
    pub(crate) max_rate_bps: MaxRateDocument,
    /// The other branches.
    #[schemars(length(max = 1919))]
    pub(crate) peers: Vec<PeerDocument>,
    /// Forwards packets between the agent and the WAN ports; null for plain routing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) switch: Option<SwitchDocument>,
    /// Classifies LAN traffic; null if all traffic to peers is of Type II.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) classifier: Option<ClassifierDocument>,
    /// The WAN interfaces and what they take; if left out, what arrives there is not filtered.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) wan: Option<WanDocument>,
}

const NAME: &str = r"^[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?$";

fn default_queue_bytes() -> u32 {
    1_000_000
}

/// The TUN device.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct TunDocument {
    /// Its name.
    #[schemars(regex(pattern = INTERFACE))]
    pub(crate) name: String,
    /// Its MTU; the `ipip` and `quic` transports lower it to what fits the path.
    #[schemars(range(min = 1280, max = 65_535))]
    pub(crate) mtu: u16,
    /// Its address and prefix length, if it has one.
    #[serde(default)]
    pub(crate) address: Option<String>,
}

/// Another branch.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct PeerDocument {
    /// Its name.
    #[schemars(regex(pattern = NAME))]
    pub(crate) branch: String,
    /// Its number in path labels, with the same limits. The branch with the lower number connects.
    #[schemars(range(max = 1919))]
    pub(crate) id: u16,
    /// Prefixes behind it, such as `10.2.0.0/24`.
    #[schemars(length(min = 1, max = 1024))]
    pub(crate) prefixes: Vec<String>,
    /// Path groups: each is one connection; with `quic`, one per path.
    #[schemars(length(min = 1, max = 64))]
    pub(crate) groups: Vec<GroupDocument>,
}

/// Member paths used together by one connection.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct GroupDocument {
    /// Number of the group in path labels; with `mptcp` at most 15, with 5 `label_bits` at most 31.
    #[schemars(range(max = 63))]
    pub(crate) id: u8,
    /// Traffic class that it carries.
    #[serde(default, skip_serializing_if = "is_default")]
    pub(crate) class: Class,
    /// What its paths have to offer to the class; with `quic` only.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) sla: Option<SlaDocument>,
    /// What happens to flows of the class while none of its paths does.
    #[serde(default, skip_serializing_if = "is_default")]
    pub(crate) otherwise: Otherwise,
    /// Its member paths. The first subflow uses the first.
    #[schemars(length(min = 1, max = 16))]
    pub(crate) paths: Vec<PathDocument>,
}
