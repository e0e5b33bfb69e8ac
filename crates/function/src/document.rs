//! Configuration of a service function or of a service function forwarder, as it is written.
//! [`super::plan`] makes it valid.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{
    health::document::{Fail, Function},
    mac::Mac,
};

/// Configuration of a node on service paths (RFC 7665): a forwarder (SFF), with classification, or a
/// function.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(title = "hawserd function configuration")]
pub(crate) struct Document {
    /// Version of this format.
    #[schemars(range(min = 1, max = 1))]
    pub(crate) version: u32,
    /// Unix socket of the control API.
    #[schemars(length(min = 1, max = 107))]
    pub(crate) control: String,
    /// Interfaces that packets come in by and leave by.
    #[schemars(length(min = 1, max = 255))]
    pub(crate) ports: Vec<Port>,
    /// What happens at each place of each path. A function that has none sends back what it has served;
    /// one that has some is its own forwarder on these paths.
    #[serde(default)]
    #[schemars(length(max = 16384))]
    pub(crate) hops: Vec<Hop>,
    /// Which flows enter which path: the first rule that matches. Only a forwarder has rules.
    #[serde(default)]
    #[schemars(length(max = 1_000_000))]
    pub(crate) rules: Vec<Rule>,
    /// What becomes of packets for operation and maintenance (RFC 8300 section 2.2).
    #[serde(default)]
    pub(crate) oam: Oam,
    /// What a firewall does; no other function has this.
    #[serde(default)]
    pub(crate) firewall: Option<Firewall>,
    /// Functions whose health is checked. Only a forwarder has this.
    #[serde(default)]
    #[schemars(length(max = 1024))]
    pub(crate) functions: Vec<Function>,
    /// Paths that depend on these functions. Only a forwarder has this.
    #[serde(default)]
    #[schemars(length(max = 16384))]
    pub(crate) service_paths: Vec<ServicePath>,
}

/// A path, and the functions that it depends on, at whatever node they are.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct ServicePath {
    /// Service path identifier.
    #[schemars(range(min = 1, max = 0xff_ffff))]
    pub(crate) spi: u32,
    /// What happens while one of its functions is down. If `open`, its rules put no packet on it. If
    /// `closed`, they do, and packets are dropped as `no_hop` where all instances that come next are down.
    #[serde(default)]
    pub(crate) fail: Fail,
    /// Names of its functions.
    #[schemars(length(min = 1, max = 64))]
    pub(crate) functions: Vec<String>,
}

/// What a firewall does besides its rules, which it gets by its API.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Firewall {
    /// File that the rules are kept in, in which they survive a restart. Made where there is none.
    #[schemars(length(min = 1, max = 4096))]
    pub(crate) rules_file: String,
    /// What happens to packets that no rule matches.
    #[serde(default)]
    pub(crate) otherwise: Action,
    /// Remember flows: whoever was allowed to begin one gets its answers.
    #[serde(default)]
    pub(crate) remember: Option<Remember>,
    /// Serves rules over TCP, to whoever has the token. The control socket serves them, too.
    #[serde(default)]
    pub(crate) rest: Option<Rest>,
}

/// Which flows are remembered.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Remember {
    /// How many; the one that rested longest makes room.
    #[serde(default = "remembered_flows")]
    #[schemars(range(min = 1, max = 4_000_000))]
    pub(crate) flows: u32,
    /// Seconds that a flow may rest until it is forgotten.
    #[serde(default = "remembered_s")]
    #[schemars(range(min = 1, max = 864_000))]
    pub(crate) idle_s: u32,
}

fn remembered_flows() -> u32 {
    262_144
}

fn remembered_s() -> u32 {
    300
}

/// An API over TCP.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Rest {
    /// Address and port.
    pub(crate) listen: SocketAddr,
    /// File with the token that requests bring (`authorization: Bearer TOKEN`), 16 characters at least.
    #[schemars(length(min = 1, max = 4096))]
    pub(crate) token_file: String,
}

