//! Logistic regression of two or more classes in double precision, to convergence: scikit-learn's convention, an L2
//! penalty on the weights and none on the intercepts, one logit for two classes and a softmax otherwise.

use etalon_kernel::monitor::{Cancelled, Monitor};

/// Settings.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct SoftmaxRegression {
    /// The inverse strength of the penalty.
    pub c: f64,
    /// Stops when the largest entry of the gradient is below this.
    pub tolerance: f64,
    /// Maximum number of Newton steps.
    pub steps: usize,
}

impl Default for SoftmaxRegression {
    fn default() -> SoftmaxRegression {
        SoftmaxRegression { c: 1.0, tolerance: 1e-9, steps: 100 }
    }
}

/// A fitted model.
#[derive(Clone, Debug, PartialEq)]
pub struct SoftmaxModel {
    /// `outputs × (width + 1)`: weights, then the intercept.
    pub weights: Vec<f64>,
    width: usize,
}

/// Dense rows in double precision.
#[derive(Clone, Copy, Debug)]
pub struct WideRows<'a> {
    /// All values, row by row.
    pub values: &'a [f64],
    /// Values per row.
    pub width: usize,
}

impl WideRows<'_> {
    fn iter(&self) -> impl Iterator<Item = &[f64]> {
        self.values.chunks_exact(self.width.max(1))
    }
}

impl SoftmaxModel {
    /// The number of outputs: 1 for two classes.
    pub fn outputs(&self) -> usize {
        self.weights.len() / (self.width + 1)
    }

    /// The logits of a row.
    pub fn logits(&self, row: &[f64]) -> Vec<f64> {
        self.weights.chunks_exact(self.width + 1).map(|weights| product(weights, row)).collect()
    }
}

/// Weights times row plus intercept.
fn product(weights: &[f64], row: &[f64]) -> f64 {
    weights[row.len()] + weights.iter().zip(row).map(|(weight, value)| weight * value).sum::<f64>()
}

impl SoftmaxRegression {
    /// Fits the model by Newton's method with conjugate gradients. `classes` are below `count`.
    pub fn fit(
        &self,
        rows: WideRows<'_>,
        classes: &[u32],
        count: usize,
        monitor: &dyn Monitor,
    ) -> Result<SoftmaxModel, Cancelled> {
        let outputs = if count > 2 { count } else { 1 };
        let size = outputs * (rows.width + 1);
        let problem = Problem { rows, classes, outputs, c: self.c };
        let mut weights = vec![0.0; size];
        let (mut loss, mut probabilities) = problem.loss(&weights);
        for _ in 0..self.steps {
            monitor.check()?;
            let gradient = problem.gradient(&weights, &probabilities);
            let largest = gradient.iter().fold(0.0f64, |largest, part| largest.max(part.abs()));
            if largest < self.tolerance {
                break;
            }
            let step = problem.solve(&gradient, &probabilities, largest, monitor)?;
            let decrease: f64 = gradient.iter().zip(&step).map(|(a, b)| a * b).sum();
            let mut length = 1.0;
            loop {
                let next: Vec<f64> = weights.iter().zip(&step).map(|(weight, step)| weight - length * step).collect();
                let (next_loss, next_probabilities) = problem.loss(&next);
                if next_loss <= loss - 1e-4 * length * decrease || length < 1e-6 {
                    (weights, loss, probabilities) = (next, next_loss, next_probabilities);
                    break;
                }
                length *= 0.5;
            }
        }
        Ok(SoftmaxModel { weights, width: rows.width })
    }
}

struct Problem<'a> {
    rows: WideRows<'a>,
    classes: &'a [u32],
    outputs: usize,
    c: f64,
}

