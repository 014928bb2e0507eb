//! Logistic regression on a few columns: Newton's method with the whole matrix of curvatures.
//!
//! Probes on the best `k` latents are small and fitted by the thousand, one size after the other on the first columns of
//! the same table, one penalty after the other on the same rows. A handful of exact steps beats a search by products
//! there, above all where most values are zero.

mod absolute;
mod rows;

use super::logistic::{Logistic, Probe};
use super::preconditioner::dot;
use absolute::Bent;
use etalon_kernel::cholesky::solve;
use etalon_kernel::monitor::{Cancelled, Monitor, Silent};
use rows::RowStorage;

/// The first columns of a table of rows, and which rows are positive.
#[derive(Clone, Copy, Debug)]
pub struct Few<'a> {
    /// The table, row by row.
    pub values: &'a [f32],
    /// Values per row of the table.
    pub stride: usize,
    /// How many columns the probe sees.
    pub width: usize,
    /// The positive rows.
    pub positive: &'a [bool],
}

/// What keeps the weights small, besides `c`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Penalty {
    /// Half the sum of squares.
    Squares,
    /// The sum of absolute values: weights become exactly zero.
    Absolute,
}

/// RowStorage whose losses are multiplied before a logarithm is taken: each is at most two.
const MULTIPLIED: usize = 512;

impl<'a> Few<'a> {
    fn row(&self, row: usize) -> &'a [f32] {
        &self.values[row * self.stride..][..self.width]
    }

    /// Every row under a probe.
    pub fn scores(&self, probe: &Probe) -> Vec<f64> {
        let score = |row: usize| {
            let sum: f64 = self.row(row).iter().zip(&probe.weights).map(|(&x, w)| f64::from(x) * w).sum();
            sum + probe.intercept
        };
        (0..self.positive.len()).map(score).collect()
    }

    /// Makes some of the rows ready for many fits.
    pub fn ready(&self, rows: &[usize]) -> Ready {
        let positive = rows.iter().map(|&row| self.positive[row]).collect();
        Ready { rows: RowStorage::of(self, rows.iter().copied()), width: self.width, positive }
    }

    /// Makes all rows ready for many fits.
    pub fn ready_all(&self) -> Ready {
        Ready {
            rows: RowStorage::of(self, 0..self.positive.len()),
            width: self.width,
            positive: self.positive.to_vec(),
        }
    }
}

/// RowStorage that are ready for many fits.
pub struct Ready {
    rows: RowStorage,
    width: usize,
    positive: Vec<bool>,
}

impl Logistic {
    /// Fits one probe, from another one's weights if there are some (missing ones start at zero); `None` where a class is
    /// missing.
    pub fn fit_few(&self, few: &Few<'_>, penalty: Penalty, start: Option<&Probe>) -> Option<Probe> {
        // Nobody can cancel it.
        self.fit_ready(&few.ready_all(), penalty, start, &Silent).unwrap_or_default()
    }

    /// The same, for callers that fit on the same rows again and again, or that can be cancelled.
    pub fn fit_ready(
        &self,
        ready: &Ready,
        penalty: Penalty,
        start: Option<&Probe>,
        monitor: &dyn Monitor,
    ) -> Result<Option<Probe>, Cancelled> {
        let (rows, yes) = (ready.positive.len(), ready.positive.iter().filter(|yes| **yes).count());
        if yes == 0 || yes == rows {
            return Ok(None);
        }
        let (total, positives) = (rows as f64, yes as f64);
        let (for_yes, for_no) = match self.balanced {
            true => (total / (2.0 * positives), total / (2.0 * (total - positives))),
            false => (1.0, 1.0),
        };
        let mut point = Point { ready, for_yes, for_no, size: 1.0 / self.c, penalty, at: vec![0.0; ready.width + 1] };
        match start {
            Some(start) => {
                point.at.iter_mut().zip(&start.weights).for_each(|(at, weight)| *at = *weight);
                point.at[ready.width] = start.intercept;
            }
            None if !self.balanced => point.at[ready.width] = libm::log(positives / (total - positives)),
            None => {}
        }
        let converged = point.descend(self.tolerance, self.steps, monitor)?;
        let intercept = point.at.pop();
        Ok(intercept.map(|intercept| Probe { weights: point.at, intercept, converged }))
    }
}

/// Weights with the intercept behind them, and what is asked of them.
struct Point<'a> {
    ready: &'a Ready,
    for_yes: f64,
    for_no: f64,
    size: f64,
    penalty: Penalty,
    at: Vec<f64>,
}

