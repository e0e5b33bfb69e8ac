//! Counters of one flow.

use crate::{
    histogram::Histogram,
    sequence::{Sequence, Verdict},
};

/// Counters of one flow.
#[derive(Clone, Debug)]
pub struct Flow {
    sequence: Sequence,
    last_delay: Option<u64>,
    /// The counters.
    pub count: Count,
}

/// Counters of one flow. Delays are those of first copies, ns.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Count {
    /// Frames received, duplicates included.
    pub received: u64,
    /// Their bytes, without frame check sequence.
    pub bytes: u64,
    /// Duplicates (RFC 5560).
    pub duplicated: u64,
    /// Reordered frames (RFC 4737 section 3.3).
    pub reordered: u64,
    /// Frames outside the window: it is unknown whether they are duplicates.
    pub late: u64,
    /// Sum of one-way delays.
    pub delay_sum: u64,
    /// Minimum and maximum delay.
    pub delay_range: Option<(u64, u64)>,
}

impl Count {
    /// Frames received at least once.
    #[must_use]
    pub fn unique(&self) -> u64 {
        self.received.saturating_sub(self.duplicated + self.late)
    }
}

impl Flow {
    /// A flow in which duplicates are recognised within about `2^window_bits` frames.
    #[must_use]
    pub fn new(window_bits: u32) -> Self {
        Self { sequence: Sequence::new(window_bits), last_delay: None, count: Count::default() }
    }

    /// Counts a frame. Its delay, and the delay variation to the previous frame (RFC 3393), go into the
    /// histograms.
    pub fn observe(
        &mut self,
        sequence: u64,
        bytes: u64,
        delay: u64,
        delays: &mut Histogram,
        variations: &mut Histogram,
    ) {
        self.count.received += 1;
        self.count.bytes += bytes;
        match self.sequence.observe(sequence) {
            Verdict::Duplicate => self.count.duplicated += 1,
            Verdict::Late => self.count.late += 1,
            verdict => {
                self.count.reordered += u64::from(verdict == Verdict::Reordered);
                self.observe_delay(delay);
                delays.record(delay);
                if let Some(last) = self.last_delay.replace(delay) {
                    variations.record(delay.abs_diff(last));
                }
            }
        }
    }

    fn observe_delay(&mut self, delay: u64) {
        let count = &mut self.count;
        count.delay_sum = count.delay_sum.wrapping_add(delay);
        let (min, max) = count.delay_range.unwrap_or((delay, delay));
        count.delay_range = Some((min.min(delay), max.max(delay)));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn duplicates_and_reordering_are_counted() {
        let (mut delays, mut variations) = (Histogram::default(), Histogram::default());
        let mut flow = Flow::new(10);
        for (sequence, delay) in [(0, 100), (2, 140), (1, 90), (2, 999)] {
            flow.observe(sequence, 60, delay, &mut delays, &mut variations);
        }
        let expected = Count {
            received: 4,
            bytes: 240,
            duplicated: 1,
            reordered: 1,
            late: 0,
            delay_sum: 330,
            delay_range: Some((90, 140)),
        };
        assert_eq!(flow.count, expected);
        assert_eq!(flow.count.unique(), 3);
        assert_eq!(
            variations.buckets().map(|b| (b.0, b.2)).collect::<Vec<_>>(),
            [(40, 1), (50, 1)]
        );
    }
}
