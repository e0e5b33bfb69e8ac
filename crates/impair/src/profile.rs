//! The impairments of one channel.

use std::sync::Arc;
use std::time::Duration;

use crate::jitter::Jitter;
use crate::loss::Loss;
use crate::trace::Trace;
use crate::units::{Probability, Rate};

/// The server of a bottleneck's queue.
#[derive(Clone, Debug)]
pub enum Service {
    /// A constant rate.
    Constant(Rate),
    /// Delivery opportunities from a trace.
    Trace(Arc<Trace>),
}

/// A rate behind a queue that drops at the tail.
#[derive(Clone, Debug)]
pub struct Bottleneck {
    /// The server.
    pub service: Service,
    /// Queue limit, bytes, without the packet in transmission.
    pub queue: u64,
}

/// Packets with an extra delay, so that later packets overtake them (RFC 4737).
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Reordering {
    /// Fraction of packets with the extra delay.
    pub share: Probability,
    /// The extra delay.
    pub by: Duration,
}

/// All impairments of one direction of a path. The default has none.
#[derive(Clone, Debug, Default)]
pub struct Profile {
    /// Rate and queue; `None`: unlimited.
    pub bottleneck: Option<Bottleneck>,
    /// Loss model.
    pub loss: Loss,
    /// Constant one-way delay.
    pub delay: Duration,
    /// Variation of the one-way delay.
    pub jitter: Option<Jitter>,
    /// Fraction of packets delivered twice.
    pub duplication: Probability,
    /// Packets that later ones overtake.
    pub reordering: Option<Reordering>,
}
