//! Detection of duplicates and reordering by sequence numbers.

/// Classification of a frame by its sequence number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// First copy, in order.
    InOrder,
    /// First copy, reordered: a frame sent later came first (RFC 4737 section 3.3).
    Reordered,
    /// Duplicate (RFC 5560).
    Duplicate,
    /// Outside the window: it is unknown whether it is a duplicate.
    Late,
}

/// The sequence numbers seen in a window of one flow.
///
/// ```text
///  63            32 31             0
///  +---------------+---------------+
///  |      lap      |   32 marks    |   word = (sequence / 32) mod words
///  +---------------+---------------+   lap  = sequence / (32 * words) + 1
/// ```
///
/// A frame of a new lap overwrites the word, so the window needs no sweeping. The receiving eBPF program does
/// the same.
#[derive(Clone, Debug)]
pub struct Sequence {
    words: Vec<u64>,
    /// Number of words, as a power of two.
    shift: u32,
    /// Highest sequence number seen, plus one.
    expected: u64,
}

impl Sequence {
    /// A window of at least the last `2^bits - 32` sequence numbers.
    ///
    /// # Panics
    /// Never: `bits` is clamped to 5 to 36.
    #[must_use]
    pub fn new(bits: u32) -> Self {
        let shift = bits.clamp(5, 36) - 5;
        Self { words: vec![0; 1 << shift], shift, expected: 0 }
    }

    /// Records a frame. Sequence numbers have 48 bits; higher bits are ignored.
    pub fn observe(&mut self, sequence: u64) -> Verdict {
        let sequence = sequence & ((1 << 48) - 1);
        match self.mark(sequence) {
            Some(true) => self.order(sequence),
            Some(false) => Verdict::Duplicate,
            None => Verdict::Late,
        }
    }

    /// Whether the frame is new; `None` if its lap is over.
    fn mark(&mut self, sequence: u64) -> Option<bool> {
        let word = sequence >> 5;
        let lap = (word >> self.shift) + 1; // 0: an unused word
        let bit = 1 << (sequence & 31);
        let index = usize::try_from(word & ((1 << self.shift) - 1)).ok()?;
        let slot = self.words.get_mut(index)?;
        if *slot >> 32 > lap & 0xffff_ffff {
            return None;
        }
        if *slot >> 32 != lap & 0xffff_ffff {
            *slot = lap << 32;
        }
        let new = *slot & bit == 0;
        *slot |= bit;
        Some(new)
    }

    fn order(&mut self, sequence: u64) -> Verdict {
        if sequence < self.expected {
            return Verdict::Reordered;
        }
        self.expected = sequence + 1;
        Verdict::InOrder
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use proptest::prelude::*;

    use super::*;

    /// The definition, with unlimited memory.
    #[derive(Default)]
    struct Oracle {
        seen: HashSet<u64>,
        next: u64,
    }

    impl Oracle {
        fn observe(&mut self, sequence: u64) -> Verdict {
            if !self.seen.insert(sequence) {
                return Verdict::Duplicate;
            }
            let in_order = sequence >= self.next;
            self.next = self.next.max(sequence + 1);
            if in_order { Verdict::InOrder } else { Verdict::Reordered }
        }
    }

    proptest! {
        #[test]
        fn agrees_with_the_definition_within_the_window(
            start in 0u64..1 << 40, steps in prop::collection::vec(-200i64..200, 1..500),
        ) {
            let (mut sequence, mut oracle) = (Sequence::new(17), Oracle::default());
            let mut at = start + (1 << 17);
            for step in steps {
                at = at.saturating_add_signed(step).max(start);
                prop_assert_eq!(sequence.observe(at), oracle.observe(at));
            }
        }

        #[test]
        fn never_calls_a_lost_frame_received(order in Just((0u64..2000).collect::<Vec<_>>()).prop_shuffle()) {
            let mut sequence = Sequence::new(11);
            let firsts = order.iter().filter(|s| {
                matches!(sequence.observe(**s), Verdict::InOrder | Verdict::Reordered)
            });
            prop_assert_eq!(firsts.count(), 2000);
        }
    }

    #[test]
    fn a_frame_of_the_previous_lap_is_late() {
        let mut sequence = Sequence::new(5);
        assert_eq!(sequence.observe(0), Verdict::InOrder);
        assert_eq!(sequence.observe(32), Verdict::InOrder);
        assert_eq!(sequence.observe(0), Verdict::Late);
    }
}
