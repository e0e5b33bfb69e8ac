//! The time since 1970, also of what the kernel stamps with its monotonic clock.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use rustix::time::{ClockId, clock_gettime};

/// Time since 1970, microseconds.
pub(crate) fn now_us() -> u64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(now.as_micros()).unwrap_or(u64::MAX)
}

/// Turns times of `CLOCK_MONOTONIC` into times since 1970. The difference is that of the moment when this was made:
/// times of a run never jump.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Clock {
    ahead_us: u64,
}

impl Clock {
    /// With the difference between the two clocks now.
    pub(crate) fn new() -> Self {
        Self { ahead_us: now_us().saturating_sub(monotonic_us()) }
    }

    /// Time since 1970 of a time of `CLOCK_MONOTONIC`, microseconds.
    pub(crate) fn at(self, time_ns: u64) -> u64 {
        self.ahead_us + time_ns / 1000
    }

    /// The time now, as of packets.
    pub(crate) fn now_us(self) -> u64 {
        self.ahead_us + monotonic_us()
    }
}

fn monotonic_us() -> u64 {
    let now = clock_gettime(ClockId::Monotonic);
    let now = Duration::try_from(now).unwrap_or_default();
    u64::try_from(now.as_micros()).unwrap_or(u64::MAX)
}