/// Rules of a firewall: the first that matches decides.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(title = "hawserd firewall rules")]
pub(crate) struct GuardRules {
    /// In their order.
    #[schemars(length(max = 1_000_000))]
    pub(crate) rules: Vec<GuardRule>,
}

/// One rule. What is left out matches everything.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(title = "hawserd firewall rule")]
pub(crate) struct GuardRule {
    /// Its number, by which it can be deleted; given to it where it has none.
    #[serde(default)]
    #[schemars(range(min = 1, max = 9_007_199_254_740_991_u64))]
    pub(crate) id: Option<u64>,
    /// What packets look like.
    #[serde(flatten)]
    pub(crate) flows: Flows,
    /// What happens to them.
    pub(crate) action: Action,
}

/// What happens to a packet at a firewall.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Action {
    /// It goes on.
    #[default]
    Allow,
    /// It is dropped, and counted as `denied`.
    Deny,
}

/// An interface.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Port {
    /// Its name here.
    #[schemars(length(min = 1, max = 64))]
    pub(crate) name: String,
    /// Its name in the daemon's network namespace.
    #[schemars(length(min = 1, max = 15))]
    pub(crate) interface: String,
    /// Address that VXLAN-GPE (UDP port 4790) comes to and goes out from. At a port with `proxy`, the kernel
    /// gets what comes to it, such as answers to health checks.
    #[serde(default)]
    pub(crate) address: Option<Ipv4Addr>,
    /// What becomes of frames that are on no path and enter none.
    #[serde(default)]
    pub(crate) otherwise: Otherwise,
    /// Its queues and rates must hold: frames leave it by way of the kernel, whose routes must lead there
    /// (redirection passes no queue). Frames on a path leave in VXLAN-GPE then.
    #[serde(default)]
    pub(crate) queued: bool,
    /// What stands at the port knows no service headers (RFC 7665 section 4.6): packets on a path go to
    /// it without one, and get it again when they come back.
    #[serde(default)]
    pub(crate) proxy: Option<Proxy>,
}

/// How packets are known again that come back without header.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Proxy {
    /// By the flow that they went with; one that comes back with another source or another destination is
    /// known by the side that it kept, unless flows of several paths share that. What belongs to none is
    /// dropped, and counted as `unknown_flow` or `several_paths`.
    Flows,
    /// By `rules` at this port; what fits none is none of a path's.
    Rules,
}

/// What becomes of frames that are on no path.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Otherwise {
    /// The kernel gets them.
    #[default]
    Pass,
    /// They are dropped, and counted as `unclassified`.
    Drop,
    /// They leave by the port of this name, as they are.
    Port(String),
}

/// A place of a path, and what happens there: either `to` or `end`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Hop {
    /// Service path identifier.
    #[schemars(range(min = 1, max = 0xff_ffff))]
    pub(crate) spi: u32,
    /// Service index.
    #[schemars(range(min = 1, max = 255))]
    pub(crate) si: u8,
    /// Instances of the function that comes next, or the next forwarder. A flow keeps to one of several.
    #[serde(default)]
    #[schemars(length(max = 16))]
    pub(crate) to: Vec<Target>,
    /// Packets leave the path.
    #[serde(default)]
    pub(crate) end: Option<End>,
}

/// A neighbour that packets go to, by Ethernet (type 0x894F) or by VXLAN-GPE.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Target {
    /// Port they leave by.
    pub(crate) port: String,
    /// Ethernet address of the neighbour.
    pub(crate) mac: Mac,
    /// The tunnel, where it is not plain Ethernet.
    #[serde(default)]
    pub(crate) vxlan_gpe: Option<VxlanGpe>,
    /// Through a port with `proxy: flows`: where answers go on that the function gives itself, such as
    /// those of a server in front of others. Without it they are left to the kernel.
    #[serde(default)]
    pub(crate) back: Option<Place>,
    /// Name of the instance of `functions` that this is: while it is down, flows go to the other targets.
    #[serde(default)]
    pub(crate) instance: Option<String>,
}

