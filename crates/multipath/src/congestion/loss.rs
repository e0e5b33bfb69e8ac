//! Distinguishes congestion loss from random loss.

/// Loss rate attributed to the path rather than to congestion (BBRv2 uses 2 %).
const RANDOM_LOSS: f64 = 0.03;

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
