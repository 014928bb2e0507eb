//! Archetypal directions, convex combinations of data points: `D_i = (Σ_j w_ij C_j + Λ_i) · e^m`.
//!
//! The weights `w_i` cover only the candidates nearest to the initial candidate of the latent, so there is no dense
//! matrix of latents × candidates. Adam updates `w`, `Λ` and `m`; `Λ` has the shape of the decoder and uses its
//! moments. After every step `w` and `Λ` are projected to their constraints.

mod tensors;
#[cfg(test)]
mod tests;

use rayon::prelude::*;

use super::objective::{Mixtures, Radius};
use super::settings::TrainingSettings;
use super::weights::{Size, copy_rows};
use crate::error::{InputError, Result};
use etalon_kernel::aligned::Aligned;
use etalon_kernel::kmeans::nearest;
use etalon_kernel::packed::PANEL;
use etalon_kernel::random::{stream, unit};
use etalon_kernel::vector::{Adam, LANES, RowView, add_scaled, dot, gather, scale};

/// Sample size for the k-means of candidates: rows per candidate, and minimum.
pub(super) const SAMPLE: (usize, usize) = (4, 16_384);

/// The number of candidates.
pub(super) fn candidates(mixtures: &Mixtures, settings: &TrainingSettings) -> usize {
    if mixtures.candidates == 0 { settings.latents } else { mixtures.candidates }
}

/// Bytes besides the matrices of latents × width: candidates, their sample, and the mixtures.
pub(super) fn memory(mixtures: &Mixtures, settings: &TrainingSettings) -> u64 {
    let count = candidates(mixtures, settings) as u64;
    let row = (settings.width as u64 + 16).saturating_mul(4);
    let sample = count.saturating_mul(SAMPLE.0 as u64).max(SAMPLE.1 as u64);
    let mixtures = (settings.latents as u64).saturating_mul(mixtures.neighbours as u64 + 16).saturating_mul(4 * 5);
    count.saturating_mul(2).saturating_add(sample).saturating_mul(row).saturating_add(mixtures)
}

/// The parameters of all directions, with their Adam moments.
#[derive(Clone, Debug)]
pub(super) struct Archetypes {
    size: Size,
    /// One row per candidate.
    candidates: Vec<f32>,
    /// The candidates that each latent combines, its initial candidate first.
    ids: Vec<u32>,
    /// Candidates per latent.
    neighbours: usize,
    /// `w`: `pitch` numbers per latent.
    mixture: Parameter,
    pitch: usize,
    /// `Λ`, one row per latent.
    pub relaxation: Aligned,
    radius: f32,
    /// `m`, padded to a SIMD vector.
    multiplier: Parameter,
    /// Whether `m` is trained.
    train_multiplier: bool,
}

/// Trained numbers with their gradient and Adam moments.
#[derive(Clone, Debug)]
struct Parameter {
    values: Vec<f32>,
    gradient: Vec<f32>,
    moments: [Vec<f32>; 2],
}

impl Parameter {
    fn zeros(count: usize) -> Parameter {
        let zeros = || vec![0.0; count];
        Parameter { values: zeros(), gradient: zeros(), moments: [zeros(), zeros()] }
    }

    fn step(&mut self, adam: Adam, decay: f64) {
        if decay != 1.0 {
            scale(&mut self.values, decay as f32);
        }
        let [first, second] = &mut self.moments;
        adam.step(&mut self.values, first, second, &self.gradient);
    }
}

impl Archetypes {
    /// Initial directions: every latent at its candidate.
    pub fn new(candidates: &[f32], mixtures: &Mixtures, seed: u64, size: Size) -> Result<Archetypes> {
        let mut archetypes = Archetypes::empty(candidates, mixtures, size)?;
        let count = candidates.len() / size.width;
        let neighbours = archetypes.neighbours;
        let near = nearest(candidates, size.width, candidates, neighbours);
        for latent in 0..size.latents {
            let initial = latent % count;
            let ids = &mut archetypes.ids[latent * neighbours..][..neighbours];
            ids.copy_from_slice(&near[initial * neighbours..][..neighbours]);
            // The initial candidate comes first, even if others are at the same point.
            let position = ids.iter().position(|&id| id as usize == initial).unwrap_or(neighbours - 1);
            ids[position] = initial as u32;
            ids[..=position].rotate_right(1);
            let weights = &mut archetypes.mixture.values[latent * archetypes.pitch..][..neighbours];
            if latent < count {
                weights[0] = 1.0;
                continue;
            }
            let mut random = stream(seed, "initial mixture", latent as u64);
            weights.iter_mut().for_each(|weight| *weight = unit(&mut random) as f32);
            normalise_mixture(weights);
        }
        Ok(archetypes)
    }

    fn empty(candidates: &[f32], mixtures: &Mixtures, size: Size) -> Result<Archetypes> {
        let count = candidates.len() / size.width;
        let whole_rows = count > 0 && candidates.len() == count * size.width;
        if !whole_rows || !candidates.iter().all(|value| value.is_finite()) {
            return Err(InputError::new("the candidates of archetypal directions are invalid")
                .expected(format!("rows of {} finite numbers", size.width))
                .found(format!("{} numbers", candidates.len()))
                .into());
        }
        let mut rows = vec![0.0; count * size.stride];
        copy_rows(candidates, size.width, &mut rows, size.stride);
        let norm = |row: &[f32]| row.iter().map(|&value| f64::from(value).powi(2)).sum::<f64>().sqrt();
        let mean = candidates.chunks_exact(size.width).map(norm).sum::<f64>() / count as f64;
        let radius = match mixtures.radius {
            Radius::Relative(share) => share * mean,
            Radius::Absolute(radius) => radius,
        };
        let neighbours = mixtures.neighbours.clamp(1, count);
        let pitch = neighbours.next_multiple_of(LANES);
        Ok(Archetypes {
            size,
            candidates: rows,
            ids: vec![0; size.latents * neighbours],
            neighbours,
            mixture: Parameter::zeros(size.padded * pitch),
            pitch,
            relaxation: Aligned::zeros(size.padded * size.stride),
            radius: radius as f32,
            multiplier: Parameter::zeros(LANES),
            train_multiplier: mixtures.multiplier,
        })
    }

