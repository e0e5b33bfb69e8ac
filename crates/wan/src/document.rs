//! The WAN emulator's configuration file. [`super::plan`] validates and resolves it.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Configuration of one WAN emulator: wires between interfaces, and paths with impairments on them.
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
    /// Seed of all random streams. Equal seeds and equal packets give equal results.
    #[serde(default)]
    pub(crate) seed: u64,
    /// Memory for packets in flight. If it is full, packets are dropped and counted as `drop_buffer`.
    #[serde(default = "default_buffer")]
    #[schemars(range(min = 1_000_000))]
    pub(crate) buffer_bytes: u64,
    /// Pairs of interfaces.
    #[schemars(length(min = 1, max = 1024))]
    pub(crate) wires: Vec<Wire>,
    /// Paths on the wires. A packet belongs to the first path that matches it.
    #[schemars(length(max = 65536))]
    pub(crate) paths: Vec<Path>,
}

fn default_buffer() -> u64 {
    256_000_000
}

/// Two interfaces: frames received at one are sent at the other.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Wire {
    /// Its name.
    #[schemars(length(min = 1, max = 64))]
    pub(crate) name: String,
    /// The interfaces. *Forward* is from the first to the second.
    pub(crate) ends: (Interface, Interface),
    /// Directions that the emulator forwards. It leaves the other direction to the kernel.
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

/// Impairments of the packets of one direction of a wire with certain addresses.
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
    /// Source prefix (IPv4 or IPv6) of its packets; any source if left out.
    #[serde(default)]
    pub(crate) source: Option<String>,
    /// Destination prefix of its packets; any destination if left out.
    #[serde(default)]
    pub(crate) destination: Option<String>,
    /// Rate and queue. For a constant rate, the kernel's shapers need less CPU.
    #[serde(default)]
    pub(crate) bottleneck: Option<Bottleneck>,
    /// Constant one-way delay, microseconds.
    #[serde(default)]
    #[schemars(range(min = 0, max = 3_600_000_000_u64))]
    pub(crate) delay_us: f64,
    /// Variation of the delay.
    #[serde(default)]
    pub(crate) jitter: Option<Jitter>,
    /// Loss model.
    #[serde(default)]
    pub(crate) loss: Option<Loss>,
    /// Fraction of packets delivered twice.
    #[serde(default)]
    pub(crate) duplication: Probability,
    /// Packets with an extra delay, so that later packets overtake them.
    #[serde(default)]
    pub(crate) reordering: Option<Reordering>,
}

/// A number from 0 to 1.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(transparent)]
pub(crate) struct Probability(#[schemars(range(min = 0, max = 1))] pub(crate) f64);

/// A rate, constant or from a trace, behind a queue that drops at the tail. Bytes are those of Ethernet
/// frames.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Bottleneck {
    /// Constant rate; either this or a trace.
    #[serde(default)]
    #[schemars(range(min = 1, max = 1_000_000_000_000_u64))]
    pub(crate) rate_bit_per_s: Option<u64>,
    /// A trace in mahimahi's format: each line is a time in milliseconds at which 1504 bytes can be
    /// delivered.
    #[serde(default)]
    pub(crate) trace: Option<String>,
    /// Queue limit, bytes, without the packet in transmission.
    pub(crate) queue_bytes: u64,
}

/// Variation of the delay from packet to packet.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Jitter {
    /// Standard deviation, microseconds.
    #[schemars(range(min = 0, max = 3_600_000_000_u64))]
    pub(crate) deviation_us: f64,
    /// Distribution.
    #[serde(default)]
    pub(crate) distribution: Distribution,
    /// Correlation of successive packets.
    #[serde(default)]
    pub(crate) correlation: Probability,
    /// Whether packets may overtake one another; otherwise they are delayed to preserve order.
    #[serde(default)]
    pub(crate) reorders: bool,
}

/// Distribution of the jitter.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Distribution {
    /// Normal.
    #[default]
    Normal,
    /// Uniform.
    Uniform,
    /// Pareto with shape 3.
    Pareto,
}

/// Loss model.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "model", rename_all = "snake_case", deny_unknown_fields)]
pub(crate) enum Loss {
    /// Independent losses.
    Bernoulli {
        /// Loss probability.
        probability: Probability,
    },
    /// Bursts of losses: a Markov chain of two states, with a transition before each packet.
    GilbertElliott {
        /// Transition probability from the good to the bad state.
        to_bad: Probability,
        /// Transition probability from the bad to the good state.
        to_good: Probability,
        /// Loss probability in the good state.
        #[serde(default)]
        good: Probability,
        /// Loss probability in the bad state.
        #[serde(default = "always")]
        bad: Probability,
    },
}

fn always() -> Probability {
    Probability(1.0)
}

/// Packets with an extra delay, so that later packets overtake them.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Reordering {
    /// Fraction of packets with the extra delay.
    pub(crate) share: Probability,
    /// The extra delay, microseconds.
    #[schemars(range(min = 0, max = 3_600_000_000_u64))]
    pub(crate) extra_delay_us: f64,
}
