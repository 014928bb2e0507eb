//! Logistic regression with an L2 penalty, to convergence, many targets on the same rows at once.
//!
//! scikit-learn's convention: minimise `c · Σ_i weight_i · loss_i + ½ ‖w‖²`, the intercept without penalty. The solver is
//! Newton's method with preconditioned conjugate gradients: all targets of a group share the products with the rows, each
//! target has its own step, and a converged target drops out. Scores are linear in the step, so a line search needs no
//! product.

use etalon_kernel::bits::Bits;
use etalon_kernel::monitor::{Cancelled, Monitor, Silent};
use serde::{Deserialize, Serialize};

use super::conjugate_gradients::{NewtonSystem, solve};
use super::design::{Design, TOGETHER};
use super::preconditioner::Preconditioner;
use etalon_kernel::lanes::dot_f64;

/// Settings of a logistic regression.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Logistic {
    /// The inverse strength of the penalty.
    pub c: f64,
    /// Weights the rows so that both classes have the same total weight.
    pub balanced: bool,
    /// Stops when the norm of the gradient of `Σ loss + ‖w‖²/2c` is below `tolerance / c`, which is about the error of
    /// the weights.
    pub tolerance: f64,
    /// Maximum number of Newton steps.
    pub steps: usize,
}

impl Default for Logistic {
    fn default() -> Logistic {
        Logistic { c: 1.0, balanced: false, tolerance: 1e-5, steps: 100 }
    }
}

/// The labels of a probe: the positive rows among those with a known label. Other rows are left out.
#[derive(Clone, Copy, Debug)]
pub struct Target<'a> {
    /// The positive rows.
    pub yes: &'a Bits,
    /// The rows that count.
    pub known: &'a Bits,
}

/// A fitted probe: a row is positive where `weights · row + intercept` is not negative.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Probe {
    /// One weight per column.
    pub weights: Vec<f64>,
    /// The intercept.
    pub intercept: f64,
    /// False if the solver stopped before it reached the tolerance.
    pub converged: bool,
}

