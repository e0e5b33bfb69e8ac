//! The result of a trial: frames sent and received, and their delays.

use std::net::SocketAddr;

use hawser_meter::{flow::Count, histogram::Histogram};
use schemars::JsonSchema;
use serde::Serialize;

use crate::config::Backend;

/// The result of one trial. Times are nanoseconds, bytes count frames without frame check sequence.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub(crate) struct LoadResult {
    /// Version of this format.
    pub(crate) version: u32,
    /// Number of the run.
    pub(crate) run: u16,
    /// Kernel release.
    pub(crate) kernel: String,
    /// The sender.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) sent: Option<Sent>,
    /// The receiver.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) received: Option<Received>,
    /// Frames sent and not received, if both sides are in this process. A negative number is an accounting
    /// error.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) lost: Option<i64>,
    /// Frames reflected.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) reflected: Option<u64>,
}

/// Counters of a sender.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub(crate) struct Sent {
    /// How frames were sent.
    pub(crate) backend: Backend,
    /// CPU to which the sender was pinned.
    pub(crate) cpu: Option<usize>,
    /// Frames of the schedule.
    pub(crate) scheduled: u64,
    /// Frames that the device accepted.
    pub(crate) frames: u64,
    /// Frames of the schedule that were not sent: skipped because they were late, refused by the device, or
    /// still to be sent when the trial was stopped.
    pub(crate) unsent: u64,
    /// Of those, frames that the device refused.
    pub(crate) refused: u64,
    /// CPU time of the sending thread, seconds. It includes kernel processing of the frames on that CPU.
    pub(crate) cpu_s: f64,
    /// By stream.
    pub(crate) streams: Vec<SentStream>,
    /// By flow, all streams in order.
    pub(crate) flows: Vec<SentFlow>,
}

/// Counters of a sent stream. They include frames that the device refused.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub(crate) struct SentStream {
    /// Its name.
    pub(crate) name: String,
    /// Frames of the schedule.
    pub(crate) scheduled: u64,
    /// Frames sent.
    pub(crate) frames: u64,
    /// Frames not sent.
    pub(crate) unsent: u64,
    /// Bytes of frames sent.
    pub(crate) bytes: u64,
    /// Intended load (RFC 2285 section 3.5.1), frames per second: the mean of a ramp; null without a rate.
    pub(crate) intended_frames_per_s: Option<f64>,
    /// Offered load (RFC 2285 section 3.5.2), frames per second, from the first frame to the last; null for a
    /// single frame.
    pub(crate) frames_per_s: Option<f64>,
    /// Time between the first frame and the last, seconds.
    pub(crate) seconds: f64,
}

/// Counters of a sent flow.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub(crate) struct SentFlow {
    /// Source.
    pub(crate) source: SocketAddr,
    /// Destination.
    pub(crate) target: SocketAddr,
    /// Frames sent.
    pub(crate) frames: u64,
    /// Frames not sent.
    pub(crate) unsent: u64,
    /// Bytes of frames sent.
    pub(crate) bytes: u64,
}

/// Counters of a receiver.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub(crate) struct Received {
    /// How frames were received.
    pub(crate) backend: Backend,
    /// Load frames of this run, duplicates included.
    pub(crate) frames: u64,
    /// Their bytes.
    pub(crate) bytes: u64,
    /// Load frames received at least once.
    pub(crate) unique: u64,
    /// Duplicates (RFC 5560).
    pub(crate) duplicated: u64,
    /// Reordered frames (RFC 4737 section 3.3), duplicates not counted.
    pub(crate) reordered: u64,
    /// Frames outside the window: it is unknown whether they are duplicates.
    pub(crate) late: u64,
    /// Load frames of another run or an unknown flow.
    pub(crate) foreign: u64,
    /// Other frames, which were passed to the kernel.
    pub(crate) other: u64,
    /// Their bytes.
    pub(crate) other_bytes: u64,
    /// Time between the first load frame and the last, seconds.
    pub(crate) seconds: f64,
    /// Frames written to the capture file.
    pub(crate) captured: u64,
    /// Frames not captured because the buffer was full.
    pub(crate) uncaptured: u64,
    /// By stream.
    pub(crate) streams: Vec<ReceivedStream>,
    /// By flow, all streams in order.
    pub(crate) flows: Vec<ReceivedFlow>,
}

/// Delays of a stream. They are valid only if sender and receiver have the same clock.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub(crate) struct ReceivedStream {
    /// Its name.
    pub(crate) name: String,
    /// One-way delay of first copies, from the building of the frame to its reception.
    pub(crate) delay: Distribution,
    /// Absolute one-way delay variation between successive frames of a flow (RFC 3393).
    pub(crate) variation: Distribution,
}

/// Counters of a received flow.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub(crate) struct ReceivedFlow {
    /// Frames, duplicates included.
    pub(crate) frames: u64,
    /// Their bytes.
    pub(crate) bytes: u64,
    /// Duplicates.
    pub(crate) duplicated: u64,
    /// Reordered frames, duplicates not counted.
    pub(crate) reordered: u64,
    /// Frames outside the window: it is unknown whether they are duplicates.
    pub(crate) late: u64,
    /// Frames sent and not received, if both sides are in this process.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) lost: Option<i64>,
    /// Minimum delay.
    pub(crate) delay_min_ns: Option<u64>,
    /// Mean delay.
    pub(crate) delay_mean_ns: Option<f64>,
    /// Maximum delay.
    pub(crate) delay_max_ns: Option<u64>,
}

impl ReceivedFlow {
    /// The counters of a flow.
    pub(crate) fn new(count: &Count) -> Self {
        let unique = count.unique();
        Self {
            frames: count.received,
            bytes: count.bytes,
            duplicated: count.duplicated,
            reordered: count.reordered,
            late: count.late,
            lost: None,
            delay_min_ns: count.delay_range.map(|range| range.0),
            delay_mean_ns: (unique > 0).then(|| count.delay_sum as f64 / unique as f64),
            delay_max_ns: count.delay_range.map(|range| range.1),
        }
    }

    /// Frames received at least once.
    pub(crate) fn unique(&self) -> u64 {
        self.frames.saturating_sub(self.duplicated + self.late)
    }
}

/// A histogram with its usual quantiles, whose error is at most 0.4 %.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub(crate) struct Distribution {
    /// Number of values.
    pub(crate) count: u64,
    /// Median.
    pub(crate) p50_ns: Option<u64>,
    /// 90th percentile.
    pub(crate) p90_ns: Option<u64>,
    /// 99th percentile.
    pub(crate) p99_ns: Option<u64>,
    /// 99.9th percentile.
    pub(crate) p999_ns: Option<u64>,
    /// Buckets that are not empty: lower bound (inclusive), upper bound (exclusive), count.
    pub(crate) buckets: Vec<(u64, u64, u64)>,
}

impl From<&Histogram> for Distribution {
    fn from(histogram: &Histogram) -> Self {
        Self {
            count: histogram.total(),
            p50_ns: histogram.quantile(0.5),
            p90_ns: histogram.quantile(0.9),
            p99_ns: histogram.quantile(0.99),
            p999_ns: histogram.quantile(0.999),
            buckets: histogram.buckets().collect(),
        }
    }
}
