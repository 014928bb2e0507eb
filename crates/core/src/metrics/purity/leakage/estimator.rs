//! How information of latents is estimated.

use etalon_kernel::random::stream;
use etalon_kernel::statistics::{mean, quantile};
use rand_distr::{Distribution, StandardNormal};

use super::neighbours::{kraskov, ross};
use crate::error::Result;
use crate::metrics::purity::information::{Information, mutual_information};
use crate::results::Profile;
use crate::run::{CODES, Job};

/// How informations are estimated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Estimator {
    PlugIn,
    /// Distances within small classes are those of scikit-learn, or exact.
    Neighbours {
        expanded: bool,
    },
    Binned,
}

impl Estimator {
    /// The estimator of a job: plug-in if all values of the latents are whole numbers, as the released program decides.
    pub fn of_job(job: &Job<'_>, latents: &[usize]) -> Result<Estimator> {
        let mut is_used = vec![false; job.get(&CODES)?.latents()];
        latents.iter().for_each(|&latent| is_used[latent] = true);
        let is_whole = |(_, latents, values): (usize, &[u32], &[f32])| {
            let mut used = latents.iter().zip(values).filter(|(latent, _)| is_used[**latent as usize]);
            used.all(|(_, value)| value.rem_euclid(1.0) <= 1e-8)
        };
        let whole = job.get(&CODES)?.all()?.iter().all(is_whole);
        Ok(match job.word("estimator")? {
            _ if whole => Estimator::PlugIn,
            "binned" => Estimator::Binned,
            _ => Estimator::Neighbours { expanded: job.profile == Profile::Reference },
        })
    }

    /// Values with the noise that the released program adds, which separates equal ones; `number` is that of its random
    /// stream.
    pub fn prepared(self, job: &Job<'_>, purpose: &str, number: u64, values: &[f64]) -> Vec<f64> {
        if !matches!(self, Estimator::Neighbours { .. }) {
            return values.to_vec();
        }
        let scale = 1e-10 * mean(values).unwrap_or(0.0);
        let mut random = stream(job.seed, purpose, number);
        let mut noise = || scale * Distribution::<f64>::sample(&StandardNormal, &mut random);
        values.iter().map(|value| value + noise()).collect()
    }

    pub fn with_classes(self, values: &[f64], classes: &[u32]) -> Information {
        match self {
            Estimator::PlugIn => mutual_information(&numbered(values), classes),
            Estimator::Neighbours { expanded } => ross(values, classes, expanded),
            Estimator::Binned => corrected(&quantile_bins(values), classes),
        }
    }

    pub fn between(self, one: &[f64], other: &[f64]) -> Information {
        match self {
            Estimator::PlugIn => mutual_information(&numbered(one), &numbered(other)),
            Estimator::Neighbours { .. } => kraskov(one, other),
            Estimator::Binned => corrected(&quantile_bins(one), &quantile_bins(other)),
        }
    }

    pub fn of_labels(self, one: &[u32], other: &[u32]) -> Information {
        if self == Estimator::Binned { corrected(one, other) } else { mutual_information(one, other) }
    }
}

/// Equal values get equal numbers.
fn numbered(values: &[f64]) -> Vec<u32> {
    let mut distinct: Vec<f64> = values.to_vec();
    distinct.sort_by(f64::total_cmp);
    distinct.dedup();
    values.iter().map(|value| distinct.partition_point(|other| other < value) as u32).collect()
}

/// A bin of zeros, and eight quantile bins of the other values.
pub(super) fn quantile_bins(values: &[f64]) -> Vec<u32> {
    let mut rest: Vec<f64> = values.iter().copied().filter(|&value| value != 0.0).collect();
    rest.sort_by(f64::total_cmp);
    let edges: Vec<f64> = (1..8).filter_map(|eighth| quantile(&rest, f64::from(eighth) / 8.0)).collect();
    let bin = |&value: &f64| if value == 0.0 { 0 } else { 1 + edges.partition_point(|edge| *edge < value) as u32 };
    values.iter().map(bin).collect()
}

/// Plug-in information with the Miller-Madow correction.
fn corrected(one: &[u32], other: &[u32]) -> Information {
    let distinct = |classes: &mut Vec<(u32, u32)>| {
        classes.sort_unstable();
        classes.dedup();
        classes.len() as f64
    };
    let joint = distinct(&mut one.iter().copied().zip(other.iter().copied()).collect());
    let ones = distinct(&mut one.iter().map(|&a| (a, 0)).collect());
    let others = distinct(&mut other.iter().map(|&b| (b, 0)).collect());
    let mut found = mutual_information(one, other);
    found.value += (ones + others - joint - 1.0) / (2.0 * one.len().max(1) as f64);
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bins_and_their_correction() {
        assert_eq!(quantile_bins(&[0.0, 0.0, 1.0, 2.0]), [0, 0, 1, 8]);
        assert_eq!(numbered(&[2.0, -1.0, 2.0]), [1, 0, 1]);
        // Independent halves: plug-in 0, cells 4, classes 2 and 2: (2 + 2 − 4 − 1) / 8 = −1/8.
        assert!((corrected(&[0, 0, 1, 1], &[0, 1, 0, 1]).value + 0.125).abs() < 1e-12);
    }
}
