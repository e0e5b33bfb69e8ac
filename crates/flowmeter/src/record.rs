//! What the table says of a flow.

use crate::{features::Features, tuple::Tuple};

/// Why a record was made.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Reason {
    /// The flow has so many packets, or is [`Settings::early_after`](crate::Settings::early_after) old, and
    /// goes on; its features since its first packet.
    Early(u64),
    /// A window has ended and the flow goes on; its features within the window.
    Window,
    /// Both ends of a TCP connection have closed, or one has reset it.
    Closed,
    /// No packet for longer than [`Settings::idle_timeout`](crate::Settings::idle_timeout).
    Idle,
    /// The table was full.
    Evicted,
    /// The caller ended the observation.
    Ended,
}

impl Reason {
    /// Its name in records.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Early(_) => "early",
            Self::Window => "window",
            Self::Closed => "closed",
            Self::Idle => "idle",
            Self::Evicted => "evicted",
            Self::Ended => "ended",
        }
    }

    /// Whether this is the last record of its flow. Each flow has exactly one such record.
    #[must_use]
    pub fn is_last(self) -> bool {
        !matches!(self, Self::Early(_) | Self::Window)
    }
}

/// A flow, or a window of it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Record {
    /// Number of the flow in its table, from 1: all its records have it, and no other flow.
    pub number: u64,
    /// The flow, in its forward direction.
    pub tuple: Tuple,
    /// Why this record was made.
    pub reason: Reason,
    /// Time of the first packet that the features cover, microseconds.
    pub first: u64,
    /// Time of the last one, microseconds.
    pub last: u64,
    /// Whether the flow was seen from its beginning, as far as that can be told: not a TCP connection whose
    /// first segment was other than a SYN. Without, forward may be the direction of the responder.
    pub is_begun: bool,
    /// Whether flowtbag would report the flow: TCP with data after a whole handshake, or UDP in both
    /// directions.
    pub is_conversation: bool,
    /// Values in the order of [`NAMES`](crate::features::NAMES).
    pub features: Features,
}

impl Record {
    /// Packets that the features cover: forward, and backward.
    #[must_use]
    #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)] // they are counts
    pub fn packets(&self) -> [u64; 2] {
        let [forward, _, backward, ..] = self.features;
        [forward as u64, backward as u64]
    }
}
