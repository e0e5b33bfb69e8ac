//! Configuration of service functions, their instances and health checks.

use std::{
    net::{Ipv4Addr, SocketAddr},
    time::Duration,
};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::mac::Mac;

/// A service function (RFC 7665) whose health is checked.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Function {
    /// Its name.
    #[schemars(length(min = 1, max = 64))]
    pub(crate) name: String,
    /// Its instances. The function is down when all of them are.
    #[schemars(length(min = 1, max = 16))]
    pub(crate) instances: Vec<Instance>,
}

/// An instance of a function.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Instance {
    /// Its name, unique among all instances.
    #[schemars(length(min = 1, max = 64))]
    pub(crate) name: String,
    /// The instance is up when all checks are: those of its own program, and of others that its packets depend on,
    /// such as a proxy or the other end of a tunnel.
    #[schemars(length(min = 1, max = 16))]
    pub(crate) checks: Vec<Check>,
}

/// A periodic health check.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Check {
    /// Kind of check.
    pub(crate) by: By,
    /// Milliseconds between checks while they succeed.
    #[serde(default = "interval_ms")]
    #[schemars(range(min = 5, max = 60_000))]
    pub(crate) interval_ms: u32,
    /// Milliseconds between checks after a failure and while the instance is down.
    #[serde(default = "retry_ms")]
    #[schemars(range(min = 5, max = 60_000))]
    pub(crate) retry_ms: u32,
    /// Milliseconds without a reply after which a check fails.
    #[serde(default = "timeout_ms")]
    #[schemars(range(min = 5, max = 60_000))]
    pub(crate) timeout_ms: u32,
    /// Consecutive successes that bring the check up.
    #[serde(default = "threshold")]
    #[schemars(range(min = 1, max = 100))]
    pub(crate) rise: u32,
    /// Consecutive failures that take it down.
    #[serde(default = "threshold")]
    #[schemars(range(min = 1, max = 100))]
    pub(crate) fall: u32,
}

impl Check {
    /// Time without a reply after which a check fails.
    pub(crate) fn timeout(&self) -> Duration {
        Duration::from_millis(self.timeout_ms.into())
    }
}

fn interval_ms() -> u32 {
    250
}

fn retry_ms() -> u32 {
    20
}

fn timeout_ms() -> u32 {
    250
}

fn threshold() -> u32 {
    2
}

/// An address and a port.
const ENDPOINT: &str = concat!(
    r"^(((25[0-5]|2[0-4][0-9]|1[0-9]{2}|[1-9]?[0-9])(\.(25[0-5]|2[0-4][0-9]|1[0-9]{2}|[1-9]?[0-9])){3})",
    r"|\[[0-9a-fA-F:.]{2,45}\]):",
    r"([1-9][0-9]{0,3}|[1-5][0-9]{4}|6[0-4][0-9]{3}|65[0-4][0-9]{2}|655[0-2][0-9]|6553[0-5])$",
);

/// A kind of health check.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub(crate) enum By {
    /// A Hawser daemon on this machine reports over its control socket that it is ready. The connection stays
    /// open, so that the end of the process is noticed immediately.
    Control {
        /// The socket.
        #[schemars(length(min = 1, max = 107))]
        socket: String,
    },
    /// A process on this machine runs, and is neither stopped nor a zombie. Its end is noticed immediately.
    Process {
        /// File with its process id in decimal digits.
        #[schemars(length(min = 1, max = 4096))]
        pid_file: String,
    },
    /// An IPv4 packet (UDP, port 9) from `address` to `address`, sent to an adjacent function, comes back, which
    /// shows that the function forwards.
    Forwarding {
        /// Interface to the function.
        #[schemars(length(min = 1, max = 15))]
        interface: String,
        /// Ethernet address of the function there.
        mac: Mac,
        /// Address of this node that the function has a route to.
        address: Ipv4Addr,
        /// Interface on which the packet returns, if different.
        #[serde(default)]
        #[schemars(length(min = 1, max = 15))]
        returns: Option<String>,
    },
    /// A TCP connection is accepted. The kernel does that even for a process that hangs, which `http` detects.
    Tcp {
        /// Address and port, such as `192.0.2.1:80` or `[2001:db8::1]:80`.
        #[schemars(regex(pattern = ENDPOINT))]
        address: SocketAddr,
    },
    /// An HTTP request (GET) is answered with a status below 500.
    Http {
        /// Address and port, such as `192.0.2.1:80` or `[2001:db8::1]:80`.
        #[schemars(regex(pattern = ENDPOINT))]
        address: SocketAddr,
        /// Request target.
        #[serde(default = "root")]
        #[schemars(regex(pattern = "^/[!-~]{0,255}$"))]
        path: String,
    },
}

fn root() -> String {
    "/".into()
}

impl By {
    /// Its name.
    pub(crate) fn name(&self) -> &'static str {
        match self {
            Self::Control { .. } => "control",
            Self::Process { .. } => "process",
            Self::Forwarding { .. } => "forwarding",
            Self::Tcp { .. } => "tcp",
            Self::Http { .. } => "http",
        }
    }
}

/// What is done with a chain's packets while one of its functions is down.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Fail {
    /// They are dropped.
    #[default]
    Closed,
    /// They bypass the chain.
    Open,
}
