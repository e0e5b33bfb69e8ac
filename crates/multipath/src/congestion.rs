//! Delay-based congestion control (docs/design/congestion-control.md).
//!
//! The window follows FAST TCP (Wei, Jin, Low and Hegde, IEEE/ACM Transactions on Networking 14(6),
//! 2006) with gain 1/2. Once per RTT
//!
//! ```text
//! queue  = W * (1 - base_rtt / rtt)
//! W     += (backlog_target - queue) / 2
//! ```
//!
//! so that a fixed backlog stays in the path's queue: the path is always busy and its delay stays
//! low. `rtt` is the standing RTT of Copa (Arun and Balakrishnan, NSDI 2018), the minimum over one
//! round, so that jitter does not count as queueing. Slow start ends as in HyStart++ (RFC 9406).
//! Loss reduces the window by the lost bytes only, and not at all while it may be random.

mod jitter;
mod loss;
mod mean_rtt;
mod rate_sample;

use std::time::{Duration, Instant};

use self::{
    jitter::Jitter,
    loss::{RecentLoss, Recovery, exceeds, is_random_loss},
    mean_rtt::MeanRtt,
    rate_sample::{BusyRate, DeliveryRate},
};
use crate::{filter::WindowedMin, rate::Rate};

/// Backlog target on slow paths, packets.
const BACKLOG_PACKETS: f64 = 3.0;

/// Backlog target on fast paths, seconds at the path's rate: scheduling delay of a busy host.
const BACKLOG_TIME: f64 = 0.008;

/// Jitter dominates if, with the jitter allowance, the target exceeds the backlog target by this
/// factor.
const JITTER_DOMINATES: f64 = 3.0;

/// Rate assumed before the first measurement, bytes/s.
const INITIAL_RATE: f64 = 625_000.0;

/// Initial and minimum window, packets. At 1 Mbit/s the ten packets of RFC 9002 section 7.2 would
/// occupy the path for 120 ms while packets on all other paths wait for them.
const INITIAL_WINDOW: f64 = 4.0;
const MIN_WINDOW: f64 = 2.0;

/// Window, packets, from which on no flow's slow start is held up by this path: padding ends here.
const PROBED_WINDOW: f64 = 64.0;

/// Rate, bytes/s, below which delay variation is not attributed to jitter. A packet takes 5 ms
/// there, so two of the gateway's own packets look like jitter: a path of 1 Mbit/s was taken for
/// one of 5.
const MIN_JITTER_RATE: f64 = 300_000.0;

/// Half of the time for which the minimum RTT is taken for the queue-free RTT. BBR probes the RTT
/// every 10 s as well.
const BASE_RTT_WINDOW: Duration = Duration::from_secs(5);

/// Minimum length of a round, for paths with an RTT below it.
const MIN_ROUND: Duration = Duration::from_millis(4);

/// Seconds since the path was last saturated after which the probing rate starts to grow.
const PROBING_DELAY: f64 = 1.0;

/// Fraction of the backlog target below which the queue counts as empty: the rate may have risen,
/// and the window grows by a further [`PROBE_GAIN`] per round.
const EMPTY_QUEUE: f64 = 0.25;
/// Fraction by which the window grows per round while the queue is empty.
const PROBE_GAIN: f64 = 0.05;

/// The same while the window is below [`UNFILLED`] of the bandwidth-delay product. Slow start ends
/// early on long paths, because its own bursts look like a queue: without this, a path of 100
/// Mbit/s, 0.26 s and 1 % loss took half a minute to fill.
const FILL_GAIN: f64 = 0.25;
/// Fraction of the bandwidth-delay product below which a path counts as unfilled.
const UNFILLED: f64 = 0.75;

/// Upper bound of the window over bandwidth-delay product and backlog target. Bursts of a fast
/// inner flow leave the queue empty in between, and the window would grow until they are lost: with
/// 2, a path of 300 Mbit/s and 16 ms had windows of 2.4 MB and lost packets of bursts of 2.1 MB.
const MAX_WINDOW_GAIN: f64 = 1.5;

/// Minimum of [`Congestion::backlog_scale`], for paths with very small buffers.
const MIN_BACKLOG_SCALE: f64 = 0.02;
/// The same while loss is light: such loss may be random, and a smaller backlog would cost
/// throughput for nothing.
const LIGHT_LOSS_SCALE: f64 = 0.3;

/// Loss rate that ends slow start.
const SLOW_START_LOSS: f64 = 0.1;

/// Maximum RTT increase, seconds, tolerated in slow start; below it a sixteenth of the base RTT
/// (`MAX_RTT_THRESH` of RFC 9406 section 4.3 is 16 ms, with an eighth).
const MAX_RTT_THRESHOLD: f64 = 0.008;

