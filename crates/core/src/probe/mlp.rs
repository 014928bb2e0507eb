//! Many small networks: one hidden layer of rectified linear units, each network trained separately with Adam.
//!
//! A network of 32 units on a few thousand rows takes milliseconds and is too small to gain from matrix products. Networks
//! are trained in parallel; each depends only on its own number.

use rayon::prelude::*;

use super::adam::Layer;
use super::logistic::sigmoid;
use etalon_kernel::lanes::dot_f32;
use etalon_kernel::random::{permutation, stream, unit};

/// Training settings. Initial weights are Glorot's, uniform in ±√(6 / (inputs + outputs)) of their layer; initial
/// intercepts are zero.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Mlp {
    /// Units of the hidden layer.
    pub hidden: usize,
    /// The learning rate.
    pub learning_rate: f64,
    /// Number of epochs.
    pub epochs: usize,
    /// Rows per mini-batch; the last one of an epoch may be smaller.
    pub batch: usize,
    /// Added to the root of the second moment before bias correction, as in Keras.
    pub epsilon: f64,
    /// The seed of the initial weights and of the shuffling.
    pub seed: u64,
}

impl Default for Mlp {
    fn default() -> Mlp {
        Mlp { hidden: 32, learning_rate: 1e-3, epochs: 25, batch: 512, epsilon: 1e-7, seed: 0 }
    }
}

/// The data of one network.
#[derive(Clone, Copy, Debug)]
pub struct TrainingSet<'a> {
    /// All values, row by row.
    pub values: &'a [f32],
    /// Values per row.
    pub width: usize,
    /// The class of every row, below `classes`.
    pub truth: &'a [u32],
    /// The number of classes: one output for two, otherwise one output each.
    pub classes: usize,
    /// The number of the random stream of this network.
    pub number: u64,
}

/// A network.
#[derive(Clone, Debug, PartialEq)]
pub struct Network {
    /// Values per row.
    pub width: usize,
    /// The weights of the hidden units, `width × hidden`.
    pub first: Vec<f32>,
    /// Their intercepts.
    pub hidden_intercepts: Vec<f32>,
    /// The weights of the outputs, `outputs × hidden`.
    pub second: Vec<f32>,
    /// Their intercepts.
    pub intercepts: Vec<f32>,
}

impl Network {
    /// The number of outputs.
    pub fn outputs(&self) -> usize {
        self.intercepts.len()
    }

    /// The scores of all rows, `rows × outputs`: one output above zero is class 1, otherwise the largest is the class.
    pub fn scores(&self, values: &[f32]) -> Vec<f32> {
        let mut hidden = vec![0.0; self.hidden_intercepts.len()];
        let mut scores = Vec::new();
        for row in values.chunks_exact(self.width.max(1)) {
            forward(row, &self.first, &self.hidden_intercepts, &mut hidden);
            for (output, intercept) in self.intercepts.iter().enumerate() {
                scores.push(intercept + dot_f32(&self.second[output * hidden.len()..][..hidden.len()], &hidden));
            }
        }
        scores
    }
}

/// The activations of the hidden units.
fn forward(row: &[f32], first: &[f32], intercepts: &[f32], hidden: &mut [f32]) {
    hidden.copy_from_slice(intercepts);
    for (&value, weights) in row.iter().zip(first.chunks_exact(hidden.len().max(1))) {
        hidden.iter_mut().zip(weights).for_each(|(unit, weight)| *unit += value * weight);
    }
    hidden.iter_mut().for_each(|unit| *unit = unit.max(0.0));
}

