//! A network of a few layers of rectified linear units in double precision, trained as scikit-learn's `MLPClassifier`
//! does: Adam, an L2 penalty on the weights, and a stop when the loss no longer improves; or as Keras does, without the
//! last two.

use pulp::{Arch, Simd, WithSimd};

use crate::monitor::{Cancelled, Monitor};
use crate::random::{ChaCha8Rng, unit};

/// Training settings; the defaults are those of scikit-learn, but for the batch.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct LayeredTraining {
    /// The learning rate.
    pub learning_rate: f64,
    /// Maximum number of epochs.
    pub epochs: usize,
    /// Rows per mini-batch.
    pub batch: usize,
    /// The strength of the L2 penalty.
    pub penalty: f64,
    /// An epoch improves if the loss falls by more than this.
    pub tolerance: f64,
    /// The training ends after more than this many epochs without improvement.
    pub patience: usize,
    /// Added to the root of the second moment of Adam.
    pub epsilon: f64,
}

impl Default for LayeredTraining {
    fn default() -> LayeredTraining {
        LayeredTraining {
            learning_rate: 1e-3,
            epochs: 1000,
            batch: 512,
            penalty: 1e-4,
            tolerance: 1e-4,
            patience: 10,
            epsilon: 1e-8,
        }
    }
}

impl LayeredTraining {
    /// The settings of Keras: all epochs, no penalty.
    pub fn keras(epochs: usize, batch: usize) -> LayeredTraining {
        LayeredTraining {
            epochs,
            batch,
            penalty: 0.0,
            patience: usize::MAX,
            epsilon: 1e-7,
            ..LayeredTraining::default()
        }
    }
}

/// The outputs of a network.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outputs {
    /// Independent probabilities.
    Sigmoid,
    /// The probabilities of classes.
    Softmax,
}

/// A layer: `inputs × outputs` weights, row by row, and one intercept per output.
#[derive(Clone, Debug, PartialEq)]
pub struct Layer {
    /// The weights.
    pub weights: Vec<f64>,
    /// The intercepts.
    pub intercepts: Vec<f64>,
}

impl Layer {
    fn zeros(inputs: usize, outputs: usize) -> Layer {
        Layer { weights: vec![0.0; inputs * outputs], intercepts: vec![0.0; outputs] }
    }

    fn outputs(&self) -> usize {
        self.intercepts.len()
    }
}

/// A network.
#[derive(Clone, Debug, PartialEq)]
pub struct LayeredNetwork {
    /// Its layers; all but the last are followed by rectified linear units.
    pub layers: Vec<Layer>,
    /// What the last layer means.
    pub outputs: Outputs,
}

/// Rows with their targets.
#[derive(Clone, Copy, Debug)]
pub struct TargetRows<'a> {
    /// Values, row by row.
    pub values: &'a [f32],
    /// Values per row.
    pub width: usize,
    /// Targets from 0 to 1, row by row, one per output; a target that is not a number has no influence.
    pub targets: &'a [f32],
}

impl LayeredNetwork {
    /// Random weights and intercepts, uniform in ±√(6 / (inputs + outputs)) of their layer.
    pub fn random(sizes: &[usize], outputs: Outputs, random: &mut ChaCha8Rng) -> LayeredNetwork {
        let mut layer = |pair: &[usize]| {
            let bound = (6.0 / (pair[0] + pair[1]).max(1) as f64).sqrt();
            let mut draw = |count: usize| (0..count).map(|_| (2.0 * unit(random) - 1.0) * bound).collect::<Vec<_>>();
            Layer { weights: draw(pair[0] * pair[1]), intercepts: draw(pair[1]) }
        };
        LayeredNetwork { layers: sizes.windows(2).map(&mut layer).collect(), outputs }
    }

    /// Trains the network and returns the loss of every epoch. `order` returns the order of the rows in an epoch.
    pub fn train(
        &mut self,
        training: &LayeredTraining,
        rows: TargetRows<'_>,
        mut order: impl FnMut(usize) -> Vec<usize>,
        monitor: &dyn Monitor,
    ) -> Result<Vec<f64>, Cancelled> {
        let like = |layer: &Layer| Layer::zeros(layer.weights.len() / layer.outputs().max(1), layer.outputs());
        let zeros: Vec<Layer> = self.layers.iter().map(like).collect();
        let mut adam = Adam { means: zeros.clone(), squares: zeros.clone(), step: 0 };
        let mut gradients = zeros;
        let (mut losses, mut best, mut waited) = (Vec::new(), f64::INFINITY, 0);
        for epoch in 0..training.epochs {
            monitor.check()?;
            let order = order(epoch);
            let mut loss = 0.0;
            for batch in order.chunks(training.batch.max(1)) {
                let mut total = 0.0;
                let pass = Batch { network: self, rows, batch, gradients: &mut gradients, loss: &mut total };
                Arch::new().dispatch(pass);
                let squares: f64 = self.layers.iter().flat_map(|layer| &layer.weights).map(|w| w * w).sum();
                loss += total + 0.5 * training.penalty * squares;
                let update =
                    Update { network: self, adam: &mut adam, gradients: &gradients, training, rows: batch.len() };
                Arch::new().dispatch(update);
            }
            let loss = loss / order.len().max(1) as f64;
            losses.push(loss);
            waited = if loss > best - training.tolerance { waited + 1 } else { 0 };
            best = best.min(loss);
            if waited > training.patience {
                break;
            }
        }
        Ok(losses)
    }

