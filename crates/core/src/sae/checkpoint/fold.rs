//! Folds the scales of a checkpoint into its weights.

use crate::sae::activation::Activation;
use crate::sae::linear::Parts;

/// Scales every direction to unit norm without changing reconstructions: the codes are multiplied by the norm. A
/// direction of zeros is unchanged, and its latent never fires.
pub(super) fn unit_directions(parts: &mut Parts) {
    let width = parts.bias.len();
    for (latent, direction) in parts.decoder.chunks_exact_mut(width).enumerate() {
        let norm = norm(direction);
        if norm > 0.0 {
            direction.iter_mut().for_each(|value| *value = (f64::from(*value) / norm) as f32);
        }
        let rescale = |value: &mut f32| *value = (f64::from(*value) * norm) as f32;
        parts.encoder[latent * width..][..width].iter_mut().for_each(rescale);
        rescale(&mut parts.encoder_bias[latent]);
        match &mut parts.activation {
            Activation::Threshold(thresholds) => rescale(&mut thresholds[latent]),
            Activation::Gated { gate_bias, magnitude_bias, .. } => {
                rescale(&mut gate_bias[latent]);
                rescale(&mut magnitude_bias[latent]);
            }
            _ => {}
        }
    }
}

fn norm(direction: &[f32]) -> f64 {
    direction.iter().map(|&value| f64::from(value).powi(2)).sum::<f64>().sqrt()
}

/// The largest deviation of the norm of a direction from 1.
pub(super) fn max_norm_deviation(parts: &Parts) -> f64 {
    parts.decoder.chunks_exact(parts.bias.len()).map(|direction| (norm(direction) - 1.0).abs()).fold(0.0, f64::max)
}

/// Folds a constant that activations are multiplied by before encoding.
pub(super) fn input_scale(parts: &mut Parts, scale: f64) {
    let multiply = |values: &mut [f32], factor: f64| {
        values.iter_mut().for_each(|value| *value = (f64::from(*value) * factor) as f32);
    };
    multiply(&mut parts.encoder, scale);
    multiply(&mut parts.decoder, 1.0 / scale);
    multiply(&mut parts.bias, 1.0 / scale);
}

/// Multiplies each direction by its scale.
pub(super) fn direction_scale(parts: &mut Parts, scales: &[f32]) {
    let width = parts.bias.len();
    for (direction, scale) in parts.decoder.chunks_exact_mut(width).zip(scales) {
        direction.iter_mut().for_each(|value| *value *= scale);
    }
}
