//! The forward pass of a batch: encoder product, selection, reconstruction.

use rayon::prelude::*;

use super::Trainer;
use crate::sae::selector::{Entries, Rule, Selector};
use crate::sae::train::forward::Forward;
use crate::sae::train::objective::Selection;
use crate::sae::train::pursuit_gradient;
use crate::sae::train::settings::TrainingSettings;
use etalon_kernel::packed::TILE_ROWS;
use etalon_kernel::vector::dot;

impl Trainer {
    /// Computes the kept pre-activations, reconstructions and errors of a batch.
    pub(super) fn forward(&mut self, batch: &[f32], rows: usize, selection: Selection) {
        let (size, width) = (self.weights.size, self.settings.width);
        let rules = self.objective.rules();
        let buffers = &mut self.buffers;
        for padded in [&mut buffers.rows, &mut buffers.input] {
            padded.reset(rows.next_multiple_of(TILE_ROWS) * size.stride);
        }
        let (bias, centred) = (&self.weights.bias, rules.centred);
        (buffers.rows.par_chunks_exact_mut(size.stride), buffers.input.par_chunks_exact_mut(size.stride))
            .into_par_iter()
            .zip(batch.par_chunks_exact(width))
            .for_each(|((row, input), from)| {
                row[..width].copy_from_slice(from);
                input[..width].copy_from_slice(from);
                if centred {
                    input.iter_mut().zip(bias).for_each(|(value, bias)| *value -= bias);
                }
            });
        (buffers.bias, buffers.floors) = (vec![0.0; size.padded], vec![f32::INFINITY; size.padded]);
        let scalars = self.weights.scalars.chunks_exact(size.scalars).take(size.latents);
        for (latent, scalars) in scalars.enumerate() {
            (buffers.bias[latent], buffers.floors[latent]) = (scalars[0], self.objective.floor(scalars));
        }
        buffers.norms.clear();
        if self.objective.needs_norms() {
            let norms = self.weights.decoder.chunks_exact(size.stride).take(size.latents);
            buffers.norms.extend(norms.map(|direction| dot(direction, direction).sqrt()));
        }
        buffers.active.resize(rows, Entries::new());
        let rule = match selection {
            Selection::Above => Some(Rule::Above),
            Selection::PerRow(keep) => Some(Rule::PerRow(keep)),
            Selection::PerBatch(keep) => Some(Rule::PerBatch(keep)),
            Selection::Pursuit(pursuit) => {
                let (choices, active) = (&mut buffers.choices, &mut buffers.active);
                pursuit_gradient::choose(pursuit, &self.weights, &buffers.input, choices, active);
                None
            }
        };
        if let Some(rule) = rule {
            let prefilter = self.precision.prefilters() && buffers.warm_start.prefilters(rule, size.latents);
            if prefilter {
                buffers.rounded.fill(self.weights.encoder.values(), size.stride);
            }
            let selector = Selector {
                panels: &self.weights.encoder,
                bias: &buffers.bias,
                floors: &buffers.floors,
                rounded: prefilter.then_some(&buffers.rounded),
                threads: rayon::current_num_threads(),
                keeps_nan: false,
            };
            selector.select(rule, &buffers.input, &buffers.warm_start, &mut buffers.active);
        }
        let forward = Forward {
            weights: &self.weights,
            objective: self.objective.as_ref(),
            rows: &buffers.rows,
            active: &buffers.active,
            norms: &buffers.norms,
            scale: error_scale(&self.settings, rows),
        };
        forward.run(&mut buffers.errors);
        buffers.columns.fill(&buffers.active, size.latents);
    }
}

/// The derivative of the mean squared error by one error.
pub(super) fn error_scale(settings: &TrainingSettings, rows: usize) -> f32 {
    let features = if settings.per_feature { settings.width } else { 1 };
    (2.0 / (rows as f64 * features as f64)) as f32
}
