//! Many small networks trained side by side: one hidden layer of rectified linear units, Adam, mini-batches.
//!
//! A network of 32 units on one input is too small for matrix products. Sixteen networks that read the same inputs and
//! predict different targets are trained together, one in every lane of a vector. Lanes do not interact: the bits of a
//! network depend neither on its lane nor on the other networks.

mod general;
mod one_input;

use pulp::{Arch, Simd, WithSimd};

use crate::monitor::{Cancelled, Monitor};
use crate::neural::exp;

/// Networks that are trained together.
pub const LANES: usize = 16;

/// One number of each network.
pub type Lanes = [f32; LANES];

/// The truth of a row without a label: it has no influence.
pub const UNKNOWN: f32 = -1.0;

/// Training settings: Adam with decays 0.9 and 0.999.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Training {
    /// The learning rate.
    pub learning_rate: f64,
    /// Number of epochs.
    pub epochs: usize,
    /// Rows per mini-batch; the last one of an epoch may be smaller.
    pub batch: usize,
    /// Added to the root of the second moment before bias correction, as in Keras.
    pub epsilon: f64,
}

impl Default for Training {
    fn default() -> Training {
        Training { learning_rate: 1e-3, epochs: 25, batch: 512, epsilon: 1e-7 }
    }
}

/// The sizes of a network.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Size {
    /// Values per row.
    pub width: usize,
    /// Units of the hidden layer.
    pub hidden: usize,
    /// Outputs: 1 for two classes (a logit), otherwise one per class (softmax).
    pub outputs: usize,
}

impl Size {
    /// Positions of the hidden intercepts, the second weights and their intercepts; the first weights start at 0.
    fn offsets(self) -> [usize; 4] {
        let first = self.width * self.hidden;
        let second = first + self.hidden;
        [first, second, second + self.outputs * self.hidden, second + self.outputs * (self.hidden + 1)]
    }

    /// Whether there is one input and one output.
    fn is_usual(self) -> bool {
        (self.width, self.outputs) == (1, 1)
    }

    /// Number of parameters of a network.
    pub fn parameters(self) -> usize {
        self.offsets()[3]
    }
}

/// Up to [`LANES`] networks of the same size that read the same rows.
#[derive(Clone, Debug, PartialEq)]
pub struct SmallNetworks {
    size: Size,
    /// First weights (`width × hidden`), hidden intercepts, second weights (`outputs × hidden`), intercepts.
    parameters: Vec<Lanes>,
}

impl SmallNetworks {
    /// Networks of zeros.
    pub fn new(size: Size) -> SmallNetworks {
        SmallNetworks { size, parameters: vec![[0.0; LANES]; size.parameters()] }
    }

    /// Their size.
    pub fn size(&self) -> Size {
        self.size
    }

    /// Sets all parameters of one network, in the order first weights, hidden intercepts, second weights, intercepts.
    pub fn set(&mut self, lane: usize, parameters: &[f32]) {
        assert!(parameters.len() == self.parameters.len(), "parameters of another size");
        self.parameters.iter_mut().zip(parameters).for_each(|(lanes, &value)| lanes[lane] = value);
    }

    /// All parameters of one network, in the order of [`SmallNetworks::set`].
    pub fn get(&self, lane: usize) -> Vec<f32> {
        self.parameters.iter().map(|lanes| lanes[lane]).collect()
    }

    /// Trains all networks. `values` has `width` numbers per row, `truth` the class of the row for each network
    /// ([`UNKNOWN`] if it has none), and `order` returns the order of the rows in an epoch.
    pub fn train(
        &mut self,
        training: &Training,
        values: &[f32],
        truth: &[Lanes],
        mut order: impl FnMut(usize) -> Vec<u32>,
        monitor: &dyn Monitor,
    ) -> Result<(), Cancelled> {
        assert!(values.len() == truth.len() * self.size.width, "rows of values and truth differ");
        let count = self.parameters.len();
        let mut adam = Adam {
            means: vec![[0.0; LANES]; count],
            squares: vec![[0.0; LANES]; count],
            gradients: vec![[0.0; LANES]; count],
            step: 0,
        };
        for epoch in 0..training.epochs {
            monitor.check()?;
            let order = order(epoch);
            let parameters = &mut self.parameters;
            let adam = &mut adam;
            run_epoch(Epoch { size: self.size, training, values, truth, order: &order, parameters, adam });
        }
        Ok(())
    }

