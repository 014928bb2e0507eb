//! Parameters under training, with the moments of their gradients.

use serde::{Deserialize, Serialize};

/// Decay of the first moment.
const MEAN_DECAY: f64 = 0.9;
/// Decay of the second moment.
const SQUARE_DECAY: f64 = 0.999;
/// Added to the root of the second moment.
const EPSILON: f64 = 1e-8;

/// Parameters and the moments of Adam (PyTorch's defaults), so that training can be continued.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct AdamParameters {
    /// The parameters.
    pub values: Vec<f32>,
    means: Vec<f32>,
    squares: Vec<f32>,
    steps: i32,
}

impl AdamParameters {
    /// Parameters before the first step.
    pub fn new(values: Vec<f32>) -> AdamParameters {
        AdamParameters { means: vec![0.0; values.len()], squares: vec![0.0; values.len()], values, steps: 0 }
    }

    /// Bytes of memory.
    pub fn bytes(count: usize) -> u64 {
        12 * count as u64
    }

    /// One step against the gradient.
    pub(super) fn step(&mut self, gradient: &[f64], learning_rate: f64) {
        self.steps += 1;
        let length = learning_rate / (1.0 - MEAN_DECAY.powi(self.steps));
        let root = (1.0 - SQUARE_DECAY.powi(self.steps)).sqrt();
        let moments = self.means.iter_mut().zip(&mut self.squares);
        for ((value, (mean, square)), slope) in self.values.iter_mut().zip(moments).zip(gradient) {
            let first = f64::from(*mean) + (1.0 - MEAN_DECAY) * (slope - f64::from(*mean));
            let second = SQUARE_DECAY * f64::from(*square) + (1.0 - SQUARE_DECAY) * slope * slope;
            (*mean, *square) = (first as f32, second as f32);
            *value = (f64::from(*value) - length * first / (second.sqrt() / root + EPSILON)) as f32;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_steps_by_hand() {
        // The first step has the length of the learning rate, whatever the gradient; without a gradient nothing moves.
        let mut parameters = AdamParameters::new(vec![0.0, 1.0, 5.0]);
        parameters.step(&[2.0, -0.5, 0.0], 0.1);
        assert!((parameters.values[0] + 0.1).abs() < 1e-6 && (parameters.values[1] - 1.1).abs() < 1e-6);
        assert_eq!(parameters.values[2], 5.0);
        // Then the gradient is 0: means 0.9 · 0.2 = 0.18, squares 0.999 · 0.004 = 0.003996; corrected by 1 − 0.81 = 0.19 and
        // 1 − 0.998001 = 0.001999: 0.1 · 0.947368 / √1.999 = 0.0670052.
        parameters.step(&[0.0, 0.0, 0.0], 0.1);
        assert!((parameters.values[0] + 0.1 + 0.067_005_2).abs() < 1e-6, "{}", parameters.values[0]);
    }
}
