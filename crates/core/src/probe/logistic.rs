//! Logistic regression with an L2 penalty, to convergence, many targets on the same rows at once.
//!
//! scikit-learn's convention: minimise `c · Σ_i weight_i · loss_i + ½ ‖w‖²`, the intercept without penalty. The method
//! is Newton's with conjugate gradients: the products with the rows are shared by all targets of a group, each target
//! has its own step, and a target that is done drops out. A rough picture of how the rows spread, shared by all targets,
//! keeps the number of products small. The step length is searched along scores that are already
//! there (they are linear in the step), so that a trial costs no product.

use etalon_kernel::bits::Bits;
use etalon_kernel::monitor::{Cancelled, Monitor, Silent};
use serde::{Deserialize, Serialize};

use super::design::Design;
use super::preconditioner::{Spectrum, dot};

/// How a probe is fitted.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Logistic {
    /// The inverse strength of the penalty.
    pub c: f64,
    /// Weighs the classes so that both count the same.
    pub balanced: bool,
    /// Stops when the slope of `Σ loss + ‖w‖²/2c` is below `tolerance / c`: the weights then are about that exact.
    pub tolerance: f64,
    /// Gives up after so many steps.
    pub steps: usize,
}

impl Default for Logistic {
    fn default() -> Logistic {
        Logistic { c: 1.0, balanced: false, tolerance: 1e-5, steps: 100 }
    }
}

/// What a probe shall tell: which rows are positive, and of which that is known. Other rows are left out.
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
    /// False if the steps did not suffice.
    pub converged: bool,
}

/// Targets that share the products with the rows: fewer, and preparing the rows for a product costs as much as it.
pub const TOGETHER: usize = 64;

/// Products with the rows that one step may take.
const MOST_TURNS: usize = 200;

impl Logistic {
    /// Fits one probe per target; `None` where a class is missing among the rows that count.
    pub fn fit(&self, design: &Design<'_>, targets: &[Target<'_>]) -> Vec<Option<Probe>> {
        self.fit_with(design, &Spectrum::of(design), targets)
    }

    /// The same, for callers that fit on the same rows again and again.
    pub fn fit_with(&self, design: &Design<'_>, spectrum: &Spectrum, targets: &[Target<'_>]) -> Vec<Option<Probe>> {
        // Nobody can cancel it.
        self.fit_monitored(design, spectrum, targets, &Silent).unwrap_or_default()
    }

    /// The same, for work that can be cancelled.
    pub fn fit_monitored(
        &self,
        design: &Design<'_>,
        spectrum: &Spectrum,
        targets: &[Target<'_>],
        monitor: &dyn Monitor,
    ) -> Result<Vec<Option<Probe>>, Cancelled> {
        let mut probes = Vec::with_capacity(targets.len());
        for group in targets.chunks(TOGETHER) {
            let mut states: Vec<State> = group.iter().filter_map(|target| self.begin(design, target, None)).collect();
            self.descend(design, spectrum, &mut states, monitor)?;
            let mut states = states.into_iter();
            probes.extend(
                group.iter().map(|target| has_both(target).then(|| states.next().map(State::finish)).flatten()),
            );
        }
        Ok(probes)
    }

    /// One probe, from another one's weights if there are some; `None` where a class is missing.
    pub fn fit_from(
        &self,
        design: &Design<'_>,
        spectrum: &Spectrum,
        target: &Target<'_>,
        start: Option<&Probe>,
        monitor: &dyn Monitor,
    ) -> Result<Option<Probe>, Cancelled> {
        let mut states: Vec<State> = self.begin(design, target, start).into_iter().collect();
        self.descend(design, spectrum, &mut states, monitor)?;
        Ok(states.pop().map(State::finish))
    }

    fn begin(&self, design: &Design<'_>, target: &Target<'_>, start: Option<&Probe>) -> Option<State> {
        if !has_both(target) {
            return None;
        }
        let rows = design.rows();
        let (known, yes) = (target.known.count() as f64, target.yes.count_and(target.known) as f64);
        let (for_yes, for_no) =
            if self.balanced { (known / (2.0 * yes), known / (2.0 * (known - yes))) } else { (1.0, 1.0) };
        let weight = |row: usize| match (target.known.contains(row), target.yes.contains(row)) {
            (false, _) => 0.0,
            (true, true) => for_yes,
            (true, false) => for_no,
        };
        // The best intercept without any weight: half the rows are positive when classes are balanced.
        let (weights, intercept, scores) = match start {
            Some(start) => {
                let scores = design.scores(&start.weights, 1).iter().map(|score| score + start.intercept).collect();
                (start.weights.clone(), start.intercept, scores)
            }
            None => {
                let intercept = if self.balanced { 0.0 } else { libm::log(yes / (known - yes)) };
                (vec![0.0; design.width()], intercept, vec![intercept; rows])
            }
        };
        Some(State {
            truth: (0..rows).map(|row| target.yes.contains(row)).collect(),
            importance: (0..rows).map(weight).collect(),
            weights,
            intercept,
            scores,
            first_slope: None,
            outcome: None,
        })
    }

    fn descend(
        &self,
        design: &Design<'_>,
        spectrum: &Spectrum,
        states: &mut [State],
        monitor: &dyn Monitor,
    ) -> Result<(), Cancelled> {
        let penalty = 1.0 / self.c;
        for _ in 0..self.steps {
            let mut active: Vec<&mut State> = states.iter_mut().filter(|state| state.outcome.is_none()).collect();
            if active.is_empty() {
                return Ok(());
            }
            let mut looks: Vec<Look> = active.iter().map(|state| state.look()).collect();
            let residuals: Vec<f64> = looks.iter_mut().flat_map(|look| std::mem::take(&mut look.residuals)).collect();
            let slopes = design.weighted_sums(&residuals, active.len());
            let width = design.width();
            let mut solves = Vec::with_capacity(active.len());
            for (place, state) in active.iter_mut().enumerate() {
                let mut slope: Vec<f64> = slopes[place * width..][..width].to_vec();
                slope.iter_mut().zip(&state.weights).for_each(|(slope, weight)| *slope += penalty * weight);
                slope.push(looks[place].intercept_slope);
                let size = norm(&slope);
                let first = *state.first_slope.get_or_insert(size);
                if size <= self.tolerance * penalty {
                    state.outcome = Some(true);
                    continue;
                }
                // A rough direction suffices far from the end; one part in a hundred is what f32 products give safely.
                let wanted = (size / first.max(f64::MIN_POSITIVE)).sqrt().clamp(0.01, 0.3) * size;
                solves.push(Solve::new(place, slope, wanted, &looks[place], spectrum, penalty));
            }
            turn(design, &looks, (spectrum, penalty), &mut solves, monitor)?;
            let directions: Vec<f64> = solves.iter().flat_map(|solve| &solve.direction[..width]).copied().collect();
            let moves = design.scores(&directions, solves.len());
            let rows = design.rows();
            for (place, solve) in solves.iter().enumerate() {
                let move_of_row = &moves[place * rows..][..rows];
                active[solve.place].advance(&solve.direction, move_of_row, &solve.slope, penalty);
            }
        }
        Ok(())
    }
}

