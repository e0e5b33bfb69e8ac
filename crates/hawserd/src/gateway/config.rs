//! The gateway's configuration.

use std::net::{IpAddr, Ipv4Addr};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::config::{Invalid, typed};

/// Configuration of one gateway (MMSG) of an SD-WAN.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(title = "hawserd gateway configuration")]
pub(crate) struct Document {
    /// Version of this format.
    #[schemars(range(min = 1, max = 1))]
    pub(crate) version: u32,
    /// Name of this branch.
    #[schemars(regex(pattern = r"^[A-Za-z0-9][A-Za-z0-9._-]{0,62}$"))]
    pub(crate) branch: String,
    /// Number of this branch in path labels.
    #[schemars(range(min = 1, max = 15))]
    pub(crate) id: u8,
    /// Unix socket of the control API.
    #[schemars(length(min = 1, max = 107))]
    pub(crate) control: String,
    /// Preferred source of packets that the gateway itself sends to other branches.
    #[serde(default)]
    pub(crate) source: Option<Ipv4Addr>,
    /// The other branches.
    pub(crate) peers: Vec<PeerDocument>,
}

/// Another branch.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct PeerDocument {
    /// Its name.
    pub(crate) branch: String,
    /// Its number in path labels.
    #[schemars(range(min = 1, max = 15))]
    pub(crate) id: u8,
    /// Own and other end of a path.
    pub(crate) remote: IpAddr,
}

/// Parses a configuration, naming everything that is wrong with it.
pub(crate) fn parse(value: &Value) -> Result<Document, Invalid> {
    typed(value)
}