/// Congestion window of one path, and the estimates it is based on.
#[derive(Clone, Debug)]
pub struct Congestion {
    packet_size: f64,
    window: f64,
    /// Whether the window grows by all that is acknowledged (RFC 5681 section 3.1).
    slow_start: bool,
    /// Whether the queue is drained until the round ends, to measure the base RTT (compare BBR's
    /// ProbeRTT).
    draining: bool,
    /// Factor on the backlog target, 0.02 to 1: losses show that the path's buffer is small.
    backlog_scale: f64,
    /// Fraction of delay variation attributed to jitter rather than queueing, 0 to 1; heavy loss
    /// halves it.
    jitter_share: f64,
    base_rtt: WindowedMin<Duration>,
    jitter: Jitter,
    round: Round,
    busy_rate: BusyRate,
    /// Until when ACKs that waited together may still arrive (ACK compression: Zhang, Shenker and
    /// Clark, SIGCOMM 1991).
    acks_together_until: Option<Instant>,
    delivery_rate: DeliveryRate,
    recent_loss: RecentLoss,
    recovery: Option<Recovery>,
    mean_rtt: MeanRtt,
    /// When the window was last found full, and the bytes in flight after that acknowledgement.
    window_full: Option<(Instant, u64)>,
    last_ack: Instant,
    rate: Rate,
    /// When the path was last seen busy between two acknowledgements.
    last_saturated: Instant,
    /// Bytes of the ACK frame that is being reported, and its minimum RTT.
    batch_acked: u64,
    batch_rtt: Option<Duration>,
}

/// One round: about one RTT, after which the window is set.
#[derive(Clone, Debug)]
struct Round {
    since: Instant,
    rtt: Option<Duration>,
    acked: u64,
    /// Sum over acknowledged packets of RTT times bytes, for the byte-weighted mean RTT.
    byte_seconds: f64,
    lost: u64,
    /// Bytes of these that were sent before the last reaction to loss ([`Recovery`]).
    lost_before: u64,
    /// ACK frames in the round.
    batches: u32,
    /// ACK frames before which the window was full.
    full: u32,
}

impl Round {
    /// A round that begins now.
    const fn new(since: Instant) -> Self {
        Self {
            since,
            rtt: None,
            acked: 0,
            byte_seconds: 0.0,
            lost: 0,
            lost_before: 0,
            batches: 0,
            full: 0,
        }
    }

    /// Whether the window was the limit; otherwise the round was app-limited (RFC 7661).
    fn is_full(&self) -> bool {
        self.full * 2 >= self.batches
    }
}

impl Congestion {
    /// A path with packets of `packet` bytes, about which nothing is known yet.
    #[must_use]
    pub fn new(now: Instant, packet: u16) -> Self {
        let packet = f64::from(packet);
        Self {
            packet_size: packet,
            window: INITIAL_WINDOW * packet,
            slow_start: true,
            draining: false,
            backlog_scale: 1.0,
            jitter_share: 1.0,
            base_rtt: WindowedMin::new(BASE_RTT_WINDOW),
            jitter: Jitter::default(),
            round: Round::new(now),
            busy_rate: BusyRate::default(),
            acks_together_until: None,
            delivery_rate: DeliveryRate::new(now),
            recent_loss: RecentLoss::default(),
            recovery: None,
            mean_rtt: MeanRtt::new(BASE_RTT_WINDOW),
            window_full: None,
            last_ack: now,
            rate: Rate::ZERO,
            last_saturated: now,
            batch_acked: 0,
            batch_rtt: None,
        }
    }

    /// Sets the packet size, bytes.
    pub fn set_packet_size(&mut self, packet: u16) {
        self.packet_size = f64::from(packet);
        self.window = self.window.max(self.min_window());
    }

    /// Packet size, bytes.
    #[must_use]
    pub fn packet_size(&self) -> f64 {
        self.packet_size
    }

    /// Congestion window, bytes.
    #[must_use]
    #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)] // saturates; never negative
    pub fn window(&self) -> u64 {
        let window = if self.draining { self.drain_window() } else { self.window };
        window as u64
    }

    /// Congestion window, bytes, without the reduction while the queue is drained.
    #[must_use]
    #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)] // saturates; never negative
    pub fn undrained_window(&self) -> u64 {
        self.window as u64
    }

    /// Whether slow start has neither met a queue nor reached [`PROBED_WINDOW`].
    #[must_use]
    pub fn in_early_slow_start(&self) -> bool {
        self.slow_start && self.window < PROBED_WINDOW * self.packet_size
    }

