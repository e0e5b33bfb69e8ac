//! Sequence numbers of a flow that were abandoned, so that late packets can be told from
//! duplicates.

/// Sequence numbers remembered.
pub(crate) const HISTORY: u32 = 4096;

const WORDS: usize = HISTORY as usize / 64;

/// Bitmap of the last [`HISTORY`] sequence numbers: whether each was abandoned. Allocated with the
/// first that was.
#[derive(Default)]
pub(crate) struct AbandonedSet(Option<Box<[u64; WORDS]>>);

impl AbandonedSet {
    /// Records a number that the resequencer has moved past, with or without its packet.
    pub(crate) fn set(&mut self, sequence: u32, abandoned: bool) {
        let words = match (&mut self.0, abandoned) {
            (None, false) => return,
            (words, _) => words.get_or_insert_with(|| Box::new([0; WORDS])),
        };
        let (word, bit) = place(sequence);
        if let Some(word) = words.get_mut(word) {
            *word = if abandoned { *word | bit } else { *word & !bit };
        }
    }

    /// Removes a number; returns whether it was in the set.
    pub(crate) fn remove(&mut self, sequence: u32) -> bool {
        let (word, bit) = place(sequence);
        let Some(word) = self.0.as_mut().and_then(|words| words.get_mut(word)) else {
            return false;
        };
        let was = *word & bit != 0;
        *word &= !bit;
        was
    }
}

const fn place(sequence: u32) -> (usize, u64) {
    let number = sequence % HISTORY;
    (number as usize / 64, 1 << (number % 64))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_abandoned_number_is_late_once() {
        let mut set = AbandonedSet::default();
        assert!(!set.remove(7));
        (0..5000).for_each(|n| set.set(n, n % 7 == 0));
        assert_eq!((set.remove(4998), set.remove(4998), set.remove(4999)), (true, false, false));
        assert!(set.remove(7 * 200), "not so long ago");
        set.set(4998 + HISTORY, false);
        assert!(!set.remove(4998 + HISTORY));
    }
}
