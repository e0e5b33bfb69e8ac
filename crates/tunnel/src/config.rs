//! What a tunnel is configured with: values that have been checked.

use std::net::IpAddr;

use hawser_wire::tunnel::OwnAddresses;
use ipnet::IpNet;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Configuration of a tunnel.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Config {
    /// Name of this branch.
    pub branch: String,
    /// Number of this branch. Of two branches the one with the lower number connects.
    pub id: u16,
    /// Addresses of this gateway, which the TCP proxy does not connect to.
    pub own: OwnAddresses,
    /// Bytes held for each path group while its paths are slow or down.
    pub queue_bytes: u64,
    /// How flows are placed on the path groups of a peer.
    pub placement: Placement,
    /// How packets are carried.
    pub options: Options,
    /// The other branches.
    pub peers: Vec<Peer>,
}

/// How packets are carried.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(clippy::struct_excessive_bools)] // each is a switch of its own in the configuration
pub struct Options {
    /// What decides how much may be in flight on a path.
    pub congestion: Congestion,
    /// What becomes of packets that a path loses.
    pub recovery: Recovery,
    /// Whether packets of a flow are put back into order at the receiver.
    pub resequence: bool,
    /// Whether headers of TCP packets are compressed.
    pub header_compression: bool,
    /// Whether TCP connections are terminated and carried as streams.
    pub proxy: bool,
    /// Whether the kernel cuts batches of datagrams (UDP GSO).
    pub udp_offload: bool,
}

/// Another branch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Peer {
    /// Its name.
    pub branch: String,
    /// Its number.
    pub id: u16,
    /// Addresses behind it.
    pub prefixes: Vec<IpNet>,
    /// Path groups to it.
    pub groups: Vec<Group>,
}

/// A path group; it has at least one path.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Group {
    /// Its number.
    pub id: u8,
    /// Which traffic it carries.
    pub class: Class,
    /// Its member paths.
    pub paths: Vec<Path>,
}

/// A pair of addresses of one family.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Path {
    /// Address of this gateway.
    pub local: IpAddr,
    /// Address of the peer.
    pub remote: IpAddr,
}

/// Which traffic a path group carries. Where a peer has no group of a class, any group carries it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum Class {
    /// Urgent.
    I,
    /// All other.
    #[default]
    II,
}

/// How flows are placed on the path groups of a peer. A flow stays on its group while that is up.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Placement {
    /// One group after the other.
    RoundRobin,
    /// By a hash of addresses and ports.
    #[default]
    FlowHash,
    /// The group with the fewest bytes that wait, and then the fewest flows.
    LeastLoaded,
}

/// Congestion control. `delay`: a short queue stands on each path, after FAST TCP. `cubic` (RFC 9438) and
/// `bbr` (draft-cardwell-iccrg-bbr-congestion-control), as in quinn: for paths that are shared with such
/// flows of others.
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

/// What becomes of packets that a path loses. `resend`: those of TCP are sent again on the path on which they
/// arrive first, and the peer waits for them: an inner flow takes no loss of a path for congestion. `none`: they
/// are lost.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
#[schemars(inline)]
#[allow(missing_docs)] // the schema has one description for all, above
pub enum Recovery {
    #[default]
    Resend,
    None,
}
