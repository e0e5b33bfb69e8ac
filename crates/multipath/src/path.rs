//! State of one path in one direction, derived from what its transport reports.

use std::time::{Duration, Instant};

use crate::{
    congestion::Congestion,
    liveness::{AckMonitor, Silence},
    rate::Rate,
    sla::{self, Quality},
};

/// Fraction of bytes lost within [`LOSS_WINDOW`] above which a path is degraded.
const DEGRADED_LOSS: f64 = 0.3;

/// Padding sent on a new path, bytes, at most (docs/design/congestion-control.md, Slow start).
const MAX_PADDING: u64 = 256 << 10;

/// Interval over which the loss rate is measured.
const LOSS_WINDOW: Duration = Duration::from_secs(1);

/// Time constant of the average loss rate, in windows of [`LOSS_WINDOW`].
const LOSS_AVERAGE_WINDOWS: f64 = 8.0;

/// How the scheduler may use a path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    /// No acknowledgement has arrived yet.
    Probing,
    /// Carries packets.
    Up,
    /// Its acknowledgements are overdue, or it loses more than [`DEGRADED_LOSS`]. Used only if no
    /// path is up or on standby.
    Degraded,
    /// No acknowledgement for two probe timeouts, or of several PINGs: not used.
    Down,
    /// Works, but does not meet the thresholds of its class: used only if no path is up.
    Standby,
}

/// What the scheduler knows of a path.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct View {
    /// How it may be used.
    pub state: State,
    /// Unused part of the congestion window, bytes.
    pub available_window: u64,
    /// Bytes in the path's queue: what is in flight beyond the bandwidth-delay product.
    pub queued: u64,
    /// Assumed rate: the probing rate, limited to what the window allows.
    pub rate: Rate,
    /// One-way delay without queueing: half of the queue-free RTT.
    pub delay: Duration,
    /// Largest packet that fits the path's MTU, bytes.
    pub max_packet: u64,
    /// Expected delay that retransmissions add for the packets behind a loss: one RTT, times the
    /// fraction of time in which a packet of the path is missing.
    pub retransmission_delay: Duration,
}

impl View {
    /// Time from now until a packet of `bytes` bytes sent now arrives.
    #[must_use]
    pub fn arrival(&self, bytes: u64) -> Duration {
        self.delay.saturating_add(self.rate.time(self.queued + bytes))
    }

    /// Accounts for a packet given to the path.
    pub fn sent(&mut self, bytes: u64) {
        self.available_window = self.available_window.saturating_sub(bytes);
        self.queued += bytes;
    }
}

/// One direction of a path, as its sender sees it.
#[derive(Clone, Debug)]
pub struct Path {
    congestion: Congestion,
    /// Congestion window of an external controller (CUBIC, BBR), if one is used.
    window: Option<u64>,
    in_flight: u64,
    acks: AckMonitor,
    loss: LossMeter,
    totals: Totals,
}

/// Loss rate by bytes, per window and averaged.
#[derive(Clone, Copy, Debug)]
struct LossMeter {
    window_start: Instant,
    acked: u64,
    lost: u64,
    /// Of the last complete window.
    rate: f64,
    /// Exponentially weighted over windows in which something was sent.
    average: f64,
    /// Bytes acknowledged and lost, weighted likewise.
    weighted: [f64; 2],
}

impl LossMeter {
    fn record(&mut self, now: Instant, acked: u64, lost: u64) {
        if now.saturating_duration_since(self.window_start) >= LOSS_WINDOW {
            self.rate = self.lost as f64 / (self.acked + self.lost).max(1) as f64;
            self.average += (self.rate - self.average) / LOSS_AVERAGE_WINDOWS;
            for (sum, bytes) in self.weighted.iter_mut().zip([self.acked, self.lost]) {
                *sum += bytes as f64 - *sum / LOSS_AVERAGE_WINDOWS;
            }
            (self.window_start, self.acked, self.lost) = (now, 0, 0);
        }
        self.acked += acked;
        self.lost += lost;
    }

    /// Loss rate of the last window; zero once it is three windows old, so that an unused path is
    /// tried again.
    fn rate(&self, now: Instant) -> f64 {
        let old = now.saturating_duration_since(self.window_start) >= LOSS_WINDOW * 3;
        if old { 0.0 } else { self.rate }
    }
}

/// Bytes since the connection began.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Totals {
    /// Sent.
    pub sent: u64,
    /// Acknowledged.
    pub acked: u64,
    /// Declared lost.
    pub lost: u64,
}

