//! The update of a step: gradients, clipping, Adam.

use rayon::prelude::*;

use super::Trainer;
use super::loss::sum_of_rows;
use crate::sae::train::auxiliary::Auxiliary;
use crate::sae::train::backward::{Backward, square};
use crate::sae::train::objective::Form;
use crate::sae::train::pursuit_gradient;
use crate::sae::train::settings::TrainingSettings;
use crate::sae::train::weights::WeightBuffers;
use etalon_kernel::packed::PANEL;
use etalon_kernel::vector::{Adam, add_scaled, scale};

impl Trainer {
    /// Computes the gradients of a batch and applies Adam.
    pub(super) fn update(&mut self, rows: usize, auxiliary: Option<&Auxiliary>) {
        let size = self.weights.size;
        let Trainer { settings, objective, weights, moments, archetypes, buffers, .. } = self;
        let rules = objective.rules();
        // The derivative of the reanimation term by one pre-activation of a latent that no row kept.
        let slope = -settings.reanimation / (rows as f64 * size.latents as f64);
        let reanimation = (settings.reanimation > 0.0).then(|| {
            let mut gradient = sum_of_rows(&buffers.input, rows, size.stride);
            scale(&mut gradient, slope as f32);
            gradient
        });
        let backward = Backward {
            size,
            settings,
            objective: objective.as_ref(),
            columns: &buffers.columns,
            slopes: &buffers.errors.slopes,
            gate_slopes: &buffers.errors.gate_slopes,
            input: &buffers.input,
            batch: rows,
            auxiliary,
            reanimation: reanimation.as_deref().map(|gradient| (gradient, (slope * rows as f64) as f32)),
        };
        buffers.bias_parts.resize(size.padded / PANEL * size.stride, 0.0);
        let mut adam = adam_at(settings, self.step);
        let mut bias = buffers.errors.bias_gradient(size.stride);
        if rules.form == Form::Free && !settings.keeps_gradient() {
            backward.gradients_and_update(weights, moments, adam, &mut buffers.bias_parts);
            buffers.bias_parts.chunks_exact(size.stride).for_each(|part| add_scaled(1.0, part, &mut bias));
        } else {
            let gradient = buffers.gradient.get_or_insert_with(|| WeightBuffers::zeros(size));
            let mut squares = if rules.form == Form::Tied {
                bias = pursuit_gradient::gradient(
                    settings,
                    weights,
                    &buffers.input,
                    &buffers.choices,
                    backward.slopes,
                    gradient,
                );
                squared(gradient, size.panel())
            } else {
                let squares = backward.gradients(weights, gradient, &mut buffers.bias_parts);
                buffers.bias_parts.chunks_exact(size.stride).for_each(|part| add_scaled(1.0, part, &mut bias));
                squares
            };
            if !rules.biased {
                bias.fill(0.0);
            }
            gradient.bias.copy_from_slice(&bias);
            if let Some(archetypes) = archetypes {
                archetypes.split_gradient(&weights.decoder, &mut gradient.decoder);
                squares = squared(gradient, size.panel()) + archetypes.squared_gradient();
            }
            if let Some(max_norm) = settings.clip {
                adam.scale = (max_norm / ((squares + square(&bias)).sqrt() + 1e-6)).min(1.0) as f32;
            }
            if let Some(archetypes) = archetypes {
                // Adam updates the relaxation, not the direction itself.
                std::mem::swap(&mut weights.decoder, &mut archetypes.relaxation);
            }
            weights.decay(1.0 - settings.rate_at(self.step) * settings.weight_decay);
            match rules.form {
                Form::Tied => {
                    backward.update_directions(weights, moments, gradient, adam);
                    weights.tie();
                }
                _ => backward.update(weights, moments, gradient, adam),
            }
            if let Some(archetypes) = archetypes {
                std::mem::swap(&mut weights.decoder, &mut archetypes.relaxation);
                archetypes.step(adam, 1.0 - settings.rate_at(self.step) * settings.weight_decay);
                archetypes.build(&mut weights.decoder);
            }
        }
        if rules.biased {
            let [first, second] = moments;
            adam.step(&mut weights.bias, &mut first.bias, &mut second.bias, &bias);
        }
    }
}

/// Adam with the bias corrections of a step.
fn adam_at(settings: &TrainingSettings, step: u64) -> Adam {
    let (first, second) = settings.betas;
    let correction = |beta: f32| 1.0 - f64::from(beta).powf((step + 1) as f64);
    Adam {
        rate: (settings.rate_at(step) / correction(first)) as f32,
        first,
        second,
        correction: (1.0 / correction(second).sqrt()) as f32,
        epsilon: settings.epsilon,
        scale: 1.0,
    }
}

/// The squared norm of a gradient, without that of the bias.
fn squared(gradient: &WeightBuffers, panel: usize) -> f64 {
    let matrix = |values: &[f32]| values.par_chunks(panel).map(square).collect::<Vec<f64>>().iter().sum::<f64>();
    matrix(&gradient.encoder) + matrix(&gradient.decoder) + square(&gradient.scalars)
}