/// The scores of all rows, and what they cost.
struct Scored {
    scores: Vec<f64>,
    /// `e^−|score|`.
    small: Vec<f64>,
    loss: f64,
}

impl Point<'_> {
    /// Whether it converged.
    fn descend(&mut self, tolerance: f64, steps: usize, monitor: &dyn Monitor) -> Result<bool, Cancelled> {
        let side = self.at.len();
        let mut now = self.scored(self.ready.rows.scores(&self.at));
        for _ in 0..steps {
            monitor.check()?;
            let (slope, curves) = self.look(&now);
            if self.violation(&slope) <= tolerance * self.size {
                return Ok(true);
            }
            let mut bent = self.ready.rows.curvature(&curves, side);
            // Where every row is certain, nothing bends the intercept: a trace of a curve keeps its step finite.
            bent[side * side - 1] += 1e-12;
            let (step, promise) = match self.penalty {
                Penalty::Squares => self.exact_step(bent, &slope),
                Penalty::Absolute => Bent { at: &self.at, slope: &slope, curvature: &bent, size: self.size }.step(),
            };
            let start = now.loss + self.cost(&step, 0.0);
            let slack = 1e-13 * (1.0 + start.abs());
            // What is left to win is below what the sum can resolve.
            if promise.abs() <= slack * 1e-2 {
                return Ok(true);
            }
            let moves = self.ready.rows.scores(&step);
            let mut distance = 1.0;
            loop {
                let next = now.scores.iter().zip(&moves).map(|(score, by)| score + distance * by).collect();
                let next = self.scored(next);
                if next.loss + self.cost(&step, distance) <= start + 1e-4 * distance * promise + slack {
                    now = next;
                    break;
                }
                distance /= 2.0;
                if distance < 1e-9 {
                    return Ok(false);
                }
            }
            self.at.iter_mut().zip(&step).for_each(|(at, step)| *at += distance * step);
        }
        Ok(false)
    }

    /// What scores cost: for every row `ln(1 + e^−|score|)`, and the score itself where it is on the wrong side.
    fn scored(&self, scores: Vec<f64>) -> Scored {
        let small: Vec<f64> = scores.iter().map(|score| libm::exp(-score.abs())).collect();
        let mut loss = 0.0;
        let tiles = scores.chunks(MULTIPLIED).zip(small.chunks(MULTIPLIED)).zip(self.ready.positive.chunks(MULTIPLIED));
        for ((scores, small), positive) in tiles {
            // One logarithm of a product is as good as a sum of logarithms, and much cheaper.
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

    /// The slope of the loss, without the sum of absolute weights, and every row's curve.
    fn look(&self, now: &Scored) -> (Vec<f64>, Vec<f64>) {
        let (mut residuals, mut curves) = (Vec::with_capacity(now.small.len()), Vec::with_capacity(now.small.len()));
        for ((score, small), &yes) in now.scores.iter().zip(&now.small).zip(&self.ready.positive) {
            let (importance, truth) = if yes { (self.for_yes, 1.0) } else { (self.for_no, 0.0) };
            let probability = if *score >= 0.0 { 1.0 } else { *small } / (1.0 + small);
            residuals.push(importance * (probability - truth));
            curves.push(importance * probability * (1.0 - probability));
        }
        let mut slope = self.ready.rows.weighted_sum(&residuals, self.at.len());
        if self.penalty == Penalty::Squares {
            let weights = &self.at[..self.ready.width];
            slope.iter_mut().zip(weights).for_each(|(slope, at)| *slope += self.size * at);
        }
        (slope, curves)
    }

    /// How far the slope is from that of a minimum.
    fn violation(&self, slope: &[f64]) -> f64 {
        if self.penalty == Penalty::Squares {
            return dot(slope, slope).sqrt();
        }
        let of = |place: usize| match self.at[place] {
            _ if place == self.ready.width => slope[place],
            0.0 => (slope[place].abs() - self.size).max(0.0),
            at => slope[place] + self.size * at.signum(),
        };
        (0..slope.len()).map(|place| of(place).powi(2)).sum::<f64>().sqrt()
    }

    /// What the weights cost at a distance along a step.
    fn cost(&self, step: &[f64], distance: f64) -> f64 {
        let ahead = self.at.iter().zip(step).take(self.ready.width).map(|(at, step)| at + distance * step);
        self.size
            * match self.penalty {
                Penalty::Squares => ahead.map(|weight| weight * weight).sum::<f64>() / 2.0,
                Penalty::Absolute => ahead.map(f64::abs).sum(),
            }
    }

    /// Newton's step, and what it promises by its slope.
    fn exact_step(&self, mut bent: Vec<f64>, slope: &[f64]) -> (Vec<f64>, f64) {
        let side = slope.len();
        (0..self.ready.width).for_each(|place| bent[place * side + place] += self.size);
        let mut step: Vec<f64> = slope.iter().map(|slope| -slope).collect();
        let diagonal: Vec<f64> = (0..side).map(|place| bent[place * side + place]).collect();
        if !solve(&mut bent, &mut step) {
            // Rounding only: a step by the diagonal goes down as well.
            step = slope.iter().zip(&diagonal).map(|(slope, bent)| -slope / bent.max(1e-12)).collect();
        }
        let promise = dot(slope, &step);
        (step, promise)
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
    fn agrees_with_the_search_by_products_and_takes_up_smaller_probes() {
        let (values, positive) = noisy(300, 6);
        for width in [1, 3, 6] {
            let few = Few { values: &values, stride: 6, width, positive: &positive };
            let cut: Vec<f32> = values.chunks(6).flat_map(|row| &row[..width]).copied().collect();
            let yes = Bits::of(300, (0..300).filter(|&row| positive[row]));
            let (known, design) = (Bits::full(300), Design::Dense { values: &cut, width });
            for balanced in [false, true] {
                let logistic = Logistic { balanced, ..Logistic::default() };
                let other = logistic.fit(&design, &[Target { yes: &yes, known: &known }]).remove(0).unwrap();
                let smaller = Few { width: 1, ..few };
                let start = logistic.fit_few(&smaller, Penalty::Squares, None).unwrap();
                for start in [None, Some(&start)] {
                    let probe = logistic.fit_few(&few, Penalty::Squares, start).unwrap();
                    assert!(probe.converged && other.converged);
                    let pairs = probe.weights.iter().zip(&other.weights);
                    assert!(pairs.chain([(&probe.intercept, &other.intercept)]).all(|(a, b)| (a - b).abs() < 2e-5));
                }
            }
        }
    }

    #[test]
    fn absolute_weights_become_zero_one_after_the_other() {
        let (values, positive) = noisy(300, 6);
        let few = Few { values: &values, stride: 6, width: 6, positive: &positive };
        let kept: Vec<usize> = [1e-4, 0.03, 1.0, 1e4]
            .iter()
            .map(|&c| {
                let probe = Logistic { c, ..Logistic::default() }.fit_few(&few, Penalty::Absolute, None).unwrap();
                assert!(probe.converged, "{c}");
                probe.weights.iter().filter(|weight| **weight != 0.0).count()
            })
            .collect();
        assert!(kept[0] == 0 && kept[3] == 6 && kept.windows(2).all(|pair| pair[0] <= pair[1]), "{kept:?}");
        // Without any weight the intercept is the log-odds.
        let strong = Logistic { c: 1e-4, ..Logistic::default() }.fit_few(&few, Penalty::Absolute, None).unwrap();
        let yes = positive.iter().filter(|yes| **yes).count() as f64;
        assert!((strong.intercept - (yes / (300.0 - yes)).ln()).abs() < 1e-6);
    }

    #[test]
    fn edges() {
        let one = |values: &[f32], positive: &[bool], penalty| {
            let few = Few { values, stride: 1, width: 1, positive };
            Logistic { c: 1e5, ..Logistic::default() }.fit_few(&few, penalty, None)
        };
        for penalty in [Penalty::Squares, Penalty::Absolute] {
            assert_eq!(one(&[], &[], penalty), None);
            assert_eq!(one(&[1.0, 2.0], &[true, true], penalty), None);
            // A column that says nothing: half and half.
            let flat = one(&[0.0; 4], &[true, false, true, false], penalty).unwrap();
            assert!(flat.converged && flat.weights[0] == 0.0 && flat.intercept.abs() < 1e-12);
            // Separable with hardly any penalty: it ends, and it separates.
            let probe = one(&[-1.0, -0.5, 0.5, 1.0], &[false, false, true, true], penalty).unwrap();
            assert!(probe.weights[0] > 5.0 && probe.intercept.abs() < 1.0);
            // No columns at all leaves the intercept.
            let few = Few { values: &[], stride: 0, width: 0, positive: &[true, false, false, false] };
            let none = Logistic::default().fit_few(&few, penalty, None).unwrap();
            assert!((none.intercept - (1.0f64 / 3.0).ln()).abs() < 1e-9);
        }
    }
}
