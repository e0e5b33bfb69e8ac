//! What is known of one path, from what its transport tells.

use std::time::{Duration, Instant};

use crate::{
    answers::{Answers, Silence},
    congestion::Congestion,
    rate::Rate,
};

/// Share of packets lost from which on a path is degraded.
const HEAVY_LOSS: f64 = 0.3;

/// Bytes with which a path is tried before packets of flows are, at most.
const FILL: u64 = 256 << 10;

/// Time over which loss is measured.
const LOSS_SPAN: Duration = Duration::from_secs(1);

/// Spans over which the usual loss is a mean.
const USUAL: f64 = 8.0;

/// What a path is used for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    /// Not known yet whether it carries anything.
    Probing,
    /// Carries packets.
    Up,
    /// Silent for longer than it should be, or loses much: used where nothing better is.
    Degraded,
    /// Silent for so long that it carries nothing.
    Down,
    /// Works, and is kept for when the others do not.
    Standby,
}

/// What the scheduler sees of a path.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct View {
    /// What it may be used for.
    pub state: State,
    /// Bytes that may still be sent now.
    pub room: u64,
    /// Bytes that stand in its queue.
    pub queued: u64,
    /// What it carries.
    pub rate: Rate,
    /// Its own one-way delay, without a queue.
    pub delay: Duration,
    /// Largest packet that it takes whole, bytes.
    pub largest: u64,
    /// How much later than they come those of its packets are handed on, on average, that go again where they are
    /// lost: the time that it takes to find out, times the share of the time in which something is missing.
    pub resend: Duration,
}

impl View {
    /// When a packet of so many bytes arrives that is sent now, counted from now.
    #[must_use]
    pub fn arrival(&self, bytes: u64) -> Duration {
        self.delay.saturating_add(self.rate.time(self.queued + bytes))
    }

    /// Notes that bytes were sent.
    pub fn sent(&mut self, bytes: u64) {
        self.room = self.room.saturating_sub(bytes);
        self.queued += bytes;
    }
}

/// One direction of a path, as its sender knows it.
#[derive(Clone, Debug)]
pub struct Path {
    congestion: Congestion,
    /// What another controller allows, where one decides.
    window: Option<u64>,
    in_flight: u64,
    answers: Answers,
    loss: Loss,
    totals: Totals,
}

/// How much of what was sent is lost, second by second.
#[derive(Clone, Copy, Debug)]
struct Loss {
    since: Instant,
    acked: u64,
    lost: u64,
    share: f64,
    /// Over the last seconds in which anything was sent.
    usual: f64,
}

impl Loss {
    fn note(&mut self, now: Instant, acked: u64, lost: u64) {
        if now.saturating_duration_since(self.since) >= LOSS_SPAN {
            self.share = self.lost as f64 / (self.acked + self.lost).max(1) as f64;
            self.usual += (self.share - self.usual) / USUAL;
            (self.since, self.acked, self.lost) = (now, 0, 0);
        }
        self.acked += acked;
        self.lost += lost;
    }

    /// What is old says nothing: a path that is not used must get another chance.
    fn share(&self, now: Instant) -> f64 {
        let old = now.saturating_duration_since(self.since) >= LOSS_SPAN * 3;
        if old { 0.0 } else { self.share }
    }
}

/// Bytes since the beginning.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Totals {
    /// Sent.
    pub sent: u64,
    /// Acknowledged.
    pub acked: u64,
    /// Lost.
    pub lost: u64,
}

impl Path {
    /// A path that nothing is known about, with packets of so many bytes.
    #[must_use]
    pub fn new(now: Instant, packet: u16) -> Self {
        Self {
            congestion: Congestion::new(now, packet),
            window: None,
            in_flight: 0,
            answers: Answers::new(),
            loss: Loss { since: now, acked: 0, lost: 0, share: 0.0, usual: 0.0 },
            totals: Totals::default(),
        }
    }

    /// What is known of its rate and its own delay.
    #[must_use]
    pub fn congestion(&self) -> &Congestion {
        &self.congestion
    }

    /// Whether it is worth packets for nobody to learn what it carries: it has carried next to nothing yet, and a flow
    /// would wait for the first growth of its window, and take that for a queue.
    #[must_use]
    pub fn is_new(&self) -> bool {
        self.answers.heard().is_some() && self.congestion.is_new() && self.totals.sent < FILL
    }

    /// Bytes that may be under way.
    #[must_use]
    pub fn window(&self) -> u64 {
        self.window.unwrap_or_else(|| self.congestion.window())
    }

