//! Variation of the one-way delay.

use std::f64::consts::{FRAC_1_SQRT_2, SQRT_2};
use std::time::Duration;

use crate::random::{Correlated, Stream};
use crate::units::Probability;

/// Shape of the variation. Each has mean 0 and standard deviation 1 before scaling.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Distribution {
    /// Normal.
    #[default]
    Normal,
    /// Uniform: at most sqrt(3) standard deviations to either side.
    Uniform,
    /// Pareto of shape 3: never much earlier, now and then much later.
    Pareto,
}

/// How the delay varies from packet to packet.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Jitter {
    /// Standard deviation of the delay. A delay that would be negative is zero.
    pub deviation: Duration,
    /// Shape.
    pub distribution: Distribution,
    /// Correlation between a packet's variation and the one before (of the normal value under it).
    pub correlation: Probability,
    /// Whether a packet may overtake the one before it. If not, it waits for that one.
    pub reorders: bool,
}

/// The process behind the jitter of one channel.
#[derive(Clone, Debug, Default)]
pub(crate) struct JitterState {
    process: Correlated,
}

impl JitterState {
    /// The next deviation from the constant delay, ns.
    ///
    /// A correlated normal value goes through its distribution function to a uniform one and from
    /// there to the shape asked for (Gaussian copula), so correlation leaves the shape and the
    /// standard deviation as asked.
    pub(crate) fn next(&mut self, jitter: &Jitter, stream: &mut Stream) -> f64 {
        let normal = self.process.next(stream, jitter.correlation);
        let unit = match jitter.distribution {
            Distribution::Normal => normal,
            Distribution::Uniform => (2.0 * below(normal) - 1.0) * 3f64.sqrt(),
            Distribution::Pareto => pareto(normal),
        };
        unit * jitter.deviation.as_nanos() as f64
    }
}

/// Share of the standard normal distribution below `value`.
fn below(value: f64) -> f64 {
    0.5 * libm::erfc(-value * FRAC_1_SQRT_2)
}

/// Pareto of shape 3, shifted to mean 0 and scaled to standard deviation 1.
///
/// With the scale `m` its mean is `3/2 m` and its variance `3/4 m^2`.
fn pareto(normal: f64) -> f64 {
    let scale = 2.0 / 3f64.sqrt();
    // The share above, not one minus the share below: the tail keeps its digits.
    let above = 0.5 * libm::erfc(normal / SQRT_2);
    scale * (above.max(f64::MIN_POSITIVE).cbrt().recip() - 1.5)
}
