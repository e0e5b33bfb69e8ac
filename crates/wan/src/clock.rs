//! The two clocks of the emulator: it counts on one, the kernel stamps packets with the other.

use std::time::Duration;

use hawser_impair::Instant;
use rustix::time::{ClockId, Timespec, clock_gettime};

/// `CLOCK_MONOTONIC` now.
pub(crate) fn now() -> Instant {
    Instant::from_nanos(
        u64::try_from(span(clock_gettime(ClockId::Monotonic)).as_nanos()).unwrap_or(u64::MAX),
    )
}

/// Both clocks at one moment: turns the kernel's stamps into points of our time.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Moment {
    /// `CLOCK_MONOTONIC`.
    pub(crate) now: Instant,
    real: Duration,
}

/// No packet has waited longer than this in a ring. A stamp that says so comes from a wall clock
/// that was set meanwhile.
const OLDEST: Duration = Duration::from_secs(1);

impl Moment {
    /// This moment.
    pub(crate) fn get() -> Self {
        Self { now: now(), real: span(clock_gettime(ClockId::Realtime)) }
    }

    /// When a packet came that carries this stamp; never in the future.
    pub(crate) fn arrival(&self, stamp: Duration) -> Instant {
        let age = self.real.saturating_sub(stamp);
        let age = if age > OLDEST { Duration::ZERO } else { age };
        let age = u64::try_from(age.as_nanos()).unwrap_or_default();
        Instant::from_nanos(self.now.as_nanos().saturating_sub(age))
    }
}

fn span(time: Timespec) -> Duration {
    Duration::try_from(time).unwrap_or_default()
}
