//! Configuration of an IPsec function.

use std::net::Ipv4Addr;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Bits of the header's second byte that are not the code point.
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
    /// What sealed packets have outside of the code points inside (RFC 4301 section 5.1.2).
    #[serde(default)]
    pub(crate) dscp: Dscp,
    /// Who negotiates keys.
    pub(crate) ike: Ike,
}

/// What becomes of a packet's code point (RFC 2474) outside a tunnel. Inside it stays what it is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Dscp {
    /// It is that of the packet inside: nodes between treat it so, and whoever looks learns it.
    #[default]
    Copy,
    /// It is 0, whatever it is inside.
    Zero,
}

impl Dscp {
    /// Gives the second byte of the header outside (code point and ECN) for that of the one inside. ECN is
    /// copied (RFC 6040 section 4.1).
    pub(crate) fn outside(self, inside: u8) -> u8 {
        match self {
            Self::Copy => inside,
            Self::Zero => inside & ECN,
        }
    }
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
    /// How it is told to renew keys that many packets have been sealed with; left out, it knows time alone.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) rekey: Option<Rekey>,
}

/// How new keys are had before all sequence numbers are used up, which are 2^32 (RFC 4303 section 3.3.3).
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Rekey {
    /// A command that has the program renew keys, and ends.
    #[schemars(length(min = 1, max = 64))]
    pub(crate) command: Vec<String>,
    /// It is run when so many packets have been sealed with one key.
    #[serde(default = "half")]
    #[schemars(range(min = 1))]
    pub(crate) after: u32,
}

const fn half() -> u32 {
    1 << 31
}
