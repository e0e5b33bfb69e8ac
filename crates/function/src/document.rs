//! Configuration file of a service function or a service function forwarder. [`super::plan`] validates it.

use std::net::{IpAddr, Ipv4Addr};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{
    health::document::{Fail, Function},
    ids::document::Ids,
    mac::Mac,
    rest::Rest,
};

/// Configuration of a node on service paths (RFC 7665): a service function forwarder (SFF) with its
/// classifier, or a service function.
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
    /// Interfaces on which packets arrive and leave.
    #[schemars(length(max = 255))]
    pub(crate) ports: Vec<Port>,
    /// Forwarding entries: what is done with a packet at each service index of each path. A function without
    /// entries returns packets to the sender; one with entries is its own SFF on these paths.
    #[serde(default)]
    #[schemars(length(max = 16384))]
    pub(crate) hops: Vec<Hop>,
    /// Classification: which flows enter which path. The first rule that matches applies. SFF only.
    #[serde(default)]
    #[schemars(length(max = 1_000_000))]
    pub(crate) rules: Vec<Rule>,
    /// Addresses from which VXLAN-GPE is accepted at trusted ports, beside the remote addresses in `hops`. Packets from
    /// others are dropped and counted as `unknown_forwarder`.
    #[serde(default)]
    #[schemars(length(max = 8192))]
    pub(crate) forwarders: Vec<Ipv4Addr>,
    /// What is done with OAM packets (RFC 8300 section 2.2).
    #[serde(default)]
    pub(crate) oam: Oam,
    /// Settings of the firewall. Firewall only.
    #[serde(default)]
    pub(crate) firewall: Option<Firewall>,
    /// Settings of the sensor. Intrusion detection only.
    #[serde(default)]
    pub(crate) ids: Option<Ids>,
    /// Reports packets that enter paths here to a sensor on this machine (`ids.forwarder`), instead of copies of them. SFF
    /// only.
    #[serde(default)]
    pub(crate) sensor: Option<Rings>,
    /// Functions whose health is checked. SFF only.
    #[serde(default)]
    #[schemars(length(max = 1024))]
    pub(crate) functions: Vec<Function>,
    /// Paths that depend on these functions. SFF only.
    #[serde(default)]
    #[schemars(length(max = 16384))]
    pub(crate) service_paths: Vec<ServicePath>,
}

/// Rings that lead to a sensor.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct Rings {
    /// How many: as many as the sensor has workers.
    #[schemars(range(min = 1, max = 4))]
    pub(crate) workers: u32,
    /// Size of each, bytes: a power of two. An observation takes 64.
    #[schemars(range(min = 65_536, max = 1_073_741_824))]
    pub(crate) ring_bytes: u32,
}

impl Default for Rings {
    fn default() -> Self {
        Self { workers: 1, ring_bytes: 8 << 20 }
    }
}

/// A service path and the functions it depends on, on any node.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct ServicePath {
    /// Service path identifier.
    #[schemars(range(min = 1, max = 0xff_ffff))]
    pub(crate) spi: u32,
    /// What happens while one of its functions is down. `open`: its rules are suspended, so that packets bypass
    /// the path. `closed`: they apply, and packets are dropped as `no_hop` where all next instances are down.
    #[serde(default)]
    pub(crate) fail: Fail,
    /// Names of its functions.
    #[schemars(length(min = 1, max = 64))]
    pub(crate) functions: Vec<String>,
}

/// Settings of a firewall. Its rules are set through the API.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Firewall {
    /// File that stores the rules across restarts. Created if it does not exist.
    #[schemars(length(min = 1, max = 4096))]
    pub(crate) rules_file: String,
    /// Action for packets that match no rule.
    #[serde(default)]
    pub(crate) otherwise: Action,
    /// Keep state of flows, so that replies to an allowed flow pass.
    #[serde(default)]
    pub(crate) remember: Option<Remember>,
    /// Serves the rules over TCP, with TLS and authentication. The control socket serves them, too.
    #[serde(default)]
    pub(crate) rest: Option<Rest>,
}

