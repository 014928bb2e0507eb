//! Correlation of blindspots between models, with and without the noise of the real rows that the models share.

use super::concept::delta;
use super::halves::Halves;
use super::measured::Measured;
use crate::codes::Codes;
use crate::error::Result;
use crate::run::{CODES, GENERATED, Job};
use etalon_kernel::statistics::pearson;

/// The value of a concept that is compared between models.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Compared {
    Gap,
    /// δ at a temperature.
    Delta(f64),
    Relative,
}

impl Compared {
    /// From the means over real and generated rows.
    pub fn of(self, real: f64, generated: f64) -> Option<f64> {
        match self {
            Compared::Gap => Some(generated - real),
            Compared::Delta(temperature) => Some(delta(generated - real, temperature)),
            Compared::Relative => {
                let both = real.abs() + generated.abs();
                (both > 0.0).then(|| (generated - real) / both)
            }
        }
    }
}

/// Every pair of models, optionally each with itself.
pub(super) fn pairs(models: usize, with_itself: bool) -> Vec<(usize, usize)> {
    let first = |a: usize| if with_itself { a } else { a + 1 };
    (0..models).flat_map(|a| (first(a)..models).map(move |b| (a, b))).collect()
}

/// The values of two models for the concepts that both have, latent by latent.
pub(super) fn shared(measured: &Measured, compared: Compared, (a, b): (usize, usize)) -> Vec<(f64, f64)> {
    let value = |model: usize, latent: usize| {
        let concept = measured.models[model][latent].as_ref()?;
        compared.of(concept.real, concept.generated)
    };
    (0..measured.latents).filter_map(|latent| Some((value(a, latent)?, value(b, latent)?))).collect()
}

/// Pearson's correlation of pairs of values.
pub(super) fn correlation(values: impl Iterator<Item = (f64, f64)>) -> Option<f64> {
    let (x, y): (Vec<f64>, Vec<f64>) = values.unzip();
    pearson(&x, &y)
}

/// The split-half correlation of every pair of models, each with itself included: one model on one half of the prompts, the
/// other on the other half, averaged over both assignments. The halves share no row, so they share no noise.
pub(super) fn split_half(
    measured: &Measured,
    compared: Compared,
    split: usize,
    job: &Job<'_>,
) -> Result<Vec<Option<f64>>> {
    let (real, models) = (job.get(&CODES)?, job.all(&GENERATED));
    let bytes = (16 * (1 + 3 * models.len()) * measured.latents) as u64;
    let _memory = job.budget().reserve(bytes, "sums over halves of the rows")?;
    // Split 0 is the null of `blindspots`.
    let halves = Halves { rows: real.rows(), seed: job.seed, split: split + 1 };
    let rows = [halves.first_rows() as f64, (real.rows() - halves.first_rows()) as f64];
    let real = half_sums(real, halves, job)?;
    let mut values: Vec<[Vec<Option<f64>>; 2]> = Vec::new();
    for ((_, model), concepts) in models.iter().zip(&measured.models) {
        let made = half_sums(&model.codes, halves, job)?;
        values.push([0, 1].map(|half: usize| {
            let value = |latent: usize| {
                // Live in all rows, so that both halves have the same concepts.
                concepts[latent].as_ref().filter(|_| rows[half] > 0.0)?;
                compared.of(real[half][latent] / rows[half], made[half][latent] / rows[half])
            };
            (0..measured.latents).map(value).collect()
        }));
    }
    let across = |a: &[Option<f64>], b: &[Option<f64>]| correlation(a.iter().zip(b).filter_map(|(a, b)| a.zip(*b)));
    let both_ways = |(a, b): (usize, usize)| {
        let (one, other) = (across(&values[a][0], &values[b][1])?, across(&values[a][1], &values[b][0])?);
        Some((one + other) / 2.0)
    };
    Ok(pairs(models.len(), true).into_iter().map(both_ways).collect())
}

/// The sum of every latent over the first half of the rows, and over the second.
fn half_sums(codes: &Codes, halves: Halves, job: &Job<'_>) -> Result<[Vec<f64>; 2]> {
    let mut sums = [vec![0.0; codes.latents()], vec![0.0; codes.latents()]];
    for first in (0..codes.rows()).step_by(4096) {
        job.check()?;
        let rows = first..(first + 4096).min(codes.rows());
        let first_half = halves.first(rows.clone());
        for (row, latents, values) in codes.view(rows)?.iter() {
            let into = &mut sums[usize::from(!first_half.contains(row - first))];
            latents.iter().zip(values).for_each(|(&latent, &value)| into[latent as usize] += f64::from(value));
        }
    }
    Ok(sums)
}