/// A place of a path.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Place {
    /// Service path identifier.
    #[schemars(range(min = 1, max = 0xff_ffff))]
    pub(crate) spi: u32,
    /// Service index.
    #[schemars(range(min = 1, max = 255))]
    pub(crate) si: u8,
}

/// A tunnel by VXLAN-GPE over UDP and IPv4, from the port's address.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct VxlanGpe {
    /// Address of the other end.
    pub(crate) remote: Ipv4Addr,
    /// Network identifier.
    #[serde(default)]
    #[schemars(range(max = 0xff_ffff))]
    pub(crate) vni: u32,
}

/// How packets leave their path.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct End {
    /// Port they leave by.
    pub(crate) port: String,
    /// Ethernet address that they go to; left out: that of the frame inside.
    #[serde(default)]
    pub(crate) mac: Option<Mac>,
}

/// Flows, and the path that they enter. What is left out matches everything.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Rule {
    /// Port they come in by.
    #[serde(default)]
    pub(crate) port: Option<String>,
    /// What their packets look like.
    #[serde(flatten)]
    pub(crate) flows: Flows,
    /// The path.
    #[schemars(range(min = 1, max = 0xff_ffff))]
    pub(crate) spi: u32,
    /// Index of its first function.
    #[serde(default = "first_index")]
    #[schemars(range(min = 1, max = 255))]
    pub(crate) si: u8,
    /// Context headers; left out: sixteen zeros (RFC 8300 section 2.4).
    #[serde(default)]
    pub(crate) metadata: Option<Metadata>,
}

fn first_index() -> u8 {
    255
}

/// What packets look like. What is left out matches everything.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub(crate) struct Flows {
    /// Source prefix, IPv4 or IPv6.
    #[serde(default)]
    pub(crate) source: Option<String>,
    /// Destination prefix.
    #[serde(default)]
    pub(crate) destination: Option<String>,
    /// Protocol number.
    #[serde(default)]
    pub(crate) protocol: Option<u8>,
    /// First and last source port.
    #[serde(default)]
    pub(crate) source_ports: Option<(u16, u16)>,
    /// First and last destination port.
    #[serde(default)]
    pub(crate) destination_ports: Option<(u16, u16)>,
    /// Differentiated services code point.
    #[serde(default)]
    #[schemars(range(max = 63))]
    pub(crate) dscp: Option<u8>,
}

/// Context headers, in hexadecimal digits.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub(crate) enum Metadata {
    /// MD type 1: 16 bytes.
    Fixed(#[schemars(regex(pattern = "^[0-9a-fA-F]{32}$"))] String),
    /// MD type 2.
    Variable(#[schemars(length(max = 16))] Vec<Tlv>),
}

/// One context header of variable length (RFC 8300 section 2.5.1).
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Tlv {
    /// Scope of the type.
    pub(crate) class: u16,
    /// Type.
    #[serde(rename = "type")]
    pub(crate) kind: u8,
    /// The metadata.
    #[schemars(regex(pattern = "^([0-9a-fA-F]{2}){0,104}$"))]
    pub(crate) data: String,
}

/// What becomes of packets for operation and maintenance.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Oam {
    /// They are dropped.
    #[default]
    Drop,
    /// They are treated as any other packet.
    Forward,
}

/// Which packets to trace.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(title = "hawserd function trace request")]
pub(crate) struct TraceRequest {
    /// How many events; a packet gives one for each thing that happens to it.
    #[schemars(range(min = 1, max = 2048))]
    pub(crate) events: u64,
    /// Only packets of this path.
    #[serde(default)]
    #[schemars(range(min = 1, max = 0xff_ffff))]
    pub(crate) spi: Option<u32>,
    /// Only packets with this inner source.
    #[serde(default)]
    pub(crate) source: Option<IpAddr>,
    /// Only packets with this inner destination.
    #[serde(default)]
    pub(crate) destination: Option<IpAddr>,
}
