//! Mixture weights, and helpers of the training tests.

use super::*;
use crate::input::{Tensor, Tensors};

impl Archetypes {
    /// Random mixtures and relaxations that satisfy the constraints.
    pub fn scatter(&mut self, seed: u64) {
        let mut random = stream(seed, "scatter", 0);
        for row in self.mixture.values.chunks_exact_mut(self.pitch).take(self.size.latents) {
            row[..self.neighbours].iter_mut().for_each(|weight| *weight = unit(&mut random) as f32);
            normalise_mixture(&mut row[..self.neighbours]);
        }
        for row in self.relaxation.chunks_exact_mut(self.size.stride).take(self.size.latents) {
            row[..self.size.width].iter_mut().for_each(|value| *value = 0.05 * unit(&mut random) as f32);
        }
        self.multiplier.values[0] = 0.1;
    }

    /// The gradients of `w` and `m`.
    pub fn gradients(&self) -> Tensors {
        let rows = self.mixture.gradient.chunks_exact(self.pitch).take(self.size.latents);
        let values = rows.flat_map(|row| row[..self.neighbours].iter().copied()).collect();
        let mut tensors = Tensors::new();
        tensors.insert("mixture".into(), Tensor { shape: vec![self.size.latents, self.neighbours], values });
        tensors.insert("multiplier".into(), Tensor { shape: vec![1], values: vec![self.multiplier.gradient[0]] });
        tensors
    }
}

#[test]
fn mixtures_are_made_convex() {
    // (0.5, −1, 1.5) is clipped to (0.5, 0, 1.5), whose sum is 2.
    let mut weights = [0.5, -1.0, 1.5];
    assert!(normalise_mixture(&mut weights));
    assert_eq!(weights, [0.25, 0.0, 0.75]);
    let mut weights = [-0.5, -1.0, 0.0];
    assert!(!normalise_mixture(&mut weights));
    assert_eq!(weights, [1.0, 0.0, 0.0]);
}
