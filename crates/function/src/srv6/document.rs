//! Configuration of a segment routing proxy as it is written. [`super::plan`] makes it valid.

use std::net::Ipv6Addr;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::mac::Mac;

/// Configuration of proxies for functions that know nothing of segment routing
/// (draft-ietf-spring-sr-service-programming section 6).
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
    /// Interfaces that packets come in by and leave by.
    #[schemars(length(min = 1, max = 64))]
    pub(crate) ports: Vec<Port>,
    /// What stands in for which function.
    #[schemars(length(min = 1, max = 64))]
    pub(crate) proxies: Vec<Proxy>,
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
}

/// One proxy: a segment, and the function behind it, in one direction.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Proxy {
    /// The segment, an IPv6 address.
    pub(crate) segment: Ipv6Addr,
    /// What happens to the headers of its packets.
    pub(crate) behaviour: Behaviour,
    /// Where packets go to the function.
    pub(crate) function: Way,
    /// Name of the port that they come back by, which is this proxy's alone.
    pub(crate) returns: String,
    /// Where they go on.
    pub(crate) onward: Way,
    /// What is put in front of packets that come back; of a static proxy.
    #[serde(default)]
    pub(crate) encapsulation: Option<Encapsulation>,
}

/// What happens to headers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Behaviour {
    /// End.AS: they are taken off, and what `encapsulation` says is put on.
    Static,
    /// End.AD: they are taken off, and those of the last packet that came are put on.
    Dynamic,
    /// End.AM: they stay, but the packet shows the last segment as its destination.
    Masquerading,
}

/// A neighbour that packets go to.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Way {
    /// Port they leave by.
    pub(crate) port: String,
    /// Ethernet address of the neighbour.
    pub(crate) mac: Mac,
}

/// Headers: IPv6, and segments in the order in which they are visited.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Encapsulation {
    /// Source address.
    pub(crate) source: Ipv6Addr,
    /// Segments after the proxy's own; ten fit in front of a packet.
    #[schemars(length(min = 1, max = 10))]
    pub(crate) segments: Vec<Ipv6Addr>,
    /// The same for IPv6 packets, where these leave by other segments.
    #[serde(default)]
    #[schemars(length(max = 10))]
    pub(crate) segments_ipv6: Vec<Ipv6Addr>,
    /// Routers that packets may pass.
    #[serde(default = "hop_limit")]
    #[schemars(range(min = 1, max = 255))]
    pub(crate) hop_limit: u8,
}

fn hop_limit() -> u8 {
    64
}
