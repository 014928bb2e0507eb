//! The loss of a step, before its update.

use super::forward::error_scale;
use super::{Step, Trainer};
use crate::sae::train::auxiliary::{Auxiliary, Residual};
use crate::sae::train::objective::Batch;
use crate::sae::train::settings::AuxiliaryRule;
use etalon_kernel::packed::{PANEL, TILE_ROWS};
use etalon_kernel::vector::{RowView, add_scaled};

impl Trainer {
    /// Counts dead latents, and computes the loss and the auxiliary loss.
    pub(super) fn compute_loss(&mut self, rows: usize) -> (Step, Option<Auxiliary>) {
        let (size, buffers) = (self.weights.size, &self.buffers);
        let rules = self.objective.rules();
        let groups = rules.groups.len();
        let features = if self.settings.per_feature { size.width as f64 } else { 1.0 };
        for (latent, inactive) in self.inactive_rows.iter_mut().enumerate() {
            let scalars = &self.weights.scalars[latent * size.scalars..][..size.scalars];
            let fires = |&value: &f32| self.objective.code(scalars, value) != 0.0;
            *inactive = if buffers.columns.of(latent).1.iter().any(fires) { 0 } else { *inactive + rows as u64 };
        }
        let limit = self.settings.dead_after;
        let dead: Vec<u32> =
            (0..size.latents as u32).filter(|&latent| self.inactive_rows[latent as usize] >= limit).collect();
        let last_weight = *rules.group_weights.last().unwrap_or(&1.0);
        let has_auxiliary = rules.auxiliary && self.settings.auxiliary > 0.0 && !dead.is_empty();
        let auxiliary = has_auxiliary.then(|| {
            let pitch = groups * size.stride;
            let residual = Residual {
                weights: &self.weights,
                input: &buffers.input,
                errors: RowView { values: &buffers.errors.slopes, pitch, offset: pitch - size.stride },
                factor: error_scale(&self.settings, rows) * last_weight,
                rows,
                weight: self.settings.auxiliary,
                unit: (self.settings.auxiliary_rule != AuxiliaryRule::Relative).then_some(features),
                keep: self.settings.auxiliary_k.max(1),
            };
            residual.run(&dead)
        });
        let attached = self.settings.auxiliary_rule == AuxiliaryRule::Attached;
        if let Some(auxiliary) = auxiliary.as_ref().filter(|_| attached) {
            self.buffers.errors.add_to_slopes(&auxiliary.slopes, size.stride);
        }
        let buffers = &self.buffers;
        let squared: Vec<f64> = buffers.errors.squared(groups);
        let scaled: Vec<f64> = squared.iter().map(|error| error / features).collect();
        let mut terms = self.objective.loss(&Batch {
            step: self.step,
            rows: &buffers.errors.measured,
            squared_errors: &scaled,
            gate_error: buffers.errors.gate_squared() / features,
            auxiliary: auxiliary.as_ref().map_or(0.0, |auxiliary| auxiliary.loss),
        });
        if self.settings.reanimation > 0.0 {
            let unkept = self.unkept(rows);
            terms.iter_mut().filter(|term| term.0 == "loss").for_each(|t| t.1 -= self.settings.reanimation * unkept);
            terms.push(("unkept", unkept));
        }
        let buffers = &self.buffers;
        let report = Step {
            terms,
            squared_error: squared.last().copied().unwrap_or(0.0),
            error_length: buffers.errors.mean_norm(groups),
            l0: buffers.errors.l0(),
            dead: dead.len(),
        };
        (report, auxiliary)
    }

    /// The mean over rows and latents of the pre-activations of latents that no row kept.
    fn unkept(&self, rows: usize) -> f64 {
        let (size, buffers) = (self.weights.size, &self.buffers);
        let mut mean = vec![0.0; TILE_ROWS * size.stride];
        mean[..size.stride].copy_from_slice(&sum_of_rows(&buffers.input, rows, size.stride));
        mean.iter_mut().for_each(|value| *value /= rows as f32);
        let (mut tile, mut sum) = ([0.0; TILE_ROWS * PANEL], 0.0);
        for panel in 0..self.weights.encoder.panels() {
            self.weights.encoder.product(&mean, panel, &mut tile);
            for (latent, &product) in (panel * PANEL..size.latents).zip(&tile[..PANEL]) {
                if buffers.columns.of(latent).0.is_empty() {
                    sum += f64::from(product + buffers.bias[latent]);
                }
            }
        }
        sum / size.latents as f64
    }
}

/// The sum of the first rows, in order.
pub(super) fn sum_of_rows(values: &[f32], rows: usize, stride: usize) -> Vec<f32> {
    let mut sum = vec![0.0; stride];
    values.chunks_exact(stride).take(rows).for_each(|row| add_scaled(1.0, row, &mut sum));
    sum
}