fn has_both(target: &Target<'_>) -> bool {
    let (known, yes) = (target.known.count(), target.yes.count_and(target.known));
    yes > 0 && yes < known
}

/// Where a target stands.
struct State {
    truth: Vec<bool>,
    importance: Vec<f64>,
    weights: Vec<f64>,
    intercept: f64,
    scores: Vec<f64>,
    first_slope: Option<f64>,
    /// Whether it converged, once it has ended.
    outcome: Option<bool>,
}

/// What the loss looks like from there.
struct Look {
    /// Probability minus truth, times importance.
    residuals: Vec<f64>,
    /// The second derivative of the loss by the score.
    curves: Vec<f64>,
    intercept_slope: f64,
}

impl State {
    fn look(&self) -> Look {
        let mut look = Look { residuals: vec![], curves: vec![], intercept_slope: 0.0 };
        for ((&score, &yes), &importance) in self.scores.iter().zip(&self.truth).zip(&self.importance) {
            let probability = sigmoid(score);
            let residual = importance * (probability - f64::from(u8::from(yes)));
            look.intercept_slope += residual;
            look.residuals.push(residual);
            look.curves.push(importance * probability * (1.0 - probability));
        }
        look
    }

    /// The loss at a distance along a direction.
    fn loss(&self, move_of_row: &[f64], distance: f64) -> f64 {
        let mut loss = 0.0;
        for (row, &score) in self.scores.iter().enumerate() {
            if self.importance[row] > 0.0 {
                let score = score + distance * move_of_row[row];
                let wrong = if self.truth[row] { -score } else { score };
                loss += self.importance[row] * (libm::log1p(libm::exp(-wrong.abs())) + wrong.max(0.0));
            }
        }
        loss
    }

    /// Goes along a direction, as far as the loss falls by a fair part of what its slope promises.
    fn advance(&mut self, direction: &[f64], move_of_row: &[f64], slope: &[f64], penalty: f64) {
        let width = self.weights.len();
        let (ahead, shift) = (&direction[..width], direction[width]);
        let moves: Vec<f64> = move_of_row.iter().map(|score| score + shift).collect();
        let (own, cross, square) = (dot(&self.weights, &self.weights), dot(&self.weights, ahead), dot(ahead, ahead));
        let at = |distance: f64| {
            self.loss(&moves, distance) + penalty / 2.0 * (own + 2.0 * distance * cross + distance * distance * square)
        };
        let (start, fall) = (at(0.0), dot(slope, direction));
        // Near the end the fall is below what the sum can resolve, and the full step is the right one.
        let slack = 1e-12 * (1.0 + start.abs());
        let mut distance = 1.0;
        while at(distance) > start + 1e-4 * distance * fall + slack {
            distance /= 2.0;
            if distance < 1e-9 {
                self.outcome = Some(false);
                return;
            }
        }
        self.weights.iter_mut().zip(ahead).for_each(|(weight, ahead)| *weight += distance * ahead);
        self.intercept += distance * shift;
        self.scores.iter_mut().zip(&moves).for_each(|(score, by)| *score += distance * by);
    }

