//! When a peer was last heard, and asked for an answer.

use std::time::Instant;

/// When the peer was last heard, and asked.
pub(super) struct Heard {
    pub(super) at: Instant,
    pub(super) asked: Instant,
    /// Frames received until then: unauthenticated packets have none.
    frames: u64,
    /// Whether a datagram has arrived since.
    pub(super) arrived: bool,
}

impl Heard {
    pub(super) fn new(now: Instant) -> Self {
        Self { at: now, asked: now, frames: 0, arrived: false }
    }

    /// So many frames have been received in all.
    pub(super) fn note(&mut self, frames: u64, now: Instant) {
        if frames != self.frames {
            (self.at, self.frames) = (now, frames);
        }
    }
}
