//! A linear layer for many labels, trained with Adam for a fixed number of epochs: the probe of the released program.
//!
//! Not converged and without a penalty; kept so that published numbers can be compared with. Labels do not touch each
//! other (Adam works weight by weight), so that groups of concepts can be trained apart, with the same result as
//! together.

use std::ops::Range;

use etalon_kernel::monitor::{Cancelled, Monitor, Silent};

use super::logistic::{Probe, sigmoid};
use crate::labels::{Annotations, Concept};
use etalon_kernel::product::{rows_by_columns, rows_by_rows};
use etalon_kernel::random::{permutation, stream, unit};

/// How the layer is trained: PyTorch's defaults for everything that is not named.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Adam {
    /// The learning rate.
    pub learning_rate: f64,
    /// How often every row is seen.
    pub epochs: usize,
    /// Rows per step; the last step of an epoch takes what is left.
    pub batch: usize,
    /// The seed of the first weights and of the order of the rows.
    pub seed: u64,
}

/// Decay of the mean slope.
const MEAN_DECAY: f32 = 0.9;
/// Decay of the mean squared slope.
const SQUARE_DECAY: f32 = 0.999;
/// Keeps the step finite.
pub(super) const EPSILON: f32 = 1e-8;

impl Adam {
    /// Trains the layer for some of the concepts on dense rows. The loss is the mean over all known labels of a batch, of
    /// all concepts, so that a step does not depend on the group.
    pub fn fit(&self, values: &[f32], width: usize, labels: &Annotations, concepts: Range<usize>) -> Vec<Probe> {
        // Nobody can cancel it.
        self.fit_monitored(values, width, labels, concepts, &Silent).unwrap_or_default()
    }