    /// Minimum RTT of the last 5 to 10 s: the path's RTT without queueing.
    #[must_use]
    pub fn base_rtt(&self) -> Option<Duration> {
        self.base_rtt.get()
    }

    /// Measured rate of the path; [`INITIAL_RATE`] before the first measurement.
    #[must_use]
    pub fn rate(&self) -> Rate {
        if self.rate > Rate::ZERO { self.rate } else { Rate::from_bytes_per_second(INITIAL_RATE) }
    }

    /// Rate that the scheduler assumes: the measured rate, doubled for each second since the path
    /// was last saturated, beginning after one second and at most 16 times. A path once measured
    /// slow would otherwise not be used, and so never be measured again.
    #[must_use]
    pub fn probing_rate(&self, now: Instant) -> Rate {
        let idle = now.saturating_duration_since(self.last_saturated);
        let doublings = (idle.as_secs_f64() - PROBING_DELAY).clamp(0.0, 4.0);
        Rate::from_bytes_per_second(self.rate().bytes_per_second() * doublings.exp2())
    }

    /// A packet sent at `sent` was acknowledged.
    pub fn on_ack(&mut self, now: Instant, sent: Instant, bytes: u64) {
        let rtt = now.saturating_duration_since(sent);
        self.batch_acked += bytes;
        self.batch_rtt = Some(self.batch_rtt.map_or(rtt, |least| least.min(rtt)));
    }

    /// All packets of one ACK frame have been reported; `in_flight` bytes remain in flight.
    pub fn on_end_acks(&mut self, now: Instant, in_flight: u64) {
        let acked = std::mem::take(&mut self.batch_acked);
        let Some(rtt) = self.batch_rtt.take() else { return };
        let full = self.was_window_full(now, acked, in_flight);
        if self.base_rtt.note(now, rtt) && !self.slow_start && full {
            self.draining = true;
        }
        self.round.acked += acked;
        self.round.byte_seconds += rtt.as_secs_f64() * acked as f64;
        self.round.batches += 1;
        self.round.full += u32::from(full);
        self.round.rtt = Some(self.round.rtt.map_or(rtt, |least| least.min(rtt)));
        self.jitter.on_rtt(now, rtt.as_secs_f64(), self.serialization_time());
        if (full && !self.slow_start) || !self.is_jittery() {
            self.sample_rate(now, acked, in_flight, rtt);
        } else {
            // Every RTT exceeds the base RTT here, so it does not show whether packets queued.
            self.last_ack = now;
        }
        self.raise_to_delivery_rate(now, acked, rtt);
        if self.slow_start && full {
            self.window += acked as f64;
            self.check_slow_start_exit();
        }
        if now.saturating_duration_since(self.round.since) >= rtt.max(MIN_ROUND) {
            self.end_round(now);
        }
    }

    /// Whether the window was full before `acked` bytes were acknowledged. ACK frames that arrive
    /// at the same time leave no chance to send in between, so all of them count like the first.
    fn was_window_full(&mut self, now: Instant, acked: u64, in_flight: u64) -> bool {
        let before = in_flight + acked;
        let together = |(at, left)| at == now && before <= left;
        let full = before as f64 + 1.5 * self.packet_size >= self.window() as f64
            || self.window_full.is_some_and(together);
        self.window_full = full.then_some((now, in_flight));
        full
    }

    /// Packets were declared lost, the last of them sent at `sent`; `persistent` is persistent
    /// congestion (RFC 9002 section 7.6).
    pub fn on_lost(&mut self, sent: Instant, bytes: u64, persistent: bool) {
        self.round.lost += bytes;
        if self.recovery.is_some_and(|recovery| recovery.began_after(sent)) {
            self.round.lost_before += bytes;
        }
        if persistent {
            self.window = self.min_window();
            self.slow_start = true;
        }
    }

    /// Sets the window at the end of a round.
    fn end_round(&mut self, now: Instant) {
        let round = std::mem::replace(&mut self.round, Round::new(now));
        self.draining = false;
        let (Some(base), Some(rtt)) = (self.base_rtt(), round.rtt) else { return };
        let congested = self.on_round_loss(now, &round);
        self.note_mean_rtt(now, &round);
        let jitter_gain = self.jitter_gain();
        let fast = self.fast_window(&round, base.as_secs_f64(), rtt.as_secs_f64().max(1e-6));
        let next = jitter_gain.map_or(fast, |factor| self.window * factor);
        let most = self.recovery.map_or(f64::INFINITY, |recovery| recovery.max_window(self.window));
        let next = next.min(most).clamp(self.min_window(), 2.0 * self.window);
        // An app-limited window has not been shown to be too small.
        let may_grow = round.is_full() && !self.slow_start && !congested;
        self.window = if may_grow { next } else { next.min(self.window) };
        if jitter_gain.is_none() && !self.slow_start && self.rate > Rate::ZERO {
            // The rate may have fallen since the window was right.
            let full =
                self.rate.bytes_per_second() * base.as_secs_f64() + self.apparent_backlog_target();
            self.window = self.window.min(MAX_WINDOW_GAIN * full + self.min_window());
        }
    }

