//! Which frames of a flow came, came twice, or came out of order.

/// What a frame's sequence number says about it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// The first copy, in order.
    InOrder,
    /// The first copy, after one that was sent later (RFC 4737 section 3.4).
    Reordered,
    /// A further copy (RFC 5560).
    Duplicate,
    /// So old that nobody remembers whether it came before.
    Late,
}

/// Remembers the sequence numbers of one flow over a window.
///
/// Each word has 32 marks under the number of the lap they belong to; a new lap begins by overwriting
/// the word, so nothing is ever swept. The receiving eBPF program does the same.
#[derive(Clone, Debug)]
pub struct Sequence {
    words: Vec<u64>,
    shift: u32,
    expected: u64,
}

impl Sequence {
    /// A tracker that knows at least the last `2^bits - 32` sequence numbers.
    ///
    /// # Panics
    /// Never: `bits` outside 5 to 36 is taken as the nearest of them.
    #[must_use]
    pub fn new(bits: u32) -> Self {
        let shift = bits.clamp(5, 36) - 5;
        Self { words: vec![0; 1 << shift], shift, expected: 0 }
    }

    /// Takes note of a frame. Sequence numbers have 48 bits; what is above is ignored.
    pub fn observe(&mut self, sequence: u64) -> Verdict {
        let sequence = sequence & ((1 << 48) - 1);
        match self.mark(sequence) {
            Some(true) => self.place(sequence),
            Some(false) => Verdict::Duplicate,
            None => Verdict::Late,
        }
    }

    /// Whether the frame is new; none where its lap is over.
    fn mark(&mut self, sequence: u64) -> Option<bool> {
        let word = sequence >> 5;
        let lap = (word >> self.shift) + 1; // zero is a word nobody used
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

    fn place(&mut self, sequence: u64) -> Verdict {
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

    /// The definition, word for word, with unlimited memory.
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
    fn a_frame_from_a_lap_ago_is_late() {
        let mut sequence = Sequence::new(5);
        assert_eq!(sequence.observe(0), Verdict::InOrder);
        assert_eq!(sequence.observe(32), Verdict::InOrder);
        assert_eq!(sequence.observe(0), Verdict::Late);
    }
}