    /// The same, for work that can be cancelled.
    pub fn fit_monitored(
        &self,
        values: &[f32],
        width: usize,
        labels: &Annotations,
        concepts: Range<usize>,
        monitor: &dyn Monitor,
    ) -> Result<Vec<Probe>, Cancelled> {
        let (rows, probes) = (labels.rows(), concepts.len());
        let known_labels: Vec<u32> = {
            let mut counts = vec![0; rows];
            for concept in 0..labels.concepts() {
                labels.known(Concept(concept as u32)).rows().for_each(|row| counts[row] += 1);
            }
            counts
        };
        // PyTorch draws weights and intercepts from the same interval.
        let bound = 1.0 / (width as f64).sqrt();
        let mut layer = Layer::new(probes * width);
        let mut intercepts = Layer::new(probes);
        for (place, concept) in concepts.clone().enumerate() {
            let mut random = stream(self.seed, "probe/adam/start", concept as u64);
            let mut draw = || ((2.0 * unit(&mut random) - 1.0) * bound) as f32;
            layer.values[place * width..][..width].iter_mut().for_each(|value| *value = draw());
            intercepts.values[place] = draw();
        }
        let mut picked = Vec::new();
        let mut residuals = Vec::new();
        let mut slopes = vec![0f32; probes * width];
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
                let mut intercept_slopes = vec![0f32; probes];
                for (place, concept) in concepts.clone().enumerate() {
                    let (yes, known) = (labels.yes(Concept(concept as u32)), labels.known(Concept(concept as u32)));
                    let mut total = 0.0;
                    for (residual, &row) in residuals[place * batch.len()..].iter_mut().zip(batch) {
                        let truth = f64::from(u8::from(yes.contains(row)));
                        let wrong = sigmoid(f64::from(*residual + intercepts.values[place])) - truth;
                        let share = if known.contains(row) { wrong / cells } else { 0.0 };
                        total += share;
                        *residual = share as f32;
                    }
                    intercept_slopes[place] = total as f32;
                }
                rows_by_columns(&residuals, &picked, batch.len(), width, &mut slopes);
                step += 1;
                layer.step(&slopes, self.learning_rate, step, EPSILON);
                intercepts.step(&intercept_slopes, self.learning_rate, step, EPSILON);
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

/// Parameters with what Adam remembers of their slopes.
pub(super) struct Layer {
    /// The parameters.
    pub values: Vec<f32>,
    means: Vec<f32>,
    squares: Vec<f32>,
}

impl Layer {
    /// So many zeros.
    pub fn new(len: usize) -> Layer {
        Layer::from(vec![0.0; len])
    }

    /// Parameters to begin with.
    pub fn from(values: Vec<f32>) -> Layer {
        Layer { means: vec![0.0; values.len()], squares: vec![0.0; values.len()], values }
    }

    /// What the root of the mean squared slope is divided by at a step (from 1), because it began at zero.
    pub fn root(step: i32) -> f32 {
        (1.0 - f64::from(SQUARE_DECAY).powi(step)).sqrt() as f32
    }

    /// One step against the slopes.
    pub fn step(&mut self, slopes: &[f32], learning_rate: f64, step: i32, epsilon: f32) {
        let length = (learning_rate / (1.0 - f64::from(MEAN_DECAY).powi(step))) as f32;
        let root = Layer::root(step);
        let memory = self.means.iter_mut().zip(&mut self.squares);
        for ((value, (mean, square)), &slope) in self.values.iter_mut().zip(memory).zip(slopes) {
            *mean += (1.0 - MEAN_DECAY) * (slope - *mean);
            *square = SQUARE_DECAY * *square + (1.0 - SQUARE_DECAY) * slope * slope;
            *value -= length * *mean / (square.sqrt() / root + epsilon);
        }
    }
}

/// A dot product in eight lanes: fixed order, and the compiler makes it wide.
pub(super) fn product(a: &[f32], b: &[f32]) -> f32 {
    let (a, a_rest) = a.as_chunks::<8>();
    let (b, b_rest) = b.as_chunks::<8>();
    let mut lanes = [0f32; 8];
    for (a, b) in a.iter().zip(b) {
        for lane in 0..8 {
            lanes[lane] += a[lane] * b[lane];
        }
    }
    lanes.iter().sum::<f32>() + a_rest.iter().zip(b_rest).map(|(a, b)| a * b).sum::<f32>()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::labels::Label;

    fn labels(rows: usize) -> Annotations {
        let names = vec!["a".to_string(), "b".into(), "c".into()];
        Annotations::new(names, rows, |row, concept| match (row + concept) % 4 {
            0 => Label::Yes,
            3 if concept == 2 => Label::Unknown,
            _ => Label::No,
        })
        .unwrap()
    }

    #[test]
    fn the_first_step_has_the_length_of_the_learning_rate() {
        // Adam's first step is learning_rate · slope / |slope|, whatever the slope (as long as it is far above 1e-8).
        let values = [1.0, -2.0, 0.5, 1.5, 1.0, 1.0, -1.0, 0.25];
        let before = Adam { learning_rate: 0.125, epochs: 0, batch: 8, seed: 3 };
        let after = Adam { epochs: 1, ..before };
        let labels = labels(4);
        let (before, after) = (before.fit(&values, 2, &labels, 0..3), after.fit(&values, 2, &labels, 0..3));
        for (before, after) in before.iter().zip(&after) {
            for (a, b) in before.weights.iter().zip(&after.weights) {
                assert!((a.abs() <= 1.0 / 2f64.sqrt()) && ((a - b).abs() - 0.125).abs() < 1e-4, "{a} {b}");
            }
        }
    }

    #[test]
    fn groups_do_not_matter_and_labels_are_learnt() {
        let rows = 64;
        let labels = labels(rows);
        // A one-hot code of the row's number modulo 4 tells every label.
        let values: Vec<f32> = (0..rows * 4).map(|i| f32::from(u8::from(i / 4 % 4 == i % 4))).collect();
        let adam = Adam { learning_rate: 0.05, epochs: 100, batch: 20, seed: 1 };
        let together = adam.fit(&values, 4, &labels, 0..3);
        let mut apart = adam.fit(&values, 4, &labels, 0..1);
        apart.extend(adam.fit(&values, 4, &labels, 1..3));
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
