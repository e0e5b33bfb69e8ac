//! Inner flows: what the hosts behind the gateways send.

use std::collections::{BTreeMap, BTreeSet};

use crate::events::Nanos;

/// Payload of a full segment, and the inner packet around it (IPv4, TCP with timestamps).
pub(crate) const SEGMENT: u64 = 1374;
pub(crate) const PACKET: u32 = 1426;

/// CUBIC (RFC 9438 sections 4.1 and 4.6).
const C: f64 = 0.4;
const BETA: f64 = 0.7;

/// Segments that a receiver takes ahead of the application: 6 MB, as Linux's `tcp_rmem` allows.
const RECEIVE_WINDOW: f64 = 4300.0;

/// Growth with each acknowledgement before anything was lost, as in Linux: a twentieth of the window a round trip.
const UNTRIED: f64 = 0.05;

const MS: f64 = 1e6;

/// `HyStart`: segments from which on it judges, round trips that a round's least is of, and nanoseconds between the
/// acknowledgements of a train.
const LOW_WINDOW: f64 = 16.0;
const SAMPLES: u32 = 8;
const TRAIN: Nanos = 2_000_000;

/// How a flow recovers from loss.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// As TCP in Linux: SACK, a reordering window that adapts (RACK-TLP, RFC 8985), reductions that turn
    /// out to be wrong are undone.
    Tcp,
    /// As QUIC: three packets or 9/8 of a round trip (RFC 9002 section 6.1), nothing undone.
    Quic,
}

/// A sender that always has something to send, with CUBIC.
pub(crate) struct Flow {
    kind: Kind,
    next: u64,
    flight: BTreeMap<u64, Sent>,
    /// All before this one have come.
    acked: u64,
    /// Segments that were given up as lost and are to be sent again.
    again: BTreeSet<u64>,
    window: f64,
    threshold: f64,
    cubic: Cubic,
    rtt: Rtt,
    start: SlowStart,
    /// Loss below this segment belongs to the reduction that was made.
    recovery: Option<u64>,
    undo: Option<(f64, f64)>,
    /// Quarter round trips that reordering is given.
    patience: f64,
    /// Factor of the timeout: doubles from one to the next.
    backoff: f64,
    seen_reordering: bool,
    newest: (Nanos, u64),
}

/// What a receiver tells when a segment comes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Acknowledged {
    pub(crate) segment: u64,
    /// When it was sent: the timestamp that is echoed.
    pub(crate) at: Nanos,
    /// Whether it had come already.
    pub(crate) copy: bool,
    /// All before this one have come.
    pub(crate) next: u64,
}

#[derive(Clone, Copy)]
struct Sent {
    at: Nanos,
    order: u64,
    again: bool,
}

#[derive(Clone, Copy, Default)]
struct Cubic {
    epoch: Option<Nanos>,
    top: f64,
    estimate: f64,
}

/// A round of the first growth, with `HyStart` as Linux has it (`net/ipv4/tcp_cubic.c`).
#[derive(Clone, Copy, Default)]
struct SlowStart {
    /// The first segment of the next round.
    end: u64,
    began: Nanos,
    /// When the last acknowledgement of the train came.
    last: Nanos,
    least: f64,
    samples: u32,
}

#[derive(Clone, Copy)]
struct Rtt {
    smoothed: f64,
    variation: f64,
    least: f64,
}

impl Flow {
    pub(crate) fn new(kind: Kind) -> Self {
        Self {
            kind,
            next: 0,
            flight: BTreeMap::new(),
            acked: 0,
            again: BTreeSet::new(),
            window: 10.0,
            threshold: f64::INFINITY,
            cubic: Cubic::default(),
            rtt: Rtt { smoothed: 0.0, variation: 0.0, least: f64::INFINITY },
            start: SlowStart::default(),
            recovery: None,
            undo: None,
            patience: 1.0,
            backoff: 1.0,
            seen_reordering: false,
            newest: (0, 0),
        }
    }

    /// The next segment that may be sent.
    pub(crate) fn poll(&mut self, now: Nanos, order: &mut u64) -> Option<u64> {
        if self.flight.len() as f64 >= self.window.min(RECEIVE_WINDOW) {
            return None;
        }
        let again = self.again.pop_first();
        let segment = again.unwrap_or(self.next);
        self.next = self.next.max(segment + 1);
        *order += 1;
        self.flight.insert(segment, Sent { at: now, order: *order, again: again.is_some() });
        Some(segment)
    }

