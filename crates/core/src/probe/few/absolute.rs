//! The step of a penalty on absolute weights: the minimum of a bent loss plus a multiple of Σ |weight|.
//!
//! One coordinate after the other finds out quickly which weights are zero and slowly what the others are; once the
//! zeros are known, the others solve linear equations.

use crate::kernel::cholesky::solve;
use crate::probe::spectrum::dot;

/// Rounds over all coordinates that one step may take.
const MOST_ROUNDS: usize = 500;
/// Rounds after which the equations are tried.
const PATIENCE: usize = 6;

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
        for round in 1..=MOST_ROUNDS {
            if self.round(&mut now, &mut left) <= 1e-22 || round % PATIENCE == 0 && self.leap(&mut now, &mut left) {
                break;
            }
        }
        let width = self.at.len() - 1;
        let step: Vec<f64> = now.iter().zip(self.at).map(|(now, at)| now - at).collect();
        let cost = |weights: &[f64]| weights.iter().take(width).map(|weight| weight.abs()).sum::<f64>();
        let promise = dot(self.slope, &step) + self.size * (cost(&now) - cost(self.at));
        (step, promise)
    }

    /// Every coordinate once; what the largest change was worth.
    fn round(&self, now: &mut [f64], left: &mut [f64]) -> f64 {
        let side = now.len();
        let mut largest: f64 = 0.0;
        for place in 0..side {
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
                largest = largest.max(by * by * curve);
            }
        }
        largest
    }

    fn shift(&self, left: &mut [f64], place: usize, by: f64) {
        let line = &self.curvature[place * left.len()..];
        left.iter_mut().zip(line).for_each(|(left, bent)| *left += by * bent);
    }

    /// Solves for the weights that are not zero, and goes there as far as none changes its sign; true at the minimum.
    fn leap(&self, now: &mut [f64], left: &mut [f64]) -> bool {
        let side = now.len();
        let free: Vec<usize> = (0..side).filter(|&place| now[place] != 0.0 || place + 1 == side).collect();
        let pull = |place: usize, now: &[f64]| if place + 1 == side { 0.0 } else { self.size * now[place].signum() };
        let mut matrix: Vec<f64> =
            free.iter().flat_map(|&row| free.iter().map(move |&column| self.curvature[row * side + column])).collect();
        let mut step: Vec<f64> = free.iter().map(|&place| -left[place] - pull(place, now)).collect();
        if !solve(&mut matrix, &mut step) {
            return false;
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
        let outside = |place: usize| now[place] == 0.0 && place + 1 < side;
        stop.is_none() && (0..side).all(|place| !outside(place) || left[place].abs() <= self.size * (1.0 + 1e-12))
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
        // Twelve columns that are nearly the same, so that rounds alone take hundreds.
        let side = 13;
        let value = |row: usize, column: usize| match column {
            12 => 1.0,
            _ => (row % 5) as f64 + 0.05 * ((row * row + column * column * 7 + row * column) % 11) as f64,
        };
        let curvature: Vec<f64> = (0..side * side)
            .map(|i| (0..60).map(|row| value(row, i / side) * value(row, i % side)).sum::<f64>() / 60.0)
            .collect();
        let slope: Vec<f64> = (0..side).map(|i| if i % 3 == 0 { -1.5 } else { 0.8 }).collect();
        let bent = Bent { at: &vec![0.0; side], slope: &slope, curvature: &curvature, size: 0.3 };
        let (step, promise) = bent.step();
        assert!(promise < 0.0);
        for place in 0..side {
            let left = slope[place] + dot(&curvature[place * side..][..side], &step);
            let wrong = match step[place] {
                _ if place == 12 => left.abs(),
                0.0 => (left.abs() - 0.3).max(0.0),
                weight => (left + 0.3 * weight.signum()).abs(),
            };
            assert!(wrong < 1e-9, "{place}: {wrong}");
        }
    }
}
