//! Seeded random streams, one for each impairment.

use rand::{RngExt, SeedableRng};
use rand_distr::{Distribution as _, StandardNormal};
use rand_xoshiro::Xoshiro256PlusPlus;

use crate::units::Probability;

/// A random stream that depends on the seed alone, not on machine or version.
#[derive(Clone, Debug)]
pub(crate) struct Stream(Xoshiro256PlusPlus);

impl Stream {
    /// `N` streams of one seed that do not overlap: each starts 2^128 draws after the previous one.
    pub(crate) fn family<const N: usize>(seed: u64) -> [Self; N] {
        let mut rng = Xoshiro256PlusPlus::seed_from_u64(seed);
        std::array::from_fn(|_| {
            let stream = Self(rng.clone());
            rng.jump();
            stream
        })
    }

    /// A Bernoulli trial: never true for probability 0, always for 1.
    pub(crate) fn bernoulli(&mut self, probability: Probability) -> bool {
        self.0.random::<f64>() < probability.get()
    }

    /// A standard normal value.
    pub(crate) fn normal(&mut self) -> f64 {
        StandardNormal.sample(&mut self.0)
    }
}

/// Correlated standard normal values: an autoregressive process of order 1, AR(1).
#[derive(Clone, Debug, Default)]
pub(crate) struct Correlated {
    last: Option<f64>,
}

impl Correlated {
    /// The next value: `x[n] = rho x[n-1] + sqrt(1 - rho^2) e`, which keeps the variance at 1. `correlation`
    /// is `rho`.
    pub(crate) fn next(&mut self, stream: &mut Stream, correlation: Probability) -> f64 {
        let innovation = stream.normal();
        let rho = correlation.get();
        let value = self
            .last
            .map_or(innovation, |last| rho * last + (1.0 - rho * rho).max(0.0).sqrt() * innovation);
        self.last = Some(value);
        value
    }
}
