//! Recent loss of a member path.

use std::ops::AddAssign;

/// A path is lossy from this loss rate (1/n) on: above what filling a queue costs.
const LOSSY: u32 = 20;

/// Fewer lost segments are not significant.
const MIN_LOST: u32 = 3;

/// Fraction (1/n) that decays per interval of half a second.
const DECAY: u32 = 8;

/// Segments, weighted towards recent ones. Retransmissions while nothing is delivered do not count:
/// then a path that is cut looks like a lossy one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Loss {
    arrived: u32,
    lost: u32,
}

impl Loss {
    /// Change of a subflow's delivered and lost segments (both wrap around); zero if nothing was
    /// delivered.
    pub(super) fn between(before: (u32, u32), after: (u32, u32)) -> Self {
        let arrived = after.0.wrapping_sub(before.0);
        // Spurious retransmissions are subtracted later.
        let lost = after.1.wrapping_sub(before.1);
        let lost = if lost.cast_signed() < 0 { 0 } else { lost };
        if arrived == 0 { Self::default() } else { Self { arrived, lost } }
    }

    /// Decays the counts.
    pub(super) fn fade(&mut self) {
        self.arrived -= self.arrived.div_ceil(DECAY);
        self.lost -= self.lost.div_ceil(DECAY);
    }

    /// Whether the path loses packets continuously.
    pub(super) fn is_lossy(self) -> bool {
        self.lost >= MIN_LOST && self.lost.saturating_mul(LOSSY) >= self.arrived
    }
}

impl AddAssign for Loss {
    fn add_assign(&mut self, more: Self) {
        self.arrived = self.arrived.saturating_add(more.arrived);
        self.lost = self.lost.saturating_add(more.lost);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counters_may_wrap_and_shrink() {
        assert_eq!(Loss::between((u32::MAX, 9), (1, 7)), Loss { arrived: 2, lost: 0 });
        assert_eq!(Loss::between((5, u32::MAX), (6, 1)), Loss { arrived: 1, lost: 2 });
        assert_eq!(Loss::between((5, 1), (5, 9)), Loss::default());
    }

    #[test]
    fn loss_decays_and_needs_a_minimum() {
        let mut loss = Loss { arrived: 100, lost: 5 };
        assert!(loss.is_lossy());
        loss += Loss { arrived: 1, lost: 0 };
        assert!(!loss.is_lossy());
        assert!(!Loss { arrived: 10, lost: 2 }.is_lossy());
        let mut loss = Loss { arrived: u32::MAX, lost: u32::MAX };
        for _ in 0..400 {
            loss.fade();
        }
        assert!(!loss.is_lossy());
    }
}
