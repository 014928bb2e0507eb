//! Directions that are made of points of the data: `D_i = (Σ_j w_ij C_j + Λ_i) · e^m`.
//!
//! The weights `w_i` are convex and only over the candidates nearest to where the latent started: a dense matrix of
//! latents × candidates never exists. Adam works on `w`, `Λ` and `m`; `Λ` has the shape of the decoder and uses its
//! moments. After every step `w` and `Λ` are put back to where they may be.

use rayon::prelude::*;

use super::objective::{Mixtures, Radius};
use super::settings::TrainingSettings;
use super::weights::{Size, find};
use crate::error::{InputError, Result};
use crate::input::{Tensor, Tensors};
use etalon_kernel::aligned::Aligned;
use etalon_kernel::kmeans::nearest;
use etalon_kernel::packed::PANEL;
use etalon_kernel::random::{stream, unit};
use etalon_kernel::vector::{Adam, LANES, RowView, add_scaled, dot, gather, scale};

/// Rows of the sample that candidates are found in, per candidate and at least.
pub(super) const SAMPLE: (usize, usize) = (4, 16_384);

/// How many candidates a dictionary wants.
pub(super) fn candidates(mixtures: &Mixtures, settings: &TrainingSettings) -> usize {
    if mixtures.candidates == 0 { settings.latents } else { mixtures.candidates }
}

/// Bytes beside the matrices of latents × width: candidates, the sample they come from, and the mixtures.
pub(super) fn memory(mixtures: &Mixtures, settings: &TrainingSettings) -> u64 {
    let count = candidates(mixtures, settings) as u64;
    let row = (settings.width as u64 + 16).saturating_mul(4);
    let sample = count.saturating_mul(SAMPLE.0 as u64).max(SAMPLE.1 as u64);
    let mixtures = (settings.latents as u64).saturating_mul(mixtures.neighbours as u64 + 16).saturating_mul(4 * 5);
    count.saturating_mul(2).saturating_add(sample).saturating_mul(row).saturating_add(mixtures)
}

/// What all directions are made of, and what Adam remembers of it.
#[derive(Clone, Debug)]
pub(super) struct Archetypes {
    size: Size,
    /// One row per candidate.
    candidates: Vec<f32>,
    /// The candidates that a latent mixes, its own first.
    ids: Vec<u32>,
    kept: usize,
    /// `w`, its gradient, and its moments: `pitch` numbers per latent.
    mixture: Learnt,
    pitch: usize,
    /// `Λ`, one row per latent.
    pub relaxation: Aligned,
    radius: f32,
    /// `m`, the first of as many numbers as a vector has.
    multiplier: Learnt,
    multiplied: bool,
}

/// Numbers that are learnt.
#[derive(Clone, Debug)]
struct Learnt {
    values: Vec<f32>,
    gradient: Vec<f32>,
    moments: [Vec<f32>; 2],
}

