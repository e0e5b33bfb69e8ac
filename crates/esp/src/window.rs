//! Anti-replay window (RFC 4303 section 3.4.3) as a ring of bit blocks (RFC 6479).

const BLOCK_BITS: u32 = u64::BITS;
const BLOCKS: u32 = 64;

/// An anti-replay window.
#[derive(Clone, Debug)]
pub struct Window {
    /// The highest sequence number received.
    top: u32,
    bits: [u64; BLOCKS as usize],
}

impl Default for Window {
    fn default() -> Self {
        Self { top: 0, bits: [0; BLOCKS as usize] }
    }
}

impl Window {
    /// Size of the window: numbers that are lower than the highest by this or more are rejected.
    pub const SIZE: u32 = (BLOCKS - 1) * BLOCK_BITS;

    /// Whether a number is acceptable: not received before and not too old. 0 is invalid.
    #[must_use]
    pub fn may_come(&self, sequence: u32) -> bool {
        let Some(behind) = self.top.checked_sub(sequence) else { return true };
        sequence != 0 && behind < Self::SIZE && self.block(sequence) & bit(sequence) == 0
    }

    /// Marks an acceptable number as received, and advances the window if it is the highest; returns whether it is.
    pub fn mark(&mut self, sequence: u32) -> bool {
        let highest = sequence > self.top;
        let (held, new) = (self.top / BLOCK_BITS, sequence / BLOCK_BITS);
        if new.saturating_sub(held) >= BLOCKS {
            self.bits.fill(0);
        } else {
            for passed in held + 1..=new {
                if let Some(block) = self.bits.get_mut((passed % BLOCKS) as usize) {
                    *block = 0;
                }
            }
        }
        self.top = self.top.max(sequence);
        if let Some(block) = self.bits.get_mut((new % BLOCKS) as usize) {
            *block |= bit(sequence);
        }
        highest
    }

    fn block(&self, sequence: u32) -> u64 {
        let at = sequence / BLOCK_BITS % BLOCKS;
        self.bits.get(at as usize).copied().unwrap_or(u64::MAX)
    }
}

fn bit(sequence: u32) -> u64 {
    1 << (sequence % BLOCK_BITS)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;

    use super::*;

    /// A model that lists all received numbers.
    #[derive(Default)]
    struct Model {
        top: u32,
        seen: BTreeSet<u32>,
    }

    impl Model {
        fn takes(&mut self, sequence: u32) -> bool {
            let old = self.top >= Window::SIZE && sequence <= self.top - Window::SIZE;
            if sequence == 0 || old || !self.seen.insert(sequence) {
                return false;
            }
            self.top = self.top.max(sequence);
            true
        }
    }

    fn takes(window: &mut Window, sequence: u32) -> bool {
        let (may, top) = (window.may_come(sequence), window.top);
        if may {
            assert_eq!(window.mark(sequence), sequence > top);
        }
        may
    }

    proptest! {
        /// Numbers that mostly increase, with some steps back and some leaps.
        #[test]
        fn it_takes_what_a_list_would(start in 0..=u32::MAX, steps in proptest::collection::vec(
            prop_oneof![8 => -70..70_i64, 2 => -5000..5000_i64, 1 => -100_000..1_000_000_i64], 1..600)) {
            let (mut window, mut model) = (Window::default(), Model::default());
            let mut at = i64::from(start);
            for step in steps {
                at = (at + step).clamp(0, u32::MAX.into());
                let sequence = u32::try_from(at).unwrap();
                prop_assert_eq!(takes(&mut window, sequence), model.takes(sequence), "{}", sequence);
            }
        }
    }

    #[test]
    fn each_number_comes_once() {
        let mut window = Window::default();
        for sequence in 1..10_000 {
            assert!(takes(&mut window, sequence));
            assert!(!takes(&mut window, sequence));
        }
        assert!(!takes(&mut window, 0));
        assert!(takes(&mut window, u32::MAX) && !takes(&mut window, u32::MAX));
    }
}