    fn finish(self) -> Probe {
        Probe { weights: self.weights, intercept: self.intercept, converged: self.outcome == Some(true) }
    }
}

/// A search for the direction in which the slope vanishes, weights first and intercept last.
struct Solve {
    place: usize,
    slope: Vec<f64>,
    direction: Vec<f64>,
    left: Vec<f64>,
    along: Vec<f64>,
    /// The sum of the curves, which is the curvature by the intercept, and their mean.
    curve: (f64, f64),
    /// `left` times `left` divided by the rough curvature.
    size: f64,
    wanted: f64,
}

impl Solve {
    fn new(place: usize, slope: Vec<f64>, wanted: f64, look: &Look, spectrum: &Spectrum, penalty: f64) -> Solve {
        let total: f64 = look.curves.iter().sum();
        let curve = (total, total / look.curves.len().max(1) as f64);
        let left: Vec<f64> = slope.iter().map(|slope| -slope).collect();
        let direction = vec![0.0; slope.len()];
        let mut solve = Solve { place, direction, along: vec![], left, slope, curve, size: 0.0, wanted };
        solve.along = solve.divided(spectrum, penalty);
        solve.size = dot(&solve.left, &solve.along);
        solve
    }

    /// What is left, divided by the rough curvature.
    fn divided(&self, spectrum: &Spectrum, penalty: f64) -> Vec<f64> {
        let width = self.left.len() - 1;
        let mut divided = spectrum.divide(&self.left[..width], self.curve.1, penalty);
        divided.push(self.left[width] / self.curve.0.max(f64::MIN_POSITIVE));
        divided
    }

    fn is_open(&self) -> bool {
        norm(&self.left) > self.wanted
    }

    /// One step of conjugate gradients, given the curvature along `along`.
    fn step(&mut self, bent: &[f64], spectrum: &Spectrum, penalty: f64) {
        let curve = dot(&self.along, bent);
        if curve <= 0.0 || !curve.is_finite() {
            // Rounding only: the penalty makes every curve positive. What there is must do.
            self.wanted = f64::INFINITY;
            return;
        }
        let length = self.size / curve;
        self.direction.iter_mut().zip(&self.along).for_each(|(value, along)| *value += length * along);
        self.left.iter_mut().zip(bent).for_each(|(value, bent)| *value -= length * bent);
        let divided = self.divided(spectrum, penalty);
        let size = dot(&self.left, &divided);
        let keep = size / self.size;
        self.along.iter_mut().zip(&divided).for_each(|(along, divided)| *along = divided + keep * *along);
        self.size = size;
    }
}

/// Conjugate gradients for all targets that still need them, one product with the rows per turn.
fn turn(
    design: &Design<'_>,
    looks: &[Look],
    (spectrum, penalty): (&Spectrum, f64),
    solves: &mut [Solve],
    monitor: &dyn Monitor,
) -> Result<(), Cancelled> {
    let width = design.width();
    for _ in 0..MOST_TURNS {
        monitor.check()?;
        let open: Vec<&mut Solve> = solves.iter_mut().filter(|solve| solve.is_open()).collect();
        if open.is_empty() {
            return Ok(());
        }
        let directions: Vec<f64> = open.iter().flat_map(|solve| &solve.along[..width]).copied().collect();
        let shifts: Vec<f64> = open.iter().map(|solve| solve.along[width]).collect();
        let curves: Vec<f64> = open.iter().flat_map(|solve| &looks[solve.place].curves).copied().collect();
        let (sums, totals) = design.curvature(&directions, &shifts, &curves);
        for (number, solve) in open.into_iter().enumerate() {
            let mut bent: Vec<f64> = sums[number * width..][..width].to_vec();
            bent.iter_mut().zip(&solve.along).for_each(|(bent, along)| *bent += penalty * along);
            bent.push(totals[number]);
            solve.step(&bent, spectrum, penalty);
        }
    }
    Ok(())
}

/// `1 / (1 + e⁻ˣ)`.
pub fn sigmoid(score: f64) -> f64 {
    let small = libm::exp(-score.abs());
    if score >= 0.0 { 1.0 / (1.0 + small) } else { small / (1.0 + small) }
}

fn norm(values: &[f64]) -> f64 {
    dot(values, values).sqrt()
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
    fn two_rows_by_hand() {
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
    fn separable_rows_with_hardly_any_penalty_still_end() {
        let values: Vec<f32> = (0..40).map(|row| row as f32 - 19.5).collect();
        let yes: Vec<usize> = (20..40).collect();
        let all: Vec<usize> = (0..40).collect();
        let probe = fit(Logistic { c: 1e4, ..Logistic::default() }, &values, 1, &yes, &all);
        assert!(probe.unwrap().weights[0] > 5.0);
    }

    #[test]
    fn company_does_not_matter() {
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
