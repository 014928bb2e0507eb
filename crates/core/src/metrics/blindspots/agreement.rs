//! How alike the blindspots of models are, once the noise of the real rows that they share is gone.

use super::concept::{Concept, delta};
use super::halves::Halves;
use super::measured::Measured;
use crate::codes::Codes;
use crate::error::Result;
use crate::run::{CODES, GENERATED, Job};
use etalon_kernel::random::{index, stream};
use etalon_kernel::statistics::{pearson, spearman};

/// What is compared between models.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum View {
    Gap,
    Delta(f64),
    Relative,
}

impl View {
    /// Of the means over real and generated rows.
    pub fn of(self, real: f64, generated: f64) -> Option<f64> {
        match self {
            View::Gap => Some(generated - real),
            View::Delta(temperature) => Some(delta(generated - real, temperature)),
            View::Relative => {
                let both = real.abs() + generated.abs();
                (both > 0.0).then(|| (generated - real) / both)
            }
        }
    }

    fn of_concept(self, concept: &Concept) -> Option<f64> {
        self.of(concept.real, concept.generated)
    }
}

/// Every pair of models, a model with itself included if wanted.
pub(super) fn pairs(models: usize, with_itself: bool) -> Vec<(usize, usize)> {
    let first = |a: usize| if with_itself { a } else { a + 1 };
    (0..models).flat_map(|a| (first(a)..models).map(move |b| (a, b))).collect()
}

/// What two models say about the concepts that both speak of, latent by latent.
pub(super) fn shared(measured: &Measured, view: View, (a, b): (usize, usize)) -> Vec<(f64, f64)> {
    let value = |model: usize, latent: usize| measured.models[model][latent].as_ref().and_then(|c| view.of_concept(c));
    (0..measured.latents).filter_map(|latent| Some((value(a, latent)?, value(b, latent)?))).collect()
}

fn sides(shared: &[(f64, f64)]) -> (Vec<f64>, Vec<f64>) {
    shared.iter().copied().unzip()
}

/// Pearson's and Spearman's correlation.
pub(super) fn raw(shared: &[(f64, f64)]) -> (Option<f64>, Option<f64>) {
    let (x, y) = sides(shared);
    (pearson(&x, &y), spearman(&x, &y))
}

/// Pearson's correlation of one resample of the concepts.
pub(super) fn resampled(shared: &[(f64, f64)], seed: u64, resample: u64) -> Option<f64> {
    let mut random = stream(seed, "blindspots/agreement", resample);
    let drawn: Vec<(f64, f64)> = (0..shared.len()).map(|_| shared[index(shared.len(), &mut random)]).collect();
    let (x, y) = sides(&drawn);
    pearson(&x, &y)
}

/// The correlation of every pair of models (each with itself too) where one looks at one half of the prompts and the
/// other at the other, averaged over both ways round. They share no row, so that they share no noise.
pub(super) fn split(measured: &Measured, view: View, split: usize, job: &Job<'_>) -> Result<Vec<Option<f64>>> {
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
        let half = |side: usize| -> Vec<Option<f64>> {
            let one = |latent: usize| {
                // Concepts of the whole, so that both halves speak of the same.
                concepts[latent].as_ref().filter(|_| rows[side] > 0.0)?;
                view.of(real[side][latent] / rows[side], made[side][latent] / rows[side])
            };
            (0..measured.latents).map(one).collect()
        };
        values.push([half(0), half(1)]);
    }
    let across = |a: &[Option<f64>], b: &[Option<f64>]| {
        let both: Vec<(f64, f64)> = a.iter().zip(b).filter_map(|(a, b)| Some(((*a)?, (*b)?))).collect();
        let (x, y) = sides(&both);
        pearson(&x, &y)
    };
    let one = |(a, b): (usize, usize)| {
        let (there, back) = (across(&values[a][0], &values[b][1])?, across(&values[a][1], &values[b][0])?);
        Some((there + back) / 2.0)
    };
    Ok(pairs(models.len(), true).into_iter().map(one).collect())
}

/// The sum of every latent over the first half of the rows, and over the rest.
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