    /// The scores of all rows: `rows × outputs`, each for all networks.
    pub fn scores(&self, values: &[f32]) -> Vec<Lanes> {
        let rows = values.len().checked_div(self.size.width).unwrap_or(0);
        let mut scores = vec![[0.0; LANES]; rows * self.size.outputs];
        Arch::new().dispatch(Scores { networks: self, values, scores: &mut scores });
        scores
    }
}

/// Not generic: such functions are compiled where they are used, which may be a crate that is not built for speed.
fn run_epoch(epoch: Epoch<'_>) {
    Arch::new().dispatch(epoch);
}

/// The state of the optimizer.
struct Adam {
    means: Vec<Lanes>,
    squares: Vec<Lanes>,
    gradients: Vec<Lanes>,
    step: i32,
}

struct Epoch<'a> {
    size: Size,
    training: &'a Training,
    values: &'a [f32],
    truth: &'a [Lanes],
    order: &'a [u32],
    parameters: &'a mut [Lanes],
    adam: &'a mut Adam,
}

impl WithSimd for Epoch<'_> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) {
        let is_usual = self.size.is_usual();
        self.run(simd, is_usual);
    }
}

impl Epoch<'_> {
    /// With the loops of networks with one input and one output, or with the general ones.
    #[inline(always)]
    fn run<S: Simd>(self, simd: S, one_input: bool) {
        let Size { width, outputs, .. } = self.size;
        let size = self.training.batch.clamp(1, self.order.len().max(1));
        let (mut inputs, mut truth) = (Vec::with_capacity(size * width), Vec::with_capacity(size));
        let mut residuals = vec![[0.0; LANES]; size * outputs];
        for batch in self.order.chunks(size) {
            inputs.clear();
            truth.clear();
            for &row in batch {
                inputs.extend_from_slice(&self.values[row as usize * width..][..width]);
                truth.push(self.truth[row as usize]);
            }
            let (inputs, truth, parameters) = (&inputs[..], &truth[..], &self.parameters[..]);
            let (residuals, gradients) = (&mut residuals[..batch.len() * outputs], &mut self.adam.gradients[..]);
            if one_input {
                one_input::Batch { inputs, truth, parameters }.gradients(simd, residuals, gradients);
            } else {
                general::Batch { size: self.size, inputs, truth, parameters }.gradients(simd, residuals, gradients);
            }
            self.adam.advance(self.training, self.parameters);
        }
    }
}

/// Replaces logits by probabilities minus truth.
#[inline(always)]
fn sigmoid_residual(logits: &mut Lanes, truth: &Lanes, scale: f32) {
    for lane in 0..LANES {
        let probability = 1.0 / (1.0 + exp(-logits[lane]));
        let residual = (probability - truth[lane]) * scale;
        logits[lane] = if truth[lane] >= 0.0 { residual } else { 0.0 };
    }
}

/// The same for one row with an output per class.
#[inline(always)]
fn softmax_residual(logits: &mut [Lanes], truth: &Lanes, scale: f32) {
    let mut largest = [f32::MIN; LANES];
    for logits in logits.iter() {
        for lane in 0..LANES {
            largest[lane] = if logits[lane] > largest[lane] { logits[lane] } else { largest[lane] };
        }
    }
    let mut total = [0.0; LANES];
    for logits in logits.iter_mut() {
        for lane in 0..LANES {
            logits[lane] = exp(logits[lane] - largest[lane]);
            total[lane] += logits[lane];
        }
    }
    for (class, logits) in logits.iter_mut().enumerate() {
        for lane in 0..LANES {
            let hit = if truth[lane] == class as f32 { 1.0 } else { 0.0 };
            let residual = (logits[lane] / total[lane] - hit) * scale;
            logits[lane] = if truth[lane] >= 0.0 { residual } else { 0.0 };
        }
    }
}

