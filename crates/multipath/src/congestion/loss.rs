//! Whether what is lost is more than chance.

/// Share of lost bytes that is put up with: a path that loses it by itself would lose it anyway.
const NOISE: f64 = 0.03;

/// What was lost and acknowledged over the last rounds, bytes.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Recent {
    lost: f64,
    acked: f64,
}

impl Recent {
    /// Packets after which older ones fade.
    const SPAN: f64 = 1000.0;

    /// Adds a round with packets of so many bytes; whether with it more is lost than what is put up with.
    pub(super) fn note(&mut self, lost: u64, acked: u64, packet: f64) -> bool {
        self.lost += lost as f64;
        self.acked += acked as f64;
        let heavy = lost > 0 && is_much(self.lost, self.acked, NOISE, packet);
        if heavy {
            *self = Self::default();
        } else if self.lost + self.acked > Self::SPAN * packet {
            (self.lost, self.acked) = (self.lost / 2.0, self.acked / 2.0);
        }
        heavy
    }
}

/// Whether no more is lost than what is put up with.
pub(super) fn is_light(lost: f64, acked: f64) -> bool {
    lost <= NOISE * (lost + acked)
}

/// Whether more is lost than this share, beyond doubt: by two standard deviations and a packet. Of a few
/// packets one that was lost by chance is a large share.
pub(super) fn is_much(lost: f64, acked: f64, share: f64, packet: f64) -> bool {
    let expected = share * (lost + acked) / packet;
    lost / packet > expected + 2.0 * expected.sqrt() + 1.0
}
