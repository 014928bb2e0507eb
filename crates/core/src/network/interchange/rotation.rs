//! A mask over the directions of an orthonormal basis that is trained with it (MDAS: multi-task distributed alignment search).

use rayon::prelude::*;

use super::adam::AdamParameters;
use super::orthonormal::{Signs, orthonormalise};
use super::{EncodedRow, Gates, gate};
use crate::context::Context;
use crate::error::Result;

/// How the basis is kept orthonormal after a step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rotation {
    /// Directions keep their signs, so that the moments of Adam stay valid.
    Continuous,
    /// As PyTorch's QR decomposition does it, which changes the sign of most directions in every step.
    Lapack,
}

/// Replaces components of the base by those of the source: x' = ((1 − g) · xR + g · sR) Rᵀ. No dictionary is used.
pub struct RotatedMask {
    width: usize,
    rotation: Rotation,
    /// The mask, one value per direction, then the matrix R, row by row.
    parameters: AdamParameters,
}

impl RotatedMask {
    /// Continues with a mask and a matrix.
    pub fn new(width: usize, parameters: AdamParameters, rotation: Rotation) -> RotatedMask {
        RotatedMask { width, rotation, parameters }
    }

    /// Before training: a mask of zeros and the identity.
    pub fn start(width: usize) -> AdamParameters {
        let mut values = vec![0.0; width + width * width];
        values[width..].iter_mut().step_by(width + 1).for_each(|value| *value = 1.0);
        AdamParameters::new(values)
    }

    fn mask(&self) -> &[f32] {
        &self.parameters.values[..self.width]
    }

    fn matrix(&self) -> &[f32] {
        &self.parameters.values[self.width..]
    }

    /// A row times R.
    fn rotated(&self, row: &[f32]) -> Vec<f64> {
        let mut rotated = vec![0.0; self.width];
        for (value, line) in row.iter().zip(self.matrix().chunks_exact(self.width)) {
            rotated.iter_mut().zip(line).for_each(|(sum, part)| *sum += f64::from(*value) * f64::from(*part));
        }
        rotated
    }

    /// The mixture in the coordinates of the basis.
    fn mixed(&self, base: &[f64], source: &[f64], temperature: Option<f64>) -> Vec<f64> {
        let gates = self.mask().iter().map(|mask| gate(*mask, temperature));
        base.iter().zip(source).zip(gates).map(|((base, source), gate)| (1.0 - gate) * base + gate * source).collect()
    }
}

impl Gates for RotatedMask {
    fn mix(&self, base: &EncodedRow, source: &EncodedRow, temperature: Option<f64>) -> Result<Vec<f32>> {
        let mixed = self.mixed(&self.rotated(&base.row), &self.rotated(&source.row), temperature);
        let back = |line: &[f32]| line.iter().zip(&mixed).map(|(a, b)| f64::from(*a) * b).sum::<f64>() as f32;
        Ok(self.matrix().chunks_exact(self.width).map(back).collect())
    }

    fn parameters(&self) -> usize {
        self.parameters.values.len()
    }

    fn add_gradient(
        &self,
        (base, source): (&EncodedRow, &EncodedRow),
        temperature: f64,
        slope: &[f32],
        weight: f64,
        into: &mut [f64],
    ) {
        let (at_base, at_source) = (self.rotated(&base.row), self.rotated(&source.row));
        let (mixed, along) = (self.mixed(&at_base, &at_source, Some(temperature)), self.rotated(slope));
        let gates: Vec<f64> = self.mask().iter().map(|mask| gate(*mask, Some(temperature))).collect();
        let (mask, matrix) = into.split_at_mut(self.width);
        for (index, sum) in mask.iter_mut().enumerate() {
            let change = at_source[index] - at_base[index];
            *sum += weight * along[index] * change * gates[index] * (1.0 - gates[index]) / temperature;
        }
        matrix.par_chunks_mut(self.width).enumerate().for_each(|(row, sums)| {
            let [base, source, slope] = [base.row[row], source.row[row], slope[row]].map(f64::from);
            for (index, sum) in sums.iter_mut().enumerate() {
                // From the way back, and from both ways into the basis.
                let ways = (1.0 - gates[index]) * base + gates[index] * source;
                *sum += weight * (slope * mixed[index] + ways * along[index]);
            }
        });
    }

