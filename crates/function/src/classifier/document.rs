//! Configuration file of a classifier.

use std::net::IpAddr;

use ipnet::IpNet;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::health::document::{Fail, Function};

/// Configuration of the classifier (RFC 7665) of chains that the kernel routes: routing rules steer packets into
/// them, and change with the health of their functions.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(title = "hawserd classifier configuration")]
pub(crate) struct Document {
    /// Version of this format.
    #[schemars(range(min = 1, max = 1))]
    pub(crate) version: u32,
    /// Unix socket of the control API.
    #[schemars(length(min = 1, max = 107))]
    pub(crate) control: String,
    /// Functions whose health is checked.
    #[serde(default)]
    #[schemars(length(max = 1024))]
    pub(crate) functions: Vec<Function>,
    /// Paths, with the rules that steer packets into them.
    #[schemars(length(min = 1, max = 16384))]
    pub(crate) service_paths: Vec<RuledPath>,
}

/// A path that routing rules steer packets into.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct RuledPath {
    /// Its name.
    #[schemars(length(min = 1, max = 128))]
    pub(crate) name: String,
    /// What is done while one of its functions is down: its rules are removed (`open`), or drop the packets they
    /// match (`closed`).
    #[serde(default)]
    pub(crate) fail: Fail,
    /// Names of its functions.
    #[schemars(length(max = 64))]
    pub(crate) functions: Vec<String>,
    /// Rules in this network namespace. They are added when the daemon starts, and stay when it ends.
    #[schemars(length(min = 1, max = 4096))]
    pub(crate) rules: Vec<Rule>,
}

/// A routing rule (`ip rule`). A field that is left out matches everything.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Rule {
    /// Priority; lower values are evaluated first.
    #[schemars(range(min = 1, max = 32_765))]
    pub(crate) priority: u32,
    /// Routing table that leads along the path.
    #[schemars(range(min = 1))]
    pub(crate) table: u32,
    /// IP version.
    #[serde(default)]
    pub(crate) family: Family,
    /// Ingress interface.
    #[serde(default)]
    #[schemars(length(min = 1, max = 15))]
    pub(crate) incoming: Option<String>,
    /// Source prefix, of the rule's family.
    #[serde(default)]
    pub(crate) source: Option<String>,
    /// Destination prefix, of the rule's family.
    #[serde(default)]
    pub(crate) destination: Option<String>,
    /// Protocol number.
    #[serde(default)]
    #[schemars(range(min = 1))]
    pub(crate) protocol: Option<u8>,
    /// First and last source port.
    #[serde(default)]
    pub(crate) source_ports: Option<(u16, u16)>,
    /// First and last destination port.
    #[serde(default)]
    pub(crate) destination_ports: Option<(u16, u16)>,
}

/// An IP version.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub(crate) enum Family {
    /// Version 4.
    #[default]
    #[serde(rename = "ipv4")]
    V4,
    /// Version 6.
    #[serde(rename = "ipv6")]
    V6,
}

impl Family {
    /// Parses a prefix of this family.
    pub(crate) fn prefix(self, text: &str) -> Option<IpNet> {
        let host = || text.parse::<IpAddr>().ok().map(IpNet::from);
        let prefix = text.parse::<IpNet>().ok().or_else(host)?.trunc();
        let fits = matches!((self, prefix), (Self::V4, IpNet::V4(_)) | (Self::V6, IpNet::V6(_)));
        fits.then_some(prefix)
    }
}
