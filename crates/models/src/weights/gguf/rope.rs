//! The scaling of rotary positions.
//!
//! llama.cpp stores the scaling of Llama 3 as one factor per frequency. Networks expect the parameters from which they
//! were computed; these are found again and checked.

use std::f64::consts::TAU;

use serde_json::{Value, json};

/// The tensor with the factors.
pub(super) const TENSOR: &str = "rope_freqs.weight";

/// The parameters of every published Llama 3 but for the factor.
const LOW: f64 = 1.0;
const HIGH: f64 = 4.0;
const ORIGINAL_CONTEXT: f64 = 8192.0;

/// The largest relative difference of the factors, which were computed in `f32`.
const TOLERANCE: f64 = 1e-4;

/// The factor of a frequency: 1 for short wavelengths, `factor` for long ones, smooth between them.
fn scaled(wavelength: f64, factor: f64, context: f64) -> f64 {
    if wavelength < context / HIGH {
        1.0
    } else if wavelength > context / LOW {
        factor
    } else {
        let smooth = (context / wavelength - LOW) / (HIGH - LOW);
        1.0 / ((1.0 - smooth) / factor + smooth)
    }
}

fn wavelength(index: usize, count: usize, theta: f64) -> f64 {
    TAU * theta.powf(index as f64 / count as f64)
}

/// The original context from a factor between the limits or, if there is none, any context between the wavelengths that
/// are scaled and those that are not: the scaling is the same.
fn context(stored: &[f32], factor: f64, theta: f64) -> Option<f64> {
    let at = |index: usize| wavelength(index, stored.len(), theta);
    let between = |&value: &f32| f64::from(value) > 1.0 + TOLERANCE && f64::from(value) < factor * (1.0 - TOLERANCE);
    if let Some(index) = stored.iter().position(between) {
        let smooth = (1.0 / f64::from(stored[index]) - 1.0 / factor) / (1.0 - 1.0 / factor);
        return Some((at(index) * (LOW + smooth * (HIGH - LOW))).round());
    }
    let scaled = stored.iter().position(|&value| value != 1.0)?;
    let (longest, shortest) = (at(scaled.checked_sub(1)?) * HIGH, at(scaled) * LOW);
    Some((longest * shortest).sqrt().round())
}

/// The `rope_scaling` of a configuration, from stored factors; `None` if they are not those of Llama 3.
pub(super) fn llama3(stored: &[f32], theta: f64) -> Option<Value> {
    let factor = f64::from(stored.iter().copied().reduce(f32::max)?);
    if stored.iter().all(|&one| one == 1.0) {
        return Some(Value::Null);
    }
    let explains = |context: &f64| {
        let computed = (0..stored.len()).map(|index| scaled(wavelength(index, stored.len(), theta), factor, *context));
        stored
            .iter()
            .zip(computed)
            .all(|(&stored, computed)| (f64::from(stored) - computed).abs() <= TOLERANCE * computed.abs())
    };
    let context = [Some(ORIGINAL_CONTEXT), context(stored, factor, theta)].into_iter().flatten().find(explains)?;
    Some(json!({
        "rope_type": "llama3",
        "factor": factor,
        "low_freq_factor": LOW,
        "high_freq_factor": HIGH,
        "original_max_position_embeddings": context as u64,
    }))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn factors(count: usize, theta: f64, factor: f64, context: f64) -> Vec<f32> {
        (0..count).map(|index| scaled(wavelength(index, count, theta), factor, context) as f32).collect()
    }

    #[test]
    fn the_parameters_of_llama_3_are_found() {
        // Llama 3.2 1B: heads of 64, theta 500,000, factor 32.
        let stored = factors(32, 500_000.0, 32.0, 8192.0);
        assert_eq!((stored[0], stored[31]), (1.0, 32.0));
        assert!(stored.iter().any(|&factor| factor > 1.0 && factor < 32.0));
        let found = llama3(&stored, 500_000.0).unwrap();
        assert_eq!((&found["factor"], &found["original_max_position_embeddings"]), (&json!(32.0), &json!(8192)));
        // Another base or other factors cannot be explained.
        assert_eq!(llama3(&stored, 10_000.0), None);
        assert_eq!(llama3(&[1.0, 2.0, 4.0, 8.0], 500_000.0), None);
        assert_eq!(llama3(&[1.0; 32], 10_000.0), Some(Value::Null));
        assert_eq!((llama3(&[], 1.0), llama3(&[f32::NAN, 2.0], 1.0), llama3(&[-2.0], 1.0)), (None, None, None));
    }

    #[test]
    fn another_original_context_is_found() {
        let found = llama3(&factors(32, 500_000.0, 8.0, 2048.0), 500_000.0).unwrap();
        assert_eq!(found["original_max_position_embeddings"], 2048);
        // Wavelengths 6.3 and 38: between 25.1 = 4 × 6.3 and 38, any context gives these factors.
        let stored = factors(6, 50_000.0, 8.0, 32.0);
        assert_eq!(stored, [1.0, 8.0, 8.0, 8.0, 8.0, 8.0]);
        assert_eq!(llama3(&stored, 50_000.0).unwrap()["original_max_position_embeddings"], 31);
    }

    #[test]
    fn a_factor_between_the_limits() {
        // Wavelength 4096: smooth = (2 − 1) / 3; 1 / ((2/3) / 8 + 1/3) = 2.4.
        assert!((scaled(4096.0, 8.0, 8192.0) - 2.4).abs() < 1e-12);
        assert_eq!((scaled(2000.0, 8.0, 8192.0), scaled(9000.0, 8.0, 8192.0)), (1.0, 8.0));
    }
}