    /// The output of one row before the sigmoid or the softmax, given the values of the first layer before rectification.
    pub fn rest(&self, first: &[f64]) -> Vec<f64> {
        let mut active = first.to_vec();
        for layer in self.layers.iter().skip(1) {
            let mut next = layer.intercepts.clone();
            for (value, weights) in active.iter().zip(layer.weights.chunks_exact(layer.outputs().max(1))) {
                if *value > 0.0 {
                    next.iter_mut().zip(weights).for_each(|(sum, weight)| *sum += value * weight);
                }
            }
            active = next;
        }
        active
    }

    /// The first layer of one row, before rectification.
    pub fn first(&self, row: &[f32]) -> Vec<f64> {
        let Some(layer) = self.layers.first() else { return Vec::new() };
        let mut sums = layer.intercepts.clone();
        for (&value, weights) in row.iter().zip(layer.weights.chunks_exact(layer.outputs().max(1))) {
            if value != 0.0 {
                sums.iter_mut().zip(weights).for_each(|(sum, weight)| *sum += f64::from(value) * weight);
            }
        }
        sums
    }

    /// The probabilities of one row.
    pub fn probabilities(&self, row: &[f32]) -> Vec<f64> {
        let mut scores = self.rest(&self.first(row));
        self.outputs.normalise(&mut scores);
        scores
    }
}

impl Outputs {
    /// Replaces the values of the last layer by probabilities.
    #[inline(always)]
    pub fn normalise(self, scores: &mut [f64]) {
        match self {
            Outputs::Sigmoid => scores.iter_mut().for_each(|score| *score = sigmoid(*score)),
            Outputs::Softmax => {
                let largest = scores.iter().copied().fold(f64::NEG_INFINITY, f64::max);
                scores.iter_mut().for_each(|score| *score = libm::exp(*score - largest));
                let total: f64 = scores.iter().sum();
                scores.iter_mut().for_each(|score| *score /= total);
            }
        }
    }
}

/// The logistic function.
#[inline(always)]
pub fn sigmoid(value: f64) -> f64 {
    1.0 / (1.0 + libm::exp(-value))
}

/// Gradients of a batch: the sums over its rows.
struct Batch<'a> {
    network: &'a LayeredNetwork,
    rows: TargetRows<'a>,
    batch: &'a [usize],
    gradients: &'a mut [Layer],
    loss: &'a mut f64,
}

impl WithSimd for Batch<'_> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, _: S) {
        let layers = &self.network.layers;
        let Some(outputs) = layers.last().map(Layer::outputs) else { return };
        for gradient in self.gradients.iter_mut() {
            gradient.weights.fill(0.0);
            gradient.intercepts.fill(0.0);
        }
        let mut active: Vec<Vec<f64>> = layers.iter().map(|layer| layer.intercepts.clone()).collect();
        let mut back = active.clone();
        for &row in self.batch {
            let values = &self.rows.values[row * self.rows.width..][..self.rows.width];
            for (number, layer) in layers.iter().enumerate() {
                let (before, here) = active.split_at_mut(number);
                let sums = &mut here[0];
                sums.copy_from_slice(&layer.intercepts);
                match before.last() {
                    None => {
                        values.iter().enumerate().for_each(|(i, &x)| accumulate(sums, f64::from(x), &layer.weights, i))
                    }
                    Some(before) => {
                        before.iter().enumerate().for_each(|(i, &x)| accumulate(sums, x, &layer.weights, i))
                    }
                }
                if number + 1 < layers.len() {
                    sums.iter_mut().for_each(|sum| *sum = if *sum > 0.0 { *sum } else { 0.0 });
                }
            }
            let last = layers.len() - 1;
            self.network.outputs.normalise(&mut active[last]);
            let targets = &self.rows.targets[row * outputs..][..outputs];
            *self.loss += loss(self.network.outputs, &active[last], targets);
            for ((back, probability), &target) in back[last].iter_mut().zip(&active[last]).zip(targets) {
                *back = if target.is_nan() { 0.0 } else { probability - f64::from(target) };
            }
            for number in (0..layers.len()).rev() {
                let (lower, upper) = back.split_at_mut(number);
                let (slope, gradient) = (&upper[0], &mut self.gradients[number]);
                gradient.intercepts.iter_mut().zip(slope).for_each(|(sum, slope)| *sum += slope);
                let width = slope.len();
                match lower.last_mut() {
                    None => {
                        for (sums, &value) in gradient.weights.chunks_exact_mut(width).zip(values) {
                            if value != 0.0 {
                                sums.iter_mut().zip(slope).for_each(|(sum, slope)| *sum += f64::from(value) * slope);
                            }
                        }
                    }
                    Some(lower) => {
                        let weights = layers[number].weights.chunks_exact(width);
                        let sums = gradient.weights.chunks_exact_mut(width);
                        for (((back, &value), weights), sums) in
                            lower.iter_mut().zip(&active[number - 1]).zip(weights).zip(sums)
                        {
                            *back = 0.0;
                            if value > 0.0 {
                                sums.iter_mut().zip(slope).for_each(|(sum, slope)| *sum += value * slope);
                                *back = weights.iter().zip(slope).map(|(weight, slope)| weight * slope).sum();
                            }
                        }
                    }
                }
            }
        }
    }
}