impl Logistic {
    /// Fits one probe per target; `None` where a class is missing among the rows that count.
    pub fn fit(&self, design: &Design<'_>, targets: &[Target<'_>]) -> Vec<Option<Probe>> {
        // `Silent` never cancels.
        self.fit_monitored(design, &Preconditioner::of(design), targets, &Silent).unwrap_or_default()
    }

    /// The same with a given preconditioner, for repeated fits on the same rows, and with cancellation.
    pub fn fit_monitored(
        &self,
        design: &Design<'_>,
        preconditioner: &Preconditioner,
        targets: &[Target<'_>],
        monitor: &dyn Monitor,
    ) -> Result<Vec<Option<Probe>>, Cancelled> {
        let mut probes = Vec::with_capacity(targets.len());
        for group in targets.chunks(TOGETHER) {
            let mut states: Vec<State> = group.iter().filter_map(|target| self.begin(design, target, None)).collect();
            self.descend(design, preconditioner, &mut states, monitor)?;
            let mut states = states.into_iter();
            probes.extend(
                group.iter().map(|target| has_both(target).then(|| states.next().map(State::finish)).flatten()),
            );
        }
        Ok(probes)
    }

    /// Fits one probe, optionally from the weights of another; `None` where a class is missing.
    pub fn fit_from(
        &self,
        design: &Design<'_>,
        preconditioner: &Preconditioner,
        target: &Target<'_>,
        start: Option<&Probe>,
        monitor: &dyn Monitor,
    ) -> Result<Option<Probe>, Cancelled> {
        let mut states: Vec<State> = self.begin(design, target, start).into_iter().collect();
        self.descend(design, preconditioner, &mut states, monitor)?;
        Ok(states.pop().map(State::finish))
    }

    /// The weights of a positive and of a negative row, for a number of rows and of positives among them.
    pub fn class_weights(&self, rows: f64, positives: f64) -> (f64, f64) {
        match self.balanced {
            true => (rows / (2.0 * positives), rows / (2.0 * (rows - positives))),
            false => (1.0, 1.0),
        }
    }

    /// The best intercept while all weights are zero.
    pub(super) fn first_intercept(&self, rows: f64, positives: f64) -> f64 {
        if self.balanced { 0.0 } else { libm::log(positives / (rows - positives)) }
    }

    fn begin(&self, design: &Design<'_>, target: &Target<'_>, start: Option<&Probe>) -> Option<State> {
        if !has_both(target) {
            return None;
        }
        let rows = design.rows();
        let (known, yes) = (target.known.count() as f64, target.yes.count_and(target.known) as f64);
        let (for_yes, for_no) = self.class_weights(known, yes);
        let weight = |row: usize| match (target.known.contains(row), target.yes.contains(row)) {
            (false, _) => 0.0,
            (true, true) => for_yes,
            (true, false) => for_no,
        };
        let (weights, intercept, scores) = match start {
            Some(start) => {
                let scores = design.scores(&start.weights, 1).iter().map(|score| score + start.intercept).collect();
                (start.weights.clone(), start.intercept, scores)
            }
            None => {
                let intercept = self.first_intercept(known, yes);
                (vec![0.0; design.width()], intercept, vec![intercept; rows])
            }
        };
        Some(State {
            truth: (0..rows).map(|row| target.yes.contains(row)).collect(),
            importance: (0..rows).map(weight).collect(),
            weights,
            intercept,
            scores,
            first_gradient: None,
            outcome: None,
        })
    }

    fn descend(
        &self,
        design: &Design<'_>,
        preconditioner: &Preconditioner,
        states: &mut [State],
        monitor: &dyn Monitor,
    ) -> Result<(), Cancelled> {
        let (rows, width, penalty) = (design.rows(), design.width(), 1.0 / self.c);
        for _ in 0..self.steps {
            let mut active: Vec<&mut State> = states.iter_mut().filter(|state| state.outcome.is_none()).collect();
            if active.is_empty() {
                return Ok(());
            }
            let mut derivatives: Vec<Derivatives> = active.iter().map(|state| state.derivatives()).collect();
            let residuals: Vec<f64> =
                derivatives.iter_mut().flat_map(|derivatives| std::mem::take(&mut derivatives.residuals)).collect();
            let gradients = design.weighted_sums(&residuals, active.len());
            let (mut systems, mut open) = (Vec::with_capacity(active.len()), Vec::with_capacity(active.len()));
            for (index, (state, derivatives)) in active.iter_mut().zip(derivatives).enumerate() {
                let mut gradient: Vec<f64> = gradients[index * width..][..width].to_vec();
                gradient.iter_mut().zip(&state.weights).for_each(|(slope, weight)| *slope += penalty * weight);
                gradient.push(derivatives.intercept_slope);
                let size = dot_f64(&gradient, &gradient).sqrt();
                let first = *state.first_gradient.get_or_insert(size);
                if size <= self.tolerance * penalty {
                    state.outcome = Some(true);
                    continue;
                }
                // A rough direction suffices far from the optimum; f32 products are safe down to one part in a hundred.
                let tolerance = (size / first.max(f64::MIN_POSITIVE)).sqrt().clamp(0.01, 0.3) * size;
                systems.push(NewtonSystem::new(gradient, derivatives.curves, tolerance, preconditioner, penalty));
                open.push(index);
            }
            solve(design, (preconditioner, penalty), &mut systems, monitor)?;
            let directions: Vec<f64> = systems.iter().flat_map(|system| &system.direction[..width]).copied().collect();
            let moves = design.scores(&directions, systems.len());
            for ((system, index), moves) in systems.iter().zip(open).zip(moves.chunks(rows.max(1))) {
                active[index].advance(&system.direction, moves, &system.gradient, penalty);
            }
        }
        Ok(())
    }
}

fn has_both(target: &Target<'_>) -> bool {
    let (known, yes) = (target.known.count(), target.yes.count_and(target.known));
    yes > 0 && yes < known
}

