//! Rate estimators: bytes acknowledged while the path was busy, and in total.

use std::time::{Duration, Instant};

use crate::rate::Rate;

/// Busy time and packets that one rate sample needs.
const MIN_BUSY_TIME: Duration = Duration::from_millis(30);
const MIN_BUSY_PACKETS: f64 = 8.0;

/// Interval over which the delivery rate is measured.
const DELIVERY_WINDOW: Duration = Duration::from_millis(100);

/// Rate over the time in which the path was busy.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct BusyRate {
    acked: u64,
    time: Duration,
}

impl BusyRate {
    /// Adds `acked` bytes acknowledged in `time`; returns a sample once enough has been gathered.
    pub(super) fn add(&mut self, acked: u64, time: Duration, packet: f64) -> Option<Rate> {
        self.acked += acked;
        self.time += time;
        let enough = self.time >= MIN_BUSY_TIME && self.acked as f64 >= MIN_BUSY_PACKETS * packet;
        if !enough && self.time < MIN_BUSY_TIME * 10 {
            return None;
        }
        let Self { acked, time } = std::mem::take(self);
        Some(Rate::new(acked, time))
    }
}

/// Bytes acknowledged per time, busy or not.
#[derive(Clone, Copy, Debug)]
pub(super) struct DeliveryRate {
    since: Instant,
    /// When the last packet acknowledged before was sent.
    sent_since: Instant,
    acked: u64,
}

impl DeliveryRate {
    pub(super) const fn new(since: Instant) -> Self {
        Self { since, sent_since: since, acked: 0 }
    }

    /// Adds `acked` bytes acknowledged, the last of which were sent at `sent`; returns a sample once
    /// per [`DELIVERY_WINDOW`].
    pub(super) fn add(&mut self, now: Instant, sent: Instant, acked: u64) -> Option<Delivered> {
        self.acked += acked;
        let took = now.saturating_duration_since(self.since);
        if took < DELIVERY_WINDOW {
            return None;
        }
        let sending = sent.saturating_duration_since(self.sent_since);
        let acked = std::mem::take(&mut self.acked);
        (self.since, self.sent_since) = (now, sent);
        Some(Delivered { acked, took, sending })
    }
}

/// What was acknowledged in an interval.
#[derive(Clone, Copy, Debug)]
pub(super) struct Delivered {
    acked: u64,
    took: Duration,
    sending: Duration,
}

impl Delivered {
    /// Rate of acknowledgements.
    pub(super) fn of_acked(self) -> Rate {
        Rate::new(self.acked, self.took)
    }

    /// The same, but no faster than the packets were sent
    /// (draft-cheng-iccrg-delivery-rate-estimation): of acknowledgements that arrive together, some
    /// may fall into the next interval.
    pub(super) fn of_sent(self) -> Rate {
        Rate::new(self.acked, self.took.max(self.sending))
    }
}