impl Adam {
    /// One step against the gradients.
    #[inline(always)]
    fn advance(&mut self, training: &Training, parameters: &mut [Lanes]) {
        self.step += 1;
        let (first, second) = (0.9f64.powi(self.step), 0.999f64.powi(self.step));
        let rate = (training.learning_rate * (1.0 - second).sqrt() / (1.0 - first)) as f32;
        let epsilon = training.epsilon as f32;
        let moments = self.means.iter_mut().zip(&mut self.squares);
        for ((values, (means, squares)), gradients) in parameters.iter_mut().zip(moments).zip(&self.gradients) {
            for lane in 0..LANES {
                let slope = gradients[lane];
                means[lane] += 0.1 * (slope - means[lane]);
                squares[lane] += 0.001 * (slope * slope - squares[lane]);
                values[lane] -= rate * means[lane] / (squares[lane].sqrt() + epsilon);
            }
        }
    }
}

struct Scores<'a> {
    networks: &'a SmallNetworks,
    values: &'a [f32],
    scores: &'a mut [Lanes],
}

impl WithSimd for Scores<'_> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) {
        let SmallNetworks { size, parameters } = self.networks;
        if size.is_usual() {
            one_input::logits(simd, parameters, self.values, self.scores);
        } else {
            general::logits(simd, *size, parameters, self.values, self.scores);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::monitor::{Silent, Stop};
    use crate::random::{permutation, stream, unit};

    /// The same training of one network in double precision, row by row.
    fn slow(size: Size, start: &[f32], training: &Training, values: &[f32], truth: &[f32], order: &[u32]) -> Vec<f64> {
        let Size { width, hidden, outputs } = size;
        let [bias, second, last, _] = size.offsets();
        let mut p: Vec<f64> = start.iter().map(|&value| f64::from(value)).collect();
        let (mut m, mut v) = (vec![0.0; p.len()], vec![0.0; p.len()]);
        let mut step = 0;
        for _ in 0..training.epochs {
            for batch in order.chunks(training.batch) {
                let mut g = vec![0.0; p.len()];
                for &row in batch {
                    let row = row as usize;
                    if truth[row] < 0.0 {
                        continue;
                    }
                    let x: Vec<f64> = values[row * width..][..width].iter().map(|&x| f64::from(x)).collect();
                    let unit =
                        |u: usize| (p[bias + u] + (0..width).map(|d| x[d] * p[d * hidden + u]).sum::<f64>()).max(0.0);
                    let h: Vec<f64> = (0..hidden).map(unit).collect();
                    let z: Vec<f64> = (0..outputs)
                        .map(|o| p[last + o] + (0..hidden).map(|u| h[u] * p[second + o * hidden + u]).sum::<f64>())
                        .collect();
                    let total: f64 = z.iter().map(|z| z.exp()).sum();
                    for o in 0..outputs {
                        let probability = if outputs == 1 { 1.0 / (1.0 + (-z[0]).exp()) } else { z[o].exp() / total };
                        let hit = if outputs == 1 {
                            f64::from(truth[row])
                        } else {
                            f64::from(u8::from(truth[row] == o as f32))
                        };
                        let s = (probability - hit) / batch.len() as f64;
                        g[last + o] += s;
                        for u in 0..hidden {
                            g[second + o * hidden + u] += s * h[u];
                            if h[u] > 0.0 {
                                g[bias + u] += s * p[second + o * hidden + u];
                                (0..width).for_each(|d| g[d * hidden + u] += s * p[second + o * hidden + u] * x[d]);
                            }
                        }
                    }
                }
                step += 1;
                let rate = training.learning_rate * (1.0 - 0.999f64.powi(step)).sqrt() / (1.0 - 0.9f64.powi(step));
                for i in 0..p.len() {
                    m[i] += 0.1 * (g[i] - m[i]);
                    v[i] += 0.001 * (g[i] * g[i] - v[i]);
                    p[i] -= rate * m[i] / (v[i].sqrt() + training.epsilon);
                }
            }
        }
        p
    }

    #[test]
    fn every_lane_is_the_network_alone() {
        for size in [Size { width: 1, hidden: 7, outputs: 1 }, Size { width: 3, hidden: 5, outputs: 4 }] {
            let mut random = stream(1, "small networks", 0);
            let rows = 83;
            let values: Vec<f32> = (0..rows * size.width).map(|_| 2.0 * unit(&mut random) as f32 - 1.0).collect();
            let classes = size.outputs.max(2) as f64;
            let truth: Vec<Lanes> = (0..rows)
                .map(|_| std::array::from_fn(|_| (unit(&mut random) * (classes + 0.3)).floor() as f32))
                .map(|row: Lanes| row.map(|class| if class == classes as f32 { UNKNOWN } else { class }))
                .collect();
            let order: Vec<u32> = permutation(rows, &mut random).into_iter().map(|row| row as u32).collect();
            let training = Training { learning_rate: 0.01, epochs: 6, batch: 20, ..Training::default() };
            let starts: Vec<Vec<f32>> =
                (0..LANES).map(|_| (0..size.parameters()).map(|_| unit(&mut random) as f32 - 0.5).collect()).collect();
            let mut all = SmallNetworks::new(size);
            starts.iter().enumerate().for_each(|(lane, start)| all.set(lane, start));
            all.train(&training, &values, &truth, |_| order.clone(), &Silent).unwrap();
            let scores = all.scores(&values);
            for lane in [0, 5, 15] {
                let own: Vec<f32> = truth.iter().map(|row| row[lane]).collect();
                let expected = slow(size, &starts[lane], &training, &values, &own, &order);
                let found = all.get(lane);
                for (a, b) in found.iter().zip(&expected) {
                    assert!((f64::from(*a) - b).abs() < 2e-5, "{size:?}, lane {lane}: {a} {b}");
                }
                // Alone, in another lane.
                let mut alone = SmallNetworks::new(size);
                alone.set(2, &starts[lane]);
                let truth: Vec<Lanes> = own
                    .iter()
                    .map(|&class| {
                        let mut row = [UNKNOWN; LANES];
                        row[2] = class;
                        row
                    })
                    .collect();
                alone.train(&training, &values, &truth, |_| order.clone(), &Silent).unwrap();
                assert!(alone.get(2) == found);
                assert!(alone.scores(&values).iter().zip(&scores).all(|(a, b)| a[2] == b[lane]));
            }
            assert!(all.train(&training, &values, &truth, |_| order.clone(), &Stop).is_err());
        }
    }

    struct General<'a>(Epoch<'a>);

    impl WithSimd for General<'_> {
        type Output = ();

        #[inline(always)]
        fn with_simd<S: Simd>(self, simd: S) {
            self.0.run(simd, false);
        }
    }

    #[test]
    fn loops_for_one_input_give_the_bits_of_the_general_loops() {
        for (hidden, rows) in [(1, 5), (7, 83), (32, 40)] {
            let size = Size { width: 1, hidden, outputs: 1 };
            let mut random = stream(2, "small networks", hidden as u64);
            let mut lanes = || -> Lanes { std::array::from_fn(|_| unit(&mut random) as f32 - 0.5) };
            let mut general: Vec<Lanes> = (0..size.parameters()).map(|_| lanes()).collect();
            let mut special = general.clone();
            let values: Vec<f32> = (0..rows).map(|_| 3.0 * lanes()[0]).collect();
            let class = |value: f32| if value > 0.3 { UNKNOWN } else { f32::from(u8::from(value > 0.0)) };
            let truth: Vec<Lanes> = (0..rows).map(|_| lanes().map(class)).collect();
            let order: Vec<u32> = (0..rows as u32).rev().collect();
            let training = Training { learning_rate: 0.01, batch: 19, ..Training::default() };
            let zeros = || vec![[0.0; LANES]; size.parameters()];
            let adam = || Adam { means: zeros(), squares: zeros(), gradients: zeros(), step: 0 };
            let (mut one, mut other) = (adam(), adam());
            for _ in 0..3 {
                let made = |parameters, adam| Epoch {
                    size,
                    training: &training,
                    values: &values,
                    truth: &truth,
                    order: &order,
                    parameters,
                    adam,
                };
                Arch::new().dispatch(General(made(&mut general, &mut one)));
                run_epoch(made(&mut special, &mut other));
            }
            assert!(general == special, "{hidden} units, {rows} rows");
        }
    }
}