impl Learnt {
    fn zeros(count: usize) -> Learnt {
        let zeros = || vec![0.0; count];
        Learnt { values: zeros(), gradient: zeros(), moments: [zeros(), zeros()] }
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
    /// Every latent at its candidate.
    pub fn new(candidates: &[f32], mixtures: &Mixtures, seed: u64, size: Size) -> Result<Archetypes> {
        let mut archetypes = Archetypes::empty(candidates, mixtures, size)?;
        let count = candidates.len() / size.width;
        let kept = archetypes.kept;
        let near = nearest(candidates, size.width, candidates, kept);
        for latent in 0..size.latents {
            let own = latent % count;
            let ids = &mut archetypes.ids[latent * kept..][..kept];
            ids.copy_from_slice(&near[own * kept..][..kept]);
            // Its own candidate comes first, even where others are at the same point.
            let position = ids.iter().position(|&id| id as usize == own).unwrap_or(kept - 1);
            ids[position] = own as u32;
            ids[..=position].rotate_right(1);
            let weights = &mut archetypes.mixture.values[latent * archetypes.pitch..][..kept];
            if latent < count {
                weights[0] = 1.0;
                continue;
            }
            let mut random = stream(seed, "initial mixture", latent as u64);
            weights.iter_mut().for_each(|weight| *weight = unit(&mut random) as f32);
            put_back(weights);
        }
        Ok(archetypes)
    }

    fn empty(candidates: &[f32], mixtures: &Mixtures, size: Size) -> Result<Archetypes> {
        let count = candidates.len() / size.width;
        let whole = count > 0 && candidates.len() == count * size.width;
        if !whole || !candidates.iter().all(|value| value.is_finite()) {
            return Err(InputError::new("there are no candidates for archetypal directions")
                .expected(format!("rows of {} finite numbers", size.width))
                .found(format!("{} numbers", candidates.len()))
                .into());
        }
        let mut rows = vec![0.0; count * size.stride];
        for (row, from) in rows.chunks_exact_mut(size.stride).zip(candidates.chunks_exact(size.width)) {
            row[..size.width].copy_from_slice(from);
        }
        let length = |row: &[f32]| row.iter().map(|&value| f64::from(value).powi(2)).sum::<f64>().sqrt();
        let mean = candidates.chunks_exact(size.width).map(length).sum::<f64>() / count as f64;
        let radius = match mixtures.radius {
            Radius::Relative(share) => share * mean,
            Radius::Absolute(radius) => radius,
        };
        let kept = mixtures.neighbours.clamp(1, count);
        let pitch = kept.next_multiple_of(LANES);
        Ok(Archetypes {
            size,
            candidates: rows,
            ids: vec![0; size.latents * kept],
            kept,
            mixture: Learnt::zeros(size.padded * pitch),
            pitch,
            relaxation: Aligned::zeros(size.padded * size.stride),
            radius: radius as f32,
            multiplier: Learnt::zeros(LANES),
            multiplied: mixtures.multiplier,
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
            let weights = &self.mixture.values[latent * self.pitch..][..self.kept];
            let ids = &self.ids[latent * self.kept..][..self.kept];
            gather(RowView::new(&self.candidates, size.stride), ids, weights, row);
            add_scaled(1.0, &self.relaxation[latent * size.stride..][..size.stride], row);
            scale(row, factor);
        });
    }

    /// From the gradient of the directions to that of what they are made of; `gradient` becomes that of `Λ`.
    pub fn split_gradient(&mut self, decoder: &[f32], gradient: &mut [f32]) {
        let (size, factor, kept) = (self.size, self.factor(), self.kept);
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
                    // Most latents of a large dictionary have no part in a batch.
                    if row.iter().all(|&value| value == 0.0) {
                        continue;
                    }
                    *along += f64::from(dot(row, direction));
                    scale(row, factor);
                    for (into, &id) in mixture.iter_mut().zip(&ids[latent * kept..][..kept]) {
                        *into = dot(candidates.row(id as usize, size.stride), row);
                    }
                }
            });
        self.multiplier.gradient[0] = if self.multiplied { along.iter().sum::<f64>() as f32 } else { 0.0 };
    }

    /// The squared length of the gradients of `w` and `m`.
    pub fn squared_gradient(&self) -> f64 {
        let square = |part: &[f32]| f64::from(dot(part, part));
        let parts = self.mixture.gradient.par_chunks(PANEL * self.pitch).map(square).collect::<Vec<f64>>();
        parts.iter().sum::<f64>() + square(&self.multiplier.gradient)
    }

    /// Adam on `w` and `m`, after the relaxation had its own; then everything goes back to where it may be.
    pub fn step(&mut self, adam: Adam, decay: f64) {
        self.mixture.step(adam, decay);
        if self.multiplied {
            self.multiplier.step(adam, decay);
        }
        let (size, radius, kept) = (self.size, self.radius, self.kept);
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
                if !put_back(&mut weights[..kept]) {
                    first.fill(0.0);
                    second.fill(0.0);
                }
                let length = dot(relaxation, relaxation).sqrt();
                if radius == 0.0 {
                    relaxation.fill(0.0);
                } else if length > radius {
                    // A little less than the quotient, so that rounding cannot leave the ball.
                    scale(relaxation, radius / length * (1.0 - 1e-6));
                }
            });
    }

    /// Everything but the moments.
    pub fn tensors(&self) -> Tensors {
        let (size, width) = (self.size, self.size.width);
        let rows = |values: &[f32], pitch: usize, keep: usize, count: usize| Tensor {
            shape: vec![count, keep],
            values: values.chunks_exact(pitch).take(count).flat_map(|row| row[..keep].iter().copied()).collect(),
        };
        let count = self.candidates.len() / size.stride;
        let neighbours = self.ids.iter().map(|&id| id as f32).collect();
        let mut tensors = Tensors::new();
        tensors.insert("candidates".into(), rows(&self.candidates, size.stride, width, count));
        tensors.insert("neighbours".into(), Tensor { shape: vec![size.latents, self.kept], values: neighbours });
        tensors.insert("mixture".into(), rows(&self.mixture.values, self.pitch, self.kept, size.latents));
        tensors.insert("relaxation".into(), rows(&self.relaxation, size.stride, width, size.latents));
        tensors.insert("multiplier".into(), Tensor { shape: vec![1], values: vec![self.multiplier.values[0]] });
        tensors
    }

    /// Takes what [`Archetypes::tensors`] wrote.
    pub fn read(tensors: &Tensors, mixtures: &Mixtures, size: Size) -> Result<Archetypes> {
        let rows = tensors.get("candidates").map_or(0, |tensor| tensor.values.len() / size.width);
        let candidates = find(tensors, "", "candidates", &[rows, size.width])?;
        let mut archetypes = Archetypes::empty(&candidates, mixtures, size)?;
        let (kept, pitch) = (archetypes.kept, archetypes.pitch);
        let ids = find(tensors, "", "neighbours", &[size.latents, kept])?;
        for (into, id) in archetypes.ids.iter_mut().zip(ids) {
            if id < 0.0 || id as usize >= rows {
                return Err(InputError::new("a neighbour of a direction is not among the candidates")
                    .expected(format!("0 to {}", rows - 1))
                    .found(id)
                    .into());
            }
            *into = id as u32;
        }
        let shape = [size.latents, kept];
        spread(&find(tensors, "", "mixture", &shape)?, kept, &mut archetypes.mixture.values, pitch);
        let relaxation = find(tensors, "", "relaxation", &[size.latents, size.width])?;
        spread(&relaxation, size.width, &mut archetypes.relaxation, size.stride);
        archetypes.multiplier.values[0] = find(tensors, "", "multiplier", &[1])?[0];
        Ok(archetypes)
    }

    /// Adam's moments of `w` and `m`.
    pub fn moments(&self) -> Tensors {
        let mut tensors = Tensors::new();
        for (which, prefix) in ["first.", "second."].into_iter().enumerate() {
            let rows = self.mixture.moments[which].chunks_exact(self.pitch).take(self.size.latents);
            let values = rows.flat_map(|row| row[..self.kept].iter().copied()).collect();
            tensors.insert(format!("{prefix}mixture"), Tensor { shape: vec![self.size.latents, self.kept], values });
            let values = vec![self.multiplier.moments[which][0]];
            tensors.insert(format!("{prefix}multiplier"), Tensor { shape: vec![1], values });
        }
        tensors
    }

    /// Takes what [`Archetypes::moments`] wrote.
    pub fn take_moments(&mut self, tensors: &Tensors) -> Result<()> {
        for (which, prefix) in ["first.", "second."].into_iter().enumerate() {
            let values = find(tensors, prefix, "mixture", &[self.size.latents, self.kept])?;
            spread(&values, self.kept, &mut self.mixture.moments[which], self.pitch);
            self.multiplier.moments[which][0] = find(tensors, prefix, "multiplier", &[1])?[0];
        }
        Ok(())
    }
}