    /// The receiver has told that it got a segment.
    pub(crate) fn on_ack(&mut self, now: Nanos, told: Acknowledged) {
        let Acknowledged { segment, at, copy, next } = told;
        let rtt = now.saturating_sub(at) as f64;
        self.rtt.sample(rtt);
        self.backoff = 1.0;
        self.end_slow_start(now, rtt);
        if copy {
            self.undo();
            return;
        }
        let overtaken = segment < self.acked;
        self.advance(now, segment, next);
        if overtaken {
            return;
        }
        let Some(sent) = self.flight.remove(&segment) else {
            // It was given up, but has come: sent once more for nothing, if it has been.
            self.again.remove(&segment);
            self.undo();
            return;
        };
        if sent.again && at < sent.at {
            self.undo(); // it was the first of the two that came
        } else {
            self.seen_reordering |= sent.order < self.newest.1;
            self.newest = self.newest.max((sent.at, sent.order));
        }
        if self.recovery.is_some_and(|end| segment >= end) {
            (self.recovery, self.undo) = (None, None);
        }
        self.grow(now);
        self.detect(now);
    }

    /// All before `next` have come: an acknowledgement makes up for those before it that others have overtaken.
    fn advance(&mut self, now: Nanos, told: u64, next: u64) {
        self.acked = self.acked.max(next);
        while let Some(first) = self.flight.first_entry()
            && *first.key() < self.acked
            && *first.key() != told
        {
            first.remove();
            self.grow(now);
        }
        self.again = self.again.split_off(&self.acked);
    }

    /// A delay that grows ends the first growth, before loss would.
    fn end_slow_start(&mut self, now: Nanos, rtt: f64) {
        if self.kind != Kind::Tcp || self.window >= self.threshold || self.window < LOW_WINDOW {
            return;
        }
        let oldest = self.flight.first_key_value().map_or(self.next, |(segment, _)| *segment);
        if oldest > self.start.end {
            self.start = SlowStart::round(now, self.next);
        }
        if self.start.ends(now, rtt, self.rtt.least) {
            self.threshold = self.window;
        }
    }

    fn undo(&mut self) {
        if self.kind == Kind::Tcp {
            self.patience = (self.patience + 1.0).min(16.0);
            if let Some((window, threshold)) = self.undo.take() {
                (self.window, self.threshold) = (self.window.max(window), threshold);
            }
        }
    }

    fn grow(&mut self, now: Nanos) {
        if ((self.flight.len() + 1) as f64) < self.window * 0.7 || self.recovery.is_some() {
            return;
        }
        if self.window < self.threshold {
            self.window += 1.0;
        } else {
            self.window += self.cubic.step(now, self.window, self.rtt.smoothed);
        }
    }

    /// Gives up what others have overtaken.
    fn detect(&mut self, now: Nanos) {
        let (newest_at, newest) = self.newest;
        let wait = self.reordering_window();
        let overdue = |sent: &Sent| {
            let overtaken = newest.saturating_sub(sent.order);
            let late = newest_at as f64 - sent.at as f64 >= wait
                || (now as f64 - sent.at as f64) >= self.rtt.smoothed + wait;
            match self.kind {
                Kind::Tcp if !self.seen_reordering => overtaken >= 3,
                Kind::Tcp => {
                    overtaken > 0 && late && now as f64 - sent.at as f64 > self.rtt.least + wait
                }
                Kind::Quic => overtaken >= 3,
            }
        };
        // Beyond the newest, nothing can have been overtaken: segments go nearly in order.
        let lost: Vec<u64> = self
            .flight
            .iter()
            .take(256)
            .filter(|(_, sent)| overdue(sent))
            .map(|(n, _)| *n)
            .collect();
        for segment in lost {
            self.flight.remove(&segment);
            self.again.insert(segment);
            self.reduce(segment);
        }
    }

    fn reordering_window(&self) -> f64 {
        (self.rtt.least / 4.0 * self.patience).min(self.rtt.smoothed)
    }

