//! Inner flows: bulk senders behind the gateways.

use std::collections::{BTreeMap, BTreeSet};

use crate::events::Nanos;

/// Payload of a full segment, and length of its packet (IPv4, TCP with timestamps), bytes.
pub(crate) const SEGMENT: u64 = 1374;
pub(crate) const PACKET: u32 = 1426;

/// CUBIC (RFC 9438 sections 4.2 and 4.6).
const C: f64 = 0.4;
const BETA: f64 = 0.7;

/// Receive window, segments: 6 MB, the default maximum of Linux (`tcp_rmem`).
const RECEIVE_WINDOW: f64 = 4300.0;

/// Growth before the first loss, as in Linux: a twentieth of the window per RTT.
const GROWTH_BEFORE_LOSS: f64 = 0.05;

const MS: f64 = 1e6;

/// `HyStart` in Linux: minimum window, segments; RTT samples per round; maximum gap between the
/// ACKs of a train, nanoseconds.
const LOW_WINDOW: f64 = 16.0;
const SAMPLES: u32 = 8;
const TRAIN: Nanos = 2_000_000;

/// Loss recovery of a flow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// As TCP in Linux: SACK, adaptive reordering window (RACK-TLP, RFC 8985), undo of spurious
    /// reductions.
    Tcp,
    /// As QUIC: three packets or 9/8 of an RTT (RFC 9002 section 6.1), no undo.
    Quic,
}

/// A bulk sender with CUBIC.
pub(crate) struct Flow {
    kind: Kind,
    next: u64,
    flight: BTreeMap<u64, Sent>,
    /// Cumulative acknowledgement.
    cumulative: u64,
    /// Segments declared lost, to be retransmitted.
    retransmit: BTreeSet<u64>,
    window: f64,
    ssthresh: f64,
    cubic: Cubic,
    rtt: Rtt,
    slow_start: SlowStart,
    /// Losses before this segment belong to the last reduction (recovery point).
    recovery: Option<u64>,
    undo: Option<(f64, f64)>,
    /// Reordering window, quarter RTTs.
    reordering_steps: f64,
    /// Factor on the RTO: doubles with each timeout.
    backoff: f64,
    seen_reordering: bool,
    newest: (Nanos, u64),
}

/// Acknowledgement of a segment.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Acknowledged {
    pub(crate) segment: u64,
    /// When it was sent: the echoed timestamp.
    pub(crate) at: Nanos,
    /// Whether it is a duplicate.
    pub(crate) duplicate: bool,
    /// Cumulative acknowledgement.
    pub(crate) next: u64,
}

#[derive(Clone, Copy)]
struct Sent {
    at: Nanos,
    order: u64,
    retransmitted: bool,
}

#[derive(Clone, Copy, Default)]
struct Cubic {
    epoch: Option<Nanos>,
    w_max: f64,
    estimate: f64,
}

