//! Statistics of the rows that are computed before the first step.

use std::borrow::Cow;

use super::archetypes::SAMPLE;
use super::input_scale::{InputScale, prepare};
use super::job::TrainJob;
use super::order::RowOrder;
use super::settings::TrainingSettings;
use super::trainer::Trainer;
use crate::context::Context;
use crate::error::Result;
use crate::store::ActivationStore;
use etalon_kernel::kmeans::{KmeansParams, kmeans};
use etalon_kernel::random::{permutation, stream};

/// Number of batches that determine unit and centre of the activations, as in dictionary_learning.
const SCALE_BATCHES: u64 = 101;

/// Iterations of k-means for the candidates of archetypal directions.
const KMEANS_ITERATIONS: usize = 10;

/// Moments of the first rows of a training.
#[derive(Debug, Default)]
pub(super) struct RowMoments {
    /// Sum of the squared norms.
    squares: f64,
    /// Sum of the rows.
    sums: Vec<f64>,
    rows: usize,
}

impl RowMoments {
    /// Of the rows of up to 101 batches.
    pub fn of(order: &mut RowOrder<'_>, batch: usize, store: &ActivationStore) -> Result<RowMoments> {
        let mut moments = RowMoments { sums: vec![0.0; store.width()], ..RowMoments::default() };
        let mut values = Vec::new();
        for step in 0..SCALE_BATCHES.min((store.rows() as u64).div_ceil(batch as u64)) {
            order.batch(step, batch, &mut values)?;
            moments.add(&values, store.width());
        }
        Ok(moments)
    }

    /// Of all rows of a list.
    pub fn of_rows(rows: &[f32], width: usize) -> RowMoments {
        let mut moments = RowMoments { sums: vec![0.0; width], ..RowMoments::default() };
        moments.add(rows, width);
        moments
    }

    fn add(&mut self, values: &[f32], width: usize) {
        self.squares += values.iter().map(|&value| f64::from(value).powi(2)).sum::<f64>();
        for row in values.chunks_exact(width) {
            self.sums.iter_mut().zip(row).for_each(|(sum, &value)| *sum += f64::from(value));
        }
        self.rows += values.len() / width;
    }

    /// The scale of a training: the centre is the mean, the unit the root mean squared norm of what remains.
    pub fn scale(&self, settings: &TrainingSettings) -> InputScale {
        let rows = self.rows.max(1) as f64;
        let centre: Vec<f64> =
            if settings.centre { self.sums.iter().map(|sum| sum / rows).collect() } else { Vec::new() };
        let square = self.squares / rows - centre.iter().map(|value| value * value).sum::<f64>();
        let unit = square.max(0.0).sqrt() as f32;
        let valid = settings.normalise && unit > 0.0 && unit.is_finite();
        let centre = centre.into_iter().map(|value| value as f32).collect();
        InputScale { unit: if valid { unit } else { 1.0 }, centre }
    }
}

/// Reads a row.
type ReadRow<'f, 'r> = &'f dyn Fn(usize) -> Result<Cow<'r, [f32]>>;

/// Computes the candidates of archetypal directions from a sample of rows, given by their count and a function. Jobs with the
/// same settings share them.
pub(super) fn candidates<'r>(
    (rows, read): (usize, ReadRow<'_, 'r>),
    jobs: &[TrainJob],
    trainers: &mut [Trainer],
    scales: &[InputScale],
    context: &Context,
) -> Result<()> {
    let (mut keys, mut centres) = (Vec::new(), Vec::<Vec<f32>>::new());
    for ((job, trainer), scale) in jobs.iter().zip(trainers).zip(scales) {
        let Some(count) = trainer.missing_candidates() else { continue };
        let key = (count, job.settings.seed, scale, job.settings.input);
        let index = match keys.iter().position(|other| *other == key) {
            Some(index) => index,
            None => {
                let sample_rows = SAMPLE.0.saturating_mul(count).max(SAMPLE.1);
                let mut random = stream(job.settings.seed, "candidate rows", 0);
                let mut chosen = permutation(rows, &mut random);
                chosen.truncate(sample_rows);
                chosen.sort_unstable();
                let mut sample = Vec::with_capacity(chosen.len() * job.settings.width);
                let mut prepared = Vec::new();
                for row in chosen {
                    prepare(&read(row)?, &job.settings, scale, &mut prepared);
                    sample.extend_from_slice(&prepared);
                }
                keys.push(key);
                let search = KmeansParams { centres: count, iterations: KMEANS_ITERATIONS, seed: job.settings.seed };
                centres.push(kmeans(&sample, job.settings.width, &search, context)?);
                centres.len() - 1
            }
        };
        trainer.give_candidates(&centres[index])?;
    }
    Ok(())
}