impl Path {
    /// A path with packets of `packet` bytes, about which nothing is known yet.
    #[must_use]
    pub fn new(now: Instant, packet: u16) -> Self {
        Self {
            congestion: Congestion::new(now, packet),
            window: None,
            in_flight: 0,
            acks: AckMonitor::new(),
            loss: LossMeter {
                window_start: now,
                acked: 0,
                lost: 0,
                rate: 0.0,
                average: 0.0,
                weighted: [0.0; 2],
            },
            totals: Totals::default(),
        }
    }

    /// Its congestion controller, which also estimates rate and queue-free RTT.
    #[must_use]
    pub fn congestion(&self) -> &Congestion {
        &self.congestion
    }

    /// Whether to send padding: the path has answered, but has carried so little that its first
    /// flow would wait for slow start, and take the growing RTT of that for congestion.
    #[must_use]
    pub fn wants_padding(&self) -> bool {
        self.acks.last_ack().is_some()
            && self.congestion.in_early_slow_start()
            && self.totals.sent < MAX_PADDING
    }

    /// Congestion window, bytes.
    #[must_use]
    pub fn window(&self) -> u64 {
        self.window.unwrap_or_else(|| self.congestion.window())
    }

    /// Sets the window of an external controller, which replaces that of [`Congestion`].
    pub fn set_window(&mut self, window: u64) {
        self.window = Some(window);
    }

    /// Sets the packet size, bytes, after MTU discovery.
    pub fn set_packet_size(&mut self, packet: u16) {
        self.congestion.set_packet_size(packet);
    }

    /// Bytes in flight (RFC 9002 section 2).
    #[must_use]
    pub fn in_flight(&self) -> u64 {
        self.in_flight
    }

    /// Smoothed RTT (RFC 9002 section 5.3).
    #[must_use]
    pub fn rtt(&self) -> Option<Duration> {
        self.acks.rtt()
    }

    /// RTT variation, `rttvar` (RFC 9002 section 5.3).
    #[must_use]
    pub fn jitter(&self) -> Duration {
        self.acks.jitter()
    }

    /// Time within which a packet has been retransmitted twice, if necessary: two RTTs and four
    /// times `rttvar`, since each loss is detected after one RTT.
    #[must_use]
    pub fn max_retransmission_delay(&self) -> Option<Duration> {
        Some(self.rtt()? * 2 + self.jitter() * 4)
    }

    /// Loss rate by bytes over the last second; zero if nothing was sent for three.
    #[must_use]
    pub fn loss(&self, now: Instant) -> f64 {
        self.loss.rate(now)
    }

    /// What the path offers, to be compared with thresholds. Its rate is unknown until slow start is
    /// over, its loss while it carries little.
    #[must_use]
    pub fn quality(&self, now: Instant) -> Quality {
        let rate = self.limit_to_window(self.congestion.probing_rate(now));
        let rtt = self.rtt();
        let [acked, lost] = self.loss.weighted;
        Quality {
            rate: (!self.congestion.in_early_slow_start()).then_some(rate),
            delay: rtt.map(|rtt| rtt / 2),
            jitter: rtt.map(|_| self.jitter()),
            loss: sla::loss(acked, lost),
        }
    }

    /// Bytes since the connection began.
    #[must_use]
    pub fn totals(&self) -> Totals {
        self.totals
    }

    /// A packet was sent.
    pub fn on_sent(&mut self, now: Instant, bytes: u64) {
        self.in_flight += bytes;
        self.totals.sent += bytes;
        self.acks.on_sent(now);
    }

    /// A PING is sent, without anything else.
    pub fn on_ping(&mut self, now: Instant) {
        self.acks.on_ping(now);
    }

    /// Whether a PING has had no answer yet.
    #[must_use]
    pub fn is_asked(&self) -> bool {
        self.acks.is_asked()
    }

    /// Probe timeout (RFC 9002 section 6.2.1); none before the first acknowledgement.
    #[must_use]
    pub fn pto(&self) -> Option<Duration> {
        self.acks.pto()
    }

    /// A packet sent at `sent` was acknowledged.
    pub fn on_ack(&mut self, now: Instant, sent: Instant, bytes: u64) {
        self.in_flight = self.in_flight.saturating_sub(bytes);
        self.totals.acked += bytes;
        self.loss.record(now, bytes, 0);
        if self.acks.on_ack(now, sent) {
            self.congestion.on_ack(now, sent, bytes);
        }
    }

    /// All packets of one ACK frame have been reported; `in_flight` bytes remain in flight.
    pub fn on_end_acks(&mut self, now: Instant, in_flight: u64) {
        self.in_flight = in_flight;
        self.acks.on_end_acks(now, in_flight > 0);
        self.congestion.on_end_acks(now, in_flight);
    }

