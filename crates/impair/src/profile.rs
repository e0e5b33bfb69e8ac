//! The values of one channel, valid by construction.

use std::sync::Arc;
use std::time::Duration;

use crate::jitter::Jitter;
use crate::loss::Loss;
use crate::trace::Trace;
use crate::units::{Probability, Rate};

/// What serves a bottleneck's queue.
#[derive(Clone, Debug)]
pub enum Service {
    /// So many bits a second, always.
    Constant(Rate),
    /// Opportunities to deliver, from a file.
    Trace(Arc<Trace>),
}

/// A rate behind a queue.
#[derive(Clone, Debug)]
pub struct Bottleneck {
    /// What serves the queue.
    pub service: Service,
    /// Bytes that may wait, besides the packet in transmission; more are dropped at the tail.
    pub queue: u64,
}

/// Packets that come late, so that those behind overtake them (RFC 4737 section 3.3).
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Reordering {
    /// Share of packets held back.
    pub share: Probability,
    /// How much longer these are under way.
    pub by: Duration,
}

/// Everything that one direction of a path does. The default does nothing.
#[derive(Clone, Debug, Default)]
pub struct Profile {
    /// Rate and queue; None is unlimited.
    pub bottleneck: Option<Bottleneck>,
    /// Which packets are lost.
    pub loss: Loss,
    /// Constant one-way delay.
    pub delay: Duration,
    /// Variation of the one-way delay.
    pub jitter: Option<Jitter>,
    /// Share of packets delivered twice.
    pub duplication: Probability,
    /// Packets held back.
    pub reordering: Option<Reordering>,
}
