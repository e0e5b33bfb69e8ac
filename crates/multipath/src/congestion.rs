//! How much a path carries with a short queue.
//!
//! After FAST TCP (Wei, Jin, Low, Hegde: IEEE/ACM Transactions on Networking 14(6), 2006): the window
//! settles where a fixed amount of own data stands in the path's queue. So each path is always busy, and
//! its delay stays as low as its rate allows. As queueing delay counts only what stands for a whole
//! round trip (as in Copa, Arun and Balakrishnan, NSDI 2018), so jitter does not pass for a queue; loss
//! takes away what was lost, and does not halve the window, so noise does not pass for congestion.

mod carried;
mod jitter;
mod load;
mod loss;

use std::time::{Duration, Instant};

use self::{
    carried::{Busy, Carried},
    jitter::Jitter,
    load::Load,
    loss::{Recent, is_light, is_much},
};
use crate::{filter::WindowedMin, rate::Rate};

/// Packets that stand in the queue of a slow path.
const STANDING_PACKETS: f64 = 3.0;

/// Time for which data stands in the queue of a fast path: what a busy machine is late by.
const STANDING_TIME: f64 = 0.008;

/// Where more than so many times the standing amount seems to stand in the queue, the path's delay varies.
const VARYING: f64 = 3.0;

/// Rate before anything is known, bytes a second.
const FIRST_RATE: f64 = 625_000.0;

/// Window before anything is known, and the smallest, in packets. At 1 Mbit/s the ten packets of RFC 9002
/// section 7.2 would stand for 120 ms, and everything on the other paths wait for them.
const FIRST_WINDOW: f64 = 4.0;
const LEAST_WINDOW: f64 = 2.0;

/// Packets of a window with which the first round trips of no flow have to wait.
const KNOWN: f64 = 64.0;

/// Bytes a second up to which a packet takes so long (5 ms) that two of them look like delay that varies.
const SLOW: f64 = 300_000.0;

/// Half of the time for which the shortest round trip is believed to be the path's own.
const BASE_SPAN: Duration = Duration::from_secs(5);

/// Shortest time between two decisions.
const LEAST_ROUND: Duration = Duration::from_millis(4);

/// Seconds without a measurement after which a path is thought better of.
const HOPE_AFTER: f64 = 1.0;

/// Where less than this share of the standing amount is seen in the queue, the window grows by so much
/// more a round: the rate has risen.
const UNSEEN: f64 = 0.25;
const EXPLORING: f64 = 0.05;

/// So much more where it is below this share of what the rate fills: the first growth ended too early, for its bursts
/// stood in the queue of a long path.
const FILLING: f64 = 0.25;
const SHORT: f64 = 0.75;

/// A window is no larger than so many times what the path carries in a round trip and what may stand in its queue: where
/// bursts of others fill it now and then alone, its queue runs empty, and it would grow until they are lost. With 2, a
/// path of 300 Mbit/s and 16 ms had windows of 2.4 MB, and lost from bursts of 2.1 MB.
const MOST: f64 = 1.5;

/// Least share of the standing amount that a small buffer leaves, and that light loss does.
const LEAST_ROOM: f64 = 0.02;
const NOISY_ROOM: f64 = 0.3;

/// Share of lost bytes that ends the first, exponential growth.
const STARTUP_LOSS: f64 = 0.1;

/// Longest delay, in seconds, that ends the first growth only where it is more than a sixteenth of the path's
/// own (RFC 9406 section 4.3).
const LONGEST_DOUBT: f64 = 0.008;

/// The window of one path, and what is known about the path from it.
#[derive(Clone, Debug)]
pub struct Congestion {
    packet: f64,
    window: f64,
    /// Grows with each acknowledgement until a queue is seen.
    startup: bool,
    /// Until this round ends, the queue is let run empty, so that the path's own delay is seen.
    draining: bool,
    /// Share of the standing amount that the path's buffer has room for.
    room: f64,
    /// Share of the delay that varies which is believed to be no queue: much loss says that it is one.
    belief: f64,
    base: WindowedMin<Duration>,
    jitter: Jitter,
    round: Round,
    busy: Busy,
    carried: Carried,
    recent: Recent,
    load: Load,
    /// When the last acknowledgement came before which the window was full, and what was under way after it.
    was_full: Option<(Instant, u64)>,
    last_ack: Instant,
    rate: Rate,
    /// When the window was last used up.
    last_full: Instant,
    /// Acknowledged in the present batch.
    batch: u64,
    batch_rtt: Option<Duration>,
}