/// The fit of one target.
struct State {
    truth: Vec<bool>,
    /// The weight of every row in the loss.
    importance: Vec<f64>,
    weights: Vec<f64>,
    intercept: f64,
    scores: Vec<f64>,
    /// The norm of the gradient at the first step.
    first_gradient: Option<f64>,
    /// Whether the fit converged; `None` while it runs.
    outcome: Option<bool>,
}

/// First and second derivatives of the loss by the scores.
struct Derivatives {
    /// Probability minus truth, times importance.
    residuals: Vec<f64>,
    /// The second derivatives.
    curves: Vec<f64>,
    intercept_slope: f64,
}

impl State {
    fn derivatives(&self) -> Derivatives {
        let mut derivatives = Derivatives { residuals: vec![], curves: vec![], intercept_slope: 0.0 };
        for ((&score, &yes), &importance) in self.scores.iter().zip(&self.truth).zip(&self.importance) {
            let probability = sigmoid(score);
            let residual = importance * (probability - f64::from(u8::from(yes)));
            derivatives.intercept_slope += residual;
            derivatives.residuals.push(residual);
            derivatives.curves.push(importance * probability * (1.0 - probability));
        }
        derivatives
    }

    /// The loss at a distance along a direction.
    fn loss(&self, moves: &[f64], distance: f64) -> f64 {
        let mut loss = 0.0;
        for (row, &score) in self.scores.iter().enumerate() {
            if self.importance[row] > 0.0 {
                let score = score + distance * moves[row];
                let wrong = if self.truth[row] { -score } else { score };
                loss += self.importance[row] * (libm::log1p(libm::exp(-wrong.abs())) + wrong.max(0.0));
            }
        }
        loss
    }

    /// Moves along a direction, with the step halved until the loss falls enough (Armijo's rule).
    fn advance(&mut self, direction: &[f64], moves: &[f64], gradient: &[f64], penalty: f64) {
        let width = self.weights.len();
        let (step, shift) = (&direction[..width], direction[width]);
        let moves: Vec<f64> = moves.iter().map(|score| score + shift).collect();
        let (own, cross, square) =
            (dot_f64(&self.weights, &self.weights), dot_f64(&self.weights, step), dot_f64(step, step));
        let objective = |distance: f64| {
            self.loss(&moves, distance) + penalty / 2.0 * (own + 2.0 * distance * cross + distance * distance * square)
        };
        let (start, fall) = (objective(0.0), dot_f64(gradient, direction));
        // Near the optimum the fall is below the resolution of the sum, and the full step is right.
        let slack = 1e-12 * (1.0 + start.abs());
        let mut distance = 1.0;
        while objective(distance) > start + 1e-4 * distance * fall + slack {
            distance /= 2.0;
            if distance < 1e-9 {
                self.outcome = Some(false);
                return;
            }
        }
        self.weights.iter_mut().zip(step).for_each(|(weight, step)| *weight += distance * step);
        self.intercept += distance * shift;
        self.scores.iter_mut().zip(&moves).for_each(|(score, by)| *score += distance * by);
    }

    fn finish(self) -> Probe {
        Probe { weights: self.weights, intercept: self.intercept, converged: self.outcome == Some(true) }
    }
}

