//! The result of a load: what was sent, what came, and how late.

use std::net::SocketAddr;

use hawser_meter::{flow::Count, histogram::Histogram};
use schemars::JsonSchema;
use serde::Serialize;

use crate::config::Backend;

/// The result of one trial. Times are nanoseconds, bytes count frames without frame check sequence.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub(crate) struct LoadResult {
    /// Of this format.
    pub(crate) version: u32,
    /// Number of the run.
    pub(crate) run: u16,
    /// Kernel release.
    pub(crate) kernel: String,
    /// The sending side.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) sent: Option<Sent>,
    /// The receiving side.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) received: Option<Received>,
    /// Frames sent that never came, where both sides are in this process. Negative means that the
    /// accounting is wrong.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) lost: Option<i64>,
    /// Frames sent back.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) reflected: Option<u64>,
}

/// What a sender did.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub(crate) struct Sent {
    /// How frames were sent.
    pub(crate) backend: Backend,
    /// Core the sender was bound to.
    pub(crate) cpu: Option<usize>,
    /// Frames of the schedule.
    pub(crate) scheduled: u64,
    /// Frames that the device took.
    pub(crate) frames: u64,
    /// Frames that were due and not sent: given up because they were late, refused by the device, or
    /// left when the trial was stopped.
    pub(crate) unsent: u64,
    /// Of those, the ones the device refused.
    pub(crate) refused: u64,
    /// Seconds the sending thread had a core. What frames cause on their way through the kernel is part
    /// of it.
    pub(crate) cpu_s: f64,
    /// By stream.
    pub(crate) streams: Vec<SentStream>,
    /// By flow, all streams in order.
    pub(crate) flows: Vec<SentFlow>,
}

/// What was sent of a stream. Frames the device refused are among them.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub(crate) struct SentStream {
    /// Its name.
    pub(crate) name: String,
    /// Frames of the schedule.
    pub(crate) scheduled: u64,
    /// Frames sent.
    pub(crate) frames: u64,
    /// Frames given up.
    pub(crate) unsent: u64,
    /// Bytes of frames sent.
    pub(crate) bytes: u64,
    /// Frames a second asked for: the mean of a ramp; none without a rate.
    pub(crate) asked_frames_per_s: Option<f64>,
    /// Frames a second sent, from the first frame to the last; none of a single frame.
    pub(crate) frames_per_s: Option<f64>,
    /// Between the first frame and the last, seconds.
    pub(crate) seconds: f64,
}

/// What was sent of a flow.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub(crate) struct SentFlow {
    /// Source.
    pub(crate) source: SocketAddr,
    /// Destination.
    pub(crate) target: SocketAddr,
    /// Frames sent.
    pub(crate) frames: u64,
    /// Frames given up.
    pub(crate) unsent: u64,
    /// Bytes of frames sent.
    pub(crate) bytes: u64,
}

/// What a receiver counted.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub(crate) struct Received {
    /// How frames were received.
    pub(crate) backend: Backend,
    /// Load frames of this run, every copy.
    pub(crate) frames: u64,
    /// Their bytes.
    pub(crate) bytes: u64,
    /// Load frames that came at least once.
    pub(crate) unique: u64,
    /// Copies beyond the first (RFC 5560).
    pub(crate) duplicated: u64,
    /// First copies that came after a frame sent later (RFC 4737 section 3.4).
    pub(crate) reordered: u64,
    /// Frames so old that it is not known whether they came before.
    pub(crate) late: u64,
    /// Load frames of another run or of no flow of this one.
    pub(crate) foreign: u64,
    /// Other frames, which went on to the kernel.
    pub(crate) other: u64,
    /// Their bytes.
    pub(crate) other_bytes: u64,
    /// Between the first load frame and the last, seconds.
    pub(crate) seconds: f64,
    /// Frames into the capture file.
    pub(crate) captured: u64,
    /// Frames that found the capture's buffer full.
    pub(crate) uncaptured: u64,
    /// By stream.
    pub(crate) streams: Vec<ReceivedStream>,
    /// By flow, all streams in order.
    pub(crate) flows: Vec<ReceivedFlow>,
}

/// Delays of a stream. They mean something where both ends read the same clock.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub(crate) struct ReceivedStream {
    /// Its name.
    pub(crate) name: String,
    /// From the writing of the frame to its arrival, of first copies.
    pub(crate) delay: Distribution,
    /// Difference to the delay of the frame before it in its flow, without sign (RFC 3393).
    pub(crate) variation: Distribution,
}

/// What came of a flow.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub(crate) struct ReceivedFlow {
    /// Frames, every copy.
    pub(crate) frames: u64,
    /// Their bytes.
    pub(crate) bytes: u64,
    /// Copies beyond the first.
    pub(crate) duplicated: u64,
    /// First copies that came after a frame sent later.
    pub(crate) reordered: u64,
    /// Frames so old that it is not known whether they came before.
    pub(crate) late: u64,
    /// Frames sent that never came, where both sides are in this process.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) lost: Option<i64>,
    /// Least delay.
    pub(crate) delay_min_ns: Option<u64>,
    /// Mean delay.
    pub(crate) delay_mean_ns: Option<f64>,
    /// Greatest delay.
    pub(crate) delay_max_ns: Option<u64>,
}

impl ReceivedFlow {
    /// The counts of a flow.
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

    /// Frames that came at least once.
    pub(crate) fn unique(&self) -> u64 {
        self.frames.saturating_sub(self.duplicated + self.late)
    }
}

/// A histogram and what is usually asked of it. Quantiles are within 0.4 %.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub(crate) struct Distribution {
    /// How many values.
    pub(crate) count: u64,
    /// Median.
    pub(crate) p50_ns: Option<u64>,
    /// 90th percentile.
    pub(crate) p90_ns: Option<u64>,
    /// 99th percentile.
    pub(crate) p99_ns: Option<u64>,
    /// 99.9th percentile.
    pub(crate) p999_ns: Option<u64>,
    /// Buckets that hold values: from, below, how many.
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
