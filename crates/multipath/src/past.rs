//! Which of a flow's last packets were given up, so that they may still come.

/// Numbers that are remembered.
pub(crate) const MEMORY: u32 = 4096;

const WORDS: usize = MEMORY as usize / 64;

/// A bit for each of the last [`MEMORY`] numbers: whether it was given up. Takes memory from the first one on
/// that was.
#[derive(Default)]
pub(crate) struct Past(Option<Box<[u64; WORDS]>>);

impl Past {
    /// The turn of a number has passed, with or without its packet.
    pub(crate) fn note(&mut self, sequence: u32, given_up: bool) {
        let words = match (&mut self.0, given_up) {
            (None, false) => return,
            (words, _) => words.get_or_insert_with(|| Box::new([0; WORDS])),
        };
        let (word, bit) = place(sequence);
        if let Some(word) = words.get_mut(word) {
            *word = if given_up { *word | bit } else { *word & !bit };
        }
    }

    /// Whether a number was given up; from now on it was not.
    pub(crate) fn take(&mut self, sequence: u32) -> bool {
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
    let number = sequence % MEMORY;
    (number as usize / 64, 1 << (number % 64))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_number_that_was_given_up_comes_once() {
        let mut past = Past::default();
        assert!(!past.take(7));
        (0..5000).for_each(|n| past.note(n, n % 7 == 0));
        assert_eq!((past.take(4998), past.take(4998), past.take(4999)), (true, false, false));
        assert!(past.take(7 * 200), "not so long ago");
        past.note(4998 + MEMORY, false);
        assert!(!past.take(4998 + MEMORY));
    }
}
