//! The Newton step of an L1 penalty: the minimum of a quadratic model of the loss plus a multiple of Σ |weight|.
//!
//! Coordinate descent finds quickly which weights are zero but the other weights slowly; once the zeros are known, the
//! others solve linear equations (an active-set method).

use etalon_kernel::cholesky::solve;
use etalon_kernel::lanes::dot_f64;

/// Rounds of coordinate descent before the equations are solved.
const ROUNDS: usize = 6;
/// Maximum number of solved systems of equations.
const MOST_SOLVES: usize = 400;
/// Rounds of coordinate descent where the equations have no solution.
const MOST_ROUNDS: usize = 500;

/// A quadratic model of the loss. Vectors hold the weights first, the intercept last.
pub(super) struct QuadraticModel<'a> {
    /// The point of expansion.
    pub start: &'a [f64],
    pub gradient: &'a [f64],
    /// A square matrix.
    pub hessian: &'a [f64],
    /// The factor of the penalty; the intercept has none.
    pub strength: f64,
}

impl QuadraticModel<'_> {
    /// The step to the minimum, and the change of the penalty and of the linear part of the loss there.
    pub fn step(&self) -> (Vec<f64>, f64) {
        let (mut now, mut gradient) = (self.start.to_vec(), self.gradient.to_vec());
        if !self.rounds(ROUNDS, &mut now, &mut gradient) && !self.solves(&mut now, &mut gradient) {
            self.rounds(MOST_ROUNDS, &mut now, &mut gradient);
        }
        let width = self.start.len() - 1;
        let step: Vec<f64> = now.iter().zip(self.start).map(|(now, start)| now - start).collect();
        let absolute = |weights: &[f64]| weights.iter().take(width).map(|weight| weight.abs()).sum::<f64>();
        let fall = dot_f64(self.gradient, &step) + self.strength * (absolute(&now) - absolute(self.start));
        (step, fall)
    }

    /// Coordinate descent over all coordinates, at most `most` times; returns whether it converged.
    fn rounds(&self, most: usize, now: &mut [f64], gradient: &mut [f64]) -> bool {
        let mut round = || (0..now.len()).fold(0f64, |largest, index| largest.max(self.update(index, now, gradient)));
        (0..most).any(|_| round() <= 1e-22)
    }

    /// Moves one coordinate to its optimum; returns the squared change times the curvature.
    fn update(&self, index: usize, now: &mut [f64], gradient: &mut [f64]) -> f64 {
        let side = now.len();
        let curve = self.hessian[index * side + index].max(1e-12);
        let free = now[index] - gradient[index] / curve;
        let next = match index + 1 == side {
            true => free,
            false => free.signum() * (free.abs() - self.strength / curve).max(0.0),
        };
        let by = next - now[index];
        if by != 0.0 {
            now[index] = next;
            self.shift(gradient, index, by);
        }
        by * by * curve
    }

    /// Solves for the nonzero weights until the optimality conditions hold: a weight whose sign would change becomes zero,
    /// and a zero weight with too large a gradient becomes free. False where the equations have no solution.
    fn solves(&self, now: &mut [f64], gradient: &mut [f64]) -> bool {
        let width = now.len() - 1;
        for _ in 0..MOST_SOLVES {
            let Some(complete) = self.solve_free(now, gradient) else { return false };
            if !complete {
                continue;
            }
            let slope = |index: &usize| gradient[*index].abs();
            let outside = (0..width).filter(|&index| now[index] == 0.0);
            match outside.max_by(|a, b| slope(a).total_cmp(&slope(b)).then(b.cmp(a))) {
                Some(index) if gradient[index].abs() > self.strength * (1.0 + 1e-12) => {
                    self.update(index, now, gradient)
                }
                _ => return true,
            };
        }
        true
    }

    /// Updates the gradient for a change of one coordinate.
    fn shift(&self, gradient: &mut [f64], index: usize, by: f64) {
        let curves = &self.hessian[index * gradient.len()..];
        gradient.iter_mut().zip(curves).for_each(|(gradient, curve)| *gradient += by * curve);
    }

    /// Solves for the nonzero weights and moves towards the solution until a weight becomes zero; true if none did.
    fn solve_free(&self, now: &mut [f64], gradient: &mut [f64]) -> Option<bool> {
        let side = now.len();
        let free: Vec<usize> = (0..side).filter(|&index| now[index] != 0.0 || index + 1 == side).collect();
        let penalty =
            |index: usize, now: &[f64]| if index + 1 == side { 0.0 } else { self.strength * now[index].signum() };
        let mut matrix: Vec<f64> =
            free.iter().flat_map(|&row| free.iter().map(move |&column| self.hessian[row * side + column])).collect();
        let mut step: Vec<f64> = free.iter().map(|&index| -gradient[index] - penalty(index, now)).collect();
        if !solve(&mut matrix, &mut step) {
            return None;
        }
        // The first weight that becomes zero on the way.
        let (mut distance, mut stop) = (1.0, None);
        for (&index, &step) in free.iter().zip(&step) {
            if index + 1 < side && now[index] * (now[index] + step) <= 0.0 && -now[index] / step < distance {
                (distance, stop) = (-now[index] / step, Some(index));
            }
        }
        for (&index, &step) in free.iter().zip(&step) {
            let next = if stop == Some(index) { 0.0 } else { now[index] + distance * step };
            self.shift(gradient, index, next - now[index]);
            now[index] = next;
        }
        Some(stop.is_none())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_weights_have_a_closed_form() {
        // ½ (w₁² + w₂²) + 0.5 w₁ w₂ − 2 w₁ + 0.2 w₂ + |w₁| + |w₂|, intercept separate: w₂ = 0 and w₁ = 2 − 1 = 1, because
        // at w₂ = 0 its slope 0.5 + 0.2 stays below 1. Slope times step is −2, the penalty adds 1.
        let hessian = [1.0, 0.5, 0.0, 0.5, 1.0, 0.0, 0.0, 0.0, 4.0];
        let model = QuadraticModel { start: &[0.0; 3], gradient: &[-2.0, 0.2, 2.0], hessian: &hessian, strength: 1.0 };
        let (step, fall) = model.step();
        assert!((step[0] - 1.0).abs() < 1e-12 && step[1] == 0.0 && (step[2] + 0.5).abs() < 1e-12, "{step:?}");
        assert!((fall - (-2.0 - 1.0 + 1.0)).abs() < 1e-12);
    }

    #[test]
    fn optimality_conditions_hold_for_similar_columns() {
        // Twelve nearly equal columns, for which coordinate descent alone takes hundreds of rounds.
        let side = 13;
        let value = |row: usize, column: usize| match column {
            12 => 1.0,
            _ => (row % 5) as f64 + 0.05 * ((row * row + column * column * 7 + row * column) % 13) as f64,
        };
        let mean = |of: &dyn Fn(usize) -> f64| (0..60).map(of).sum::<f64>() / 60.0;
        let hessian: Vec<f64> =
            (0..side * side).map(|i| mean(&|row| value(row, i / side) * value(row, i % side))).collect();
        let gradient: Vec<f64> =
            (0..side).map(|index| mean(&|row| value(row, index) * (((row * 7) % 11) as f64 - 6.0))).collect();
        let start = vec![0.0; side];
        let model = QuadraticModel { start: &start, gradient: &gradient, hessian: &hessian, strength: 0.01 };
        let (step, fall) = model.step();
        assert!(fall < 0.0);
        for index in 0..side {
            let gradient = gradient[index] + dot_f64(&hessian[index * side..][..side], &step);
            let wrong = match step[index] {
                _ if index == 12 => gradient.abs(),
                0.0 => (gradient.abs() - 0.01).max(0.0),
                weight => (gradient + 0.01 * weight.signum()).abs(),
            };
            assert!(wrong < 1e-8, "{index}: {wrong}");
        }
    }
}
