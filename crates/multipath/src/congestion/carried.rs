//! What a path has carried, in the time in which it was busy and in all.

use std::time::{Duration, Instant};

use crate::rate::Rate;

/// Busy time and packets over which the rate is measured, at least.
const BUSY: Duration = Duration::from_millis(30);
const BUSY_PACKETS: f64 = 8.0;

/// Time over which what was acknowledged says what the path carries at least.
const CARRIED: Duration = Duration::from_millis(100);

/// A measurement of the rate: what was acknowledged in the time in which the path was busy.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Busy {
    acked: u64,
    time: Duration,
}

impl Busy {
    /// Adds what was acknowledged in so long, of packets of so many bytes; the rate, where it was long enough.
    pub(super) fn add(&mut self, acked: u64, time: Duration, packet: f64) -> Option<Rate> {
        self.acked += acked;
        self.time += time;
        let enough = self.time >= BUSY && self.acked as f64 >= BUSY_PACKETS * packet;
        if !enough && self.time < BUSY * 10 {
            return None;
        }
        let Self { acked, time } = std::mem::take(self);
        Some(Rate::new(acked, time))
    }
}

/// What was acknowledged since.
#[derive(Clone, Copy, Debug)]
pub(super) struct Carried {
    since: Instant,
    acked: u64,
}

impl Carried {
    pub(super) const fn new(since: Instant) -> Self {
        Self { since, acked: 0 }
    }

    /// Adds what was acknowledged; the rate, where it was long enough.
    pub(super) fn add(&mut self, now: Instant, acked: u64) -> Option<Rate> {
        self.acked += acked;
        let time = now.saturating_duration_since(self.since);
        if time < CARRIED {
            return None;
        }
        let acked = std::mem::replace(self, Self::new(now)).acked;
        Some(Rate::new(acked, time))
    }
}
