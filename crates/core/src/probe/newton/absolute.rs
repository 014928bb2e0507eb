//! The step of a penalty on absolute weights: the minimum of a bent loss plus a multiple of Σ |weight|.
//!
//! One coordinate after the other finds out quickly which weights are zero and slowly what the others are; once the
//! zeros are known, the others solve linear equations.

use crate::probe::preconditioner::dot;
use etalon_kernel::cholesky::solve;

/// Rounds over all coordinates before the equations are solved.
const ROUNDS: usize = 6;
/// Times that the equations may be solved.
const MOST_LEAPS: usize = 400;
/// Rounds over all coordinates where the equations have no solution.
const MOST_ROUNDS: usize = 500;

/// A bent loss around some weights, with the intercept behind them.
pub(super) struct Bent<'a> {
    /// Where it is looked at from.
    pub at: &'a [f64],
    /// Its slope there.
    pub slope: &'a [f64],
    /// Its curvature, a square matrix.
    pub curvature: &'a [f64],
    /// What a unit of a weight costs; the intercept is free.
    pub size: f64,
}

impl Bent<'_> {
    /// The step to the minimum, and by how much the straight part of the loss and the penalty fall there.
    pub fn step(&self) -> (Vec<f64>, f64) {
        let (mut now, mut left) = (self.at.to_vec(), self.slope.to_vec());
        if !self.rounds(ROUNDS, &mut now, &mut left) && !self.leaps(&mut now, &mut left) {
            self.rounds(MOST_ROUNDS, &mut now, &mut left);
        }
        let width = self.at.len() - 1;
        let step: Vec<f64> = now.iter().zip(self.at).map(|(now, at)| now - at).collect();
        let cost = |weights: &[f64]| weights.iter().take(width).map(|weight| weight.abs()).sum::<f64>();
        let promise = dot(self.slope, &step) + self.size * (cost(&now) - cost(self.at));
        (step, promise)
    }

    /// Every coordinate once, so often; true when nothing moves any more.
    fn rounds(&self, most: usize, now: &mut [f64], left: &mut [f64]) -> bool {
        let mut round = || (0..now.len()).fold(0f64, |largest, place| largest.max(self.turn(place, now, left)));
        (0..most).any(|_| round() <= 1e-22)
    }

    /// Moves one coordinate to its best place; what that was worth.
    fn turn(&self, place: usize, now: &mut [f64], left: &mut [f64]) -> f64 {
        let side = now.len();
        let curve = self.curvature[place * side + place].max(1e-12);
        let wanted = now[place] - left[place] / curve;
        let next = match place + 1 == side {
            true => wanted,
            false => wanted.signum() * (wanted.abs() - self.size / curve).max(0.0),
        };
        let by = next - now[place];
        if by != 0.0 {
            now[place] = next;
            self.shift(left, place, by);
        }
        by * by * curve
    }

    /// Solves for the weights that are not zero; one that changes its sign on the way becomes zero, and one that should not
    /// be zero is let in, until neither is left. False where the equations have no solution.
    fn leaps(&self, now: &mut [f64], left: &mut [f64]) -> bool {
        let width = now.len() - 1;
        for _ in 0..MOST_LEAPS {
            let Some(free) = self.leap(now, left) else { return false };
            if !free {
                continue;
            }
            let pull = |place: &usize| left[*place].abs();
            let outside = (0..width).filter(|&place| now[place] == 0.0);
            match outside.max_by(|a, b| pull(a).total_cmp(&pull(b)).then(b.cmp(a))) {
                Some(place) if left[place].abs() > self.size * (1.0 + 1e-12) => self.turn(place, now, left),
                _ => return true,
            };
        }
        true
    }

    fn shift(&self, left: &mut [f64], place: usize, by: f64) {
        let line = &self.curvature[place * left.len()..];
        left.iter_mut().zip(line).for_each(|(left, bent)| *left += by * bent);
    }

    /// Solves for the weights that are not zero, and goes there as far as none changes its sign; true if that was all the way.
    fn leap(&self, now: &mut [f64], left: &mut [f64]) -> Option<bool> {
        let side = now.len();
        let free: Vec<usize> = (0..side).filter(|&place| now[place] != 0.0 || place + 1 == side).collect();
        let pull = |place: usize, now: &[f64]| if place + 1 == side { 0.0 } else { self.size * now[place].signum() };
        let mut matrix: Vec<f64> =
            free.iter().flat_map(|&row| free.iter().map(move |&column| self.curvature[row * side + column])).collect();
        let mut step: Vec<f64> = free.iter().map(|&place| -left[place] - pull(place, now)).collect();
        if !solve(&mut matrix, &mut step) {
            return None;
        }
        // The first weight on the way that becomes zero.
        let (mut distance, mut stop) = (1.0, None);
        for (&place, &step) in free.iter().zip(&step) {
            if place + 1 < side && now[place] * (now[place] + step) <= 0.0 && -now[place] / step < distance {
                (distance, stop) = (-now[place] / step, Some(place));
            }
        }
        for (&place, &step) in free.iter().zip(&step) {
            let next = if stop == Some(place) { 0.0 } else { now[place] + distance * step };
            self.shift(left, place, next - now[place]);
            now[place] = next;
        }
        Some(stop.is_none())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_weights_by_hand() {
        // ½ (w₁² + w₂²) + 0.5 w₁ w₂ − 2 w₁ + 0.2 w₂ + |w₁| + |w₂|, the intercept apart: w₂ = 0 and w₁ = 2 − 1 = 1, because
        // at w₂ = 0 its slope 0.5 + 0.2 stays below 1. The slope times the step is −2, the penalty adds 1.
        let curvature = [1.0, 0.5, 0.0, 0.5, 1.0, 0.0, 0.0, 0.0, 4.0];
        let bent = Bent { at: &[0.0; 3], slope: &[-2.0, 0.2, 2.0], curvature: &curvature, size: 1.0 };
        let (step, promise) = bent.step();
        assert!((step[0] - 1.0).abs() < 1e-12 && step[1] == 0.0 && (step[2] + 0.5).abs() < 1e-12, "{step:?}");
        assert!((promise - (-2.0 - 1.0 + 1.0)).abs() < 1e-12);
    }

    #[test]
    fn a_leap_ends_where_rounds_end() {
        // Twelve columns that are nearly the same, so that rounds alone take hundreds; the slope is that of a fit.
        let side = 13;
        let value = |row: usize, column: usize| match column {
            12 => 1.0,
            _ => (row % 5) as f64 + 0.05 * ((row * row + column * column * 7 + row * column) % 13) as f64,
        };
        let mean = |of: &dyn Fn(usize) -> f64| (0..60).map(of).sum::<f64>() / 60.0;
        let curvature: Vec<f64> =
            (0..side * side).map(|i| mean(&|row| value(row, i / side) * value(row, i % side))).collect();
        let slope: Vec<f64> =
            (0..side).map(|place| mean(&|row| value(row, place) * (((row * 7) % 11) as f64 - 6.0))).collect();
        let bent = Bent { at: &vec![0.0; side], slope: &slope, curvature: &curvature, size: 0.01 };
        let (step, promise) = bent.step();
        assert!(promise < 0.0);
        for place in 0..side {
            let left = slope[place] + dot(&curvature[place * side..][..side], &step);
            let wrong = match step[place] {
                _ if place == 12 => left.abs(),
                0.0 => (left.abs() - 0.01).max(0.0),
                weight => (left + 0.01 * weight.signum()).abs(),
            };
            assert!(wrong < 1e-8, "{place}: {wrong}");
        }
    }
}