    /// Window by FAST TCP's update, plus the growth while the queue is empty.
    fn fast_window(&self, round: &Round, base: f64, rtt: f64) -> f64 {
        let (queue, target) = (self.window * (1.0 - base / rtt), self.apparent_backlog_target());
        let empty = queue < target * EMPTY_QUEUE;
        let increase = if empty { self.probe_increase(round, base) } else { 0.0 };
        self.window + 0.5 * (target - queue) + increase
    }

    /// Adds the round to the mean RTT over load, unless it was app-limited.
    fn note_mean_rtt(&mut self, now: Instant, round: &Round) {
        if !round.is_full() {
            return self.mean_rtt.discard_round();
        }
        let took = now.saturating_duration_since(round.since);
        self.mean_rtt.add_round(now, round.acked as f64, round.byte_seconds, took, round.batches);
    }

    /// Factor on the window where jitter hides the queue; none where FAST's update applies. Means
    /// over few packets are not reliable either.
    fn jitter_gain(&self) -> Option<f64> {
        let known = self.window > PROBED_WINDOW * self.packet_size && self.is_jittery();
        self.mean_rtt.window_gain(self.jitter_share).filter(|_| known)
    }

    /// Additional growth, bytes, after a round with an empty queue.
    fn probe_increase(&self, round: &Round, base: f64) -> f64 {
        if !is_random_loss(round.lost as f64, round.acked as f64) {
            return 0.0;
        }
        let unfilled = self.window < UNFILLED * self.rate.bytes_per_second() * base;
        self.window * if unfilled { FILL_GAIN } else { PROBE_GAIN }
    }

    /// Reacts to the losses of a round; returns whether any belong to congestion.
    fn on_round_loss(&mut self, now: Instant, round: &Round) -> bool {
        let lost = round.lost - round.lost_before;
        let heavy = self.recent_loss.add_round(lost, round.acked, self.packet_size);
        let backlog_scale = match lost {
            0 => self.backlog_scale + 0.005,
            _ if heavy => self.backlog_scale * 0.5,
            // May be random loss: see [`LIGHT_LOSS_SCALE`].
            _ => (self.backlog_scale * 0.9).max(self.backlog_scale.min(LIGHT_LOSS_SCALE)),
        };
        self.backlog_scale = backlog_scale.clamp(MIN_BACKLOG_SCALE, 1.0);
        self.jitter_share = (self.jitter_share + 0.005).min(1.0);
        if heavy {
            self.jitter_share *= 0.5;
            self.recovery = Some(Recovery::new(now, self.window));
        }
        let congested = heavy || round.lost_before > 0;
        if let Some(recovery) = self.recovery.as_mut().filter(|_| congested) {
            self.window = recovery.reduce(self.window, round.lost as f64);
        }
        self.window = self.window.max(self.min_window());
        congested
    }

    /// Ends slow start when the RTT has grown (HyStart++, RFC 9406 section 4.2) or loss is high.
    fn check_slow_start_exit(&mut self) {
        let base = self.base_rtt().unwrap_or_default().as_secs_f64();
        let (least, Round { lost, acked, .. }) = (self.jitter.recent_min(), &self.round);
        let queue = self.window * (1.0 - base / least.max(1e-6));
        let lossy = exceeds(*lost as f64, *acked as f64, SLOW_START_LOSS, self.packet_size);
        // The gateway's own bursts queue for a moment.
        let jitter = if self.in_early_slow_start() { self.jitter.allowance(base) } else { 0.0 };
        let delayed = least > base + (base / 16.0).min(MAX_RTT_THRESHOLD).max(jitter);
        if (delayed && queue > self.backlog_target()) || lossy {
            self.slow_start = false;
            self.window = (self.window * base / least + self.apparent_backlog_target())
                .max(self.min_window());
        }
    }

