//! Jitter of the RTT: variation that is not queueing.

use std::time::{Duration, Instant};

/// Mean deviations of successive RTTs attributed to jitter. Two paths with 20 ms of jitter reach 27
/// % of their sum with 3, 64 % with 5 (`crates/sim`).
const DEVIATIONS: f64 = 5.0;

/// Mean RTT increases attributed to jitter. A path that keeps order while its delay varies has
/// longer RTTs the more it carries, because each packet waits for the slowest before it; its RTT
/// never falls back to that of a lone packet. Two paths with 20 ms of jitter each way reach 2 % of
/// their sum without this, 95 % with it (`crates/sim`).
const INCREASES: f64 = 20.0;
/// Maximum allowance by RTT increases, seconds.
const MAX_INCREASE_ALLOWANCE: f64 = 0.25;

/// RTT increases caused by a busy host, seconds.
const HOST_NOISE: f64 = 0.0015;

/// Time constant, seconds, with which increases decay while acknowledgements arrive continuously. A
/// host that stalls for 40 ms would otherwise open the window for good.
const INCREASE_DECAY: f64 = 0.25;

/// Acknowledgements closer together than this form one bunch.
const ACK_BUNCH: Duration = Duration::from_millis(2);

/// RTT statistics of a path, seconds.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Jitter {
    /// Smoothed RTT, with gain 1/16.
    pub(super) srtt: f64,
    last_rtt: f64,
    /// Mean difference of successive RTTs beyond one serialization time: a queue changes slowly.
    deviation: f64,
    /// Minimum of the current group of [`Self::SAMPLES`] samples, and of the one before.
    recent: [f64; 2],
    count: u32,
    /// Mean RTT increase from one bunch of acknowledgements to the next, beyond one serialization
    /// time. A burst of our own does not count: its packets are acknowledged one serialization time
    /// apart.
    pub(super) rtt_increase: f64,
    last_ack: Option<Instant>,
}

impl Jitter {
    /// Samples per group of [`Self::recent_min`] (`N_RTT_SAMPLE` is 8 in RFC 9406 section 4.3).
    const SAMPLES: u32 = 2;

    /// Adds an RTT sample; `serialization_time` is the time to send one packet.
    pub(super) fn on_rtt(&mut self, now: Instant, rtt: f64, serialization_time: f64) {
        if self.srtt <= 0.0 {
            (self.srtt, self.last_rtt, self.recent) = (rtt, rtt, [rtt; 2]);
        }
        let difference = ((rtt - self.last_rtt).abs() - serialization_time).max(0.0);
        self.deviation += (difference - self.deviation) / 16.0;
        let gap = self.last_ack.map_or(ACK_BUNCH, |last| now.saturating_duration_since(last));
        if gap >= ACK_BUNCH {
            self.rtt_increase +=
                ((rtt - self.last_rtt - serialization_time).max(0.0) - self.rtt_increase) / 16.0;
        } else {
            self.rtt_increase -= self.rtt_increase * gap.as_secs_f64() / INCREASE_DECAY;
        }
        (self.last_rtt, self.last_ack) = (rtt, Some(now));
        self.srtt += (rtt - self.srtt) / 16.0;
        self.count += 1;
        if self.count.is_multiple_of(Self::SAMPLES) {
            self.recent = [f64::INFINITY, self.recent[0]];
        }
        self.recent[0] = self.recent[0].min(rtt);
    }

    /// Minimum of the last two to four samples (HyStart++).
    pub(super) fn recent_min(&self) -> f64 {
        self.recent[0].min(self.recent[1])
    }

    /// Part of the RTT attributed to jitter, with at most `max_deviation` for deviations.
    pub(super) fn allowance(&self, max_deviation: f64) -> f64 {
        let deviation = (DEVIATIONS * self.deviation).min(max_deviation);
        let increase = (INCREASES * (self.rtt_increase - HOST_NOISE)).min(MAX_INCREASE_ALLOWANCE);
        deviation.max(increase)
    }
}
