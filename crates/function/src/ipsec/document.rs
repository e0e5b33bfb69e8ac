//! Configuration of an IPsec function.

use std::net::Ipv4Addr;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The ECN bits of the traffic class byte (RFC 3168 section 5).
const ECN: u8 = 0b11;

/// Configuration of one end of an IPsec tunnel.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(title = "hawserd function ipsec configuration")]
pub(crate) struct Document {
    /// Version of this format.
    #[schemars(range(min = 1, max = 1))]
    pub(crate) version: u32,
    /// Unix socket of the control API.
    #[schemars(length(min = 1, max = 107))]
    pub(crate) control: String,
    /// Name of the TUN device to create. Packets routed to it enter the tunnel.
    #[schemars(length(min = 1, max = 15))]
    pub(crate) device: String,
    /// MTU of the device, bytes.
    #[schemars(range(min = 576, max = 9000))]
    pub(crate) mtu: u16,
    /// Interface for ESP packets.
    #[schemars(length(min = 1, max = 15))]
    pub(crate) interface: String,
    /// Address of this end.
    pub(crate) local: Ipv4Addr,
    /// Address of the other end.
    pub(crate) remote: Ipv4Addr,
    /// DSCP of the outer header (RFC 4301 section 5.1.2).
    #[serde(default)]
    pub(crate) dscp: Dscp,
    /// The key exchange.
    pub(crate) ike: Ike,
}

/// DSCP (RFC 2474) of the outer header. The inner header does not change.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Dscp {
    /// Copied from the inner header. Queues on the way see it, and so does an observer.
    #[default]
    Copy,
    /// Always 0.
    Zero,
}

impl Dscp {
    /// The traffic class byte (DSCP and ECN) of the outer header. ECN is copied (RFC 6040 section 4.1).
    pub(crate) fn outside(self, inside: u8) -> u8 {
        match self {
            Self::Copy => inside,
            Self::Zero => inside & ECN,
        }
    }
}

/// The IKEv2 daemon: strongSwan's charon, started and stopped by this process.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Ike {
    /// Its command line. It must log to standard error, with level 4 for group `chd`, 2 for `esp`, and at least 1
    /// for `cfg`, `enc`, `ike` and `net`. Lines that contain keys are not logged any further.
    #[schemars(length(min = 1, max = 64))]
    pub(crate) command: Vec<String>,
    /// Its UDP port (`port_nat_t`) at 127.0.0.1.
    #[schemars(range(min = 1))]
    pub(crate) port: u16,
    /// UDP port at 127.0.0.2 where this process relays its messages: charon takes it for the remote end.
    #[schemars(range(min = 1))]
    pub(crate) peer_port: u16,
    /// Rekeying by number of packets; without it, charon rekeys by time alone.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) rekey: Option<Rekey>,
}

/// Rekeying before the 2^32 sequence numbers are exhausted (RFC 4303 section 3.3.3).
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Rekey {
    /// Command that makes charon rekey.
    #[schemars(length(min = 1, max = 64))]
    pub(crate) command: Vec<String>,
    /// Packets under one key after which the command is run.
    #[serde(default = "half")]
    #[schemars(range(min = 1))]
    pub(crate) after: u32,
}

const fn half() -> u32 {
    1 << 31
}
