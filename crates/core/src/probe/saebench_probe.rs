//! A linear probe trained with AdamW that keeps its best epoch: the dense probe of SAEBench.
//!
//! The result depends on the initial weights and on the order of the rows, so both are arguments. The accuracy on
//! validation rows after every epoch decides which weights are kept.

use super::adam::{EPSILON, Layer};
use super::confusion::ConfusionMatrix;
use super::design::Design;
use super::logistic::{Probe, sigmoid};
use etalon_kernel::lanes::dot_f32;
use etalon_kernel::monitor::{Cancelled, Monitor};
use etalon_kernel::prefetch;
use etalon_kernel::random::{ChaCha8Rng, permutation, unit};

/// Training settings; everything else has PyTorch's default.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct AdamW {
    /// The learning rate.
    pub learning_rate: f64,
    /// Weight decay, of weights and intercept.
    pub decay: f64,
    /// Strength of the L1 penalty on the weights.
    pub absolute: f64,
    /// Rows per mini-batch; the last one of an epoch may be smaller.
    pub batch: usize,
    /// Maximum number of epochs.
    pub epochs: usize,
    /// Stops after this many epochs without improvement.
    pub patience: usize,
}

/// Rows with their classes.
#[derive(Clone, Copy, Debug)]
pub struct LabelledRows<'a> {
    /// The rows.
    pub design: Design<'a>,
    /// Which rows are positive.
    pub positive: &'a [bool],
}

impl LabelledRows<'_> {
    /// The scores of a probe on these rows.
    pub fn scores(&self, probe: &Probe) -> Vec<f64> {
        self.design.scores(&probe.weights, 1).iter().map(|score| score + probe.intercept).collect()
    }

    /// The confusion matrix of a probe on these rows.
    pub fn evaluate(&self, probe: &Probe) -> ConfusionMatrix {
        ConfusionMatrix::of(self.positive, &self.scores(probe))
    }
}

impl AdamW {
    /// Trains from PyTorch's initial weights, uniform in ±1/√width, and shuffles before every epoch.
    pub fn fit(
        &self,
        train: &LabelledRows<'_>,
        validation: &LabelledRows<'_>,
        random: &mut ChaCha8Rng,
        monitor: &dyn Monitor,
    ) -> Result<Probe, Cancelled> {
        let width = train.design.width();
        let bound = 1.0 / (width.max(1) as f64).sqrt();
        let mut draw = || f64::from(((2.0 * unit(random) - 1.0) * bound) as f32);
        let weights = (0..width).map(|_| draw()).collect();
        let start = Probe { weights, intercept: draw(), converged: true };
        let rows = train.positive.len();
        self.fit_from(&start, train, validation, |_| permutation(rows, random), monitor)
    }

    /// Trains from given weights with a given order of rows in every epoch. Returns the epoch with the highest accuracy on
    /// the validation rows: the first among equals, and the start if all accuracies are 0.
    pub fn fit_from(
        &self,
        start: &Probe,
        train: &LabelledRows<'_>,
        validation: &LabelledRows<'_>,
        mut order: impl FnMut(usize) -> Vec<usize>,
        monitor: &dyn Monitor,
    ) -> Result<Probe, Cancelled> {
        let mut layer = Layer::from(start.weights.iter().map(|&weight| weight as f32).collect());
        let mut intercept = Layer::from(vec![start.intercept as f32]);
        let mut gradient = vec![0f32; layer.values.len()];
        let kept = 1.0 - (self.learning_rate * self.decay) as f32;
        let (mut best, mut best_accuracy, mut idle, mut step) = (start.clone(), 0.0, 0, 0);
        for epoch in 0..self.epochs {
            for batch in order(epoch).chunks(self.batch.max(1)) {
                monitor.check()?;
                for (slope, weight) in gradient.iter_mut().zip(&layer.values) {
                    let sign = if *weight == 0.0 { 0.0 } else { weight.signum() };
                    *slope = self.absolute as f32 * sign;
                }
                let mut intercept_gradient = 0.0;
                for (index, &row) in batch.iter().enumerate() {
                    // Rows are in random order, so nothing else asks for the next one in time.
                    if let Some(&next) = batch.get(index + 1) {
                        prefetch_row(&train.design, next);
                    }
                    let score = f64::from(score(&train.design, row, &layer.values) + intercept.values[0]);
                    let truth = f64::from(u8::from(train.positive[row]));
                    let share = (sigmoid(score) - truth) / batch.len() as f64;
                    intercept_gradient += share;
                    add_row(&train.design, row, share as f32, &mut gradient);
                }
                step += 1;
                layer.values.iter_mut().for_each(|weight| *weight *= kept);
                intercept.values[0] *= kept;
                layer.step(&gradient, self.learning_rate, step, EPSILON);
                intercept.step(&[intercept_gradient as f32], self.learning_rate, step, EPSILON);
            }
            let weights = layer.values.iter().map(|&weight| f64::from(weight)).collect();
            let probe = Probe { weights, intercept: f64::from(intercept.values[0]), converged: true };
            let accuracy = validation.evaluate(&probe).accuracy().unwrap_or(0.0);
            idle += 1;
            if accuracy > best_accuracy {
                (best, best_accuracy, idle) = (probe, accuracy, 0);
            }
            if idle >= self.patience.max(1) {
                break;
            }
        }
        Ok(best)
    }
}