    /// Measures the rate by packet-train dispersion (Dovrolis, Ramanathan and Moore, 2004): the
    /// path was busy since the previous ACK if this packet's RTT exceeds the base RTT by that time.
    /// A packet that was alone in flight is not used, since its ACK may have been delayed. On a slow
    /// path, an ACK that is late although the path was not busy all the time may have waited on its
    /// way back. Those that waited with it arrive together, so none is used until it is over.
    fn sample_rate(&mut self, now: Instant, acked: u64, in_flight: u64, rtt: Duration) {
        let since = now.saturating_duration_since(std::mem::replace(&mut self.last_ack, now));
        let waited = rtt.saturating_sub(self.base_rtt().unwrap_or_default());
        if waited < since {
            self.acks_together_until = self.is_slow().then(|| now + waited);
            return;
        }
        let alone = ((acked + in_flight) as f64) < 1.5 * self.packet_size;
        if alone || self.acks_together_until.is_some_and(|until| now <= until) {
            return;
        }
        self.last_saturated = now;
        let Some(seen) = self.busy_rate.add(acked, since, self.packet_size) else { return };
        let known = self.rate;
        let (old, new) = (known.bytes_per_second(), seen.bytes_per_second());
        let mean = Rate::from_bytes_per_second(0.75 * old + 0.25 * new);
        self.rate = if known == Rate::ZERO { seen } else { mean };
    }

    /// The delivery rate over 100 ms is a lower bound of the rate; that interval averages over
    /// bunched ACKs. On a slow path, packets are not delivered faster than they were sent.
    fn raise_to_delivery_rate(&mut self, now: Instant, acked: u64, rtt: Duration) {
        let sent = now.checked_sub(rtt).unwrap_or(now);
        let Some(seen) = self.delivery_rate.add(now, sent, acked) else { return };
        let seen = if self.is_slow() { seen.of_sent() } else { seen.of_acked() };
        if seen > self.rate() {
            self.rate = seen;
        }
    }

    /// RTT of a packet that meets no queue: the base RTT or, on jittery paths, the usual RTT, since
    /// the minimum is far below it there.
    #[must_use]
    pub fn unqueued_rtt(&self) -> Duration {
        let base = self.base_rtt().unwrap_or_default();
        if !self.is_jittery() {
            return base;
        }
        let most = base.as_secs_f64() + self.jitter.allowance(base.as_secs_f64() * 2.0);
        base.max(Duration::from_secs_f64(self.jitter.srtt.min(most)))
    }

    /// Backlog target, bytes (FAST's alpha).
    fn backlog_target(&self) -> f64 {
        let rate = self.rate.bytes_per_second().min(self.window_rate());
        ((rate * BACKLOG_TIME).max(BACKLOG_PACKETS * self.packet_size) * self.backlog_scale)
            .max(self.packet_size)
    }

    /// Backlog target plus jitter allowance, bytes. With jitter even the minimum RTT of a round
    /// exceeds the base RTT without any queue.
    fn apparent_backlog_target(&self) -> f64 {
        // Beyond twice the base RTT the deviation comes from the gateway's own bursts.
        let most = self.base_rtt().unwrap_or_default().as_secs_f64() * 2.0;
        self.backlog_target() + self.jitter_share * self.jitter.allowance(most) * self.window_rate()
    }

    /// Rate that the window allows, bytes/s.
    fn window_rate(&self) -> f64 {
        self.window / self.jitter.srtt.max(1e-6)
    }

    /// Time to send one packet, seconds.
    fn serialization_time(&self) -> f64 {
        self.packet_size / self.rate().bytes_per_second().max(1.0)
    }

    /// Minimum window, bytes.
    fn min_window(&self) -> f64 {
        MIN_WINDOW * self.packet_size
    }

    /// Whether most of the apparent backlog is jitter.
    fn jitter_dominates(&self) -> bool {
        self.apparent_backlog_target() > JITTER_DOMINATES * self.backlog_target()
    }

    /// Whether jitter dominates and the path is fast enough ([`MIN_JITTER_RATE`]) to exclude the
    /// gateway's own packets as its cause.
    fn is_jittery(&self) -> bool {
        !self.is_slow() && self.jitter_dominates()
    }

    /// Whether the path is slow, or its rate not yet known: its delay varies with the gateways' own
    /// packets.
    fn is_slow(&self) -> bool {
        self.rate.bytes_per_second() <= MIN_JITTER_RATE
    }

    /// Window that drains the queue, bytes. Where jitter dominates, the RTT under load is far above
    /// the base RTT, and a window for the latter would leave the path idle.
    fn drain_window(&self) -> f64 {
        let base = self.base_rtt().unwrap_or_default().as_secs_f64();
        let empty = 0.75 * self.rate.bytes_per_second() * base;
        let floor = if self.jitter_dominates() { 0.75 * self.window } else { self.min_window() };
        empty.max(floor).min(self.window)
    }
}

#[cfg(test)]
mod tests;
