//! The interface of receivers.

use hawser_meter::{flow::Count, histogram::Histogram};

/// Counts load frames until it is dropped.
pub(super) trait Receiver: Send + Sync {
    /// The current counters.
    fn tally(&self) -> anyhow::Result<ReceiveTally>;
}

/// Counters of a receiver.
#[derive(Clone, Debug, Default)]
pub(super) struct ReceiveTally {
    /// By flow.
    pub(super) flows: Vec<Count>,
    /// By stream: delays, and delay variations.
    pub(super) histograms: Vec<(Histogram, Histogram)>,
    /// Load frames of another run or an unknown flow.
    pub(super) foreign: u64,
    /// Other frames.
    pub(super) other: u64,
    /// Their bytes.
    pub(super) other_bytes: u64,
    /// Arrival times of the first and the last load frame.
    pub(super) span_ns: Option<(u64, u64)>,
    /// Frames written to the capture file.
    pub(super) captured: u64,
    /// Frames dropped because the capture buffer or the socket buffer was full.
    pub(super) uncaptured: u64,
}
