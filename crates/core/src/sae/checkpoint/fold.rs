//! Scales that a checkpoint keeps apart, multiplied into its weights.

use crate::sae::activation::Activation;
use crate::sae::linear::Parts;

/// Makes every direction a unit vector without changing a reconstruction: what the direction loses, the latent gains.
/// A direction of zeros stays, and its latent falls silent.
pub(super) fn unit_directions(parts: &mut Parts) {
    let width = parts.bias.len();
    for (latent, direction) in parts.decoder.chunks_exact_mut(width).enumerate() {
        let norm = norm(direction);
        if norm > 0.0 {
            direction.iter_mut().for_each(|value| *value = (f64::from(*value) / norm) as f32);
        }
        let times = |value: &mut f32| *value = (f64::from(*value) * norm) as f32;
        parts.encoder[latent * width..][..width].iter_mut().for_each(times);
        times(&mut parts.encoder_bias[latent]);
        match &mut parts.activation {
            Activation::Threshold(thresholds) => times(&mut thresholds[latent]),
            Activation::Gated { gate_bias, magnitude_bias, .. } => {
                times(&mut gate_bias[latent]);
                times(&mut magnitude_bias[latent]);
            }
            _ => {}
        }
    }
}

fn norm(direction: &[f32]) -> f64 {
    direction.iter().map(|&value| f64::from(value).powi(2)).sum::<f64>().sqrt()
}

/// The largest distance of the norm of a direction from 1.
pub(super) fn farthest_from_unit(parts: &Parts) -> f64 {
    parts.decoder.chunks_exact(parts.bias.len()).map(|direction| (norm(direction) - 1.0).abs()).fold(0.0, f64::max)
}

/// The dictionary was made for activations that are multiplied by a constant; now it does that itself.
pub(super) fn input_scale(parts: &mut Parts, scale: f64) {
    let by = |values: &mut [f32], factor: f64| {
        values.iter_mut().for_each(|value| *value = (f64::from(*value) * factor) as f32);
    };
    by(&mut parts.encoder, scale);
    by(&mut parts.decoder, 1.0 / scale);
    by(&mut parts.bias, 1.0 / scale);
}

/// Multiplies every direction by a number of its own.
pub(super) fn direction_scale(parts: &mut Parts, scales: &[f32]) {
    let width = parts.bias.len();
    for (direction, scale) in parts.decoder.chunks_exact_mut(width).zip(scales) {
        direction.iter_mut().for_each(|value| *value *= scale);
    }
}
