//! Probabilities and rates, valid by construction.

use std::num::NonZeroU64;

/// A value that is out of range.
#[derive(Clone, Copy, Debug, PartialEq, thiserror::Error)]
pub enum ValueError {
    /// Not a number from 0 to 1.
    #[error("found {0}, expected a probability from 0 to 1")]
    Probability(f64),
    /// Not a positive rate.
    #[error("found {0} bit/s, expected a whole number of at least 1 and at most 1e12")]
    Rate(u64),
}

/// A number from 0 to 1.
#[derive(Clone, Copy, Debug, Default, PartialEq, PartialOrd)]
pub struct Probability(f64);

impl Probability {
    /// 0: never.
    pub const ZERO: Self = Self(0.0);
    /// 1: always.
    pub const ONE: Self = Self(1.0);

    /// A probability from 0 to 1 inclusive.
    ///
    /// # Errors
    /// [`ValueError::Probability`] for anything else, NaN included.
    pub fn new(value: f64) -> Result<Self, ValueError> {
        if (0.0..=1.0).contains(&value) {
            Ok(Self(value))
        } else {
            Err(ValueError::Probability(value))
        }
    }

    /// The number.
    #[must_use]
    pub const fn get(self) -> f64 {
        self.0
    }
}

/// A rate from 1 to 10^12 bit/s.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Rate(NonZeroU64);

impl Rate {
    /// A rate of 1 to 10^12 bit/s. In this range no transmission time overflows.
    ///
    /// # Errors
    /// [`ValueError::Rate`] for anything else.
    pub fn from_bits_per_second(rate: u64) -> Result<Self, ValueError> {
        match NonZeroU64::new(rate) {
            Some(value) if rate <= 1_000_000_000_000 => Ok(Self(value)),
            _ => Err(ValueError::Rate(rate)),
        }
    }

    /// The rate, bit/s.
    #[must_use]
    pub const fn bits_per_second(self) -> u64 {
        self.0.get()
    }

    /// The rate as a divisor, which is never zero.
    pub(crate) const fn divisor(self) -> NonZeroU64 {
        self.0
    }
}