#[derive(Clone, Debug)]
struct Round {
    since: Instant,
    rtt: Option<Duration>,
    acked: u64,
    /// Round trips of all that was acknowledged, by bytes.
    byte_seconds: f64,
    lost: u64,
    /// Batches of acknowledgements, and those before which the window was full.
    batches: u32,
    full: u32,
}

impl Round {
    const fn new(since: Instant) -> Self {
        Self { since, rtt: None, acked: 0, byte_seconds: 0.0, lost: 0, batches: 0, full: 0 }
    }

    fn is_full(&self) -> bool {
        self.full * 2 >= self.batches
    }
}

impl Congestion {
    /// A path that nothing is known about, with packets of so many bytes.
    #[must_use]
    pub fn new(now: Instant, packet: u16) -> Self {
        let packet = f64::from(packet);
        Self {
            packet,
            window: FIRST_WINDOW * packet,
            startup: true,
            draining: false,
            room: 1.0,
            belief: 1.0,
            base: WindowedMin::new(BASE_SPAN),
            jitter: Jitter::default(),
            round: Round::new(now),
            busy: Busy::default(),
            carried: Carried::new(now),
            recent: Recent::default(),
            load: Load::new(BASE_SPAN),
            was_full: None,
            last_ack: now,
            rate: Rate::ZERO,
            last_full: now,
            batch: 0,
            batch_rtt: None,
        }
    }

    /// Packets have this many bytes from now on.
    pub fn set_packet(&mut self, packet: u16) {
        self.packet = f64::from(packet);
        self.window = self.window.max(self.least());
    }

    /// Bytes of a packet.
    #[must_use]
    pub fn packet(&self) -> f64 {
        self.packet
    }

    /// Bytes that may be under way.
    #[must_use]
    #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)] // saturates; never negative
    pub fn window(&self) -> u64 {
        let window = if self.draining { self.drained() } else { self.window };
        window as u64
    }

    /// The same without regard to the moments for which the queue is let run empty.
    #[must_use]
    #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)] // saturates; never negative
    pub fn open_window(&self) -> u64 {
        self.window as u64
    }

    /// Whether the first growth has neither met a queue nor gone so far that no flow would wait for it.
    #[must_use]
    pub fn is_new(&self) -> bool {
        self.startup && self.window < KNOWN * self.packet
    }

    /// Shortest round trip of the last seconds: the path's own, without a queue.
    #[must_use]
    pub fn base(&self) -> Option<Duration> {
        self.base.get()
    }

    /// What the path carries; before that was measured, a guess.
    #[must_use]
    pub fn rate(&self) -> Rate {
        if self.rate > Rate::ZERO { self.rate } else { Rate::from_bytes_per_second(FIRST_RATE) }
    }

    /// What the path may carry: more than what was measured, the longer that was ago. A path that is
    /// thought too slow to be used would never be found to be fast.
    #[must_use]
    pub fn hope(&self, now: Instant) -> Rate {
        let idle = now.saturating_duration_since(self.last_full);
        let doublings = (idle.as_secs_f64() - HOPE_AFTER).clamp(0.0, 4.0);
        Rate::from_bytes_per_second(self.rate().bytes_per_second() * doublings.exp2())
    }

    /// A packet sent at `sent` was acknowledged.
    pub fn on_ack(&mut self, now: Instant, sent: Instant, bytes: u64) {
        let rtt = now.saturating_duration_since(sent);
        self.batch += bytes;
        self.batch_rtt = Some(self.batch_rtt.map_or(rtt, |least| least.min(rtt)));
    }

    /// All packets of one acknowledgement were told; `in_flight` bytes are still under way.
    pub fn on_acks_end(&mut self, now: Instant, in_flight: u64) {
        let acked = std::mem::take(&mut self.batch);
        let Some(rtt) = self.batch_rtt.take() else { return };
        let full = self.note_full(now, acked, in_flight);
        if self.base.note(now, rtt) && !self.startup && full {
            self.draining = true;
        }
        self.round.acked += acked;
        self.round.byte_seconds += rtt.as_secs_f64() * acked as f64;
        self.round.batches += 1;
        self.round.full += u32::from(full);
        self.round.rtt = Some(self.round.rtt.map_or(rtt, |least| least.min(rtt)));
        self.jitter.note(now, rtt.as_secs_f64(), self.grain());
        if (full && !self.startup) || !self.varies_by_itself() {
            self.measure(now, acked, in_flight, rtt);
        } else {
            // Each round trip is longer than the shortest: it tells nothing of who waits for whom.
            self.last_ack = now;
        }
        self.at_least(now, acked);
        if self.startup && full {
            self.window += acked as f64;
            self.leave_startup();
        }
        if now.saturating_duration_since(self.round.since) >= rtt.max(LEAST_ROUND) {
            self.decide(now);
        }
    }