/// Rows into padded rows.
fn spread(values: &[f32], width: usize, into: &mut [f32], pitch: usize) {
    for (from, to) in values.chunks_exact(width).zip(into.chunks_exact_mut(pitch)) {
        to[..width].copy_from_slice(from);
    }
}

/// Makes weights convex: negative ones become 0 and the rest is divided by its sum. If nothing is left, the first has all,
/// and the answer is no.
fn put_back(weights: &mut [f32]) -> bool {
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

#[cfg(test)]
impl Archetypes {
    /// Mixtures and relaxations anywhere where they may be.
    pub fn scatter(&mut self, seed: u64) {
        let mut random = stream(seed, "scatter", 0);
        for row in self.mixture.values.chunks_exact_mut(self.pitch).take(self.size.latents) {
            row[..self.kept].iter_mut().for_each(|weight| *weight = unit(&mut random) as f32);
            put_back(&mut row[..self.kept]);
        }
        for row in self.relaxation.chunks_exact_mut(self.size.stride).take(self.size.latents) {
            row[..self.size.width].iter_mut().for_each(|value| *value = 0.05 * unit(&mut random) as f32);
        }
        self.multiplier.values[0] = 0.1;
    }

    /// The gradients of `w` and `m`.
    pub fn gradients(&self) -> Tensors {
        let rows = self.mixture.gradient.chunks_exact(self.pitch).take(self.size.latents);
        let values = rows.flat_map(|row| row[..self.kept].iter().copied()).collect();
        let mut tensors = Tensors::new();
        tensors.insert("mixture".into(), Tensor { shape: vec![self.size.latents, self.kept], values });
        tensors.insert("multiplier".into(), Tensor { shape: vec![1], values: vec![self.multiplier.gradient[0]] });
        tensors
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mixtures_are_put_back_by_hand() {
        // (0.5, −1, 1.5) is cut to (0.5, 0, 1.5), whose sum is 2.
        let mut weights = [0.5, -1.0, 1.5];
        assert!(put_back(&mut weights));
        assert_eq!(weights, [0.25, 0.0, 0.75]);
        let mut weights = [-0.5, -1.0, 0.0];
        assert!(!put_back(&mut weights));
        assert_eq!(weights, [1.0, 0.0, 0.0]);
    }
}
