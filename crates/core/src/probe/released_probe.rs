//! A linear layer for many labels, trained with Adam for a fixed number of epochs: the probe of the released code.
//!
//! It is not converged and has no penalty; use it to compare with published numbers. Adam treats every weight separately,
//! so groups of concepts can be trained apart with the same result.

use std::ops::Range;

use etalon_kernel::monitor::{Cancelled, Monitor};

use super::adam::{EPSILON, Layer};
use super::logistic::{Probe, sigmoid};
use crate::labels::{Annotations, Concept};
use etalon_kernel::product::{rows_by_columns, rows_by_rows};
use etalon_kernel::random::{permutation, stream, unit};

/// Training settings; everything else has PyTorch's default.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Adam {
    /// The learning rate.
    pub learning_rate: f64,
    /// Number of epochs.
    pub epochs: usize,
    /// Rows per mini-batch; the last one of an epoch may be smaller.
    pub batch: usize,
    /// The seed of the initial weights and of the shuffling.
    pub seed: u64,
}

impl Adam {
    /// Trains the layer for some concepts on dense rows. The loss is the mean over the known labels of a batch, over all
    /// concepts, so a step does not depend on the group.
    pub fn fit_monitored(
        &self,
        values: &[f32],
        width: usize,
        labels: &Annotations,
        concepts: Range<usize>,
        monitor: &dyn Monitor,
    ) -> Result<Vec<Probe>, Cancelled> {
        let (rows, probes) = (labels.rows(), concepts.len());
        let mut known_labels = vec![0u32; rows];
        for concept in 0..labels.concepts() {
            labels.known(Concept(concept as u32)).rows().for_each(|row| known_labels[row] += 1);
        }
        // PyTorch draws weights and intercepts from the same interval.
        let bound = 1.0 / (width as f64).sqrt();
        let mut layer = Layer::new(probes * width);
        let mut intercepts = Layer::new(probes);
        for (index, concept) in concepts.clone().enumerate() {
            let mut random = stream(self.seed, "probe/adam/start", concept as u64);
            let mut draw = || ((2.0 * unit(&mut random) - 1.0) * bound) as f32;
            layer.values[index * width..][..width].iter_mut().for_each(|value| *value = draw());
            intercepts.values[index] = draw();
        }
        let mut picked = Vec::new();
        let mut residuals = Vec::new();
        let mut gradient = vec![0f32; probes * width];
        let mut step = 0;
        for epoch in 0..self.epochs {
            let order = permutation(rows, &mut stream(self.seed, "probe/adam/epoch", epoch as u64));
            for batch in order.chunks(self.batch.max(1)) {
                monitor.check()?;
                picked.clear();
                batch.iter().for_each(|&row| picked.extend_from_slice(&values[row * width..][..width]));
                let cells: f64 = batch.iter().map(|&row| f64::from(known_labels[row])).sum();
                residuals.resize(probes * batch.len(), 0.0);
                rows_by_rows(&layer.values, &picked, width, &mut residuals);
                let mut intercept_gradient = vec![0f32; probes];
                for (index, concept) in concepts.clone().enumerate() {
                    let (yes, known) = (labels.yes(Concept(concept as u32)), labels.known(Concept(concept as u32)));
                    let mut total = 0.0;
                    for (residual, &row) in residuals[index * batch.len()..].iter_mut().zip(batch) {
                        let truth = f64::from(u8::from(yes.contains(row)));
                        let wrong = sigmoid(f64::from(*residual + intercepts.values[index])) - truth;
                        let share = if known.contains(row) { wrong / cells } else { 0.0 };
                        total += share;
                        *residual = share as f32;
                    }
                    intercept_gradient[index] = total as f32;
                }
                rows_by_columns(&residuals, &picked, batch.len(), width, &mut gradient);
                step += 1;
                layer.step(&gradient, self.learning_rate, step, EPSILON);
                intercepts.step(&intercept_gradient, self.learning_rate, step, EPSILON);
            }
        }
        let probe = |index: usize| Probe {
            weights: layer.values[index * width..][..width].iter().map(|&value| f64::from(value)).collect(),
            intercept: f64::from(intercepts.values[index]),
            converged: true,
        };
        Ok((0..probes).map(probe).collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::labels::Label;
    use etalon_kernel::monitor::Silent;

    fn labels(rows: usize) -> Annotations {
        let names = vec!["a".to_string(), "b".into(), "c".into()];
        Annotations::new(names, rows, |row, concept| match (row + concept) % 4 {
            0 => Label::Yes,
            3 if concept == 2 => Label::Unknown,
            _ => Label::No,
        })
        .unwrap()
    }

    fn fit(adam: Adam, values: &[f32], width: usize, labels: &Annotations, concepts: Range<usize>) -> Vec<Probe> {
        adam.fit_monitored(values, width, labels, concepts, &Silent).unwrap()
    }

    #[test]
    fn the_first_step_is_the_learning_rate() {
        // Adam's first step is learning_rate · slope / |slope| for slopes far above 1e-8.
        let values = [1.0, -2.0, 0.5, 1.5, 1.0, 1.0, -1.0, 0.25];
        let before = Adam { learning_rate: 0.125, epochs: 0, batch: 8, seed: 3 };
        let after = Adam { epochs: 1, ..before };
        let labels = labels(4);
        let [before, after] = [before, after].map(|adam| fit(adam, &values, 2, &labels, 0..3));
        for (before, after) in before.iter().zip(&after) {
            for (a, b) in before.weights.iter().zip(&after.weights) {
                assert!((a.abs() <= 1.0 / 2f64.sqrt()) && ((a - b).abs() - 0.125).abs() < 1e-4, "{a} {b}");
            }
        }
    }

    #[test]
    fn results_do_not_depend_on_groups() {
        let rows = 64;
        let labels = labels(rows);
        // A one-hot code of the row number modulo 4 determines every label.
        let values: Vec<f32> = (0..rows * 4).map(|i| f32::from(u8::from(i / 4 % 4 == i % 4))).collect();
        let adam = Adam { learning_rate: 0.05, epochs: 100, batch: 20, seed: 1 };
        let together = fit(adam, &values, 4, &labels, 0..3);
        let mut apart = fit(adam, &values, 4, &labels, 0..1);
        apart.extend(fit(adam, &values, 4, &labels, 1..3));
        for (concept, (a, b)) in together.iter().zip(&apart).enumerate() {
            assert!(a.weights.iter().zip(&b.weights).all(|(a, b)| (a - b).abs() < 1e-3));
            for row in 0..4 {
                let yes = a.weights[row] + a.intercept >= 0.0;
                let label = labels.label(row, Concept(concept as u32));
                assert!(label == Label::Unknown || yes == (label == Label::Yes), "concept {concept}, row {row}");
            }
        }
    }
}
