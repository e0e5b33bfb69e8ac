//! Minimum, mean, maximum and standard deviation of a stream of numbers, in constant memory.

/// A distribution of numbers, as far as the features need it.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Distribution {
    count: u64,
    sum: u64,
    squares: u128,
    min: u64,
    max: u64,
}

impl Distribution {
    pub(crate) fn add(&mut self, value: u64) {
        self.min = if self.count == 0 { value } else { self.min.min(value) };
        self.max = self.max.max(value);
        self.count += 1;
        self.sum = self.sum.saturating_add(value);
        self.squares = self.squares.saturating_add(u128::from(value) * u128::from(value));
    }

    pub(crate) fn count(&self) -> u64 {
        self.count
    }

    /// Minimum, mean, maximum and sample standard deviation; all 0 without a number.
    pub(crate) fn summary(&self) -> [f64; 4] {
        if self.count == 0 {
            return [0.0; 4];
        }
        let mean = self.sum as f64 / self.count as f64;
        [self.min as f64, mean, self.max as f64, self.deviation()]
    }

    /// Sample standard deviation, from the exact sums: no cancellation where the numbers are large.
    fn deviation(&self) -> f64 {
        if self.count < 2 {
            return 0.0;
        }
        let count = u128::from(self.count);
        let square = u128::from(self.sum) * u128::from(self.sum);
        let spread = self.squares.saturating_mul(count).saturating_sub(square);
        (spread as f64 / (self.count as f64 * (self.count - 1) as f64)).sqrt()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The summary of `values`, in thousandths.
    fn of(values: &[u64]) -> [i64; 4] {
        let mut distribution = Distribution::default();
        for value in values {
            distribution.add(*value);
        }
        #[allow(clippy::cast_possible_truncation)]
        distribution.summary().map(|value| (value * 1000.0).round() as i64)
    }

    #[test]
    fn a_summary_is_that_of_the_textbook() {
        assert_eq!(of(&[2, 4, 4, 4, 5, 5, 7, 9]), [2000, 5000, 9000, 2138]);
    }

    #[test]
    fn one_number_has_no_deviation_and_none_is_all_zero() {
        assert_eq!(of(&[7]), [7000, 7000, 7000, 0]);
        assert_eq!(of(&[]), [0; 4]);
    }

    #[test]
    fn zero_is_a_minimum_like_any_other() {
        assert_eq!(of(&[0, 5]), [0, 2500, 5000, 3536]);
    }

    #[test]
    fn large_equal_numbers_have_no_deviation() {
        assert_eq!(of(&[u64::from(u32::MAX); 3])[3], 0);
    }
}