/// Flow state of a firewall.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Remember {
    /// Established flows at most; the least recently used one is evicted. Flows that are not yet answered have a table
    /// of a quarter of this, so that a flood of new flows evicts no established one.
    #[serde(default = "remembered_flows")]
    #[schemars(range(min = 1, max = 4_000_000))]
    pub(crate) flows: u32,
    /// Seconds after which an idle flow is forgotten.
    #[serde(default = "remembered_s")]
    #[schemars(range(min = 1, max = 864_000))]
    pub(crate) idle_s: u32,
    /// The same of an established TCP connection (RFC 5382 section 5).
    #[serde(default = "remembered_tcp_s")]
    #[schemars(range(min = 1, max = 864_000))]
    pub(crate) tcp_idle_s: u32,
    /// TCP connections that the rules allow may begin in mid-stream, so that they survive a restart. Without, they
    /// begin with a SYN, and other segments are dropped and counted as `tcp_state`.
    #[serde(default)]
    pub(crate) pick_up: bool,
}

fn remembered_flows() -> u32 {
    262_144
}

fn remembered_s() -> u32 {
    300
}

fn remembered_tcp_s() -> u32 {
    7440
}

/// Rules of a firewall. The first rule that matches applies.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(title = "hawserd firewall rules")]
pub(crate) struct GuardRules {
    /// In order of evaluation.
    #[schemars(length(max = 1_000_000))]
    pub(crate) rules: Vec<GuardRule>,
}

/// One rule. A field that is left out matches everything.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(title = "hawserd firewall rule")]
pub(crate) struct GuardRule {
    /// Its number, by which it can be deleted. Assigned if left out.
    #[serde(default)]
    #[schemars(range(min = 1, max = 9_007_199_254_740_991_u64))]
    pub(crate) id: Option<u64>,
    /// Packets that it matches.
    #[serde(flatten)]
    pub(crate) flows: Flows,
    /// Action for these packets.
    pub(crate) action: Action,
    /// Why it is there, for people.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 256))]
    pub(crate) note: Option<String>,
    /// In a request: seconds after which the rule removes itself. It becomes `expires_s`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 31_536_000))]
    pub(crate) lifetime_s: Option<u32>,
    /// Time at which the rule removes itself, seconds since 1970. Without, it stays.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(max = 9_007_199_254_740_991_u64))]
    pub(crate) expires_s: Option<u64>,
}

/// Action of a firewall.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Action {
    /// The packet passes.
    #[default]
    Allow,
    /// The packet is dropped and counted as `denied`.
    Deny,
}

/// An interface.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Port {
    /// Its name in this configuration.
    #[schemars(length(min = 1, max = 64))]
    pub(crate) name: String,
    /// Name of the interface in the daemon's network namespace.
    #[schemars(length(min = 1, max = 15))]
    pub(crate) interface: String,
    /// Local address of VXLAN-GPE (UDP port 4790). At a port with `proxy`, packets to this address are passed
    /// to the kernel, such as replies to health checks.
    #[serde(default)]
    pub(crate) address: Option<Ipv4Addr>,
    /// Only nodes of the SFC domain are behind it: forwarders and functions, no hosts. At other ports, packets with an
    /// NSH, VXLAN-GPE and IPv6 packets with a segment routing header are dropped (RFC 8300 section 8, RFC 8754 section
    /// 5.1) and counted as `untrusted_nsh`, `untrusted_vxlan_gpe` and `untrusted_srh`.
    #[serde(default)]
    pub(crate) trusted: bool,
    /// Copies of frames arrive here, with or without NSH, such as from a switch's mirror port. The sensor observes them,
    /// and they go no further. Intrusion detection only.
    #[serde(default)]
    pub(crate) mirror: bool,
    /// What is done with frames that are on no path and match no rule.
    #[serde(default)]
    pub(crate) otherwise: Otherwise,
    /// Frames leave through the kernel's routing and the port's queueing discipline, which XDP redirection
    /// bypasses. The kernel's routes must lead to the port, and frames on a path use VXLAN-GPE.
    #[serde(default)]
    pub(crate) queued: bool,
    /// The function at this port is SFC-unaware (RFC 7665 section 4.6): the SFF acts as its SFC proxy, removes
    /// the NSH from packets to it and restores it when they return.
    #[serde(default)]
    pub(crate) proxy: Option<Proxy>,
}

