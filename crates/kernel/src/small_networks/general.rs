//! The gradients of networks with any number of inputs and outputs.

use pulp::Simd;

use super::{LANES, Lanes, Size, sigmoid_residual, softmax_residual};

/// A mini-batch.
pub(super) struct Batch<'a> {
    pub size: Size,
    /// The inputs of every row, one after the other.
    pub inputs: &'a [f32],
    /// The classes of every row.
    pub truth: &'a [Lanes],
    pub parameters: &'a [Lanes],
}

impl Batch<'_> {
    /// Writes the gradients of the parameters; `residuals` has a value per row, output and network.
    #[inline(always)]
    pub fn gradients<S: Simd>(&self, simd: S, residuals: &mut [Lanes], gradients: &mut [Lanes]) {
        let parts = LANES / S::F32_LANES;
        let outputs = self.size.outputs;
        gradients.fill([0.0; LANES]);
        logits(simd, self.size, self.parameters, self.inputs, residuals);
        let scale = 1.0 / self.truth.len() as f32;
        for (residuals, truth) in residuals.chunks_exact_mut(outputs).zip(self.truth) {
            match residuals {
                [one] => sigmoid_residual(one, truth, scale),
                all => softmax_residual(all, truth, scale),
            }
        }
        let parameters = S::as_simd_f32s(self.parameters.as_flattened()).0;
        let residuals = S::as_simd_f32s(residuals.as_flattened()).0;
        let gradients = S::as_mut_simd_f32s(gradients.as_flattened_mut()).0;
        for part in 0..parts {
            let network = Network::<S> { simd, size: self.size, parameters, parts, part };
            network.backward(self.inputs, residuals, gradients);
        }
    }
}

/// The logits of all rows: rows × outputs, each for all networks.
#[inline(always)]
pub(super) fn logits<S: Simd>(simd: S, size: Size, parameters: &[Lanes], inputs: &[f32], logits: &mut [Lanes]) {
    let parts = LANES / S::F32_LANES;
    let parameters = S::as_simd_f32s(parameters.as_flattened()).0;
    for part in 0..parts {
        let network = Network::<S> { simd, size, parameters, parts, part };
        network.logits(inputs, S::as_mut_simd_f32s(logits.as_flattened_mut()).0);
    }
}

/// Some of the networks: those whose numbers share a vector.
struct Network<'a, S: Simd> {
    simd: S,
    size: Size,
    parameters: &'a [S::f32s],
    /// Vectors per number of all networks, and the one of these networks.
    parts: usize,
    part: usize,
}

impl<S: Simd> Network<'_, S> {
    #[inline(always)]
    fn at(&self, index: usize) -> usize {
        index * self.parts + self.part
    }

    /// A hidden unit before it is rectified.
    #[inline(always)]
    fn unit(&self, unit: usize, inputs: &[f32]) -> S::f32s {
        let [bias, ..] = self.size.offsets();
        let mut sum = self.parameters[self.at(bias + unit)];
        for (index, &input) in inputs.iter().enumerate() {
            let weight = self.parameters[self.at(index * self.size.hidden + unit)];
            sum = self.simd.mul_add_f32s(self.simd.splat_f32s(input), weight, sum);
        }
        sum
    }

    #[inline(always)]
    fn logits(&self, inputs: &[f32], logits: &mut [S::f32s]) {
        let Size { width, hidden, outputs } = self.size;
        let [_, second, last, _] = self.size.offsets();
        let zero = self.simd.splat_f32s(0.0);
        for (row, inputs) in inputs.chunks_exact(width).enumerate() {
            for output in 0..outputs {
                logits[self.at(row * outputs + output)] = self.parameters[self.at(last + output)];
            }
            for unit in 0..hidden {
                let active = self.simd.max_f32s(self.unit(unit, inputs), zero);
                for output in 0..outputs {
                    let (logit, weight) = (self.at(row * outputs + output), self.at(second + output * hidden + unit));
                    logits[logit] = self.simd.mul_add_f32s(active, self.parameters[weight], logits[logit]);
                }
            }
        }
    }

    #[inline(always)]
    fn backward(&self, inputs: &[f32], residuals: &[S::f32s], gradients: &mut [S::f32s]) {
        let (simd, Size { width, hidden, outputs }) = (self.simd, self.size);
        let [bias, second, last, _] = self.size.offsets();
        let zero = simd.splat_f32s(0.0);
        for (row, inputs) in inputs.chunks_exact(width).enumerate() {
            for output in 0..outputs {
                let gradient = &mut gradients[self.at(last + output)];
                *gradient = simd.add_f32s(*gradient, residuals[self.at(row * outputs + output)]);
            }
            for unit in 0..hidden {
                let sum = self.unit(unit, inputs);
                let active = simd.max_f32s(sum, zero);
                let mut back = zero;
                for output in 0..outputs {
                    let (residual, index) =
                        (residuals[self.at(row * outputs + output)], second + output * hidden + unit);
                    let gradient = &mut gradients[self.at(index)];
                    *gradient = simd.mul_add_f32s(residual, active, *gradient);
                    back = simd.mul_add_f32s(residual, self.parameters[self.at(index)], back);
                }
                back = simd.select_f32s(simd.greater_than_f32s(sum, zero), back, zero);
                let gradient = &mut gradients[self.at(bias + unit)];
                *gradient = simd.add_f32s(*gradient, back);
                for (index, &input) in inputs.iter().enumerate() {
                    let gradient = &mut gradients[self.at(index * hidden + unit)];
                    *gradient = simd.mul_add_f32s(simd.splat_f32s(input), back, *gradient);
                }
            }
        }
    }
}
