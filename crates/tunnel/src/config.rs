//! Configuration of a tunnel, already validated.

use std::net::{IpAddr, SocketAddr};

use hawser_multipath::Sla;
use hawser_wire::{label::wide, tunnel::OwnAddresses};
use ipnet::IpNet;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::reach::Permissions;

/// Configuration of a tunnel.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Config {
    /// Name of this branch.
    pub branch: String,
    /// Number of this branch. The branch with the lower number connects.
    pub id: u16,
    /// Layout of path labels, the same in all gateways.
    pub labels: wide::Layout,
    /// What peers may reach.
    pub permissions: Permissions,
    /// Addresses of this gateway itself, to which the TCP proxy does not connect.
    pub own: OwnAddresses,
    /// Limit of each path group's queue, bytes.
    pub queue_bytes: u64,
    /// How flows are placed on the path groups of a peer.
    pub placement: Placement,
    /// Most that this branch sends of each class, bit/s, to all peers together.
    pub max_rate_bps: [Option<u64>; 2],
    /// How packets are carried.
    pub options: Options,
    /// Number of the branch that introduces the others to each other; may be this one.
    pub rendezvous: Option<u16>,
    /// The other branches.
    pub peers: Vec<Peer>,
}

/// How packets are carried.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(clippy::struct_excessive_bools)] // each is a switch of its own in the configuration
pub struct Options {
    /// Congestion control of a path.
    pub congestion: Congestion,
    /// What happens to packets that a path loses.
    pub recovery: Recovery,
    /// Whether the receiver restores the order of each flow.
    pub resequence: bool,
    /// Whether headers of TCP packets are compressed.
    pub header_compression: bool,
    /// Whether the TCP proxy is on.
    pub proxy: bool,
    /// Whether the kernel segments batches of datagrams (UDP GSO).
    pub udp_offload: bool,
    /// What happens to packets that exceed the path MTU.
    pub oversize: Oversize,
    /// Newest wire version that is spoken ([`hawser_wire::tunnel::WIRE_VERSIONS`]).
    pub newest_version: u8,
}

/// Another branch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Peer {
    /// Its name.
    pub branch: String,
    /// Its number.
    pub id: u16,
    /// Its prefixes.
    pub prefixes: Vec<IpNet>,
    /// Path groups to it.
    pub groups: Vec<Group>,
}

/// A path group, with at least one member path. It stays the same group while addresses of its
/// paths change.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Group {
    /// Its number.
    pub id: u8,
    /// Traffic class that it carries.
    pub class: Class,
    /// What its member paths have to offer to the class.
    pub sla: Option<Sla>,
    /// What happens to flows of the class while none of its member paths does.
    pub otherwise: Otherwise,
    /// Its member paths.
    pub paths: Vec<Path>,
}

impl Group {
    /// A group of a class without thresholds.
    #[must_use]
    pub fn new(id: u8, class: Class, paths: Vec<Path>) -> Self {
        Self { id, class, sla: None, otherwise: Otherwise::Any, paths }
    }

    /// Whether it is the same group, whose member paths may have other addresses, and whose class may
    /// have other thresholds now.
    #[must_use]
    pub fn is_same_as(&self, other: &Self) -> bool {
        let fixed = |group: &Self| (group.id, group.class, group.paths.len());
        fixed(self) == fixed(other)
    }
}

/// Current addresses of a member path, both of one family.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Path {
    /// Address of this gateway; None while it has none.
    pub local: Option<IpAddr>,
    /// Address of the peer; None while it is not known. Only the side that connects needs it.
    pub remote: Option<IpAddr>,
    /// Index of the interface to which its sockets are bound; None: routing decides.
    pub interface: Option<u32>,
    /// Where the rendezvous sees the peer, if it has been asked: the remote address of a path that has no
    /// other.
    pub reflexive: Option<SocketAddr>,
}

impl Path {
    /// Address of the peer as the rendezvous has told it.
    #[must_use]
    pub fn introduced(&self) -> Option<SocketAddr> {
        self.reflexive.filter(|_| self.remote.is_none())
    }

    /// Both addresses, if they are known.
    #[must_use]
    pub fn ends(&self) -> Option<(IpAddr, IpAddr)> {
        self.local.zip(self.remote)
    }
}

/// Traffic class of a path group. If a peer has no group of a class, any group carries it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum Class {
    /// Type I: urgent.
    I,
    /// Type II: all other traffic between branches.
    #[default]
    II,
}

/// What happens to flows of a class while its path groups have no member path that works and meets the
/// thresholds. `any`: any path to the peer that works carries them, in a group of another class or,
/// last, in their own. `drop`: they wait in the queue, and are dropped when it is full.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
#[schemars(inline)]
#[allow(missing_docs)] // the schema has one description for all, above
pub enum Otherwise {
    #[default]
    Any,
    Drop,
}

/// How flows are placed on the path groups of a peer. A flow stays on its group while that is up.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Placement {
    /// Groups in turn.
    RoundRobin,
    /// By a hash of addresses and ports.
    #[default]
    FlowHash,
    /// The group with the fewest bytes queued, then the fewest flows.
    LeastLoaded,
    /// The group with the highest average throughput for each flow on it, the new one included.
    /// Groups that have carried nothing yet are tried first.
    Throughput,
}

/// Congestion control of a path. `delay`: delay-based, after FAST TCP, with a short queue on each
/// path. `cubic` (RFC 9438) and `bbr` (draft-cardwell-iccrg-bbr-congestion-control) are those of
/// quinn, for paths shared with others' flows of that kind.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
#[schemars(inline)]
#[allow(missing_docs)] // the schema has one description for all, above
pub enum Congestion {
    #[default]
    Delay,
    Cubic,
    Bbr,
}

/// What happens to packets that a path loses. `resend`: TCP packets are retransmitted where they
/// arrive first, and the peer waits for them, so that inner flows do not take the path's losses for
/// congestion. `none`: they stay lost.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
#[schemars(inline)]
#[allow(missing_docs)] // the schema has one description for all, above
pub enum Recovery {
    #[default]
    Resend,
    None,
}

/// What happens to packets that exceed the path MTU and must not be fragmented. `answer`: they are
/// dropped, the sender gets an ICMP error with the MTU, and the MTU of the TUN device follows the
/// paths. `fragment`: the tunnel fragments them, for hosts that do not receive ICMP errors; the MTU
/// of the TUN device stays as configured.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
#[schemars(inline)]
#[allow(missing_docs)] // the schema has one description for all, above
pub enum Oversize {
    #[default]
    Answer,
    Fragment,
}