    fn reduce(&mut self, segment: u64) {
        if self.recovery.is_some_and(|end| segment < end) {
            return;
        }
        self.undo = Some((self.window, self.threshold));
        self.recovery = Some(self.next);
        self.cubic.reduced(self.window);
        self.window = (self.window * BETA).max(2.0);
        self.threshold = self.window;
    }

    /// When nothing was heard for too long everything counts as lost.
    pub(crate) fn timeout(&self) -> Option<Nanos> {
        let oldest = self.flight.values().map(|sent| sent.at).max()?;
        let known = self.rtt.smoothed > 0.0;
        // The least is of the variation in Linux, 200 ms.
        let wait = self.rtt.smoothed + (4.0 * self.rtt.variation).max(200.0 * MS);
        let wait = if known { wait * self.backoff } else { 1000.0 * MS };
        #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)] // some seconds at most
        let wait = wait as Nanos;
        Some(oldest + wait)
    }

    pub(crate) fn on_timeout(&mut self, now: Nanos) {
        if self.timeout().is_some_and(|at| at <= now) {
            self.backoff = (self.backoff * 2.0).min(64.0);
            self.cubic.reduced(self.window);
            self.threshold = (self.window * BETA).max(2.0);
            self.window = 2.0;
            self.recovery = None;
            self.again.extend(std::mem::take(&mut self.flight).into_keys());
        }
    }
}

impl SlowStart {
    fn round(now: Nanos, end: u64) -> Self {
        Self { end, began: now, last: now, least: f64::INFINITY, samples: 0 }
    }

    /// An acknowledgement came: whether acknowledgements have come in one train for half of the shortest round
    /// trip, or the round's first round trips are longer than it by an eighth.
    fn ends(&mut self, now: Nanos, rtt: f64, shortest: f64) -> bool {
        if now - self.last <= TRAIN {
            self.last = now;
            if (now - self.began) as f64 > f64::midpoint(shortest, MS) {
                return true;
            }
        }
        self.least = self.least.min(rtt);
        if self.samples < SAMPLES {
            self.samples += 1;
            return false;
        }
        self.least > shortest + (shortest / 8.0).clamp(4.0 * MS, 16.0 * MS)
    }
}

impl Rtt {
    fn sample(&mut self, rtt: f64) {
        if self.smoothed > 0.0 {
            self.variation = 0.75 * self.variation + 0.25 * (self.smoothed - rtt).abs();
            self.smoothed = 0.875 * self.smoothed + 0.125 * rtt;
        } else {
            (self.smoothed, self.variation) = (rtt, rtt / 2.0);
        }
        self.least = self.least.min(rtt);
    }
}

impl Cubic {
    fn reduced(&mut self, window: f64) {
        let converging = if window < self.top { f64::midpoint(1.0, BETA) } else { 1.0 };
        (self.top, self.epoch) = (window * converging, None);
    }

    /// Growth with one acknowledgement (RFC 9438 section 4.2 to 4.4).
    fn step(&mut self, now: Nanos, window: f64, rtt: f64) -> f64 {
        let epoch = *self.epoch.get_or_insert_with(|| {
            self.estimate = window;
            now
        });
        let k = ((self.top - window.min(self.top)).max(0.0) / C).cbrt();
        let k = if self.estimate < self.top {
            ((self.top - self.estimate) / C).cbrt().max(k)
        } else {
            0.0
        };
        let t = ((now - epoch) as f64 + rtt) / 1e9 - k;
        let target = (self.top.max(self.estimate) + C * t * t * t).clamp(window, 1.5 * window);
        let reno = 3.0 * (1.0 - BETA) / (1.0 + BETA) / window;
        let untried = if self.top > 0.0 { 0.0 } else { UNTRIED };
        ((target - window) / window).max(reno).max(untried)
    }
}

/// The other end of a flow.
#[derive(Default)]
pub(crate) struct Receiver {
    next: u64,
    ahead: BTreeSet<u64>,
    /// Bytes handed on in order.
    pub(crate) delivered: u64,
}

impl Receiver {
    /// Takes a segment that was sent at `at`.
    pub(crate) fn on_segment(&mut self, segment: u64, at: Nanos) -> Acknowledged {
        let copy = segment < self.next || !self.ahead.insert(segment);
        while self.ahead.remove(&self.next) {
            self.next += 1;
            self.delivered += SEGMENT;
        }
        Acknowledged { segment, at, copy, next: self.next }
    }
}
