//! The WAN emulator's configuration as it is written. [`super::plan`] makes it valid.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Configuration of one WAN emulator: wires between interfaces, and what happens on them.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(title = "hawserd wan configuration")]
pub(crate) struct Document {
    /// Version of this format.
    #[schemars(range(min = 1, max = 1))]
    pub(crate) version: u32,
    /// Unix socket of the control API.
    #[schemars(length(min = 1, max = 107))]
    pub(crate) control: String,
    /// Of all chance: equal seeds and equal packets give equal fates.
    #[serde(default)]
    pub(crate) seed: u64,
    /// Memory for packets under way. A packet that finds it full is dropped with the cause `buffer`.
    #[serde(default = "default_buffer")]
    #[schemars(range(min = 1_000_000))]
    pub(crate) buffer_bytes: u64,
    /// Pairs of interfaces.
    #[schemars(length(min = 1, max = 1024))]
    pub(crate) wires: Vec<Wire>,
    /// What happens on the wires. Of several that take a packet, the first does.
    #[schemars(length(max = 65536))]
    pub(crate) paths: Vec<Path>,
}

fn default_buffer() -> u64 {
    256_000_000
}

/// Two interfaces: what comes in at one goes out at the other.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Wire {
    /// Its name.
    #[schemars(length(min = 1, max = 64))]
    pub(crate) name: String,
    /// The interfaces. *Forward* is from the first to the second.
    pub(crate) ends: (Interface, Interface),
    /// The directions carried; the other one is the kernel's or nobody's.
    #[serde(default)]
    pub(crate) carries: Carries,
}

/// Name of an interface of the emulator's network namespace.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(transparent)]
pub(crate) struct Interface(#[schemars(length(min = 1, max = 15))] pub(crate) String);

/// Directions of a wire.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Carries {
    /// Both.
    #[default]
    Both,
    /// From the first end to the second.
    Forward,
    /// From the second end to the first.
    Reverse,
}

/// One direction of a wire.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Direction {
    /// From the wire's first end to its second.
    Forward,
    /// From the wire's second end to its first.
    Reverse,
}

/// What happens to the packets of one direction of a wire between certain addresses.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Path {
    /// Its name; unique.
    #[schemars(length(min = 1, max = 128))]
    pub(crate) name: String,
    /// The wire.
    pub(crate) wire: String,
    /// The direction.
    pub(crate) direction: Direction,
    /// Source prefix (IPv4 or IPv6) of its packets; without it every source.
    #[serde(default)]
    pub(crate) source: Option<String>,
    /// Destination prefix of its packets; without it every destination.
    #[serde(default)]
    pub(crate) destination: Option<String>,
    /// Rate and queue; the kernel's shapers serve constant rates with less effort.
    #[serde(default)]
    pub(crate) bottleneck: Option<Bottleneck>,
    /// Constant one-way delay.
    #[serde(default)]
    #[schemars(range(min = 0, max = 3_600_000_000_u64))]
    pub(crate) delay_us: f64,
    /// Variation of the delay.
    #[serde(default)]
    pub(crate) jitter: Option<Jitter>,
    /// Loss.
    #[serde(default)]
    pub(crate) loss: Option<Loss>,
    /// Share of packets delivered twice.
    #[serde(default)]
    pub(crate) duplication: Probability,
    /// Packets held back so that others overtake them.
    #[serde(default)]
    pub(crate) reordering: Option<Reordering>,
}

/// A number from 0 to 1.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(transparent)]
pub(crate) struct Probability(#[schemars(range(min = 0, max = 1))] pub(crate) f64);

/// A rate, constant or from a trace, behind a queue that drops at the tail. Bytes are counted as
/// Ethernet frames.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Bottleneck {
    /// Constant rate; either this or a trace.
    #[serde(default)]
    #[schemars(range(min = 1, max = 1_000_000_000_000_u64))]
    pub(crate) rate_bit_per_s: Option<u64>,
    /// A trace in mahimahi's format: each line a millisecond at which 1504 bytes may pass.
    #[serde(default)]
    pub(crate) trace: Option<String>,
    /// Bytes that may wait besides the packet in transmission.
    pub(crate) queue_bytes: u64,
}

/// Variation of the delay from packet to packet.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Jitter {
    /// Standard deviation.
    #[schemars(range(min = 0, max = 3_600_000_000_u64))]
    pub(crate) deviation_us: f64,
    /// Shape.
    #[serde(default)]
    pub(crate) distribution: Distribution,
    /// Correlation from one packet to the next.
    #[serde(default)]
    pub(crate) correlation: Probability,
    /// Whether packets may overtake one another; if not, they wait for one another.
    #[serde(default)]
    pub(crate) reorders: bool,
}

/// Shape of the jitter.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Distribution {
    /// Normal.
    #[default]
    Normal,
    /// Uniform.
    Uniform,
    /// Pareto of shape 3.
    Pareto,
}

/// Which packets are lost.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "model", rename_all = "snake_case", deny_unknown_fields)]
pub(crate) enum Loss {
    /// Each packet by itself.
    Bernoulli {
        /// Share of packets lost.
        probability: Probability,
    },
    /// In bursts: two states, each with a share of loss.
    GilbertElliott {
        /// Probability of going from the good to the bad state, at each packet.
        to_bad: Probability,
        /// Probability of going from the bad to the good state, at each packet.
        to_good: Probability,
        /// Share lost in the good state.
        #[serde(default)]
        good: Probability,
        /// Share lost in the bad state.
        #[serde(default = "always")]
        bad: Probability,
    },
}

fn always() -> Probability {
    Probability(1.0)
}

/// Packets held back so that others overtake them.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Reordering {
    /// Share of packets held back.
    pub(crate) share: Probability,
    /// How much longer they are under way.
    #[schemars(range(min = 0, max = 3_600_000_000_u64))]
    pub(crate) by_us: f64,
}
