//! The emulator's clocks: it schedules by `CLOCK_MONOTONIC`, the kernel timestamps packets with
//! `CLOCK_REALTIME`.

use std::time::Duration;

use hawser_impair::Instant;
use rustix::time::{ClockId, Timespec, clock_gettime};

/// `CLOCK_MONOTONIC` now.
pub(crate) fn now() -> Instant {
    Instant::from_nanos(
        u64::try_from(span(clock_gettime(ClockId::Monotonic)).as_nanos()).unwrap_or(u64::MAX),
    )
}

/// Both clocks at the same time, to convert timestamps.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Clocks {
    /// `CLOCK_MONOTONIC`.
    pub(crate) now: Instant,
    real: Duration,
}

/// Longest plausible time of a packet in a ring. An older timestamp means that `CLOCK_REALTIME` was set in
/// the meantime.
const AGE_MAX: Duration = Duration::from_secs(1);

impl Clocks {
    /// Reads both clocks.
    pub(crate) fn read() -> Self {
        Self { now: now(), real: span(clock_gettime(ClockId::Realtime)) }
    }

    /// Arrival time of a packet with this timestamp, not later than now.
    pub(crate) fn arrival(&self, timestamp: Duration) -> Instant {
        let age = self.real.saturating_sub(timestamp);
        let age = if age > AGE_MAX { Duration::ZERO } else { age };
        let age = u64::try_from(age.as_nanos()).unwrap_or_default();
        Instant::from_nanos(self.now.as_nanos().saturating_sub(age))
    }
}

fn span(time: Timespec) -> Duration {
    Duration::try_from(time).unwrap_or_default()
}
