//! Configuration of a sensor.

use std::net::{IpAddr, SocketAddr};

use hawser_bpf::nsh::RINGS_MAX;
use hawser_daemon::config::FieldError;
use ipnet::IpNet;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// Settings of an intrusion detection sensor.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Ids {
    /// Control socket of a forwarder on this machine with `sensor`: the packets that enter its paths are observed. The
    /// sensor then has no ports.
    #[serde(default)]
    #[schemars(length(min = 1, max = 107))]
    pub(crate) forwarder: Option<String>,
    /// File of the model that scores flows. It is read again when it changes, and at SIGHUP; a file that cannot be used
    /// is refused, and the old model stays. Without a model, flows are recorded only.
    #[serde(default)]
    #[schemars(length(min = 1, max = 4096))]
    pub(crate) model: Option<String>,
    /// Log of flow records.
    #[serde(default)]
    pub(crate) records: Option<Records>,
    /// How flows are metered.
    #[serde(default)]
    pub(crate) flows: Flows,
    /// What is done with flows that the model finds malicious. Without, they are only recorded.
    #[serde(default)]
    pub(crate) verdicts: Option<Verdicts>,
}

/// Log of flow records: JSON lines in files of a bounded size and number.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Records {
    /// Folder of the files. Created if it does not exist.
    #[schemars(length(min = 1, max = 4096))]
    pub(crate) folder: String,
    /// Size at which a file is full, bytes.
    #[serde(default = "file_bytes")]
    #[schemars(range(min = 65_536, max = 1_073_741_824))]
    pub(crate) file_bytes: u64,
    /// Files at most; the oldest are removed.
    #[serde(default = "files")]
    #[schemars(range(min = 2, max = 100_000))]
    pub(crate) files: u32,
}

fn file_bytes() -> u64 {
    16 << 20
}

fn files() -> u32 {
    16
}

/// How flows are metered.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct Flows {
    /// Threads, each with a ring and a flow table of its own.
    #[schemars(range(min = 1, max = 4))]
    pub(crate) workers: u32,
    /// Size of a ring between kernel and thread, bytes: a power of two. An observation takes 64.
    #[schemars(range(min = 65_536, max = 1_073_741_824))]
    pub(crate) ring_bytes: u32,
    /// Flows of a thread at most; each takes about 900 bytes.
    #[schemars(range(min = 1, max = 16_777_216))]
    pub(crate) capacity: u32,
    /// Length of a window, milliseconds.
    #[schemars(range(min = 10, max = 3_600_000))]
    pub(crate) window_ms: u64,
    /// A flow silent for longer has ended, seconds.
    #[schemars(range(min = 1, max = 86_400))]
    pub(crate) idle_s: u64,
    /// Age at which a flow of few packets has its first record, milliseconds. 0: it has none before the end of a window.
    #[schemars(range(max = 3_600_000))]
    pub(crate) early_ms: u64,
}

impl Default for Flows {
    fn default() -> Self {
        Self {
            workers: 1,
            ring_bytes: 8 << 20,
            capacity: 1 << 16,
            window_ms: 2000,
            idle_s: 600,
            early_ms: 50,
        }
    }
}

/// What is done with flows that the model finds malicious.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Verdicts {
    /// Firewalls that get the rules.
    #[schemars(length(max = 16))]
    pub(crate) firewalls: Vec<Firewall>,
    /// File that stores the blocks across restarts. Created if it does not exist.
    #[schemars(length(min = 1, max = 4096))]
    pub(crate) blocks_file: String,
    /// What is blocked.
    #[serde(default)]
    pub(crate) scope: Scope,
    /// What a block needs.
    #[serde(default)]
    pub(crate) evidence: Evidence,
    /// Time for which a block holds, seconds. It is renewed while packets of what it covers come at `renew_rate`.
    #[serde(default = "lifetime_s")]
    #[schemars(range(min = 2, max = 604_800))]
    pub(crate) lifetime_s: u32,
    /// Packets a second of what is blocked, as the sensor sees them, from which on its block is renewed.
    #[serde(default = "renew_rate")]
    #[schemars(range(min = 1, max = 1_000_000))]
    pub(crate) renew_rate: u32,
    /// Blocks and renewals in a minute at most; further verdicts are counted and have no effect.
    #[serde(default = "per_minute")]
    #[schemars(range(max = 6000))]
    pub(crate) per_minute: u32,
    /// Blocks at the same time at most.
    #[serde(default = "blocks_max")]
    #[schemars(range(min = 1, max = 65_536))]
    pub(crate) blocks_max: u32,
    /// Prefixes of sources that are never blocked.
    #[serde(default)]
    #[schemars(length(max = 65_536))]
    pub(crate) allow: Vec<String>,
    /// Verdicts are reported, but firewalls get no rules.
    #[serde(default)]
    pub(crate) dry_run: bool,
}