    /// Whether the window was full before so much was acknowledged. Acknowledgements that come together leave no time to
    /// send: all find it as the first did.
    fn note_full(&mut self, now: Instant, acked: u64, in_flight: u64) -> bool {
        let before = in_flight + acked;
        let together = |(at, left)| at == now && before <= left;
        let full = before as f64 + 1.5 * self.packet >= self.window() as f64
            || self.was_full.is_some_and(together);
        self.was_full = full.then_some((now, in_flight));
        full
    }

    /// Packets were lost; `persistent` says that all were, for longer than a probe takes.
    pub fn on_lost(&mut self, bytes: u64, persistent: bool) {
        self.round.lost += bytes;
        if persistent {
            self.window = self.least();
            self.startup = true;
        }
    }

    /// A round has passed: sets the window.
    fn decide(&mut self, now: Instant) {
        let round = std::mem::replace(&mut self.round, Round::new(now));
        self.draining = false;
        let (Some(base), Some(rtt)) = (self.base(), round.rtt) else { return };
        let heavy = self.shrink(&round);
        self.note_load(now, &round);
        let varying = self.varying();
        let settled = self.settled(&round, base.as_secs_f64(), rtt.as_secs_f64().max(1e-6));
        let next = varying.map_or(settled, |factor| self.window * factor);
        let next = next.clamp(self.least(), 2.0 * self.window);
        // A window that was not used has not been found too small.
        let may_grow = round.is_full() && !self.startup && !heavy;
        self.window = if may_grow { next } else { next.min(self.window) };
        if varying.is_none() && !self.startup && self.rate > Rate::ZERO {
            // What was right for a rate that has fallen since.
            let carried = self.rate.bytes_per_second() * base.as_secs_f64() + self.standing();
            self.window = self.window.min(MOST * carried + self.least());
        }
    }

    /// Half of the way to the window with which as much stands in the queue as is to.
    fn settled(&self, round: &Round, base: f64, rtt: f64) -> f64 {
        let (queue, standing) = (self.window * (1.0 - base / rtt), self.standing());
        let unseen = queue < standing * UNSEEN;
        let further = if unseen { self.further(round, base) } else { 0.0 };
        self.window + 0.5 * (standing - queue) + further
    }

    fn note_load(&mut self, now: Instant, round: &Round) {
        if !round.is_full() {
            return self.load.interrupt();
        }
        let took = now.saturating_duration_since(round.since);
        self.load.add(now, round.acked as f64, round.byte_seconds, took, round.batches);
    }

    /// What the window is multiplied with where the path's delay varies: its queue cannot be told from that then. Of a few
    /// packets, means tell nothing either.
    fn varying(&self) -> Option<f64> {
        let known = self.window > KNOWN * self.packet && self.varies_by_itself();
        self.load.factor(self.belief).filter(|_| known)
    }

    /// By how much more the window grows after a round in which no queue was seen.
    fn further(&self, round: &Round, base: f64) -> f64 {
        if !is_light(round.lost as f64, round.acked as f64) {
            return 0.0;
        }
        let short = self.window < SHORT * self.rate.bytes_per_second() * base;
        self.window * if short { FILLING } else { EXPLORING }
    }

    /// Takes away what was lost, and learns that the path's buffer is small; whether much was.
    fn shrink(&mut self, round: &Round) -> bool {
        let lost = round.lost as f64;
        let heavy = self.recent.note(round.lost, round.acked, self.packet);
        let room = match round.lost {
            0 => self.room + 0.005,
            _ if heavy => self.room * 0.5,
            // So little may be the path's own: then a small amount would make it slow for nothing.
            _ => (self.room * 0.9).max(self.room.min(NOISY_ROOM)),
        };
        self.room = room.clamp(LEAST_ROOM, 1.0);
        self.belief = (self.belief + 0.005).min(1.0);
        if heavy {
            self.belief *= 0.5;
            self.window = (self.window - lost).max(self.window / 2.0).max(self.least());
        }
        heavy
    }

