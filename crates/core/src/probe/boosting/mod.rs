//! Gradient-boosted regression trees as scikit-learn grows them: exact splits, a fixed depth, one tree per class and
//! stage, leaves by one Newton step. [`Boosting::fit`] takes any number of columns, [`Boosting::fit_single`] one.
//!
//! Splits can be equally good: a node of three rows whose residuals are a, b, a has two. As in scikit-learn, rounding decides, and
//! predictions of a few rows depend on it: its own change with the order of the training rows and with its version. Gains have the
//! formula of version 1.9 (older ones have Friedman's, which is the same but for rounding), and sums are taken in its order.

mod columns;
mod single;

pub use columns::{Boosted, SortedColumns};
pub use single::{SingleBoosted, SortedColumn};

/// Values closer than this are equal, as in scikit-learn.
const SAME: f32 = 1e-7;

/// Settings; the defaults are those of scikit-learn.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Boosting {
    /// Number of stages.
    pub stages: usize,
    /// The share of every tree that is added.
    pub rate: f64,
    /// Maximum depth of a tree.
    pub depth: usize,
    /// Fewest rows of a leaf.
    pub fewest: usize,
}

impl Default for Boosting {
    fn default() -> Boosting {
        Boosting { stages: 100, rate: 0.1, depth: 3, fewest: 1 }
    }
}

impl Boosting {
    /// Whether a node is split if it can be: it has enough rows and some variance.
    fn is_open(&self, node: &NodeSums) -> bool {
        node.rows >= (2 * self.fewest).max(2) as f64 && node.spread() / node.rows > f64::EPSILON
    }
}

/// What the trees predict.
#[derive(Clone, Copy, Debug)]
pub enum BoostingTarget<'a> {
    /// A number per row, with squared error.
    Numbers(&'a [f64]),
    /// A class per row, below the number of classes; every class must occur.
    Classes(&'a [u32], usize),
}

impl BoostingTarget<'_> {
    /// The scores before the first stage: the mean, the log-odds of class 1, or the logarithms of the shares of classes.
    fn start(&self) -> Vec<f64> {
        match *self {
            BoostingTarget::Numbers(numbers) => vec![numbers.iter().sum::<f64>() / numbers.len().max(1) as f64],
            BoostingTarget::Classes(classes, count) => {
                let rows = classes.len() as f64;
                let share = |class: usize| classes.iter().filter(|&&c| c as usize == class).count() as f64 / rows;
                match count {
                    0..=2 => vec![libm::log(share(1) / (1.0 - share(1)))],
                    count => (0..count).map(|class| libm::log(share(class))).collect(),
                }
            }
        }
    }

    /// The negative gradient of the log loss of two classes, without cancellation where the score is large.
    fn binary_residual(class: u32, score: f64) -> f64 {
        if score <= -37.0 {
            return f64::from(class) - libm::exp(score);
        }
        let power = libm::exp(-score);
        if class == 1 { power / (1.0 + power) } else { -1.0 / (1.0 + power) }
    }

    /// Replaces the scores of a row by the negative gradients of the log loss of several classes.
    fn softmax_residuals(class: u32, scores: &mut [f64]) {
        let largest = scores.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        scores.iter_mut().for_each(|score| *score = libm::exp(*score - largest));
        let total: f64 = scores.iter().sum();
        for (output, score) in scores.iter_mut().enumerate() {
            *score = f64::from(u8::from(output == class as usize)) - *score / total;
        }
    }

    /// The value of a leaf: the mean, or a Newton step, which for several classes has the factor (classes − 1) / classes.
    fn leaf(&self, residuals: f64, curvature: f64, outputs: usize) -> f64 {
        let factor = if outputs > 1 { (outputs - 1) as f64 / outputs as f64 } else { 1.0 };
        if curvature.abs() < 1e-150 { 0.0 } else { factor * residuals / curvature }
    }

    /// The second derivative of the loss of a row: p (1 − p), which is |residual| (1 − |residual|) whatever the class.
    fn curvature(&self, residual: f64) -> f64 {
        match self {
            BoostingTarget::Numbers(_) => 1.0,
            BoostingTarget::Classes(..) => residual.abs() * (1.0 - residual.abs()),
        }
    }
}

/// The class of some scores: the sign of a logit, or the largest score; ties go to the lower class.
fn class_of(scores: &[f64]) -> u32 {
    match scores {
        [logit] => u32::from(*logit >= 0.0),
        scores => (0..scores.len()).fold(0, |best, c| if scores[c] > scores[best] { c } else { best }) as u32,
    }
}

/// Number, sum and sum of squares of the residuals of a node.
#[derive(Clone, Copy, Default)]
struct NodeSums {
    rows: f64,
    sum: f64,
    squares: f64,
}

impl NodeSums {
    fn add(&mut self, residual: f64) {
        self.rows += 1.0;
        self.sum += residual;
        self.squares += residual * residual;
    }

    /// The sum of squared deviations from the mean.
    fn spread(&self) -> f64 {
        self.squares - self.sum * self.sum / self.rows
    }

    /// How much a split explains: the decrease of the squared deviations but for a constant of the node.
    fn explained(&self, left_rows: f64, left_sum: f64) -> f64 {
        let right_sum = self.sum - left_sum;
        left_sum * left_sum / left_rows + right_sum * right_sum / (self.rows - left_rows)
    }
}

/// The threshold between two values: their midpoint, or the lower one if that rounds to the upper one.
fn between(lower: f32, upper: f32) -> f64 {
    let (lower, upper) = (f64::from(lower), f64::from(upper));
    let middle = lower / 2.0 + upper / 2.0;
    if middle < upper { middle } else { lower }
}