    /// Another controller than [`Congestion`] decides on the window from now on.
    pub fn set_window(&mut self, window: u64) {
        self.window = Some(window);
    }

    /// Packets have this many bytes from now on.
    pub fn set_packet(&mut self, packet: u16) {
        self.congestion.set_packet(packet);
    }

    /// Bytes under way.
    #[must_use]
    pub fn in_flight(&self) -> u64 {
        self.in_flight
    }

    /// Smoothed round trip.
    #[must_use]
    pub fn rtt(&self) -> Option<Duration> {
        self.answers.rtt()
    }

    /// Variation of the round trip (RFC 9002 section 5.3).
    #[must_use]
    pub fn jitter(&self) -> Duration {
        self.answers.jitter()
    }

    /// How long it may take until what is lost has gone twice more: that it is lost is known after a round trip.
    #[must_use]
    pub fn resend_time(&self) -> Option<Duration> {
        Some(self.rtt()? * 2 + self.jitter() * 4)
    }

    /// Share of bytes lost, of those that were sent in the last seconds.
    #[must_use]
    pub fn loss(&self, now: Instant) -> f64 {
        self.loss.share(now)
    }

    /// Bytes since the beginning.
    #[must_use]
    pub fn totals(&self) -> Totals {
        self.totals
    }

    /// Bytes were sent.
    pub fn on_sent(&mut self, now: Instant, bytes: u64) {
        self.in_flight += bytes;
        self.totals.sent += bytes;
        self.answers.on_sent(now);
    }

    /// A packet was acknowledged.
    pub fn on_ack(&mut self, now: Instant, sent: Instant, bytes: u64) {
        self.in_flight = self.in_flight.saturating_sub(bytes);
        self.totals.acked += bytes;
        self.loss.note(now, bytes, 0);
        if self.answers.on_ack(now, sent) {
            self.congestion.on_ack(now, sent, bytes);
        }
    }

    /// All packets of one acknowledgement were told.
    pub fn on_acks_end(&mut self, now: Instant, in_flight: u64) {
        self.in_flight = in_flight;
        self.answers.on_acks_end(now, in_flight > 0);
        self.congestion.on_acks_end(now, in_flight);
    }

    /// Packets were lost, the last of which left at `sent`. What was lost while the path was down says nothing of what
    /// it loses now.
    pub fn on_lost(&mut self, now: Instant, sent: Instant, bytes: u64, persistent: bool) {
        self.in_flight = self.in_flight.saturating_sub(bytes);
        self.totals.lost += bytes;
        let counted = if self.answers.was_down(sent) { 0 } else { bytes };
        self.loss.note(now, 0, counted);
        self.congestion.on_lost(counted, persistent);
    }

    /// When it last answered.
    #[must_use]
    pub fn heard(&self) -> Option<Instant> {
        self.answers.heard()
    }

    /// When a path of its group, this or another, last answered.
    pub fn note_group_heard(&mut self, at: Option<Instant>) {
        self.answers.note_group_heard(at);
    }

    /// When its silence will next change its state, if it stays silent; none where it has, or nothing is awaited.
    #[must_use]
    pub fn silent_at(&self, now: Instant) -> Option<Instant> {
        self.answers.silent_at(now)
    }

    /// What it may be used for.
    #[must_use]
    pub fn state(&self, now: Instant) -> State {
        match self.answers.silence(now) {
            None => State::Probing,
            Some(Silence::Down) => State::Down,
            Some(Silence::Long) => State::Degraded,
            Some(Silence::Usual) if self.loss(now) > HEAVY_LOSS => State::Degraded,
            Some(Silence::Usual) => State::Up,
        }
    }

    /// What the scheduler sees; `waiting` bytes have been given to the transport and not been sent.
    #[must_use]
    pub fn view(&self, now: Instant, waiting: u64, largest: u64) -> View {
        let rate = self.allowed(self.congestion.hope(now));
        let usual = self.congestion.usual();
        let promised = self.in_flight + waiting;
        // What stands in the queue is what was measured to do so: a path that nobody has filled for some seconds would
        // else be given its whole window at once, and others nothing.
        let under_way = self.congestion.rate().bytes(usual);
        View {
            state: self.state(now),
            room: self.window().saturating_sub(promised),
            queued: promised.saturating_sub(under_way),
            rate,
            delay: usual / 2,
            largest,
            resend: self.resend(),
        }
    }

