//! Jitter: variation of the one-way delay (RFC 3393).

use std::f64::consts::{FRAC_1_SQRT_2, SQRT_2};
use std::time::Duration;

use crate::random::{Correlated, Stream};
use crate::units::Probability;

/// Distribution of the variation, with mean 0 and standard deviation 1 before scaling.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Distribution {
    /// Normal.
    #[default]
    Normal,
    /// Uniform, within sqrt(3) standard deviations.
    Uniform,
    /// Pareto with shape 3: a sharp minimum and a long tail.
    Pareto,
}

/// Variation of the delay from packet to packet.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Jitter {
    /// Standard deviation of the delay. A delay that would be negative becomes zero.
    pub deviation: Duration,
    /// Distribution of the delay.
    pub distribution: Distribution,
    /// Correlation coefficient of the underlying normal values of successive packets.
    pub correlation: Probability,
    /// Whether a packet may overtake the previous one; otherwise it is delayed until that one is due.
    pub reorders: bool,
}

/// The random process of one channel's jitter.
#[derive(Clone, Debug, Default)]
pub(crate) struct JitterState {
    process: Correlated,
}

impl JitterState {
    /// The next packet's deviation from the constant delay, ns.
    ///
    /// The normal distribution function maps a correlated normal value to a uniform one, and the inverse
    /// distribution function maps that to the distribution (a Gaussian copula). Distribution and standard
    /// deviation therefore hold for any correlation.
    pub(crate) fn next(&mut self, jitter: &Jitter, stream: &mut Stream) -> f64 {
        let normal = self.process.next(stream, jitter.correlation);
        let unit = match jitter.distribution {
            Distribution::Normal => normal,
            Distribution::Uniform => (2.0 * normal_cdf(normal) - 1.0) * 3f64.sqrt(),
            Distribution::Pareto => pareto(normal),
        };
        unit * jitter.deviation.as_nanos() as f64
    }
}

/// Distribution function of the standard normal distribution.
fn normal_cdf(value: f64) -> f64 {
    0.5 * libm::erfc(-value * FRAC_1_SQRT_2)
}

/// Maps a standard normal value to a Pareto distribution with shape 3, shifted to mean 0 and scaled to
/// standard deviation 1.
///
/// With scale `m`, the distribution has mean `3/2 m` and variance `3/4 m^2`; its inverse survival function is
/// `m * q^(-1/3)`.
fn pareto(normal: f64) -> f64 {
    let scale = 2.0 / 3f64.sqrt();
    // The survival function directly, not 1 - CDF, keeps the precision of the tail.
    let survival = 0.5 * libm::erfc(normal / SQRT_2);
    scale * (survival.max(f64::MIN_POSITIVE).cbrt().recip() - 1.5)
}
