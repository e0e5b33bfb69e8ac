//! Distinguishes congestion loss from random loss.

use std::time::Instant;

/// Loss rate attributed to the path rather than to congestion (BBRv2 uses 2 %).
const RANDOM_LOSS: f64 = 0.03;

/// Growth of the window per round above the one that the last congestion event left. With growth by
/// a quarter, which a path whose delay varies needs to be filled, its queue overflowed again after
/// five rounds, and what is taken for jitter was halved each time (`crates/sim`).
const REGAIN: f64 = 1.02;

/// Factor over the window that an event left beyond which the path evidently holds more.
const HOLDS: f64 = 1.5;

/// Bytes lost and acknowledged in the last rounds.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct RecentLoss {
    lost: f64,
    acked: f64,
}

impl RecentLoss {
    /// Packets after which older rounds count half.
    const MEMORY_PACKETS: f64 = 1000.0;

    /// Adds a round with packets of `packet` bytes; returns whether loss exceeds [`RANDOM_LOSS`].
    pub(super) fn add_round(&mut self, lost: u64, acked: u64, packet: f64) -> bool {
        self.lost += lost as f64;
        self.acked += acked as f64;
        let heavy = lost > 0 && exceeds(self.lost, self.acked, RANDOM_LOSS, packet);
        if heavy {
            *self = Self::default();
        } else if self.lost + self.acked > Self::MEMORY_PACKETS * packet {
            (self.lost, self.acked) = (self.lost / 2.0, self.acked / 2.0);
        }
        heavy
    }
}

/// The last congestion event, which began with heavy loss.
#[derive(Clone, Copy, Debug)]
pub(super) struct Recovery {
    /// When the window was reduced first.
    since: Instant,
    /// Half of the window before, bytes: this event does not reduce it further.
    least: f64,
    /// The window that it left, bytes.
    left: f64,
}

impl Recovery {
    /// Begins, with a window of `window` bytes.
    pub(super) fn new(now: Instant, window: f64) -> Self {
        Self { since: now, least: window / 2.0, left: window }
    }

    /// Whether a packet was sent before the window was reduced. If it is found lost afterwards, it
    /// belongs to this event (recovery period, RFC 9002 section 7.3.2).
    pub(super) fn began_after(self, sent: Instant) -> bool {
        sent <= self.since
    }

    /// The window after a round of this event that lost `lost` bytes.
    pub(super) fn reduce(&mut self, window: f64, lost: f64) -> f64 {
        self.left = (window - lost).max(self.least.min(window));
        self.left
    }

    /// Maximum of the next window: near the one that was left, growth is slow ([`REGAIN`]).
    pub(super) fn max_window(self, window: f64) -> f64 {
        if window > HOLDS * self.left { f64::INFINITY } else { window.max(self.left) * REGAIN }
    }
}

/// Whether loss is at most [`RANDOM_LOSS`].
pub(super) fn is_random_loss(lost: f64, acked: f64) -> bool {
    lost <= RANDOM_LOSS * (lost + acked)
}

/// Whether the loss rate significantly exceeds `share`: by two standard deviations and one packet.
/// One lost packet of ten is not 10 % loss.
pub(super) fn exceeds(lost: f64, acked: f64, share: f64, packet: f64) -> bool {
    let expected = share * (lost + acked) / packet;
    lost / packet > expected + 2.0 * expected.sqrt() + 1.0
}
