//! What a member path lately lost.

use std::ops::AddAssign;

/// Loss is usual from this part of what arrives on: above what filling a queue costs.
const USUAL: u32 = 20;

/// Fewer lost segments than these say nothing.
const FEW: u32 = 3;

/// The part that is forgotten in each window of half a second.
const FORGOTTEN: u32 = 8;

/// Segments, the newer ones counting more. What was sent again while nothing arrives is not among them:
/// there a path that is cut looks like one that loses.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Loss {
    arrived: u32,
    lost: u32,
}

impl Loss {
    /// Of a subflow that had `before` arrived and lost, and has `after` now (both wrap); nothing if nothing
    /// arrived.
    pub(super) fn between(before: (u32, u32), after: (u32, u32)) -> Self {
        let arrived = after.0.wrapping_sub(before.0);
        // What was sent again in vain is taken back later.
        let lost = after.1.wrapping_sub(before.1);
        let lost = if lost.cast_signed() < 0 { 0 } else { lost };
        if arrived == 0 { Self::default() } else { Self { arrived, lost } }
    }

    /// Lets what is known count less.
    pub(super) fn fade(&mut self) {
        self.arrived -= self.arrived.div_ceil(FORGOTTEN);
        self.lost -= self.lost.div_ceil(FORGOTTEN);
    }

    /// Whether packets are lost all the time.
    pub(super) fn is_usual(self) -> bool {
        self.lost >= FEW && self.lost.saturating_mul(USUAL) >= self.arrived
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
    fn counters_that_wrap_or_shrink_count_right() {
        assert_eq!(Loss::between((u32::MAX, 9), (1, 7)), Loss { arrived: 2, lost: 0 });
        assert_eq!(Loss::between((5, u32::MAX), (6, 1)), Loss { arrived: 1, lost: 2 });
        assert_eq!(Loss::between((5, 1), (5, 9)), Loss::default());
    }

    #[test]
    fn it_is_forgotten_and_a_few_are_not_enough() {
        let mut loss = Loss { arrived: 100, lost: 5 };
        assert!(loss.is_usual());
        loss += Loss { arrived: 1, lost: 0 };
        assert!(!loss.is_usual());
        assert!(!Loss { arrived: 10, lost: 2 }.is_usual());
        let mut loss = Loss { arrived: u32::MAX, lost: u32::MAX };
        for _ in 0..400 {
            loss.fade();
        }
        assert!(!loss.is_usual());
    }
}