/// `1 / (1 + e⁻ˣ)`.
pub fn sigmoid(score: f64) -> f64 {
    let small = libm::exp(-score.abs());
    if score >= 0.0 { 1.0 / (1.0 + small) } else { small / (1.0 + small) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::codes::Codes;

    fn fit(logistic: Logistic, values: &[f32], width: usize, yes: &[usize], known: &[usize]) -> Option<Probe> {
        let rows = values.len() / width;
        let (yes, known) = (Bits::of(rows, yes.iter().copied()), Bits::of(rows, known.iter().copied()));
        let target = [Target { yes: &yes, known: &known }];
        let dense = logistic.fit(&Design::Dense { values, width }, &target).remove(0);
        let codes = Codes::from_dense(values, width).unwrap();
        let design = Design::Sparse { codes: codes.all().unwrap(), latents: width };
        let sparse = logistic.fit(&design, &target).remove(0);
        match (&dense, &sparse) {
            (Some(dense), Some(sparse)) => {
                assert!(dense.converged && sparse.converged);
                let pairs = dense.weights.iter().zip(&sparse.weights);
                assert!(pairs.chain([(&dense.intercept, &sparse.intercept)]).all(|(a, b)| (a - b).abs() < 2e-5));
            }
            (None, None) => {}
            _ => panic!("dense and sparse disagree"),
        }
        dense
    }

    #[test]
    fn two_rows_have_a_closed_form() {
        // Rows +1 (yes) and -1 (no): by symmetry the intercept is 0 and the weight solves w = 2 c (1 - σ(w)).
        // For c = 1: w = 0.7723 gives 1 - σ(0.7723) = 0.31600, twice that 0.6320: too small; the root is 0.6750:
        // 1 - σ(0.6750) = 0.33740, twice 0.6748.
        let probe = fit(Logistic::default(), &[1.0, -1.0], 1, &[0], &[0, 1]).unwrap();
        let weight = probe.weights[0];
        assert!((weight - 2.0 * (1.0 - sigmoid(weight))).abs() < 1e-5 && probe.intercept.abs() < 1e-5);
        assert!((weight - 0.675).abs() < 1e-3, "{weight}");
    }

    #[test]
    fn unknown_rows_and_missing_classes() {
        let values = [1.0, -1.0, 50.0, -1.0];
        let all = fit(Logistic::default(), &values, 1, &[0], &[0, 1]).unwrap();
        let two = fit(Logistic::default(), &values[..2], 1, &[0], &[0, 1]).unwrap();
        assert!((all.weights[0] - two.weights[0]).abs() < 1e-5 && (all.intercept - two.intercept).abs() < 1e-5);
        assert_eq!(fit(Logistic::default(), &values, 1, &[0], &[0]), None);
        assert_eq!(fit(Logistic::default(), &values, 1, &[], &[0, 1]), None);
        assert_eq!(fit(Logistic::default(), &[], 1, &[], &[]), None);
    }

    #[test]
    fn a_constant_column_leaves_everything_to_the_intercept() {
        // Three of four rows are yes: the log-odds are ln 3, and the penalised weight stays at zero.
        let probe = fit(Logistic::default(), &[0.0; 4], 1, &[0, 1, 2], &[0, 1, 2, 3]).unwrap();
        assert!(probe.weights[0].abs() < 1e-9 && (probe.intercept - 3f64.ln()).abs() < 1e-9);
        let balanced = Logistic { balanced: true, ..Logistic::default() };
        assert!(fit(balanced, &[0.0; 4], 1, &[0, 1, 2], &[0, 1, 2, 3]).unwrap().intercept.abs() < 1e-9);
    }

    #[test]
    fn separable_rows_with_a_weak_penalty_terminate() {
        let values: Vec<f32> = (0..40).map(|row| row as f32 - 19.5).collect();
        let yes: Vec<usize> = (20..40).collect();
        let all: Vec<usize> = (0..40).collect();
        let probe = fit(Logistic { c: 1e4, ..Logistic::default() }, &values, 1, &yes, &all);
        assert!(probe.unwrap().weights[0] > 5.0);
    }

    #[test]
    fn targets_of_a_group_do_not_influence_each_other() {
        let values: Vec<f32> = (0..60).map(|i| ((i * 7) % 11) as f32 - 5.0).collect();
        let sets: Vec<Bits> = (2..40).map(|step| Bits::of(30, (0..30).step_by(step))).collect();
        let known = Bits::full(30);
        let targets: Vec<Target<'_>> = sets.iter().map(|yes| Target { yes, known: &known }).collect();
        let design = Design::Dense { values: &values, width: 2 };
        let together = Logistic::default().fit(&design, &targets);
        for (target, probe) in targets.iter().zip(&together) {
            let alone = Logistic::default().fit(&design, &[*target]).remove(0).unwrap();
            let probe = probe.as_ref().unwrap();
            assert!((alone.weights[0] - probe.weights[0]).abs() < 1e-5);
        }
    }
}
