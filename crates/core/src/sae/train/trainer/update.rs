//! Gradients, and Adam with them.

use rayon::prelude::*;

use super::Trainer;
use super::loss::sum_of_rows;
use crate::sae::train::auxiliary::Auxiliary;
use crate::sae::train::backward::{Backward, square};
use crate::sae::train::objective::Form;
use crate::sae::train::pursuit_gradient;
use crate::sae::train::settings::TrainingSettings;
use crate::sae::train::weights::Shaped;
use etalon_kernel::packed::PANEL;
use etalon_kernel::vector::{Adam, add_scaled, scale};

impl Trainer {
    /// Gradients and Adam.
    pub(super) fn update(&mut self, rows: usize, auxiliary: Option<&Auxiliary>) {
        let size = self.weights.size;
        let Trainer { settings, objective, weights, moments, archetypes, buffers, .. } = self;
        let rules = objective.rules();
        // The derivative of the reanimation by one pre-activation of a latent that no row kept.
        let pull = -settings.reanimation / (rows as f64 * size.latents as f64);
        let lift = (settings.reanimation > 0.0).then(|| {
            let mut lift = sum_of_rows(&buffers.input, rows, size.stride);
            scale(&mut lift, pull as f32);
            lift
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
            lift: lift.as_deref().map(|lift| (lift, (pull * rows as f64) as f32)),
        };
        buffers.shares.resize(size.padded / PANEL * size.stride, 0.0);
        let mut adam = adam_at(settings, self.step);
        let mut bias = buffers.errors.bias_gradient(size.stride);
        if rules.form == Form::Free && !settings.keeps_gradient() {
            backward.gradients_and_update(weights, moments, adam, &mut buffers.shares);
            buffers.shares.chunks_exact(size.stride).for_each(|share| add_scaled(1.0, share, &mut bias));
        } else {
            let gradient = buffers.gradient.get_or_insert_with(|| Shaped::zeros(size));
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
                let squares = backward.gradients(weights, gradient, &mut buffers.shares);
                buffers.shares.chunks_exact(size.stride).for_each(|share| add_scaled(1.0, share, &mut bias));
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
            if let Some(longest) = settings.clip {
                adam.scale = (longest / ((squares + square(&bias)).sqrt() + 1e-6)).min(1.0) as f32;
            }
            if let Some(archetypes) = archetypes {
                // Adam sees what a direction is made of, and not the direction itself.
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

/// Adam with the corrections of a step.
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

/// The squared length of a gradient, but for that of the bias.
fn squared(gradient: &Shaped, panel: usize) -> f64 {
    let matrix = |values: &[f32]| values.par_chunks(panel).map(square).collect::<Vec<f64>>().iter().sum::<f64>();
    matrix(&gradient.encoder) + matrix(&gradient.decoder) + square(&gradient.scalars)
}
