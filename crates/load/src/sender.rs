//! What every sender does, whichever way frames leave.

use std::sync::atomic::{AtomicBool, Ordering};

use hawser_bpf::layout::Progress;

use crate::clock;

/// Sends a plan.
pub(super) trait Sender: Send + Sync {
    /// Sends until all is sent, or until it is told to stop.
    fn run(&self, stop: &Stop) -> anyhow::Result<()>;

    /// How far it is.
    fn tally(&self) -> anyhow::Result<SendTally>;
}

/// How far a sender is.
#[derive(Clone, Debug, Default)]
pub(super) struct SendTally {
    /// By stream.
    pub(super) streams: Vec<Progress>,
    /// Frames and bytes by flow; nothing of a recording.
    pub(super) flows: Vec<FlowTally>,
    /// Frames the device did not take; they are among those sent.
    pub(super) refused: u64,
}

/// What was sent of a flow.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct FlowTally {
    /// Frames.
    pub(super) frames: u64,
    /// Bytes.
    pub(super) bytes: u64,
}

/// Told to stop, once and for all.
#[derive(Debug, Default)]
pub(super) struct Stop(AtomicBool);

impl Stop {
    /// Tells.
    pub(super) fn tell(&self) {
        self.0.store(true, Ordering::Relaxed);
    }

    /// Whether it was told.
    pub(super) fn told(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }
}

/// Sleeps when there is time for it, else comes back at once: a sleep is 20 us to 100 us too long. Never
/// sleeps so long that being told to stop goes unnoticed.
pub(super) fn wait(until_ns: u64) {
    const WORTH_NS: u64 = 150_000;
    const LONGEST_NS: u64 = 100_000_000;
    let now = clock::now_ns();
    if until_ns > now + WORTH_NS {
        clock::sleep_until(until_ns.min(now + LONGEST_NS));
    } else if until_ns > now {
        std::thread::yield_now();
    }
}
