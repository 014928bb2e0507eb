//! Logistic regression on few columns: Newton's method with the full Hessian, L1 or L2 penalty.
//!
//! Probes on the best `k` latents are small and fitted by the thousand: one size after the other on the first columns of
//! the same table, one penalty after the other on the same rows. A few exact steps are faster there than conjugate
//! gradients, especially where most values are zero.

mod absolute;
mod rows;

use super::logistic::{Logistic, Probe};
use absolute::QuadraticModel;
use etalon_kernel::cholesky::solve;
use etalon_kernel::lanes::dot_f64;
use etalon_kernel::monitor::{Cancelled, Monitor, Silent};
use rows::RowStorage;

/// The first columns of a row-major table, with the class of every row.
#[derive(Clone, Copy, Debug)]
pub struct LabelledTable<'a> {
    /// The table, row by row.
    pub values: &'a [f32],
    /// Values per row of the table.
    pub stride: usize,
    /// Number of columns that the probe uses.
    pub width: usize,
    /// Which rows are positive.
    pub positive: &'a [bool],
}

/// The penalty on the weights; `c` is its inverse strength.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Penalty {
    /// L2: half the sum of squares.
    Squares,
    /// L1: the sum of absolute values, which makes weights exactly zero.
    Absolute,
}

/// Rows per logarithm: the factors are at most two, so their product does not overflow.
const MULTIPLIED: usize = 512;

impl<'a> LabelledTable<'a> {
    fn row(&self, row: usize) -> &'a [f32] {
        &self.values[row * self.stride..][..self.width]
    }

    /// The scores of all rows.
    pub fn scores(&self, probe: &Probe) -> Vec<f64> {
        let score = |row: usize| {
            let sum: f64 = self.row(row).iter().zip(&probe.weights).map(|(&x, w)| f64::from(x) * w).sum();
            sum + probe.intercept
        };
        (0..self.positive.len()).map(score).collect()
    }

    /// Prepares some rows for repeated fits.
    pub fn prepare(&self, rows: impl Iterator<Item = usize> + Clone) -> PreparedRows {
        let positive = rows.clone().map(|row| self.positive[row]).collect();
        PreparedRows { rows: RowStorage::of(self, rows), width: self.width, positive }
    }

    /// Prepares all rows for repeated fits.
    pub fn prepare_all(&self) -> PreparedRows {
        self.prepare(0..self.positive.len())
    }
}

/// Rows prepared for repeated fits.
pub struct PreparedRows {
    rows: RowStorage,
    width: usize,
    positive: Vec<bool>,
}

impl Logistic {
    /// Fits one probe, optionally from the weights of another (missing ones start at zero); `None` where a class is
    /// missing.
    pub fn fit_table(&self, table: &LabelledTable<'_>, penalty: Penalty, start: Option<&Probe>) -> Option<Probe> {
        // `Silent` never cancels.
        self.fit_prepared(&table.prepare_all(), penalty, start, &Silent).unwrap_or_default()
    }

    /// The same for repeated fits on the same rows, with cancellation.
    pub fn fit_prepared(
        &self,
        data: &PreparedRows,
        penalty: Penalty,
        start: Option<&Probe>,
        monitor: &dyn Monitor,
    ) -> Result<Option<Probe>, Cancelled> {
        let (rows, yes) = (data.positive.len(), data.positive.iter().filter(|yes| **yes).count());
        if yes == 0 || yes == rows {
            return Ok(None);
        }
        let (total, positives) = (rows as f64, yes as f64);
        let (for_yes, for_no) = self.class_weights(total, positives);
        let mut weights = vec![0.0; data.width + 1];
        if let Some(start) = start {
            weights.iter_mut().zip(&start.weights).for_each(|(weight, start)| *weight = *start);
        }
        weights[data.width] = start.map_or_else(|| self.first_intercept(total, positives), |start| start.intercept);
        let mut fit = NewtonFit { data, for_yes, for_no, strength: 1.0 / self.c, penalty, weights };
        let converged = fit.descend(self.tolerance, self.steps, monitor)?;
        let intercept = fit.weights.pop();
        Ok(intercept.map(|intercept| Probe { weights: fit.weights, intercept, converged }))
    }
}

/// A fit in progress.
struct NewtonFit<'a> {
    data: &'a PreparedRows,
    /// The weight of a positive row in the loss.
    for_yes: f64,
    /// The weight of a negative row.
    for_no: f64,
    /// The factor of the penalty.
    strength: f64,
    penalty: Penalty,
    /// The weights, then the intercept.
    weights: Vec<f64>,
}

/// The scores of all rows and their loss.
struct Scored {
    scores: Vec<f64>,
    /// `e^−|score|`.
    small: Vec<f64>,
    loss: f64,
}

