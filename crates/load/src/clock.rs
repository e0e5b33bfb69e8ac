//! The clock of the load generator, which is that of the eBPF programs, and sleeping by it.

use std::time::Duration;

use rustix::{
    thread::{ClockId, clock_nanosleep_absolute},
    time::{Timespec, clock_gettime},
};

/// `CLOCK_MONOTONIC` now, nanoseconds.
pub(super) fn now_ns() -> u64 {
    let now = clock_gettime(ClockId::Monotonic);
    u64::try_from(now.tv_sec * 1_000_000_000 + now.tv_nsec).unwrap_or_default()
}

/// CPU time of the calling thread, nanoseconds.
pub(super) fn cpu_ns() -> u64 {
    let now = clock_gettime(ClockId::ThreadCPUTime);
    u64::try_from(now.tv_sec * 1_000_000_000 + now.tv_nsec).unwrap_or_default()
}

/// Sleeps until a time, or until a signal.
pub(super) fn sleep_until(time_ns: u64) {
    let time = Duration::from_nanos(time_ns);
    let seconds = i64::try_from(time.as_secs()).unwrap_or(i64::MAX);
    let until = Timespec { tv_sec: seconds, tv_nsec: time.subsec_nanos().into() };
    let _ = clock_nanosleep_absolute(ClockId::Monotonic, &until);
}

/// Minimises the timer slack of the calling thread, which is 50 us by default.
pub(super) fn minimise_timer_slack() {
    let _ = rustix::thread::set_current_timer_slack(std::num::NonZeroU64::new(1));
}