    /// Packets were declared lost, the last of them sent at `sent`. Losses from while the path was
    /// down do not count towards its loss rate. `persistent` is persistent congestion (RFC 9002
    /// section 7.6).
    pub fn on_lost(&mut self, now: Instant, sent: Instant, bytes: u64, persistent: bool) {
        self.in_flight = self.in_flight.saturating_sub(bytes);
        self.totals.lost += bytes;
        let attributed = if self.acks.sent_while_down(sent) { 0 } else { bytes };
        self.loss.record(now, 0, attributed);
        self.congestion.on_lost(sent, attributed, persistent);
    }

    /// When the last acknowledgement arrived.
    #[must_use]
    pub fn last_ack(&self) -> Option<Instant> {
        self.acks.last_ack()
    }

    /// Reports the latest acknowledgement on any path of the group.
    pub fn note_group_ack(&mut self, at: Option<Instant>) {
        self.acks.note_group_ack(at);
    }

    /// When [`Self::state`] changes next if no acknowledgement arrives; none if it cannot change.
    #[must_use]
    pub fn next_liveness_check(&self, now: Instant) -> Option<Instant> {
        self.acks.next_check(now)
    }

    /// How the path may be used.
    #[must_use]
    pub fn state(&self, now: Instant) -> State {
        match self.acks.silence(now) {
            None => State::Probing,
            Some(Silence::Down) => State::Down,
            Some(Silence::Overdue) => State::Degraded,
            Some(Silence::Normal) if self.loss(now) > DEGRADED_LOSS => State::Degraded,
            Some(Silence::Normal) => State::Up,
        }
    }

    /// View for the scheduler. `waiting` bytes have been handed to the transport and not been sent
    /// yet.
    #[must_use]
    pub fn view(&self, now: Instant, waiting: u64, max_packet: u64) -> View {
        let rate = self.limit_to_window(self.congestion.probing_rate(now));
        let rtt = self.congestion.unqueued_rtt();
        let committed = self.in_flight + waiting;
        // The measured rate, not the probing rate: a path idle for some seconds would otherwise be
        // given its whole window at once, and the other paths nothing.
        let bdp = self.congestion.rate().bytes(rtt);
        View {
            state: self.state(now),
            available_window: self.window().saturating_sub(committed),
            queued: committed.saturating_sub(bdp),
            rate,
            delay: rtt / 2,
            max_packet,
            retransmission_delay: self.retransmission_delay(),
        }
    }

    /// Limits a rate to one window per queue-free RTT: after an outage the window starts small.
    fn limit_to_window(&self, rate: Rate) -> Rate {
        let rtt = self.congestion.unqueued_rtt();
        if rtt.is_zero() {
            return rate;
        }
        let window = self.window.unwrap_or_else(|| self.congestion.undrained_window()) as f64;
        let max_rate = window / rtt.as_secs_f64();
        Rate::from_bytes_per_second(rate.bytes_per_second().min(max_rate))
    }