    /// As much of a rate as the window lets through, which a path that is back opens anew.
    fn allowed(&self, rate: Rate) -> Rate {
        let usual = self.congestion.usual();
        if usual.is_zero() {
            return rate;
        }
        let window = self.window.unwrap_or_else(|| self.congestion.open_window()) as f64;
        let most = window / usual.as_secs_f64();
        Rate::from_bytes_per_second(rate.bytes_per_second().min(most))
    }

    fn resend(&self) -> Duration {
        let round_trip = self.rtt().unwrap_or_default();
        let sent = self.congestion.rate().bytes(round_trip) as f64 / self.congestion.packet();
        round_trip.mul_f64((sent * self.loss.usual).clamp(0.0, 1.0))
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
        path.on_acks_end(start + ms(20), 0);
        path
    }

    #[test]
    fn silence_degrades_a_path_and_then_ends_it() {
        let start = Instant::now();
        assert_eq!(Path::new(start, 1500).state(start), State::Probing);
        let mut path = known(start);
        assert_eq!(path.state(start + ms(60_000)), State::Up, "nothing was asked");
        path.on_sent(start + ms(100), 1500);
        let states = [110, 160, 165, 300].map(|at| path.state(start + ms(at)));
        assert_eq!(states, [State::Up, State::Up, State::Degraded, State::Down]);
        path.on_ack(start + ms(500), start + ms(480), 1500);
        path.on_acks_end(start + ms(500), 0);
        assert_eq!(path.state(start + ms(500)), State::Up);
    }

    /// Dead for a second: the answer is about what came before, and all since then is lost.
    #[test]
    fn what_happens_while_a_path_is_down_says_nothing_of_it() {
        let start = Instant::now();
        let mut path = known(start);
        path.on_sent(start + ms(100), 30_000);
        path.on_sent(start + ms(1000), 60);
        path.on_ack(start + ms(1120), start + ms(100), 1500);
        path.on_acks_end(start + ms(1120), 28_560);
        path.on_lost(start + ms(1120), start + ms(1000), 28_560, false);
        assert_eq!((path.rtt(), path.totals().lost), (Some(ms(20)), 28_560));
        path.on_acks_end(start + ms(1120), 0);
        path.on_sent(start + ms(2200), 1500);
        path.on_ack(start + ms(2230), start + ms(2200), 1500);
        path.on_acks_end(start + ms(2230), 0);
        let now = start + ms(2230);
        assert_eq!((path.state(now), path.loss(now)), (State::Up, 0.0));
        assert!(path.rtt() > Some(ms(20)));
    }

    #[test]
    fn a_path_is_new_until_it_has_carried_something() {
        let start = Instant::now();
        assert!(!Path::new(start, 1500).is_new(), "it has not answered yet");
        let mut path = known(start);
        assert!(path.is_new());
        path.on_sent(start, FILL);
        assert!(!path.is_new());
    }

    #[test]
    fn heavy_loss_degrades() {
        let start = Instant::now();
        let mut path = known(start);
        for n in 0..30 {
            path.on_sent(start + ms(50 * n), 1500);
            path.on_lost(start + ms(50 * n), start + ms(50 * n), 1500, false);
        }
        path.on_acks_end(start + ms(1500), 0);
        let later = |n| path.state(start + ms(n));
        assert_eq!((later(1500), path.totals().lost), (State::Degraded, 45_000));
        assert_eq!(later(9000), State::Up, "it gets another chance");
    }

    /// 625 kB/s at 20 ms are eight packets a round trip.
    #[test]
    fn loss_delays_in_proportion() {
        let start = Instant::now();
        let mut path = known(start);
        assert_eq!(path.view(start, 0, 0).resend, Duration::ZERO);
        for n in 0..40 {
            path.on_ack(start + ms(30 * n + 20), start + ms(30 * n), 1485);
            path.on_lost(start + ms(30 * n + 20), start + ms(30 * n), 15, false);
        }
        let resend = path.view(start + ms(1200), 0, 0).resend.as_secs_f64();
        assert!((0.00017..0.00023).contains(&resend), "{resend}");
    }

    #[test]
    fn arrival_counts_the_queue() {
        let rate = Rate::from_bytes_per_second(125_000.0);
        let delay = ms(3);
        let (state, room) = (State::Up, 3000);
        let resend = Duration::ZERO;
        let mut view = View { state, room, queued: 0, rate, delay, largest: 1400, resend };
        assert_eq!(view.arrival(1250), ms(13));
        view.sent(2500);
        assert_eq!((view.arrival(1250), view.room), (ms(33), 500));
    }
}
