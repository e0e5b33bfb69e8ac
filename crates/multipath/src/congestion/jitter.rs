//! How much round trips vary without a queue.

use std::time::{Duration, Instant};

/// Deviations of the round trip that are not taken for a queue: with 3, two paths of 20 ms of jitter
/// give 27 % of their sum in `crates/sim`, with 5, 64 %.
const JITTER: f64 = 5.0;

/// Mean rises of the round trip that are not taken for a queue where the path itself varies, and the longest
/// such time, seconds. A path that keeps packets in order while its delay varies takes longer the more it
/// carries, for each waits for the slowest before it, and its delay never again falls to that of a lone packet:
/// two paths of 20 ms of jitter each way give 2 % of their sum in `crates/sim` without this, and 95 % with it.
const RISES: f64 = 20.0;
const LONGEST_RISES: f64 = 0.25;

/// Rises that a busy machine makes, seconds.
const LATE: f64 = 0.0015;

/// Where acknowledgements come all the time, rises are forgotten in about this time, seconds: a rise that a machine
/// without time has made would else stay for good.
const FORGOTTEN: f64 = 0.25;

/// Acknowledgements within this time are a bunch, and tell of one moment.
const BUNCH: Duration = Duration::from_millis(2);

/// How much round trips vary, seconds.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Jitter {
    /// The smoothed round trip.
    pub(super) mean: f64,
    last: f64,
    /// From one to the next, besides what a packet in the queue makes out: a queue changes slowly.
    deviation: f64,
    /// The least of the last few, and of those before.
    recent: [f64; 2],
    count: u32,
    /// From one bunch of acknowledgements to the next, besides what a packet in the queue makes out. What bursts
    /// of our own do to a queue is no rise: its packets are acknowledged a packet's time apart.
    pub(super) rise: f64,
    heard: Option<Instant>,
}

impl Jitter {
    /// Samples of which the least tells of a queue (as in `HyStart`, RFC 9406 section 4.2).
    const SAMPLES: u32 = 2;

    /// A round trip was measured; `grain` is what a single packet in the queue makes out.
    pub(super) fn note(&mut self, now: Instant, rtt: f64, grain: f64) {
        if self.mean <= 0.0 {
            (self.mean, self.last, self.recent) = (rtt, rtt, [rtt; 2]);
        }
        let difference = ((rtt - self.last).abs() - grain).max(0.0);
        self.deviation += (difference - self.deviation) / 16.0;
        let silence = self.heard.map_or(BUNCH, |last| now.saturating_duration_since(last));
        if silence >= BUNCH {
            self.rise += ((rtt - self.last - grain).max(0.0) - self.rise) / 16.0;
        } else {
            self.rise -= self.rise * silence.as_secs_f64() / FORGOTTEN;
        }
        (self.last, self.heard) = (rtt, Some(now));
        self.mean += (rtt - self.mean) / 16.0;
        self.count += 1;
        if self.count.is_multiple_of(Self::SAMPLES) {
            self.recent = [f64::INFINITY, self.recent[0]];
        }
        self.recent[0] = self.recent[0].min(rtt);
    }

    /// The least of the last few.
    pub(super) fn least(&self) -> f64 {
        self.recent[0].min(self.recent[1])
    }

    /// What of a round trip is not taken for a queue, with `most` of it for deviations.
    pub(super) fn no_queue(&self, most: f64) -> f64 {
        let deviation = (JITTER * self.deviation).min(most);
        let rises = (RISES * (self.rise - LATE)).min(LONGEST_RISES);
        deviation.max(rises)
    }
}
