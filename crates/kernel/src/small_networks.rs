//! Many small networks trained side by side: one hidden layer of rectified linear units, Adam, mini-batches.
//!
//! A network of 32 units on one input is too small for matrix products. Sixteen networks that read the same inputs and
//! predict different targets are trained together, one in every lane of a vector. Lanes do not interact: the bits of a
//! network depend neither on its lane nor on the other networks.

use pulp::{Arch, Simd, WithSimd};

use crate::monitor::{Cancelled, Monitor};
use crate::neural::exp;

/// Networks that are trained together.
pub const LANES: usize = 16;

/// One number of each network.
pub type Lanes = [f32; LANES];

/// Rows that are processed together, so that weights and gradients stay in registers.
const TOGETHER: usize = 4;

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
            Arch::new().dispatch(Epoch {
                size: self.size,
                training,
                values,
                truth,
                order: &order,
                parameters,
                adam: &mut adam,
            });
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
    fn with_simd<S: Simd>(self, _: S) {
        // A constant size lets the compiler unroll the loops of the usual network.
        match self.size {
            Size { width: 1, outputs: 1, hidden } => self.run(Size { width: 1, hidden, outputs: 1 }),
            size => self.run(size),
        }
    }
}

impl Epoch<'_> {
    #[inline(always)]
    fn run(self, size: Size) {
        let mut units = vec![[[0.0; LANES]; TOGETHER]; size.hidden];
        let mut residuals = vec![[[0.0; LANES]; TOGETHER]; size.outputs];
        for batch in self.order.chunks(self.training.batch.max(1)) {
            self.adam.gradients.fill([0.0; LANES]);
            let scale = 1.0 / batch.len() as f32;
            let (fours, rest) = batch.as_chunks::<TOGETHER>();
            for rows in fours {
                let data = Rows { rows: *rows, values: self.values, truth: self.truth, scale };
                data.add(size, self.parameters, &mut self.adam.gradients, &mut units, &mut residuals);
            }
            for &row in rest {
                let data = Rows { rows: [row], values: self.values, truth: self.truth, scale };
                let (units, residuals) = (one_each(&mut units), one_each(&mut residuals));
                data.add(size, self.parameters, &mut self.adam.gradients, units, residuals);
            }
            self.adam.advance(self.training, self.parameters);
        }
    }
}

/// The same memory, seen as one row instead of four.
#[inline(always)]
fn one_each(many: &mut [[Lanes; TOGETHER]]) -> &mut [[Lanes; 1]] {
    let count = many.len();
    many.as_flattened_mut()[..count].as_chunks_mut::<1>().0
}

/// Some rows of a batch.
struct Rows<'a, const R: usize> {
    rows: [u32; R],
    values: &'a [f32],
    truth: &'a [Lanes],
    /// One over the rows of the batch.
    scale: f32,
}