fn prefetch_row(design: &Design<'_>, row: usize) {
    if let Design::Dense { values, width } = design {
        const LINE: usize = 64 / size_of::<f32>();
        (row * width..(row + 1) * width).step_by(LINE).for_each(|index| prefetch::fetch(values, index));
    }
}

fn score(design: &Design<'_>, row: usize, weights: &[f32]) -> f32 {
    match design {
        Design::Dense { values, width } => dot_f32(&values[row * width..][..*width], weights),
        Design::Sparse { codes, .. } => {
            let (latents, values) = codes.row(row);
            latents.iter().zip(values).map(|(&latent, value)| value * weights[latent as usize]).sum()
        }
    }
}

fn add_row(design: &Design<'_>, row: usize, factor: f32, into: &mut [f32]) {
    match design {
        Design::Dense { values, width } => {
            into.iter_mut().zip(&values[row * width..]).for_each(|(into, value)| *into += factor * value);
        }
        Design::Sparse { codes, .. } => {
            let (latents, values) = codes.row(row);
            latents.iter().zip(values).for_each(|(&latent, value)| into[latent as usize] += factor * value);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::codes::Codes;
    use etalon_kernel::monitor::Silent;
    use etalon_kernel::random::stream;

    const SETTINGS: AdamW =
        AdamW { learning_rate: 0.05, decay: 0.01, absolute: 0.0, batch: 7, epochs: 60, patience: 10 };

    #[test]
    fn one_step_matches_the_formula() {
        // One positive row x = 2 from w = 1, b = 0, rate 0.1, decay 0.5: first both shrink by 1 - 0.1·0.5 = 0.95, then
        // Adam's first step is the rate itself, against the negative slope: w = 0.95 + 0.1, b = 0 + 0.1.
        let settings = AdamW { learning_rate: 0.1, decay: 0.5, epochs: 1, ..SETTINGS };
        let shown = LabelledRows { design: Design::Dense { values: &[2.0], width: 1 }, positive: &[true] };
        let start = Probe { weights: vec![1.0], intercept: 0.0, converged: true };
        let probe = settings.fit_from(&start, &shown, &shown, |_| vec![0], &Silent).unwrap();
        assert!((probe.weights[0] - 1.05).abs() < 1e-6 && (probe.intercept - 0.1).abs() < 1e-6, "{probe:?}");
    }

    #[test]
    fn dense_and_sparse_rows_give_the_same_probe() {
        let values: Vec<f32> =
            (0..200).map(|i| if i % 3 == 0 { 0.0 } else { ((i * 37) % 23) as f32 / 11.0 - 1.0 }).collect();
        let positive: Vec<bool> = values.chunks(4).map(|row| row[0] - row[1] > 0.1).collect();
        let codes = Codes::from_dense(&values, 4).unwrap();
        let fit = |design| {
            let shown = LabelledRows { design, positive: &positive };
            let probe = SETTINGS.fit(&shown, &shown, &mut stream(3, "adamw", 0), &Silent).unwrap();
            (shown.evaluate(&probe).accuracy().unwrap(), probe)
        };
        let (dense, one) = fit(Design::Dense { values: &values, width: 4 });
        let (sparse, other) = fit(Design::Sparse { codes: codes.all().unwrap(), latents: 4 });
        assert!(dense > 0.95 && (dense - sparse).abs() < 0.03, "{dense} {sparse}");
        assert!(one.weights.iter().zip(&other.weights).all(|(a, b)| (a - b).abs() < 1e-2));
    }

    #[test]
    fn the_first_best_epoch_is_kept_and_patience_stops_training() {
        // Every epoch has the same accuracy: the first is kept, and two more are tried.
        let shown = LabelledRows { design: Design::Dense { values: &[0.0, 0.0], width: 1 }, positive: &[true, false] };
        let mut epochs = 0;
        let start = Probe { weights: vec![0.5], intercept: -1.0, converged: true };
        let settings = AdamW { patience: 2, learning_rate: 1e-3, ..SETTINGS };
        let order = |_| {
            epochs += 1;
            vec![0, 1]
        };
        let probe = settings.fit_from(&start, &shown, &shown, order, &Silent).unwrap();
        assert!(epochs == 3 && probe.intercept < -0.9, "{epochs} {probe:?}");
        // Without rows the start is returned.
        let none = LabelledRows { design: Design::Dense { values: &[], width: 1 }, positive: &[] };
        assert_eq!(settings.fit_from(&start, &none, &none, |_| vec![], &Silent).unwrap(), start);
    }
}
