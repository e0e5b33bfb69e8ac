//! What every receiver does, whichever way frames come in.

use hawser_meter::{flow::Count, histogram::Histogram};

/// Counts load frames from when it is made until it is dropped.
pub(super) trait Receiver: Send + Sync {
    /// What it has counted so far.
    fn tally(&self) -> anyhow::Result<ReceiveTally>;
}

/// What a receiver has counted.
#[derive(Clone, Debug, Default)]
pub(super) struct ReceiveTally {
    /// By flow.
    pub(super) flows: Vec<Count>,
    /// By group of flows: delays, and their variations.
    pub(super) histograms: Vec<(Histogram, Histogram)>,
    /// Load frames of another run or of no flow of this one.
    pub(super) foreign: u64,
    /// Other frames.
    pub(super) other: u64,
    /// Their bytes.
    pub(super) other_bytes: u64,
    /// When the first load frame came, and the last.
    pub(super) span_ns: Option<(u64, u64)>,
    /// Frames into the capture file.
    pub(super) captured: u64,
    /// Frames the capture or the socket had no room for.
    pub(super) uncaptured: u64,
}