/// Adds the weights of one input times its value.
#[inline(always)]
fn accumulate(sums: &mut [f64], value: f64, weights: &[f64], input: usize) {
    let width = sums.len();
    if value != 0.0 {
        let weights = &weights[input * width..][..width];
        sums.iter_mut().zip(weights).for_each(|(sum, weight)| *sum += value * weight);
    }
}

/// The cross entropy of a row, with probabilities kept away from 0 and 1.
fn loss(outputs: Outputs, probabilities: &[f64], targets: &[f32]) -> f64 {
    let log = |p: f64| libm::log(p.clamp(f64::EPSILON, 1.0 - f64::EPSILON));
    let known = probabilities.iter().zip(targets).filter(|(_, target)| !target.is_nan());
    let terms = known.map(|(&p, &target)| {
        let target = f64::from(target);
        let yes = if target > 0.0 { -target * log(p) } else { 0.0 };
        let no = if outputs == Outputs::Sigmoid && target < 1.0 { -(1.0 - target) * log(1.0 - p) } else { 0.0 };
        yes + no
    });
    terms.sum()
}

struct Adam {
    means: Vec<Layer>,
    squares: Vec<Layer>,
    step: i32,
}

struct Update<'a> {
    network: &'a mut LayeredNetwork,
    adam: &'a mut Adam,
    gradients: &'a [Layer],
    training: &'a LayeredTraining,
    rows: usize,
}

impl WithSimd for Update<'_> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, _: S) {
        let Update { network, adam, gradients, training, rows } = self;
        adam.step += 1;
        let (first, second) = (0.9f64.powi(adam.step), 0.999f64.powi(adam.step));
        let rate = training.learning_rate * (1.0 - second).sqrt() / (1.0 - first);
        let rows = rows as f64;
        for (number, layer) in network.layers.iter_mut().enumerate() {
            let (means, squares, gradient) = (&mut adam.means[number], &mut adam.squares[number], &gradients[number]);
            let parts = [
                (&mut layer.weights, &mut means.weights, &mut squares.weights, &gradient.weights, training.penalty),
                (&mut layer.intercepts, &mut means.intercepts, &mut squares.intercepts, &gradient.intercepts, 0.0),
            ];
            for (values, means, squares, gradient, penalty) in parts {
                for (((value, mean), square), sum) in values.iter_mut().zip(means).zip(squares).zip(gradient) {
                    let slope = (sum + penalty * *value) / rows;
                    *mean = 0.9 * *mean + 0.1 * slope;
                    *square = 0.999 * *square + 0.001 * slope * slope;
                    *value -= rate * *mean / (square.sqrt() + training.epsilon);
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::monitor::{Silent, Stop};
    use crate::random::{permutation, stream};

    #[test]
    fn opposite_quadrants_and_three_classes_are_learnt() {
        let values: Vec<f32> =
            (0..20).flat_map(|i| (0..20).flat_map(move |j| [i as f32 / 10.0 - 0.95, j as f32 / 10.0 - 0.95])).collect();
        for outputs in [Outputs::Sigmoid, Outputs::Softmax] {
            let class = |row: &[f32]| usize::from(row[0] * row[1] > 0.0) + usize::from(row[1] > 0.5);
            let targets: Vec<f32> = values
                .chunks(2)
                .flat_map(|row| (0..3).map(|c| f32::from(u8::from(c == class(row)))).collect::<Vec<_>>())
                .collect();
            let mut random = stream(0, "layered", 0);
            let mut network = LayeredNetwork::random(&[2, 20, 20, 3], outputs, &mut random);
            let training =
                LayeredTraining { learning_rate: 0.01, batch: 50, epochs: 150, ..LayeredTraining::default() };
            let rows = TargetRows { values: &values, width: 2, targets: &targets };
            let order = |epoch: usize| permutation(400, &mut stream(0, "layered/epoch", epoch as u64));
            let losses = network.train(&training, rows, order, &Silent).unwrap();
            assert!(losses[losses.len() - 1] < 0.3 * losses[0]);
            let best = |p: &[f64]| (0..3).fold(0, |best, c| if p[c] > p[best] { c } else { best });
            let right = values.chunks(2).filter(|row| best(&network.probabilities(row)) == class(row)).count();
            assert!(right > 380, "{right} of 400");
            assert!(network.train(&training, rows, order, &Stop).is_err());
        }
    }
}
