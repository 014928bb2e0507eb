//! Random numbers that several worlds use.

use rand_distr::{Distribution, StandardNormal};

use etalon_kernel::random::ChaCha8Rng;

/// A standard normal number.
pub(super) fn normal(random: &mut ChaCha8Rng) -> f64 {
    StandardNormal.sample(random)
}

/// Normal numbers of unit variance with the same covariance between any two.
pub(super) fn correlated(count: usize, covariance: f64, random: &mut ChaCha8Rng) -> Vec<f64> {
    let (common, own) = (covariance.sqrt() * normal(random), (1.0 - covariance).sqrt());
    (0..count).map(|_| common + own * normal(random)).collect()
}