impl NewtonFit<'_> {
    /// Returns whether the fit converged.
    fn descend(&mut self, tolerance: f64, steps: usize, monitor: &dyn Monitor) -> Result<bool, Cancelled> {
        let side = self.weights.len();
        let mut now = self.scored(self.data.rows.scores(&self.weights));
        for _ in 0..steps {
            monitor.check()?;
            let (gradient, curves) = self.derivatives(&now);
            if self.violation(&gradient) <= tolerance * self.strength {
                return Ok(true);
            }
            let mut hessian = self.data.rows.hessian(&curves, side);
            // Keeps the step of the intercept finite where the probabilities of all rows are 0 or 1.
            hessian[side * side - 1] += 1e-12;
            let (step, fall) = match self.penalty {
                Penalty::Squares => self.exact_step(hessian, &gradient),
                Penalty::Absolute => {
                    let (start, gradient, hessian) = (&self.weights, &gradient, &hessian);
                    QuadraticModel { start, gradient, hessian, strength: self.strength }.step()
                }
            };
            let start = now.loss + self.penalty_at(&step, 0.0);
            let slack = 1e-13 * (1.0 + start.abs());
            // The expected fall is below the resolution of the sum.
            if fall.abs() <= slack * 1e-2 {
                return Ok(true);
            }
            let moves = self.data.rows.scores(&step);
            let mut distance = 1.0;
            loop {
                let next = now.scores.iter().zip(&moves).map(|(score, by)| score + distance * by).collect();
                let next = self.scored(next);
                if next.loss + self.penalty_at(&step, distance) <= start + 1e-4 * distance * fall + slack {
                    now = next;
                    break;
                }
                distance /= 2.0;
                if distance < 1e-9 {
                    return Ok(false);
                }
            }
            self.weights.iter_mut().zip(&step).for_each(|(weight, step)| *weight += distance * step);
        }
        Ok(false)
    }

    /// The loss of some scores: `ln(1 + e^−|score|)` per row, plus `|score|` where its sign is wrong.
    fn scored(&self, scores: Vec<f64>) -> Scored {
        let small: Vec<f64> = scores.iter().map(|score| libm::exp(-score.abs())).collect();
        let mut loss = 0.0;
        let tiles = scores.chunks(MULTIPLIED).zip(small.chunks(MULTIPLIED)).zip(self.data.positive.chunks(MULTIPLIED));
        for ((scores, small), positive) in tiles {
            // One logarithm of a product is much cheaper than a sum of logarithms.
            let (mut products, mut wrong) = ([1.0; 2], [0.0; 2]);
            for ((score, small), &yes) in scores.iter().zip(small).zip(positive) {
                products[usize::from(yes)] *= 1.0 + small;
                wrong[usize::from(yes)] += if yes { -score } else { *score }.max(0.0);
            }
            loss += self.for_no * (libm::log(products[0]) + wrong[0]);
            loss += self.for_yes * (libm::log(products[1]) + wrong[1]);
        }
        Scored { scores, small, loss }
    }

    /// The gradient of the loss and of an L2 penalty, and the second derivative by every row's score.
    fn derivatives(&self, now: &Scored) -> (Vec<f64>, Vec<f64>) {
        let (mut residuals, mut curves) = (Vec::with_capacity(now.small.len()), Vec::with_capacity(now.small.len()));
        for ((score, small), &yes) in now.scores.iter().zip(&now.small).zip(&self.data.positive) {
            let (importance, truth) = if yes { (self.for_yes, 1.0) } else { (self.for_no, 0.0) };
            let probability = if *score >= 0.0 { 1.0 } else { *small } / (1.0 + small);
            residuals.push(importance * (probability - truth));
            curves.push(importance * probability * (1.0 - probability));
        }
        let mut gradient = self.data.rows.weighted_sum(&residuals, self.weights.len());
        if self.penalty == Penalty::Squares {
            let weights = &self.weights[..self.data.width];
            gradient.iter_mut().zip(weights).for_each(|(slope, weight)| *slope += self.strength * weight);
        }
        (gradient, curves)
    }

    /// The distance of the gradient from that of an optimum.
    fn violation(&self, gradient: &[f64]) -> f64 {
        if self.penalty == Penalty::Squares {
            return dot_f64(gradient, gradient).sqrt();
        }
        let of = |index: usize| match self.weights[index] {
            _ if index == self.data.width => gradient[index],
            0.0 => (gradient[index].abs() - self.strength).max(0.0),
            weight => gradient[index] + self.strength * weight.signum(),
        };
        (0..gradient.len()).map(|index| of(index).powi(2)).sum::<f64>().sqrt()
    }

    /// The penalty at a distance along a step.
    fn penalty_at(&self, step: &[f64], distance: f64) -> f64 {
        let moved = self.weights.iter().zip(step).take(self.data.width).map(|(weight, step)| weight + distance * step);
        self.strength
            * match self.penalty {
                Penalty::Squares => moved.map(|weight| weight * weight).sum::<f64>() / 2.0,
                Penalty::Absolute => moved.map(f64::abs).sum(),
            }
    }

    /// Newton's step for the L2 penalty, and the expected first-order change of the objective.
    fn exact_step(&self, mut hessian: Vec<f64>, gradient: &[f64]) -> (Vec<f64>, f64) {
        let side = gradient.len();
        (0..self.data.width).for_each(|index| hessian[index * side + index] += self.strength);
        let mut step: Vec<f64> = gradient.iter().map(|slope| -slope).collect();
        let diagonal: Vec<f64> = (0..side).map(|index| hessian[index * side + index]).collect();
        if !solve(&mut hessian, &mut step) {
            // Only rounding can cause this: a step scaled by the diagonal is a descent direction, too.
            step = gradient.iter().zip(&diagonal).map(|(slope, curve)| -slope / curve.max(1e-12)).collect();
        }
        let fall = dot_f64(gradient, &step);
        (step, fall)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::probe::design::Design;
    use crate::probe::logistic::Target;
    use etalon_kernel::bits::Bits;

    fn noisy(rows: usize, width: usize) -> (Vec<f32>, Vec<bool>) {
        let values: Vec<f32> = (0..rows * width).map(|i| ((i * i * 31 + i * 7) % 97) as f32 / 48.0 - 1.0).collect();
        let positive = (0..rows).map(|row| values[row * width] + values[(row * 3 + 1) % rows * width] > 0.2).collect();
        (values, positive)
    }

    #[test]
    fn agrees_with_conjugate_gradients_and_starts_from_smaller_probes() {
        let (values, positive) = noisy(300, 6);
        for width in [1, 3, 6] {
            let table = LabelledTable { values: &values, stride: 6, width, positive: &positive };
            let cut: Vec<f32> = values.chunks(6).flat_map(|row| &row[..width]).copied().collect();
            let yes = Bits::of(300, (0..300).filter(|&row| positive[row]));
            let (known, design) = (Bits::full(300), Design::Dense { values: &cut, width });
            for balanced in [false, true] {
                let logistic = Logistic { balanced, ..Logistic::default() };
                let other = logistic.fit(&design, &[Target { yes: &yes, known: &known }]).remove(0).unwrap();
                let smaller = LabelledTable { width: 1, ..table };
                let start = logistic.fit_table(&smaller, Penalty::Squares, None).unwrap();
                for start in [None, Some(&start)] {
                    let probe = logistic.fit_table(&table, Penalty::Squares, start).unwrap();
                    assert!(probe.converged && other.converged);
                    let pairs = probe.weights.iter().zip(&other.weights);
                    assert!(pairs.chain([(&probe.intercept, &other.intercept)]).all(|(a, b)| (a - b).abs() < 2e-5));
                }
            }
        }
    }

    #[test]
    fn stronger_l1_penalties_give_fewer_weights() {
        let (values, positive) = noisy(300, 6);
        let table = LabelledTable { values: &values, stride: 6, width: 6, positive: &positive };
        let kept: Vec<usize> = [1e-4, 0.03, 1.0, 1e4]
            .iter()
            .map(|&c| {
                let probe = Logistic { c, ..Logistic::default() }.fit_table(&table, Penalty::Absolute, None).unwrap();
                assert!(probe.converged, "{c}");
                probe.weights.iter().filter(|weight| **weight != 0.0).count()
            })
            .collect();
        assert!(kept[0] == 0 && kept[3] == 6 && kept.windows(2).all(|pair| pair[0] <= pair[1]), "{kept:?}");
        // Without any weight the intercept is the log-odds.
        let strong = Logistic { c: 1e-4, ..Logistic::default() }.fit_table(&table, Penalty::Absolute, None).unwrap();
        let yes = positive.iter().filter(|yes| **yes).count() as f64;
        assert!((strong.intercept - (yes / (300.0 - yes)).ln()).abs() < 1e-6);
    }

    #[test]
    fn degenerate_inputs() {
        let one = |values: &[f32], positive: &[bool], penalty| {
            let table = LabelledTable { values, stride: 1, width: 1, positive };
            Logistic { c: 1e5, ..Logistic::default() }.fit_table(&table, penalty, None)
        };
        for penalty in [Penalty::Squares, Penalty::Absolute] {
            assert_eq!(one(&[], &[], penalty), None);
            assert_eq!(one(&[1.0, 2.0], &[true, true], penalty), None);
            // A constant column.
            let flat = one(&[0.0; 4], &[true, false, true, false], penalty).unwrap();
            assert!(flat.converged && flat.weights[0] == 0.0 && flat.intercept.abs() < 1e-12);
            // Separable rows with a weak penalty: the fit terminates and separates them.
            let probe = one(&[-1.0, -0.5, 0.5, 1.0], &[false, false, true, true], penalty).unwrap();
            assert!(probe.weights[0] > 5.0 && probe.intercept.abs() < 1.0);
            // Without columns only the intercept is fitted.
            let table = LabelledTable { values: &[], stride: 0, width: 0, positive: &[true, false, false, false] };
            let none = Logistic::default().fit_table(&table, penalty, None).unwrap();
            assert!((none.intercept - (1.0f64 / 3.0).ln()).abs() < 1e-9);
        }
    }
}
