//! Configuration file of SRv6 service proxies. [`super::plan`] validates it.

use std::net::Ipv6Addr;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::mac::Mac;

/// Configuration of service proxies for SR-unaware functions (draft-ietf-spring-sr-service-programming section 6).
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(title = "hawserd function srv6-proxy configuration")]
pub(crate) struct Document {
    /// Version of this format.
    #[schemars(range(min = 1, max = 1))]
    pub(crate) version: u32,
    /// Unix socket of the control API.
    #[schemars(length(min = 1, max = 107))]
    pub(crate) control: String,
    /// Interfaces on which packets arrive and leave.
    #[schemars(length(min = 1, max = 64))]
    pub(crate) ports: Vec<Port>,
    /// Proxies, one a segment.
    #[schemars(length(min = 1, max = 64))]
    pub(crate) proxies: Vec<Proxy>,
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
    /// Only nodes of the SR domain are behind it. Packets from other ports enter no segment (RFC 8754 section 5.1)
    /// and are counted as `untrusted_srh`; with a segment routing header they pass only where they return.
    #[serde(default)]
    pub(crate) trusted: bool,
}

/// A proxy: a segment and the function behind it, for one direction.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Proxy {
    /// The segment, an IPv6 address.
    pub(crate) segment: Ipv6Addr,
    /// Behaviour of the proxy.
    pub(crate) behaviour: Behaviour,
    /// Next hop to the function.
    pub(crate) function: NextHop,
    /// Name of the port on which packets return. No other proxy may use it.
    pub(crate) returns: String,
    /// Next hop after the function.
    pub(crate) onward: NextHop,
    /// Headers for returning packets. Static proxy only.
    #[serde(default)]
    pub(crate) encapsulation: Option<Encapsulation>,
}

/// Behaviour of a proxy.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Behaviour {
    /// End.AS: removes the headers, and adds those of `encapsulation` to returning packets.
    Static,
    /// End.AD: removes the headers, and adds those of the last packet received to returning packets.
    Dynamic,
    /// End.AM: leaves the headers, with the last segment as the destination address on the way to the function.
    Masquerading,
}

/// A next hop.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct NextHop {
    /// Egress port.
    pub(crate) port: String,
    /// Ethernet address of the neighbour.
    pub(crate) mac: Mac,
}

/// An IPv6 header and a segment list, in the order of the path.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Encapsulation {
    /// Source address.
    pub(crate) source: Ipv6Addr,
    /// Segments after the proxy's own, at most ten.
    #[schemars(length(min = 1, max = 10))]
    pub(crate) segments: Vec<Ipv6Addr>,
    /// Segments of IPv6 packets, if they differ from those of IPv4 packets.
    #[serde(default)]
    #[schemars(length(max = 10))]
    pub(crate) segments_ipv6: Vec<Ipv6Addr>,
    /// Hop limit of the IPv6 header.
    #[serde(default = "hop_limit")]
    #[schemars(range(min = 1, max = 255))]
    pub(crate) hop_limit: u8,
}

fn hop_limit() -> u8 {
    64
}
