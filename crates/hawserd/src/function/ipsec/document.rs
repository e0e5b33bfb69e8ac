//! Configuration of an IPsec function.

use std::net::Ipv4Addr;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

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
    /// TUN device to be made: what is led into it goes through the tunnel.
    #[schemars(length(min = 1, max = 15))]
    pub(crate) device: String,
    /// Bytes of the largest packet that goes through.
    #[schemars(range(min = 576, max = 9000))]
    pub(crate) mtu: u16,
    /// Interface that sealed packets leave and come by.
    #[schemars(length(min = 1, max = 15))]
    pub(crate) interface: String,
    /// Address of this end.
    pub(crate) local: Ipv4Addr,
    /// Address of the other end.
    pub(crate) remote: Ipv4Addr,
    /// Who negotiates keys.
    pub(crate) ike: Ike,
}

/// The program that negotiates keys: strongSwan's charon. It is started, and ends with this process.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Ike {
    /// Its command. It must log to its standard error, of group `chd` level 4, of `esp` level 2, of `enc`
    /// level 1 at least; what it says of keys goes no further.
    #[schemars(length(min = 1, max = 64))]
    pub(crate) command: Vec<String>,
    /// Its UDP port (`port_nat_t`), where it is met at 127.0.0.1.
    #[schemars(range(min = 1))]
    pub(crate) port: u16,
    /// UDP port at 127.0.0.2 where it meets this process, as if that were the other end.
    #[schemars(range(min = 1))]
    pub(crate) peer_port: u16,
}