/// How an SFC proxy finds the path of a packet that returns without an NSH.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Proxy {
    /// By the flow it left with. If the function changed the source or the destination, the unchanged side
    /// identifies the path unless flows of several paths share it. Packets without a match are dropped and
    /// counted as `unknown_flow` or `several_paths`.
    Flows,
    /// By `rules` at this port. Packets that match none are on no path.
    Rules,
}

/// What is done with frames that are on no path.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Otherwise {
    /// They are passed to the kernel.
    #[default]
    Pass,
    /// They are dropped and counted as `unclassified`.
    Drop,
    /// They leave unchanged through the port of this name.
    Port(String),
}

/// A forwarding entry for one service index of a path: either `to` or `end`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Hop {
    /// Service path identifier.
    #[schemars(range(min = 1, max = 0xff_ffff))]
    pub(crate) spi: u32,
    /// Service index.
    #[schemars(range(min = 1, max = 255))]
    pub(crate) si: u8,
    /// Instances of the next function, or the next SFF. Flows are spread over several instances by hash.
    #[serde(default)]
    #[schemars(length(max = 16))]
    pub(crate) to: Vec<Target>,
    /// The path ends: the NSH is removed.
    #[serde(default)]
    pub(crate) end: Option<End>,
}

/// The next hop, reached over Ethernet (EtherType 0x894F) or VXLAN-GPE.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Target {
    /// Egress port.
    pub(crate) port: String,
    /// Ethernet address of the neighbour.
    pub(crate) mac: Mac,
    /// VXLAN-GPE tunnel; plain Ethernet without it.
    #[serde(default)]
    pub(crate) vxlan_gpe: Option<VxlanGpe>,
    /// At a port with `proxy: flows`: position at which replies that the function originates enter a path, such
    /// as those of a reverse proxy. Without it they are passed to the kernel.
    #[serde(default)]
    pub(crate) back: Option<Place>,
    /// The instance in `functions` that this target is. While it is down, its flows go to the other targets.
    #[serde(default)]
    pub(crate) instance: Option<String>,
}

/// A position on a path.
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

/// A VXLAN-GPE tunnel over UDP and IPv4, from the port's address.
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

/// How packets leave at the end of their path.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct End {
    /// Egress port.
    pub(crate) port: String,
    /// Destination Ethernet address; that of the inner frame if left out.
    #[serde(default)]
    pub(crate) mac: Option<Mac>,
}

/// Flows and the path they enter. A field that is left out matches everything.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Rule {
    /// Ingress port.
    #[serde(default)]
    pub(crate) port: Option<String>,
    /// Packets of these flows.
    #[serde(flatten)]
    pub(crate) flows: Flows,
    /// The path.
    #[schemars(range(min = 1, max = 0xff_ffff))]
    pub(crate) spi: u32,
    /// Initial service index (RFC 8300 section 2.2).
    #[serde(default = "first_index")]
    #[schemars(range(min = 1, max = 255))]
    pub(crate) si: u8,
    /// Context headers; MD type 1 with sixteen zeros if left out (RFC 8300 section 2.4).
    #[serde(default)]
    pub(crate) metadata: Option<Metadata>,
}

fn first_index() -> u8 {
    255
}

/// A match on header fields. A field that is left out matches everything.
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

/// What is done with OAM packets.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Oam {
    /// They are dropped.
    #[default]
    Drop,
    /// They are forwarded like other packets.
    Forward,
}

/// Starts a trace of packets at this node.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(title = "hawserd function trace request")]
pub(crate) struct TraceRequest {
    /// Events at most. A packet can cause several.
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