    fn factor(&self) -> f32 {
        self.multiplier.values[0].exp()
    }

    /// Writes the directions.
    pub fn build(&self, decoder: &mut [f32]) {
        let (size, factor) = (self.size, self.factor());
        let rows = decoder.par_chunks_exact_mut(size.stride).take(size.latents);
        rows.enumerate().for_each(|(latent, row)| {
            row.fill(0.0);
            let weights = &self.mixture.values[latent * self.pitch..][..self.neighbours];
            let ids = &self.ids[latent * self.neighbours..][..self.neighbours];
            gather(RowView::new(&self.candidates, size.stride), ids, weights, row);
            add_scaled(1.0, &self.relaxation[latent * size.stride..][..size.stride], row);
            scale(row, factor);
        });
    }

    /// Converts the gradient of the directions to the gradients of `w`, `Λ` and `m`; `gradient` becomes that of `Λ`.
    pub fn split_gradient(&mut self, decoder: &[f32], gradient: &mut [f32]) {
        let (size, factor, neighbours) = (self.size, self.factor(), self.neighbours);
        let (candidates, ids) = (RowView::new(&self.candidates, size.stride), &self.ids);
        let panels = size.latents.div_ceil(PANEL);
        let mut along = vec![0.0f64; panels];
        (
            gradient.par_chunks_mut(PANEL * size.stride),
            decoder.par_chunks(PANEL * size.stride),
            self.mixture.gradient.par_chunks_mut(PANEL * self.pitch),
            &mut along,
        )
            .into_par_iter()
            .enumerate()
            .for_each(|(panel, (gradient, decoder, mixture, along))| {
                mixture.fill(0.0);
                let rows = gradient.chunks_exact_mut(size.stride).zip(decoder.chunks_exact(size.stride));
                let latents = panel * PANEL..size.latents;
                for ((latent, (row, direction)), mixture) in latents.zip(rows).zip(mixture.chunks_exact_mut(self.pitch))
                {
                    // Most latents of a large dictionary do not fire in a batch.
                    if row.iter().all(|&value| value == 0.0) {
                        continue;
                    }
                    *along += f64::from(dot(row, direction));
                    scale(row, factor);
                    for (into, &id) in mixture.iter_mut().zip(&ids[latent * neighbours..][..neighbours]) {
                        *into = dot(candidates.row(id as usize, size.stride), row);
                    }
                }
            });
        self.multiplier.gradient[0] = if self.train_multiplier { along.iter().sum::<f64>() as f32 } else { 0.0 };
    }

    /// The squared norm of the gradients of `w` and `m`.
    pub fn squared_gradient(&self) -> f64 {
        let square = |part: &[f32]| f64::from(dot(part, part));
        let parts = self.mixture.gradient.par_chunks(PANEL * self.pitch).map(square).collect::<Vec<f64>>();
        parts.iter().sum::<f64>() + square(&self.multiplier.gradient)
    }

    /// Updates `w` and `m` by Adam, after `Λ` was updated; then projects `w` and `Λ` to their constraints.
    pub fn step(&mut self, adam: Adam, decay: f64) {
        self.mixture.step(adam, decay);
        if self.train_multiplier {
            self.multiplier.step(adam, decay);
        }
        let (size, radius, neighbours) = (self.size, self.radius, self.neighbours);
        let [first, second] = &mut self.mixture.moments;
        (
            self.mixture.values.par_chunks_exact_mut(self.pitch),
            first.par_chunks_exact_mut(self.pitch),
            second.par_chunks_exact_mut(self.pitch),
            self.relaxation.par_chunks_exact_mut(size.stride),
        )
            .into_par_iter()
            .take(size.latents)
            .for_each(|(weights, first, second, relaxation)| {
                if !normalise_mixture(&mut weights[..neighbours]) {
                    first.fill(0.0);
                    second.fill(0.0);
                }
                let norm = dot(relaxation, relaxation).sqrt();
                if radius == 0.0 {
                    relaxation.fill(0.0);
                } else if norm > radius {
                    // Slightly less than the quotient, so that rounding cannot exceed the radius.
                    scale(relaxation, radius / norm * (1.0 - 1e-6));
                }
            });
    }
}

/// Makes weights convex: sets negative ones to 0 and divides by the sum. If all are 0, sets the first to 1 and returns
/// false.
fn normalise_mixture(weights: &mut [f32]) -> bool {
    weights.iter_mut().for_each(|weight| *weight = weight.max(0.0));
    let sum: f64 = weights.iter().map(|&weight| f64::from(weight)).sum();
    if sum > 0.0 && sum.is_finite() {
        weights.iter_mut().for_each(|weight| *weight = (f64::from(*weight) / sum) as f32);
        return true;
    }
    weights.fill(0.0);
    weights[0] = 1.0;
    false
}