fn lifetime_s() -> u32 {
    300
}

/// Those who try to connect in vain stay below: Linux sends five SYNs in 15 s, so that 60 attempts at the same
/// time make 20 packets a second. The floods and scans of the lab send 500.
fn renew_rate() -> u32 {
    20
}

fn per_minute() -> u32 {
    60
}

fn blocks_max() -> u32 {
    4096
}

/// How much malice leads to a block: of a flow, and with `scope: source` or `pair` of more than that. A short record, or
/// a single flow, may be a false alarm.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct Evidence {
    /// Different flows of the source or pair, each with one malicious record or more; until then each is blocked alone.
    #[schemars(range(min = 1, max = 100))]
    pub(crate) flows: u32,
    /// Time within which they are found, seconds.
    #[schemars(range(min = 1, max = 3600))]
    pub(crate) within_s: u32,
    /// Malicious records of a flow, within the same time, after which it is blocked alone.
    #[schemars(range(min = 1, max = 100))]
    pub(crate) records: u32,
    /// One malicious record of so many packets is enough to block its flow alone.
    #[schemars(range(min = 1, max = 1_000_000))]
    pub(crate) packets: u32,
}

impl Default for Evidence {
    fn default() -> Self {
        Self { flows: 5, within_s: 10, records: 2, packets: 8 }
    }
}

/// What a block covers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Scope {
    /// The flow alone.
    Flow,
    /// All packets from the flow's source to its destination, after enough `evidence`.
    Pair,
    /// All packets from the flow's source, after enough `evidence`. A TCP connection met in mid-stream, whose source may
    /// be the server, is blocked alone nevertheless.
    #[default]
    Source,
}

/// A firewall, by its REST API.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Firewall {
    /// Address and port.
    pub(crate) address: SocketAddr,
    /// File with the bearer token.
    #[schemars(length(min = 1, max = 4096))]
    pub(crate) token_file: String,
    /// TLS. Required unless `address` is a loopback address.
    #[serde(default)]
    pub(crate) tls: Option<Tls>,
}

/// How the firewall's certificate is verified.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Tls {
    /// File with the certificates of authorities that are trusted (PEM).
    #[schemars(length(min = 1, max = 4096))]
    pub(crate) authority: String,
    /// Name in the firewall's certificate.
    #[schemars(length(min = 1, max = 253))]
    pub(crate) name: String,
}

/// The prefix, or the single address, that a text names.
pub(crate) fn network(text: &str) -> Option<IpNet> {
    text.parse().ok().or_else(|| text.parse::<IpAddr>().ok().map(IpNet::from))
}

impl Ids {
    /// What the schema cannot express.
    pub(crate) fn check(&self) -> Vec<FieldError> {
        let mut errors = Vec::new();
        if !self.flows.ring_bytes.is_power_of_two() {
            let found = self.flows.ring_bytes;
            errors.push(FieldError::new("ids.flows.ring_bytes", found, "a power of two"));
        }
        if self.flows.workers > RINGS_MAX {
            let expected = format!("at most {RINGS_MAX}");
            errors.push(FieldError::new("ids.flows.workers", self.flows.workers, expected));
        }
        let is_idle = |verdicts: &Verdicts| verdicts.firewalls.is_empty() && !verdicts.dry_run;
        if self.verdicts.as_ref().is_some_and(is_idle) {
            let expected = "a firewall, or `dry_run: true`";
            errors.push(FieldError::new("ids.verdicts.firewalls", Value::Null, expected));
        }
        let allowed = self.verdicts.iter().flat_map(|verdicts| verdicts.allow.iter());
        for (at, text) in allowed.enumerate().filter(|(_, text)| network(text).is_none()) {
            let place = format!("ids.verdicts.allow[{at}]");
            errors.push(FieldError::new(&place, text.as_str(), "a prefix such as 10.1.0.0/24"));
        }
        let firewalls = self.verdicts.iter().flat_map(|verdicts| verdicts.firewalls.iter());
        for (at, firewall) in firewalls.enumerate() {
            if firewall.tls.is_none() && !firewall.address.ip().to_canonical().is_loopback() {
                let place = format!("ids.verdicts.firewalls[{at}].tls");
                let expected = "an authority and a name: required unless the firewall is at a loopback address";
                errors.push(FieldError::new(&place, Value::Null, expected));
            }
        }
        errors
    }
}