    fn update(&mut self, gradient: &[f64], learning_rate: f64, context: &Context) -> Result<()> {
        self.parameters.step(gradient, learning_rate);
        let signs = match self.rotation {
            Rotation::Continuous => Signs::Continuous,
            Rotation::Lapack => Signs::Lapack,
        };
        let width = self.width;
        orthonormalise(&mut self.parameters.values[width..], width, signs, context)
    }

    fn trained(&self) -> &AdamParameters {
        &self.parameters
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(values: [f32; 2]) -> EncodedRow {
        EncodedRow { row: values.to_vec(), ..EncodedRow::default() }
    }

    #[test]
    fn components_are_exchanged_and_gradients_are_slopes() {
        // A basis turned by 45 degrees: (1, 1) and (−1, 1), divided by √2. The mask takes the first component of the source.
        let half = std::f32::consts::FRAC_1_SQRT_2;
        let values = vec![0.3, -0.2, half, -half, half, half];
        let mask = |values: &[f32]| RotatedMask::new(2, AdamParameters::new(values.to_vec()), Rotation::Continuous);
        let (base, source) = (row([1.0, 3.0]), row([6.0, 2.0]));
        // Base: sum 4, difference 2. Source: sum 8. Mixture: sum 8, difference 2: (3, 5).
        let mixed = mask(&values).mix(&base, &source, None).unwrap();
        assert!((mixed[0] - 3.0).abs() < 1e-6 && (mixed[1] - 5.0).abs() < 1e-6, "{mixed:?}");
        let slope = [1.0, -3.0];
        let mut gradient = vec![0.0; 6];
        mask(&values).add_gradient((&base, &source), 0.7, &slope, 1.0, &mut gradient);
        let loss = |values: &[f32]| {
            let row = mask(values).mix(&base, &source, Some(0.7)).unwrap();
            row.iter().zip(slope).map(|(a, b)| f64::from(*a) * f64::from(b)).sum::<f64>()
        };
        for (index, found) in gradient.iter().enumerate() {
            let [up, down] = [0.01, -0.01].map(|by| {
                let mut moved = values.clone();
                moved[index] += by;
                loss(&moved)
            });
            let expected = (up - down) / 0.02;
            assert!((found - expected).abs() < 2e-3 * expected.abs().max(1.0), "{index}: {found} {expected}");
        }
    }

    #[test]
    fn the_basis_stays_orthonormal() {
        let mut mask = RotatedMask::new(3, RotatedMask::start(3), Rotation::Continuous);
        let [base, source] =
            [[1.0, 2.0, 3.0], [-1.0, 0.5, 4.0]].map(|row| EncodedRow { row: row.to_vec(), ..EncodedRow::default() });
        for _ in 0..5 {
            let mut gradient = vec![0.0; mask.parameters()];
            mask.add_gradient((&base, &source), 0.5, &[0.3, -0.2, 0.9], 1.0, &mut gradient);
            mask.update(&gradient, 0.05, &Context::silent(2, 1 << 20).unwrap()).unwrap();
        }
        let matrix = mask.matrix();
        for a in 0..3 {
            for b in 0..3 {
                let product: f32 = (0..3).map(|row| matrix[row * 3 + a] * matrix[row * 3 + b]).sum();
                assert!((product - f32::from(u8::from(a == b))).abs() < 1e-5);
            }
            assert!(matrix[a * 4] > 0.5, "a few small steps do not turn directions around");
        }
    }
}