impl Mlp {
    /// Trains one network per training set in parallel, and returns them in order.
    pub fn fit_all(&self, sets: &[TrainingSet<'_>]) -> Vec<Network> {
        sets.par_iter().map(|data| self.fit(data)).collect()
    }

    /// Trains one network.
    pub fn fit(&self, data: &TrainingSet<'_>) -> Network {
        let outputs = if data.classes > 2 { data.classes } else { 1 };
        let mut random = stream(self.seed, "probe/mlp/start", data.number);
        let mut glorot = |inputs: usize, outputs: usize| {
            let bound = (6.0 / (inputs + outputs).max(1) as f64).sqrt();
            (0..inputs * outputs).map(|_| ((2.0 * unit(&mut random) - 1.0) * bound) as f32).collect::<Vec<f32>>()
        };
        let (first, second) = (glorot(data.width, self.hidden), glorot(self.hidden, outputs));
        let (hidden_intercepts, intercepts) = (vec![0.0; self.hidden], vec![0.0; outputs]);
        self.fit_from(Network { width: data.width, first, hidden_intercepts, second, intercepts }, data)
    }

    /// Trains a given network, whatever its number of hidden units.
    pub fn fit_from(&self, start: Network, data: &TrainingSet<'_>) -> Network {
        let (width, hidden, outputs) = (start.width, start.hidden_intercepts.len(), start.outputs());
        // First weights, their intercepts, second weights, their intercepts; gradients have the same order.
        let mut layers = [start.first, start.hidden_intercepts, start.second, start.intercepts].map(Layer::from);
        let mut gradients = layers.each_ref().map(|layer| vec![0f32; layer.values.len()]);
        let (mut units, mut back, mut residual) = (vec![0f32; hidden], vec![0f32; hidden], vec![0f64; outputs]);
        let mut step = 0;
        for epoch in 0..self.epochs {
            let mut random = stream(self.seed, "probe/mlp/epoch", data.number << 16 | epoch as u64 & 0xffff);
            for batch in permutation(data.truth.len(), &mut random).chunks(self.batch.max(1)) {
                gradients.iter_mut().for_each(|gradients| gradients.fill(0.0));
                for &row in batch {
                    let values = &data.values[row * width..][..width];
                    forward(values, &layers[0].values, &layers[1].values, &mut units);
                    for (output, residual) in residual.iter_mut().enumerate() {
                        let weights = &layers[2].values[output * hidden..][..hidden];
                        *residual = f64::from(layers[3].values[output] + dot_f32(weights, &units));
                    }
                    residuals(&mut residual, data.truth[row] as usize);
                    back.fill(0.0);
                    for (output, residual) in residual.iter().enumerate() {
                        let share = (residual / batch.len() as f64) as f32;
                        gradients[3][output] += share;
                        let weights = &layers[2].values[output * hidden..][..hidden];
                        let gradients = &mut gradients[2][output * hidden..][..hidden];
                        for ((slope, unit), (back, weight)) in
                            gradients.iter_mut().zip(&units).zip(back.iter_mut().zip(weights))
                        {
                            *slope += share * unit;
                            *back += share * weight;
                        }
                    }
                    back.iter_mut().zip(&units).for_each(|(back, unit)| *back = if *unit > 0.0 { *back } else { 0.0 });
                    gradients[1].iter_mut().zip(&back).for_each(|(slope, back)| *slope += back);
                    for (&value, gradients) in values.iter().zip(gradients[0].chunks_exact_mut(hidden.max(1))) {
                        gradients.iter_mut().zip(&back).for_each(|(slope, back)| *slope += value * back);
                    }
                }
                step += 1;
                let epsilon = self.epsilon as f32 / Layer::root(step);
                for (layer, gradients) in layers.iter_mut().zip(&gradients) {
                    layer.step(gradients, self.learning_rate, step, epsilon);
                }
            }
        }
        let [first, hidden_intercepts, second, intercepts] = layers.map(|layer| layer.values);
        Network { width, first, hidden_intercepts, second, intercepts }
    }
}

/// Replaces the scores of a row by probabilities minus truth.
fn residuals(scores: &mut [f64], truth: usize) {
    if let [score] = scores {
        *score = sigmoid(*score) - truth as f64;
        return;
    }
    let largest = scores.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    scores.iter_mut().for_each(|score| *score = libm::exp(*score - largest));
    let total: f64 = scores.iter().sum();
    for (class, score) in scores.iter_mut().enumerate() {
        *score = *score / total - f64::from(u8::from(class == truth));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn grid() -> Vec<f32> {
        (0..20).flat_map(|i| (0..20).flat_map(move |j| [i as f32 / 10.0 - 0.95, j as f32 / 10.0 - 0.95])).collect()
    }

    #[test]
    fn nonlinear_classes_are_learnt() {
        // Opposite quadrants; for three classes, the upper rows are the third class.
        let values = grid();
        let crossed: Vec<u32> = values.chunks(2).map(|row| u32::from(row[0] * row[1] > 0.0)).collect();
        let three: Vec<u32> =
            crossed.iter().zip(values.chunks(2)).map(|(&c, row)| if row[1] > 0.5 { 2 } else { c }).collect();
        let mlp = Mlp { learning_rate: 0.01, epochs: 150, batch: 50, ..Mlp::default() };
        let sets = [
            TrainingSet { values: &values, width: 2, truth: &crossed, classes: 2, number: 0 },
            TrainingSet { values: &values, width: 2, truth: &three, classes: 3, number: 1 },
        ];
        let networks = mlp.fit_all(&sets);
        let scores = networks[0].scores(&values);
        let right = crossed.iter().zip(&scores).filter(|(c, score)| (**c == 1) == (**score > 0.0)).count();
        assert!(right > 380, "{right} of 400");
        let scores = networks[1].scores(&values);
        let best = |row: &[f32]| (0..3).fold(0, |best, class| if row[class] > row[best] { class } else { best }) as u32;
        let right = three.iter().zip(scores.chunks(3)).filter(|(c, row)| **c == best(row)).count();
        assert!(right > 370, "{right} of 400");
    }

    #[test]
    fn the_first_step_is_the_learning_rate() {
        // One row x = 1 of class 1: the output's intercept starts at zero and takes one step of the learning rate up.
        let mlp = Mlp { hidden: 3, learning_rate: 0.25, epochs: 1, ..Mlp::default() };
        let data = TrainingSet { values: &[1.0], width: 1, truth: &[1], classes: 2, number: 5 };
        let (before, after) = (Mlp { epochs: 0, ..mlp }.fit(&data), mlp.fit(&data));
        assert!(before.intercepts == [0.0] && (after.intercepts[0] - 0.25).abs() < 1e-5);
        for (a, b) in before.second.iter().zip(&after.second) {
            // Units that were at zero leave their weights alone; the others move by the learning rate.
            assert!((a - b).abs() < 1e-6 || ((a - b).abs() - 0.25).abs() < 1e-3, "{a} {b}");
        }
    }

    #[test]
    fn results_do_not_depend_on_other_networks_or_threads() {
        let values = grid();
        let truths: Vec<Vec<u32>> =
            (2..9).map(|step| (0..400).map(|row| u32::from(row % step == 0)).collect()).collect();
        let sets: Vec<TrainingSet<'_>> = truths
            .iter()
            .zip(0..)
            .map(|(truth, number)| TrainingSet { values: &values, width: 2, truth, classes: 2, number })
            .collect();
        let mlp = Mlp { epochs: 2, ..Mlp::default() };
        let alone: Vec<Network> = sets.iter().map(|data| mlp.fit(data)).collect();
        for threads in [1, 2, 7] {
            let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap();
            assert!(pool.install(|| mlp.fit_all(&sets)) == alone);
        }
        let none = TrainingSet { values: &[], width: 2, truth: &[], classes: 2, number: 0 };
        assert!(mlp.fit(&none).scores(&[]).is_empty());
    }
}
