//! Whether chance is distributed as asked. Seeds are fixed, so these cannot fail now and then.
#![allow(clippy::unwrap_used, clippy::indexing_slicing)] // clippy.toml frees only what carries #[test]

use std::time::Duration;

use hawser_impair::{
    Channel, Distribution, GilbertElliott, Instant, Jitter, Loss, Probability, Profile, Reordering,
};

const PACKETS: u32 = 200_000;
/// Between packets, so far apart that no jitter makes one wait for another.
const GAP_NS: u64 = 1_000_000_000_000;
const DELAY_NS: f64 = 100e6;
const DEVIATION_NS: f64 = 5e6;

fn ratio(value: f64) -> Probability {
    Probability::new(value).unwrap()
}

/// Extra delay of each packet, in standard deviations.
fn deviations(distribution: Distribution, correlation: f64) -> Vec<f64> {
    let jitter = Jitter {
        deviation: Duration::from_millis(5),
        distribution,
        correlation: ratio(correlation),
        reorders: false,
    };
    let delay = Duration::from_millis(100);
    let profile = Profile { delay, jitter: Some(jitter), ..Profile::default() };
    let mut channel = Channel::new(Instant::from_nanos(0), profile, 11);
    (0..u64::from(PACKETS))
        .map(|serial| {
            let sent = serial * GAP_NS;
            channel.enqueue(Instant::from_nanos(sent), 100, ()).unwrap();
            let due = channel.pop_due(Instant::from_nanos(sent + GAP_NS)).unwrap().due;
            ((due.as_nanos() - sent) as f64 - DELAY_NS) / DEVIATION_NS
        })
        .collect()
}

fn mean(values: &[f64]) -> f64 {
    values.iter().sum::<f64>() / values.len() as f64
}

fn correlation(values: &[f64]) -> f64 {
    let middle = mean(values);
    let variance: f64 = values.iter().map(|value| (value - middle).powi(2)).sum();
    let products = values.windows(2).map(|pair| (pair[0] - middle) * (pair[1] - middle));
    products.sum::<f64>() / variance
}

fn deviation(values: &[f64]) -> f64 {
    let middle = mean(values);
    mean(&values.iter().map(|value| (value - middle).powi(2)).collect::<Vec<_>>()).sqrt()
}

fn share(values: &[f64], predicate: impl Fn(f64) -> bool) -> f64 {
    values.iter().filter(|value| predicate(**value)).count() as f64 / values.len() as f64
}

/// Fates of successive packets: true is lost.
fn losses(loss: Loss, seed: u64) -> Vec<bool> {
    let profile = Profile { loss, ..Profile::default() };
    let mut channel = Channel::new(Instant::from_nanos(0), profile, seed);
    (0..PACKETS).map(|_| channel.enqueue(Instant::from_nanos(0), 100, ()).is_err()).collect()
}

fn lost_share(fates: &[bool]) -> f64 {
    fates.iter().filter(|lost| **lost).count() as f64 / fates.len() as f64
}

#[test]
fn every_distribution_has_the_mean_and_deviation_asked_for() {
    for distribution in [Distribution::Normal, Distribution::Uniform, Distribution::Pareto] {
        for rho in [0.0, 0.5] {
            let values = deviations(distribution, rho);
            assert!(mean(&values).abs() < 0.02, "{distribution:?} mean {}", mean(&values));
            // A Pareto of shape 3 has no fourth moment, so its sample deviation says little; its
            // quantiles, tested below, say that it has the right scale.
            let sd = deviation(&values);
            let checked = distribution != Distribution::Pareto;
            assert!(!checked || (sd - 1.0).abs() < 0.01, "{distribution:?} sd {sd}");
        }
    }
}

#[test]
fn distributions_have_their_shapes() {
    let normal = deviations(Distribution::Normal, 0.0);
    assert!((share(&normal, |value| value.abs() < 1.0) - 0.6827).abs() < 0.005);
    assert!((share(&normal, |value| value.abs() < 2.0) - 0.9545).abs() < 0.003);
    let uniform = deviations(Distribution::Uniform, 0.0);
    assert!(uniform.iter().all(|value| value.abs() <= 1.7321));
    assert!((share(&uniform, |value| value < -0.866) - 0.25).abs() < 0.005);
    let pareto = deviations(Distribution::Pareto, 0.0);
    // P(X > x) = (m / x)^3 with m = 2 / sqrt(3), X shifted by 1.5 m.
    let scale = 2.0 / 3f64.sqrt();
    assert!(pareto.iter().all(|value| *value >= -0.5 * scale - 1e-6));
    assert!(
        (share(&pareto, |value| value > 2.0) - (scale / (2.0 + 1.5 * scale)).powi(3)).abs() < 0.003
    );
}