impl Problem<'_> {
    /// Whether a place in the weights is an intercept.
    fn is_intercept(&self, index: usize) -> bool {
        index % (self.rows.width + 1) == self.rows.width
    }

    /// The loss and the probabilities, `rows × outputs`.
    fn loss(&self, weights: &[f64]) -> (f64, Vec<f64>) {
        let penalty: f64 =
            weights.iter().enumerate().filter(|(index, _)| !self.is_intercept(*index)).map(|(_, w)| w * w).sum();
        let mut probabilities = Vec::with_capacity(self.classes.len() * self.outputs);
        let mut loss = 0.0;
        for (row, &class) in self.rows.iter().zip(self.classes) {
            let logits: Vec<f64> = weights.chunks_exact(self.rows.width + 1).map(|w| product(w, row)).collect();
            if let [logit] = logits[..] {
                // log(1 + e^z) − y z without overflow.
                loss += logit.max(0.0) + libm::log1p(libm::exp(-logit.abs())) - f64::from(class) * logit;
                probabilities.push(1.0 / (1.0 + libm::exp(-logit)));
                continue;
            }
            let largest = logits.iter().copied().fold(f64::NEG_INFINITY, f64::max);
            let powers: Vec<f64> = logits.iter().map(|logit| libm::exp(logit - largest)).collect();
            let total: f64 = powers.iter().sum();
            loss += libm::log(total) + largest - logits[class as usize];
            probabilities.extend(powers.iter().map(|power| power / total));
        }
        (self.c * loss + 0.5 * penalty, probabilities)
    }

    fn gradient(&self, weights: &[f64], probabilities: &[f64]) -> Vec<f64> {
        let stride = self.rows.width + 1;
        let mut gradient: Vec<f64> =
            weights.iter().enumerate().map(|(index, w)| if self.is_intercept(index) { 0.0 } else { *w }).collect();
        for ((row, &class), own) in self.rows.iter().zip(self.classes).zip(probabilities.chunks_exact(self.outputs)) {
            for (output, probability) in own.iter().enumerate() {
                let hit =
                    if self.outputs == 1 { f64::from(class) } else { f64::from(u8::from(output == class as usize)) };
                add(&mut gradient[output * stride..][..stride], self.c * (probability - hit), row);
            }
        }
        gradient
    }

    /// Hessian times direction. A small multiple of the direction makes the softmax, whose intercepts have a common
    /// constant, solvable.
    fn hessian(&self, direction: &[f64], probabilities: &[f64]) -> Vec<f64> {
        let stride = self.rows.width + 1;
        let mut result: Vec<f64> = direction
            .iter()
            .enumerate()
            .map(|(index, d)| if self.is_intercept(index) { 1e-10 * d } else { *d })
            .collect();
        for (row, own) in self.rows.iter().zip(probabilities.chunks_exact(self.outputs)) {
            let along: Vec<f64> = direction.chunks_exact(stride).map(|d| product(d, row)).collect();
            let mean: f64 = if self.outputs == 1 { 0.0 } else { own.iter().zip(&along).map(|(p, a)| p * a).sum() };
            for (output, (probability, along)) in own.iter().zip(&along).enumerate() {
                let curvature = if self.outputs == 1 {
                    probability * (1.0 - probability) * along
                } else {
                    probability * (along - mean)
                };
                add(&mut result[output * stride..][..stride], self.c * curvature, row);
            }
        }
        result
    }

    /// Solves Hessian · step = gradient by conjugate gradients, more exactly near the optimum.
    fn solve(
        &self,
        gradient: &[f64],
        probabilities: &[f64],
        largest: f64,
        monitor: &dyn Monitor,
    ) -> Result<Vec<f64>, Cancelled> {
        let dot = |a: &[f64], b: &[f64]| a.iter().zip(b).map(|(a, b)| a * b).sum::<f64>();
        let (mut step, mut residual, mut direction) = (vec![0.0; gradient.len()], gradient.to_vec(), gradient.to_vec());
        let mut norm = dot(&residual, &residual);
        let goal = norm * largest.sqrt().min(0.1).powi(2);
        for _ in 0..(4 * gradient.len()).clamp(50, 500) {
            monitor.check()?;
            if norm <= goal || norm < 1e-28 {
                break;
            }
            let product = self.hessian(&direction, probabilities);
            let length = norm / dot(&direction, &product);
            for index in 0..step.len() {
                step[index] += length * direction[index];
                residual[index] -= length * product[index];
            }
            let next = dot(&residual, &residual);
            let ratio = next / norm;
            direction.iter_mut().zip(&residual).for_each(|(d, r)| *d = r + ratio * *d);
            norm = next;
        }
        Ok(step)
    }
}

/// Adds a multiple of a row and of its intercept.
fn add(into: &mut [f64], factor: f64, row: &[f64]) {
    into.iter_mut().zip(row).for_each(|(sum, value)| *sum += factor * value);
    into[row.len()] += factor;
}

#[cfg(test)]
mod tests {
    use super::*;
    use etalon_kernel::monitor::Silent;

    #[test]
    fn the_gradient_vanishes_at_the_optimum() {
        let values: Vec<f64> = (0..60).flat_map(|i| [f64::from(i % 7) - 3.0, f64::from(i * i % 11) / 3.0]).collect();
        for count in [2, 3] {
            let classes: Vec<u32> =
                (0..60).map(|i| (i * 5 / 7 % count as u32 + u32::from(i % 7 > 4)) % count as u32).collect();
            let rows = WideRows { values: &values, width: 2 };
            let model = SoftmaxRegression::default().fit(rows, &classes, count, &Silent).unwrap();
            let problem = Problem { rows, classes: &classes, outputs: model.outputs(), c: 1.0 };
            let (_, probabilities) = problem.loss(&model.weights);
            let gradient = problem.gradient(&model.weights, &probabilities);
            assert!(gradient.iter().all(|part| part.abs() < 1e-8), "{gradient:?}");
            assert_eq!(model.logits(&[0.0, 0.0]).len(), model.outputs());
        }
    }
}
