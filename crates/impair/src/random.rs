//! Seeded streams of chance, one for each impairment.

use rand::{RngExt, SeedableRng};
use rand_distr::{Distribution as _, StandardNormal};
use rand_xoshiro::Xoshiro256PlusPlus;

use crate::units::Probability;

/// A reproducible stream: equal on every machine and in every version for equal seeds.
#[derive(Clone, Debug)]
pub(crate) struct Stream(Xoshiro256PlusPlus);

impl Stream {
    /// `N` streams of one seed that never meet: each begins 2^128 draws after the one before.
    pub(crate) fn family<const N: usize>(seed: u64) -> [Self; N] {
        let mut rng = Xoshiro256PlusPlus::seed_from_u64(seed);
        std::array::from_fn(|_| {
            let stream = Self(rng.clone());
            rng.jump();
            stream
        })
    }

    /// True with this probability: never at 0, always at 1.
    pub(crate) fn happens(&mut self, probability: Probability) -> bool {
        self.0.random::<f64>() < probability.get()
    }

    /// One value of the standard normal distribution.
    pub(crate) fn normal(&mut self) -> f64 {
        StandardNormal.sample(&mut self.0)
    }
}

/// Standard normal values of which successive ones correlate: an autoregressive process of order 1.
#[derive(Clone, Debug, Default)]
pub(crate) struct Correlated {
    last: Option<f64>,
}

impl Correlated {
    /// The next value; `correlation` is the coefficient between it and the one before.
    pub(crate) fn next(&mut self, stream: &mut Stream, correlation: Probability) -> f64 {
        let fresh = stream.normal();
        let rho = correlation.get();
        let value = self.last.map_or(fresh, |last| {
            let innovation = (1.0 - rho * rho).max(0.0).sqrt();
            rho * last + innovation * fresh
        });
        self.last = Some(value);
        value
    }
}