#[test]
fn correlation_is_as_asked_and_leaves_the_shape() {
    for rho in [0.0, 0.25, 0.9] {
        let found = correlation(&deviations(Distribution::Normal, rho));
        assert!((found - rho).abs() < 0.01, "asked {rho}, found {found}");
    }
    let uniform = deviations(Distribution::Uniform, 0.9);
    assert!((share(&uniform, |value| value < -0.866) - 0.25).abs() < 0.02);
    // Rank correlation of a Gaussian copula: 6/pi asin(rho/2).
    let expected = 6.0 / std::f64::consts::PI * (0.45f64).asin();
    assert!((correlation(&uniform) - expected).abs() < 0.01);
}

#[test]
fn bernoulli_loses_its_share_independently() {
    let fates = losses(Loss::Bernoulli(ratio(0.03)), 5);
    // Standard error 0.00038.
    assert!((lost_share(&fates) - 0.03).abs() < 0.0015);
    let pairs = fates.windows(2).filter(|pair| pair[0] && pair[1]).count() as f64;
    assert!((pairs / f64::from(PACKETS) - 0.0009).abs() < 0.0003);
}

#[test]
fn gilbert_elliott_loses_in_bursts_of_the_mean_length() {
    let chain = GilbertElliott {
        to_bad: ratio(0.01),
        to_good: ratio(0.25),
        good: Probability::ZERO,
        bad: Probability::ONE,
    };
    let fates = losses(Loss::GilbertElliott(chain), 5);
    assert!((chain.mean() - 0.01 / 0.26).abs() < 1e-12);
    assert!((lost_share(&fates) - chain.mean()).abs() < 0.003);
    let bursts = fates.windows(2).filter(|pair| !pair[0] && pair[1]).count() as f64;
    let lost = lost_share(&fates) * f64::from(PACKETS);
    assert!((lost / bursts - 4.0).abs() < 0.2, "mean burst {}", lost / bursts);
}

#[test]
fn gilbert_elliott_loses_in_both_states() {
    let chain = GilbertElliott {
        to_bad: ratio(0.05),
        to_good: ratio(0.05),
        good: ratio(0.01),
        bad: ratio(0.2),
    };
    let fates = losses(Loss::GilbertElliott(chain), 6);
    assert!((lost_share(&fates) - 0.105).abs() < 0.006);
}

#[test]
fn duplication_and_reordering_hit_their_share() {
    let late = Reordering { share: ratio(0.02), by: Duration::from_millis(1) };
    let profile =
        Profile { duplication: ratio(0.05), reordering: Some(late), ..Profile::default() };
    let mut channel = Channel::new(Instant::from_nanos(0), profile, 3);
    for _ in 0..PACKETS {
        channel.enqueue(Instant::from_nanos(0), 100, ()).unwrap();
    }
    let packets = f64::from(PACKETS);
    assert!((channel.counters().duplicated.packets as f64 / packets - 0.05).abs() < 0.003);
    assert!((channel.counters().reordered.packets as f64 / packets - 0.02).abs() < 0.002);
}

#[test]
fn one_impairment_does_not_change_anothers_chance() {
    let alone = losses(Loss::Bernoulli(ratio(0.1)), 9);
    let jitter = Jitter {
        deviation: Duration::from_millis(1),
        distribution: Distribution::Pareto,
        correlation: ratio(0.3),
        reorders: true,
    };
    let profile = Profile {
        loss: Loss::Bernoulli(ratio(0.1)),
        jitter: Some(jitter),
        duplication: ratio(0.2),
        ..Profile::default()
    };
    let mut channel = Channel::new(Instant::from_nanos(0), profile, 9);
    let together: Vec<_> =
        (0..PACKETS).map(|_| channel.enqueue(Instant::from_nanos(0), 1, ()).is_err()).collect();
    assert_eq!(alone, together);
    assert_ne!(alone, losses(Loss::Bernoulli(ratio(0.1)), 10));
}
