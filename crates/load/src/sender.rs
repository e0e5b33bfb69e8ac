//! The interface of senders.

use std::sync::atomic::{AtomicBool, Ordering};

use hawser_bpf::layout::Progress;

use crate::clock;

/// Sends the frames of a plan.
pub(super) trait Sender: Send + Sync {
    /// Sends until the schedules are complete or `stop` is set.
    fn run(&self, stop: &Stop) -> anyhow::Result<()>;

    /// The current counters.
    fn tally(&self) -> anyhow::Result<SendTally>;
}

/// Counters of a sender.
#[derive(Clone, Debug, Default)]
pub(super) struct SendTally {
    /// By stream.
    pub(super) streams: Vec<Progress>,
    /// By flow; empty for a recording.
    pub(super) flows: Vec<FlowTally>,
    /// Frames that the device refused. The other counters include them.
    pub(super) refused: u64,
}

/// Counters of a sent flow.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct FlowTally {
    /// Frames.
    pub(super) frames: u64,
    /// Bytes.
    pub(super) bytes: u64,
}

/// A flag that asks a thread to stop.
#[derive(Debug, Default)]
pub(super) struct Stop(AtomicBool);

impl Stop {
    /// Sets the flag.
    pub(super) fn set(&self) {
        self.0.store(true, Ordering::Relaxed);
    }

    /// Whether the flag is set.
    pub(super) fn is_set(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }
}

/// Sleeps until a time if it is far enough away, and yields otherwise: a sleep ends 20 to 100 us late. Returns
/// after 100 ms at the latest, so that the caller can check its stop flag.
pub(super) fn wait(until_ns: u64) {
    const SLEEP_MIN_NS: u64 = 150_000;
    const SLEEP_MAX_NS: u64 = 100_000_000;
    let now = clock::now_ns();
    if until_ns > now + SLEEP_MIN_NS {
        clock::sleep_until(until_ns.min(now + SLEEP_MAX_NS));
    } else if until_ns > now {
        std::thread::yield_now();
    }
}