    /// The first growth ends when a queue shows, or when much is lost.
    fn leave_startup(&mut self) {
        let base = self.base().unwrap_or_default().as_secs_f64();
        let (least, Round { lost, acked, .. }) = (self.jitter.least(), &self.round);
        let queue = self.window * (1.0 - base / least.max(1e-6));
        let much = is_much(*lost as f64, *acked as f64, STARTUP_LOSS, self.packet);
        // Bursts of our own stand in the queue for a little.
        let varies = if self.is_new() { self.jitter.no_queue(base) } else { 0.0 };
        let seen = least > base + (base / 16.0).min(LONGEST_DOUBT).max(varies);
        if (seen && queue > self.wanted()) || much {
            self.startup = false;
            self.window = (self.window * base / least + self.standing()).max(self.least());
        }
    }

    /// The path was busy since the acknowledgement before, if what this one is about was waiting by then:
    /// if its round trip is longer by that time than without a queue (packet train dispersion). A packet
    /// that was alone says nothing: its acknowledgement may have been held back.
    fn measure(&mut self, now: Instant, acked: u64, in_flight: u64, rtt: Duration) {
        let since = now.saturating_duration_since(std::mem::replace(&mut self.last_ack, now));
        let alone = ((acked + in_flight) as f64) < 1.5 * self.packet;
        if alone || rtt < self.base().unwrap_or_default() + since {
            return;
        }
        self.last_full = now;
        let Some(seen) = self.busy.add(acked, since, self.packet) else { return };
        let known = self.rate;
        let (old, new) = (known.bytes_per_second(), seen.bytes_per_second());
        let mean = Rate::from_bytes_per_second(0.75 * old + 0.25 * new);
        self.rate = if known == Rate::ZERO { seen } else { mean };
    }

    /// A path carries at least what was acknowledged, over a time in which acknowledgements that come in
    /// bunches do not matter.
    fn at_least(&mut self, now: Instant, acked: u64) {
        let seen = self.carried.add(now, acked).filter(|seen| *seen > self.rate());
        self.rate = seen.unwrap_or(self.rate);
    }

    /// Round trip of packets that meet no queue, as far as is known: the path's own, and where that varies what is
    /// usual, for the shortest is far below it.
    #[must_use]
    pub fn usual(&self) -> Duration {
        let base = self.base().unwrap_or_default();
        if !self.varies_by_itself() {
            return base;
        }
        let most = base.as_secs_f64() + self.jitter.no_queue(base.as_secs_f64() * 2.0);
        base.max(Duration::from_secs_f64(self.jitter.mean.min(most)))
    }

    /// Bytes that are to stand in the queue.
    fn wanted(&self) -> f64 {
        let rate = self.rate.bytes_per_second().min(self.current());
        ((rate * STANDING_TIME).max(STANDING_PACKETS * self.packet) * self.room).max(self.packet)
    }

    /// Bytes that may seem to stand in the queue: more where the delay varies by itself, for the shortest
    /// round trip of a round is then above the shortest of all without any queue.
    fn standing(&self) -> f64 {
        // A path cannot vary by much more than its own delay: what seems so are bursts of our own.
        let most = self.base().unwrap_or_default().as_secs_f64() * 2.0;
        self.wanted() + self.belief * self.jitter.no_queue(most) * self.current()
    }

    /// What the window lets through, bytes a second.
    fn current(&self) -> f64 {
        self.window / self.jitter.mean.max(1e-6)
    }

    /// Seconds that a packet takes.
    fn grain(&self) -> f64 {
        self.packet / self.rate().bytes_per_second().max(1.0)
    }

    fn least(&self) -> f64 {
        LEAST_WINDOW * self.packet
    }

    /// Whether most of what seems to stand in the queue is delay that varies.
    fn varies(&self) -> bool {
        self.standing() > VARYING * self.wanted()
    }

    /// The same, of paths that are not so slow that it is packets of our own that make their delay vary; a path whose
    /// rate is not known yet may be one.
    fn varies_by_itself(&self) -> bool {
        self.rate.bytes_per_second() > SLOW && self.varies()
    }

    /// The window with which the queue runs empty. Where most of what seems to stand in it is delay that varies, the
    /// path's own delay under load is far above the shortest seen, and a window for that would leave it idle.
    fn drained(&self) -> f64 {
        let base = self.base().unwrap_or_default().as_secs_f64();
        let empty = 0.75 * self.rate.bytes_per_second() * base;
        let kept = if self.varies() { 0.75 * self.window } else { self.least() };
        empty.max(kept).min(self.window)
    }
}

#[cfg(test)]
mod tests;