    /// See [`View::retransmission_delay`].
    fn retransmission_delay(&self) -> Duration {
        let round_trip = self.rtt().unwrap_or_default();
        let sent = self.congestion.rate().bytes(round_trip) as f64 / self.congestion.packet_size();
        round_trip.mul_f64((sent * self.loss.average).clamp(0.0, 1.0))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ms(n: u64) -> Duration {
        Duration::from_millis(n)
    }

    /// A path on which 1500 bytes were acknowledged after 20 ms.
    fn known(start: Instant) -> Path {
        let mut path = Path::new(start, 1500);
        path.on_sent(start, 1500);
        path.on_ack(start + ms(20), start, 1500);
        path.on_end_acks(start + ms(20), 0);
        path
    }

    #[test]
    fn silence_degrades_a_path_and_then_takes_it_down() {
        let start = Instant::now();
        assert_eq!(Path::new(start, 1500).state(start), State::Probing);
        let mut path = known(start);
        assert_eq!(path.state(start + ms(60_000)), State::Up, "nothing was asked");
        path.on_sent(start + ms(100), 1500);
        let states = [110, 160, 165, 300].map(|at| path.state(start + ms(at)));
        assert_eq!(states, [State::Up, State::Up, State::Degraded, State::Down]);
        path.on_ack(start + ms(500), start + ms(480), 1500);
        path.on_end_acks(start + ms(500), 0);
        assert_eq!(path.state(start + ms(500)), State::Up);
    }

    #[test]
    fn pings_without_an_answer_take_an_idle_path_down() {
        let start = Instant::now();
        let mut path = known(start);
        for at in [1000, 1200] {
            path.on_ping(start + ms(at));
        }
        assert_eq!(path.state(start + ms(5000)), State::Up, "a host that was stopped has sent few");
        path.on_ping(start + ms(1400));
        assert_eq!(path.next_liveness_check(start + ms(1400)), Some(start + ms(1750)));
        assert_eq!(path.state(start + ms(1750)), State::Up);
        assert_eq!(path.state(start + ms(1751)), State::Down);
        path.on_ack(start + ms(2000), start + ms(1980), 60);
        path.on_end_acks(start + ms(2000), 0);
        assert_eq!((path.state(start + ms(9000)), path.is_asked()), (State::Up, false));
    }

    #[test]
    fn what_is_older_than_an_acknowledged_packet_is_not_awaited() {
        let start = Instant::now();
        let mut path = known(start);
        path.on_sent(start + ms(100), 1500);
        path.on_ack(start + ms(150), start + ms(130), 60);
        path.on_end_acks(start + ms(150), 1500);
        assert_eq!(path.state(start + ms(9000)), State::Up, "it is lost, or a PING");
        path.on_sent(start + ms(9000), 1500);
        path.on_sent(start + ms(9001), 1500);
        path.on_ack(start + ms(9020), start + ms(9000), 1500);
        path.on_end_acks(start + ms(9020), 1500);
        assert_eq!(path.state(start + ms(9300)), State::Down);
    }

    /// An outage of a second: the first acknowledgement is for a packet sent before it, everything
    /// sent since is lost.
    #[test]
    fn events_during_an_outage_do_not_affect_estimates() {
        let start = Instant::now();
        let mut path = known(start);
        path.on_sent(start + ms(100), 30_000);
        path.on_sent(start + ms(1000), 60);
        path.on_ack(start + ms(1120), start + ms(100), 1500);
        path.on_end_acks(start + ms(1120), 28_560);
        path.on_lost(start + ms(1120), start + ms(1000), 28_560, false);
        assert_eq!((path.rtt(), path.totals().lost), (Some(ms(20)), 28_560));
        path.on_end_acks(start + ms(1120), 0);
        path.on_sent(start + ms(2200), 1500);
        path.on_ack(start + ms(2230), start + ms(2200), 1500);
        path.on_end_acks(start + ms(2230), 0);
        let now = start + ms(2230);
        assert_eq!((path.state(now), path.loss(now)), (State::Up, 0.0));
        assert!(path.rtt() > Some(ms(20)));
    }

    #[test]
    fn a_path_wants_padding_until_it_has_carried_some() {
        let start = Instant::now();
        assert!(!Path::new(start, 1500).wants_padding(), "it has not answered yet");
        let mut path = known(start);
        assert!(path.wants_padding());
        path.on_sent(start, MAX_PADDING);
        assert!(!path.wants_padding());
    }

    #[test]
    fn heavy_loss_degrades_a_path() {
        let start = Instant::now();
        let mut path = known(start);
        for n in 0..30 {
            path.on_sent(start + ms(50 * n), 1500);
            path.on_lost(start + ms(50 * n), start + ms(50 * n), 1500, false);
        }
        path.on_end_acks(start + ms(1500), 0);
        let later = |n| path.state(start + ms(n));
        assert_eq!((later(1500), path.totals().lost), (State::Degraded, 45_000));
        assert_eq!(later(9000), State::Up, "it gets another chance");
    }

    /// 625 kB/s with an RTT of 20 ms are eight packets per RTT.
    #[test]
    fn retransmission_delay_is_proportional_to_loss() {
        let start = Instant::now();
        let mut path = known(start);
        assert_eq!(path.view(start, 0, 0).retransmission_delay, Duration::ZERO);
        for n in 0..40 {
            path.on_ack(start + ms(30 * n + 20), start + ms(30 * n), 1485);
            path.on_lost(start + ms(30 * n + 20), start + ms(30 * n), 15, false);
        }
        let retransmission_delay =
            path.view(start + ms(1200), 0, 0).retransmission_delay.as_secs_f64();
        assert!((0.00017..0.00023).contains(&retransmission_delay), "{retransmission_delay}");
    }

    #[test]
    fn arrival_includes_queueing_delay() {
        let rate = Rate::from_bytes_per_second(125_000.0);
        let delay = ms(3);
        let (state, available_window) = (State::Up, 3000);
        let retransmission_delay = Duration::ZERO;
        let mut view = View {
            state,
            available_window,
            queued: 0,
            rate,
            delay,
            max_packet: 1400,
            retransmission_delay,
        };
        assert_eq!(view.arrival(1250), ms(13));
        view.sent(2500);
        assert_eq!((view.arrival(1250), view.available_window), (ms(33), 500));
    }
}
