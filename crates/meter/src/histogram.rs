//! A log-linear histogram of times: exact below 256 ns, then 128 buckets per octave, up to 18 minutes.
//!
//! A bucket is at most 1/128 of its value wide, so a quantile has an error of at most 0.4 %. The receiving
//! eBPF program fills the same buckets (`histogram.h`).

/// Buckets per octave, as a power of two.
const SUB_BITS: u32 = 7;
/// Width of a value, bits. Larger values are counted as 2^40 - 1 ns.
const VALUE_BITS: u32 = 40;
const VALUE_MAX: u64 = (1 << VALUE_BITS) - 1;
/// Number of buckets.
pub const BUCKETS: usize = ((VALUE_BITS - SUB_BITS + 1) << SUB_BITS) as usize;

/// Counts by bucket. Values are in nanoseconds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Histogram {
    counts: Vec<u64>,
}

impl Default for Histogram {
    fn default() -> Self {
        Self { counts: vec![0; BUCKETS] }
    }
}

impl Histogram {
    /// A histogram from counts by bucket, in order. Counts beyond the last bucket are dropped.
    #[must_use]
    pub fn from_counts(mut counts: Vec<u64>) -> Self {
        counts.resize(BUCKETS, 0);
        Self { counts }
    }

    /// Counts a value.
    pub fn record(&mut self, value: u64) {
        if let Some(count) = self.counts.get_mut(bucket_of(value)) {
            *count += 1;
        }
    }

    /// Number of values.
    #[must_use]
    pub fn total(&self) -> u64 {
        self.counts.iter().sum()
    }

    /// The middle of the bucket that holds the `quantile` (0 to 1), by nearest rank: the first bucket with at
    /// least `quantile` of the values at or below it. `None` without values.
    #[must_use]
    pub fn quantile(&self, quantile: f64) -> Option<u64> {
        let total = self.total();
        #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)] // 0 to total
        let rank = ((quantile.clamp(0.0, 1.0) * total as f64).ceil() as u64).max(1);
        let mut below = 0;
        self.counts.iter().enumerate().find_map(|(bucket, count)| {
            below += count;
            (below >= rank).then(|| middle(bucket))
        })
    }

    /// Buckets that are not empty: lower bound (inclusive), upper bound (exclusive), count.
    pub fn buckets(&self) -> impl Iterator<Item = (u64, u64, u64)> + '_ {
        let filled = self.counts.iter().enumerate().filter(|(_, count)| **count > 0);
        filled.map(|(bucket, count)| (lower(bucket), lower(bucket + 1), *count))
    }
}

/// The bucket of a value.
#[must_use]
pub fn bucket_of(value: u64) -> usize {
    let value = value.min(VALUE_MAX);
    let octave = (u64::BITS - value.leading_zeros()).saturating_sub(SUB_BITS + 1);
    let within = value >> octave;
    // `within` has SUB_BITS + 1 bits; its top bit adds one octave, so that octaves follow without a gap.
    usize::try_from((u64::from(octave) << SUB_BITS) + within).unwrap_or(BUCKETS - 1)
}

/// Lower bound of a bucket.
fn lower(bucket: usize) -> u64 {
    let sub = 1usize << SUB_BITS;
    if bucket < 2 * sub {
        return bucket as u64;
    }
    let octave = (bucket >> SUB_BITS) - 1;
    ((bucket - (octave << SUB_BITS)) as u64) << octave
}

fn middle(bucket: usize) -> u64 {
    lower(bucket).midpoint(lower(bucket + 1).saturating_sub(1))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn buckets_are_gapless() {
        for bucket in 0..BUCKETS {
            assert_eq!(bucket_of(lower(bucket)), bucket, "first of {bucket}");
            assert_eq!(bucket_of(lower(bucket + 1) - 1), bucket, "last of {bucket}");
        }
    }

    #[test]
    fn no_values_have_no_quantile() {
        assert_eq!(Histogram::default().quantile(0.5), None);
    }

    #[test]
    fn larger_values_are_counted_in_the_last_bucket() {
        assert_eq!(bucket_of(u64::MAX), BUCKETS - 1);
    }

    proptest! {
        #[test]
        fn quantiles_are_within_half_a_bucket(
            mut values in prop::collection::vec(0u64..1 << VALUE_BITS, 1..300), at in 0.0f64..=1.0,
        ) {
            let mut histogram = Histogram::default();
            for value in &values {
                histogram.record(*value);
            }
            values.sort_unstable();
            let below = |value: &&u64| values.partition_point(|other| other <= value) as f64;
            let enough = values.iter().find(|value| below(value) >= at * values.len() as f64);
            let truth = *enough.expect("the last one is") as f64;
            let found = histogram.quantile(at).expect("there are values") as f64;
            prop_assert!((found - truth).abs() <= truth / 256.0 + 0.5, "{found} for {truth}");
        }

        #[test]
        fn counts_survive_the_way_through_buckets(values in prop::collection::vec(any::<u64>(), 0..100)) {
            let mut histogram = Histogram::default();
            for value in &values {
                histogram.record(*value);
            }
            prop_assert_eq!(histogram.total(), values.len() as u64);
            prop_assert_eq!(histogram.buckets().map(|b| b.2).sum::<u64>(), values.len() as u64);
        }
    }
}
