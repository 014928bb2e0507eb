//! The gradients of networks with one input and one output: the usual probes, whose loops are written out in vectors.
//!
//! Compilers do not vectorise the general loops well: sixteen lanes inside of rows inside of units. The order of all sums is
//! that of the general loops, so that both give the same bits.

use pulp::Simd;

use super::{LANES, Lanes, sigmoid_residual};

/// Rows of the forward pass whose logits stay in registers.
const ROWS: usize = 8;

/// Units of the backward pass whose weights and gradients stay in registers.
const UNITS: usize = 4;

/// A mini-batch.
pub(super) struct Batch<'a> {
    /// The input of every row.
    pub inputs: &'a [f32],
    /// The classes of every row.
    pub truth: &'a [Lanes],
    /// First weights, hidden intercepts, second weights, and the last intercept.
    pub parameters: &'a [Lanes],
}

impl Batch<'_> {
    /// Writes the gradients of the parameters; `residuals` has a value per row and network.
    #[inline(always)]
    pub fn gradients<S: Simd>(&self, simd: S, residuals: &mut [Lanes], gradients: &mut [Lanes]) {
        let parts = LANES / S::F32_LANES;
        let hidden = self.parameters.len() / 3;
        logits(simd, self.parameters, self.inputs, residuals);
        let scale = 1.0 / self.inputs.len() as f32;
        for (residuals, truth) in residuals.iter_mut().zip(self.truth) {
            sigmoid_residual(residuals, truth, scale);
        }
        let parameters = S::as_simd_f32s(self.parameters.as_flattened()).0;
        let residuals = S::as_simd_f32s(residuals.as_flattened()).0;
        let gradients = S::as_mut_simd_f32s(gradients.as_flattened_mut()).0;
        for part in 0..parts {
            let network = Network::<S> { simd, parameters, hidden, parts, part };
            for first in (0..hidden - hidden % UNITS).step_by(UNITS) {
                network.backward::<UNITS>(first, self.inputs, residuals, gradients);
            }
            for unit in hidden - hidden % UNITS..hidden {
                network.backward::<1>(unit, self.inputs, residuals, gradients);
            }
            network.last(self.inputs.len(), residuals, gradients);
        }
    }
}

/// The logits of all rows, each for all networks.
#[inline(always)]
pub(super) fn logits<S: Simd>(simd: S, parameters: &[Lanes], inputs: &[f32], logits: &mut [Lanes]) {
    let (parts, hidden) = (LANES / S::F32_LANES, parameters.len() / 3);
    let parameters = S::as_simd_f32s(parameters.as_flattened()).0;
    let logits = S::as_mut_simd_f32s(logits.as_flattened_mut()).0;
    let (blocks, rest) = inputs.as_chunks::<ROWS>();
    for part in 0..parts {
        let network = Network::<S> { simd, parameters, hidden, parts, part };
        for (block, inputs) in blocks.iter().enumerate() {
            network.logits(inputs, block * ROWS, logits);
        }
        for (index, input) in rest.iter().enumerate() {
            network.logits(&[*input], blocks.len() * ROWS + index, logits);
        }
    }
}

/// Some of the networks: those whose numbers share a vector.
struct Network<'a, S: Simd> {
    simd: S,
    parameters: &'a [S::f32s],
    hidden: usize,
    /// Vectors per number of all networks, and the one of these networks.
    parts: usize,
    part: usize,
}

impl<S: Simd> Network<'_, S> {
    #[inline(always)]
    fn at(&self, index: usize) -> usize {
        index * self.parts + self.part
    }

    /// The weight, intercept and second weight of a unit.
    #[inline(always)]
    fn unit(&self, unit: usize) -> [S::f32s; 3] {
        [0, 1, 2].map(
            #[inline(always)]
            |which| self.parameters[self.at(which * self.hidden + unit)],
        )
    }

    #[inline(always)]
    fn logits<const R: usize>(&self, inputs: &[f32; R], first: usize, logits: &mut [S::f32s]) {
        let simd = self.simd;
        let zero = simd.splat_f32s(0.0);
        let mut sums = [self.parameters[self.at(3 * self.hidden)]; R];
        let inputs = inputs.map(
            #[inline(always)]
            |input| simd.splat_f32s(input),
        );
        for unit in 0..self.hidden {
            let [weight, bias, second] = self.unit(unit);
            for row in 0..R {
                let active = simd.max_f32s(simd.mul_add_f32s(inputs[row], weight, bias), zero);
                sums[row] = simd.mul_add_f32s(active, second, sums[row]);
            }
        }
        for row in 0..R {
            logits[self.at(first + row)] = sums[row];
        }
    }

    #[inline(always)]
    fn backward<const U: usize>(&self, first: usize, inputs: &[f32], residuals: &[S::f32s], gradients: &mut [S::f32s]) {
        let simd = self.simd;
        let zero = simd.splat_f32s(0.0);
        let mut units = [[zero; 3]; U];
        for (index, unit) in units.iter_mut().enumerate() {
            *unit = self.unit(first + index);
        }
        let mut sums = [[zero; 3]; U];
        for (row, &input) in inputs.iter().enumerate() {
            let (input, residual) = (simd.splat_f32s(input), residuals[self.at(row)]);
            for unit in 0..U {
                let [weight, bias, second] = units[unit];
                let sum = simd.mul_add_f32s(input, weight, bias);
                let active = simd.max_f32s(sum, zero);
                let back = simd.mul_f32s(residual, second);
                let back = simd.select_f32s(simd.greater_than_f32s(sum, zero), back, zero);
                let [weights, biases, seconds] = &mut sums[unit];
                *weights = simd.mul_add_f32s(input, back, *weights);
                *biases = simd.add_f32s(*biases, back);
                *seconds = simd.mul_add_f32s(residual, active, *seconds);
            }
        }
        for unit in 0..U {
            for which in 0..3 {
                gradients[self.at(which * self.hidden + first + unit)] = sums[unit][which];
            }
        }
    }

    /// The gradient of the last intercept.
    #[inline(always)]
    fn last(&self, rows: usize, residuals: &[S::f32s], gradients: &mut [S::f32s]) {
        let mut sum = self.simd.splat_f32s(0.0);
        for row in 0..rows {
            sum = self.simd.add_f32s(sum, residuals[self.at(row)]);
        }
        gradients[self.at(3 * self.hidden)] = sum;
    }
}