/// A round of slow start, with `HyStart` as in Linux (`net/ipv4/tcp_cubic.c`).
#[derive(Clone, Copy, Default)]
struct SlowStart {
    /// First segment of the next round.
    end: u64,
    began: Nanos,
    /// When the last ACK of the train arrived.
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
            cumulative: 0,
            retransmit: BTreeSet::new(),
            window: 10.0,
            ssthresh: f64::INFINITY,
            cubic: Cubic::default(),
            rtt: Rtt { smoothed: 0.0, variation: 0.0, least: f64::INFINITY },
            slow_start: SlowStart::default(),
            recovery: None,
            undo: None,
            reordering_steps: 1.0,
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
        let retransmission = self.retransmit.pop_first();
        let segment = retransmission.unwrap_or(self.next);
        self.next = self.next.max(segment + 1);
        *order += 1;
        self.flight.insert(
            segment,
            Sent { at: now, order: *order, retransmitted: retransmission.is_some() },
        );
        Some(segment)
    }

    /// An acknowledgement arrived.
    pub(crate) fn on_ack(&mut self, now: Nanos, ack: Acknowledged) {
        let Acknowledged { segment, at, duplicate, next } = ack;
        let rtt = now.saturating_sub(at) as f64;
        self.rtt.sample(rtt);
        self.backoff = 1.0;
        self.end_slow_start(now, rtt);
        if duplicate {
            self.undo();
            return;
        }
        let below = segment < self.cumulative;
        self.advance(now, segment, next);
        if below {
            return;
        }
        let Some(sent) = self.flight.remove(&segment) else {
            // Declared lost, but delivered: retransmitted for nothing, if it was.
            self.retransmit.remove(&segment);
            self.undo();
            return;
        };
        if sent.retransmitted && at < sent.at {
            self.undo(); // the original arrived, not the retransmission
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

    /// Cumulative acknowledgement of everything before `next`: lost acknowledgements are made up
    /// for.
    fn advance(&mut self, now: Nanos, ack: u64, next: u64) {
        self.cumulative = self.cumulative.max(next);
        while let Some(first) = self.flight.first_entry()
            && *first.key() < self.cumulative
            && *first.key() != ack
        {
            first.remove();
            self.grow(now);
        }
        self.retransmit = self.retransmit.split_off(&self.cumulative);
    }

    /// Ends slow start when the delay grows, before loss would.
    fn end_slow_start(&mut self, now: Nanos, rtt: f64) {
        if self.kind != Kind::Tcp || self.window >= self.ssthresh || self.window < LOW_WINDOW {
            return;
        }
        let oldest = self.flight.first_key_value().map_or(self.next, |(segment, _)| *segment);
        if oldest > self.slow_start.end {
            self.slow_start = SlowStart::round(now, self.next);
        }
        if self.slow_start.ends(now, rtt, self.rtt.least) {
            self.ssthresh = self.window;
        }
    }

    fn undo(&mut self) {
        if self.kind == Kind::Tcp {
            self.reordering_steps = (self.reordering_steps + 1.0).min(16.0);
            if let Some((window, ssthresh)) = self.undo.take() {
                (self.window, self.ssthresh) = (self.window.max(window), ssthresh);
            }
        }
    }

    fn grow(&mut self, now: Nanos) {
        if ((self.flight.len() + 1) as f64) < self.window * 0.7 || self.recovery.is_some() {
            return;
        }
        if self.window < self.ssthresh {
            self.window += 1.0;
        } else {
            self.window += self.cubic.step(now, self.window, self.rtt.smoothed);
        }
    }

    /// Declares lost what later segments have passed.
    fn detect(&mut self, now: Nanos) {
        let (newest_at, newest) = self.newest;
        let wait = self.reordering_window();
        let overdue = |sent: &Sent| {
            let passed_by = newest.saturating_sub(sent.order);
            let late = newest_at as f64 - sent.at as f64 >= wait
                || (now as f64 - sent.at as f64) >= self.rtt.smoothed + wait;
            match self.kind {
                Kind::Tcp if !self.seen_reordering => passed_by >= 3,
                Kind::Tcp => {
                    passed_by > 0 && late && now as f64 - sent.at as f64 > self.rtt.least + wait
                }
                Kind::Quic => passed_by >= 3,
            }
        };
        // Segments are sent nearly in order, so those far ahead cannot have been passed.
        let lost: Vec<u64> = self
            .flight
            .iter()
            .take(256)
            .filter(|(_, sent)| overdue(sent))
            .map(|(n, _)| *n)
            .collect();
        for segment in lost {
            self.flight.remove(&segment);
            self.retransmit.insert(segment);
            self.reduce(segment);
        }
    }

    fn reordering_window(&self) -> f64 {
        (self.rtt.least / 4.0 * self.reordering_steps).min(self.rtt.smoothed)
    }

    fn reduce(&mut self, segment: u64) {
        if self.recovery.is_some_and(|end| segment < end) {
            return;
        }
        self.undo = Some((self.window, self.ssthresh));
        self.recovery = Some(self.next);
        self.cubic.reduced(self.window);
        self.window = (self.window * BETA).max(2.0);
        self.ssthresh = self.window;
    }

    /// When the RTO expires: everything in flight counts as lost then.
    pub(crate) fn timeout(&self) -> Option<Nanos> {
        let oldest = self.flight.values().map(|sent| sent.at).max()?;
        let known = self.rtt.smoothed > 0.0;
        // Linux bounds the variation from below, by 200 ms.
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
            self.ssthresh = (self.window * BETA).max(2.0);
            self.window = 2.0;
            self.recovery = None;
            self.retransmit.extend(std::mem::take(&mut self.flight).into_keys());
        }
    }
}

impl SlowStart {
    fn round(now: Nanos, end: u64) -> Self {
        Self { end, began: now, last: now, least: f64::INFINITY, samples: 0 }
    }

    /// Whether an ACK ends slow start: ACKs formed one train for half of the minimum RTT, or the
    /// first RTTs of the round exceed the minimum by an eighth.
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
        let converging = if window < self.w_max { f64::midpoint(1.0, BETA) } else { 1.0 };
        (self.w_max, self.epoch) = (window * converging, None);
    }

    /// Growth per acknowledgement (RFC 9438 sections 4.2 to 4.4).
    fn step(&mut self, now: Nanos, window: f64, rtt: f64) -> f64 {
        let epoch = *self.epoch.get_or_insert_with(|| {
            self.estimate = window;
            now
        });
        let k = ((self.w_max - window.min(self.w_max)).max(0.0) / C).cbrt();
        let k = if self.estimate < self.w_max {
            ((self.w_max - self.estimate) / C).cbrt().max(k)
        } else {
            0.0
        };
        let t = ((now - epoch) as f64 + rtt) / 1e9 - k;
        let target = (self.w_max.max(self.estimate) + C * t * t * t).clamp(window, 1.5 * window);
        let reno = 3.0 * (1.0 - BETA) / (1.0 + BETA) / window;
        let before_loss = if self.w_max > 0.0 { 0.0 } else { GROWTH_BEFORE_LOSS };
        ((target - window) / window).max(reno).max(before_loss)
    }
}

/// Receiver of a flow.
#[derive(Default)]
pub(crate) struct Receiver {
    next: u64,
    ahead: BTreeSet<u64>,
    /// Bytes delivered in order.
    pub(crate) delivered: u64,
}

impl Receiver {
    /// Takes a segment sent at `at`.
    pub(crate) fn on_segment(&mut self, segment: u64, at: Nanos) -> Acknowledged {
        let duplicate = segment < self.next || !self.ahead.insert(segment);
        while self.ahead.remove(&self.next) {
            self.next += 1;
            self.delivered += SEGMENT;
        }
        Acknowledged { segment, at, duplicate, next: self.next }
    }
}
