//! Scaling of training rows, and the statistics that are computed before the first step.

use super::archetypes::SAMPLE;
use super::job::TrainJob;
use super::order::RowOrder;
use super::settings::TrainingSettings;
use super::trainer::Trainer;
use crate::context::Context;
use crate::error::Result;
use crate::sae::normalise::Normalisation;
use crate::store::ActivationStore;
use etalon_kernel::kmeans::{KmeansParams, kmeans};
use etalon_kernel::random::{permutation, stream};

/// Number of batches that determine the unit of the activations, as in dictionary_learning.
const UNIT_BATCHES: u64 = 101;

/// Iterations of k-means for the candidates of archetypal directions.
const KMEANS_ITERATIONS: usize = 10;

/// Writes rows as the trainer reads them: divided by the unit, or normalised.
pub(super) fn prepare(rows: &[f32], settings: &TrainingSettings, unit: f32, into: &mut Vec<f32>) {
    into.clear();
    into.extend(rows.iter().map(|value| value / unit));
    if settings.input != Normalisation::None {
        for (row, into) in rows.chunks_exact(settings.width).zip(into.chunks_exact_mut(settings.width)) {
            settings.input.of(row).apply(row, into);
        }
    }
}

/// The unit of the activations: the root mean squared norm of rows.
pub(super) fn unit(rows: &mut RowOrder<'_>, batch: usize, store: &ActivationStore) -> Result<f32> {
    let steps = UNIT_BATCHES.min((store.rows() as u64).div_ceil(batch as u64));
    let (mut sum, mut count, mut values) = (0.0f64, 0usize, Vec::new());
    for step in 0..steps {
        rows.batch(step, batch, &mut values)?;
        sum += values.iter().map(|&value| f64::from(value).powi(2)).sum::<f64>();
        count += values.len() / store.width();
    }
    let unit = (sum / count.max(1) as f64).sqrt() as f32;
    Ok(if unit > 0.0 && unit.is_finite() { unit } else { 1.0 })
}

/// Computes the candidates of archetypal directions from a sample of the rows. Jobs with the same settings share them.
pub(super) fn candidates(
    store: &ActivationStore,
    jobs: &[TrainJob],
    trainers: &mut [Trainer],
    units: &[f32],
    context: &Context,
) -> Result<()> {
    let (mut keys, mut centres) = (Vec::new(), Vec::<Vec<f32>>::new());
    for ((job, trainer), &unit) in jobs.iter().zip(trainers).zip(units) {
        let Some(count) = trainer.missing_candidates() else { continue };
        let key = (count, job.settings.seed, unit, job.settings.input);
        let index = match keys.iter().position(|other| *other == key) {
            Some(index) => index,
            None => {
                let sample_rows = SAMPLE.0.saturating_mul(count).max(SAMPLE.1);
                let mut random = stream(job.settings.seed, "candidate rows", 0);
                let mut rows = permutation(store.rows(), &mut random);
                rows.truncate(sample_rows);
                rows.sort_unstable();
                let mut sample = Vec::with_capacity(rows.len() * store.width());
                let mut prepared = Vec::new();
                for row in rows {
                    prepare(&store.tile(row..row + 1)?.values, &job.settings, unit, &mut prepared);
                    sample.extend_from_slice(&prepared);
                }
                keys.push(key);
                let search = KmeansParams { centres: count, iterations: KMEANS_ITERATIONS, seed: job.settings.seed };
                centres.push(kmeans(&sample, store.width(), &search, context)?);
                centres.len() - 1
            }
        };
        trainer.give_candidates(&centres[index])?;
    }
    Ok(())
}