impl<const R: usize> Rows<'_, R> {
    /// Adds the gradients of the rows.
    #[inline(always)]
    fn add(
        &self,
        size: Size,
        parameters: &[Lanes],
        gradients: &mut [Lanes],
        units: &mut [[Lanes; R]],
        residuals: &mut [[Lanes; R]],
    ) {
        let Size { width, hidden, outputs } = size;
        let [bias, second, last, end] = size.offsets();
        let (parameters, gradients) = (&parameters[..end], &mut gradients[..end]);
        let inputs: [&[f32]; R] = std::array::from_fn(|r| &self.values[self.rows[r] as usize * width..][..width]);
        for (output, residual) in residuals[..outputs].iter_mut().enumerate() {
            *residual = [parameters[last + output]; R];
        }
        for (unit, active) in units[..hidden].iter_mut().enumerate() {
            *active = [parameters[bias + unit]; R];
            for part in 0..width {
                let weights = &parameters[part * hidden + unit];
                for (active, input) in active.iter_mut().zip(&inputs) {
                    fused(active, input[part], weights);
                }
            }
            for active in active.iter_mut() {
                active.iter_mut().for_each(|value| *value = if *value > 0.0 { *value } else { 0.0 });
            }
            for (output, residual) in residuals[..outputs].iter_mut().enumerate() {
                let weights = &parameters[second + output * hidden + unit];
                for (residual, active) in residual.iter_mut().zip(&*active) {
                    fused_lanes(residual, active, weights);
                }
            }
        }
        for r in 0..R {
            let truth = &self.truth[self.rows[r] as usize];
            if outputs == 1 {
                sigmoid_residual(&mut residuals[0][r], truth, self.scale);
            } else {
                softmax_residual(&mut residuals[..outputs], r, truth, self.scale);
            }
        }
        for (output, residual) in residuals[..outputs].iter().enumerate() {
            for residual in residual {
                let gradient = &mut gradients[last + output];
                gradient.iter_mut().zip(residual).for_each(|(gradient, residual)| *gradient += residual);
            }
        }
        for (unit, active) in units[..hidden].iter().enumerate() {
            let mut back = [[0.0; LANES]; R];
            for (output, residual) in residuals[..outputs].iter().enumerate() {
                let index = second + output * hidden + unit;
                let (weights, mut gradient) = (parameters[index], gradients[index]);
                for r in 0..R {
                    fused_lanes(&mut gradient, &residual[r], &active[r]);
                    fused_lanes(&mut back[r], &residual[r], &weights);
                }
                gradients[index] = gradient;
            }
            let mut gradient = gradients[bias + unit];
            for (back, active) in back.iter_mut().zip(active) {
                for lane in 0..LANES {
                    back[lane] = if active[lane] > 0.0 { back[lane] } else { 0.0 };
                    gradient[lane] += back[lane];
                }
            }
            gradients[bias + unit] = gradient;
            for part in 0..width {
                let mut gradient = gradients[part * hidden + unit];
                for (back, input) in back.iter().zip(&inputs) {
                    fused(&mut gradient, input[part], back);
                }
                gradients[part * hidden + unit] = gradient;
            }
        }
    }
}

/// Adds `factor · values`.
#[inline(always)]
fn fused(into: &mut Lanes, factor: f32, values: &Lanes) {
    into.iter_mut().zip(values).for_each(|(into, value)| *into = factor.mul_add(*value, *into));
}

/// Adds `factors · values`, lane by lane.
#[inline(always)]
fn fused_lanes(into: &mut Lanes, factors: &Lanes, values: &Lanes) {
    for lane in 0..LANES {
        into[lane] = factors[lane].mul_add(values[lane], into[lane]);
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
fn softmax_residual<const R: usize>(logits: &mut [[Lanes; R]], row: usize, truth: &Lanes, scale: f32) {
    let mut largest = [f32::MIN; LANES];
    for logits in logits.iter() {
        largest.iter_mut().zip(&logits[row]).for_each(|(a, b)| *a = if *b > *a { *b } else { *a });
    }
    let mut total = [0.0; LANES];
    for logits in logits.iter_mut() {
        for lane in 0..LANES {
            logits[row][lane] = exp(logits[row][lane] - largest[lane]);
            total[lane] += logits[row][lane];
        }
    }
    for (class, logits) in logits.iter_mut().enumerate() {
        for lane in 0..LANES {
            let hit = if truth[lane] == class as f32 { 1.0 } else { 0.0 };
            let residual = (logits[row][lane] / total[lane] - hit) * scale;
            logits[row][lane] = if truth[lane] >= 0.0 { residual } else { 0.0 };
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
    fn with_simd<S: Simd>(self, _: S) {
        let size @ Size { width, hidden, outputs } = self.networks.size;
        let [bias, second, last, end] = size.offsets();
        let parameters = &self.networks.parameters[..end];
        let rows = self.values.chunks_exact(width.max(1));
        for (scores, row) in self.scores.chunks_exact_mut(outputs.max(1)).zip(rows) {
            scores.copy_from_slice(&parameters[last..]);
            for unit in 0..hidden {
                let mut active = parameters[bias + unit];
                for (part, &value) in row.iter().enumerate() {
                    fused(&mut active, value, &parameters[part * hidden + unit]);
                }
                active.iter_mut().for_each(|value| *value = if *value > 0.0 { *value } else { 0.0 });
                for (output, score) in scores.iter_mut().enumerate() {
                    fused_lanes(score, &active, &parameters[second + output * hidden + unit]);
                }
            }
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
}
