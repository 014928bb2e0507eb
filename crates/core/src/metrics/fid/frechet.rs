//! The Fréchet distance of two sets of rows, each taken for a normal distribution, in two forms: by covariances where
//! rows are short, and by the products of rows with rows where they are long.

use rayon::prelude::*;

use crate::error::{Error, Result};
use crate::kernel::cholesky::root;
use crate::kernel::eigen::values;
use crate::kernel::product::rows_by_rows;

/// Groups of rows: the jackknife leaves each out in turn, and the first half of them is one half of the rows.
pub(super) const GROUPS: usize = 10;

/// Some of the groups.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Part {
    All,
    /// The first or the second half.
    Half(bool),
    Without(usize),
}

impl Part {
    pub fn has(self, group: usize) -> bool {
        match self {
            Part::All => true,
            Part::Half(second) => (group >= GROUPS / 2) == second,
            Part::Without(other) => group != other,
        }
    }
}

/// Rows in a space of some dimensions. `fill` writes a row into zeros.
pub(super) struct Rows<'a> {
    pub dimensions: usize,
    pub groups: &'a [u8],
    pub fill: &'a (dyn Fn(usize, &mut [f64]) -> Result<()> + Sync),
}

/// Count, sum and second moments of the rows of every group.
pub(super) struct Moments {
    dimensions: usize,
    counts: [usize; GROUPS],
    sums: Vec<Vec<f64>>,
    squares: Vec<Vec<f64>>,
}

/// Rows whose second moments are summed together.
const TOGETHER: usize = 1024;

impl Moments {
    /// About a centre near all rows, which changes no covariance and saves digits.
    pub fn new(rows: &Rows<'_>, centre: &[f64]) -> Result<Moments> {
        let dimensions = rows.dimensions;
        let one = |group: usize| {
            let mine: Vec<usize> =
                (0..rows.groups.len()).filter(|&row| usize::from(rows.groups[row]) == group).collect();
            let (mut sum, mut square) = (vec![0.0; dimensions], vec![0.0; dimensions * dimensions]);
            let mut product = vec![0.0; dimensions * dimensions];
            for mine in mine.chunks(TOGETHER) {
                // By dimension, so that a product of the lines with themselves gives the second moments.
                let mut lines = vec![0.0; dimensions * mine.len()];
                let mut line = vec![0.0; dimensions];
                for (place, &row) in mine.iter().enumerate() {
                    line.fill(0.0);
                    (rows.fill)(row, &mut line)?;
                    for (dimension, (value, centre)) in line.iter().zip(centre).enumerate() {
                        lines[dimension * mine.len() + place] = value - centre;
                        sum[dimension] += value - centre;
                    }
                }
                rows_by_rows(&lines, &lines, mine.len(), &mut product);
                square.iter_mut().zip(&product).for_each(|(sum, value)| *sum += value);
            }
            Ok((mine.len(), sum, square))
        };
        let found = (0..GROUPS).into_par_iter().map(one).collect::<Result<Vec<_>>>()?;
        let mut moments = Moments { dimensions, counts: [0; GROUPS], sums: Vec::new(), squares: Vec::new() };
        for (group, (count, sum, square)) in found.into_iter().enumerate() {
            moments.counts[group] = count;
            moments.sums.push(sum);
            moments.squares.push(square);
        }
        Ok(moments)
    }

    /// Mean and covariance (with n − 1) of a part; `None` below two rows.
    fn normal(&self, part: Part) -> Option<(Vec<f64>, Vec<f64>)> {
        let d = self.dimensions;
        let (mut count, mut mean, mut covariance) = (0, vec![0.0; d], vec![0.0; d * d]);
        for group in (0..GROUPS).filter(|&group| part.has(group)) {
            count += self.counts[group];
            mean.iter_mut().zip(&self.sums[group]).for_each(|(sum, value)| *sum += value);
            covariance.iter_mut().zip(&self.squares[group]).for_each(|(sum, value)| *sum += value);
        }
        if count < 2 {
            return None;
        }
        let n = count as f64;
        mean.iter_mut().for_each(|sum| *sum /= n);
        for i in 0..d {
            for j in 0..d {
                let cell = &mut covariance[i * d + j];
                *cell = (*cell - n * mean[i] * mean[j]) / (n - 1.0);
            }
        }
        Some((mean, covariance))
    }

    /// The distance of a part of these rows from a part of others.
    pub fn distance(&self, part: Part, other: &Moments, other_part: Part) -> Result<Option<f64>> {
        let (Some((mean, a)), Some((other_mean, b))) = (self.normal(part), other.normal(other_part)) else {
            return Ok(None);
        };
        let d = self.dimensions;
        let apart: f64 = mean.iter().zip(&other_mean).map(|(a, b)| (a - b).powi(2)).sum();
        let trace = |matrix: &[f64]| (0..d).map(|at| matrix[at * d + at]).sum::<f64>();
        let traces = trace(&a) + trace(&b);
        // tr √(A B) = tr √(R B Rᵀ) with A = Rᵀ R.
        let root = root(&a, d);
        let rank = root.len().checked_div(d).unwrap_or(0);
        let (mut half, mut whole) = (vec![0.0; rank * d], vec![0.0; rank * rank]);
        rows_by_rows(&root, &b, d, &mut half);
        rows_by_rows(&half, &root, d, &mut whole);
        let common: f64 = values(whole, rank).ok_or_else(unsettled)?.iter().map(|value| value.max(0.0).sqrt()).sum();
        Ok(Some((apart + traces - 2.0 * common).max(0.0)))
    }
}

fn unsettled() -> Error {
    Error::Bug("the eigenvalues of a covariance do not settle".into())
}

/// The products of the rows of one set with those of another, for rows longer than there are many.
pub(super) struct Products<'a> {
    /// The group of every row on either side.
    pub groups: [&'a [u8]; 2],
    /// First × second.
    pub between: &'a [f64],
    /// First × first and second × second.
    pub within: [&'a [f64]; 2],
}

impl Products<'_> {
    /// `|μ₁ − μ₂|² + |A|² + |B|² − 2 ‖A Bᵀ‖` with centred rows over √(n − 1) and the nuclear norm.
    pub fn distance(&self, parts: [Part; 2]) -> Result<Option<f64>> {
        let picked: [Vec<usize>; 2] = std::array::from_fn(|side| {
            let groups = self.groups[side];
            (0..groups.len()).filter(|&row| parts[side].has(usize::from(groups[row]))).collect()
        });
        let [first, second] = &picked;
        if first.len() < 2 || second.len() < 2 {
            return Ok(None);
        }
        let columns = self.groups[1].len();
        let (n, m) = (first.len() as f64, second.len() as f64);
        let mut cross: Vec<f64> = first
            .iter()
            .flat_map(|&i| second.iter().map(move |&j| (i, j)))
            .map(|(i, j)| self.between[i * columns + j])
            .collect();
        let total = cross.iter().sum::<f64>() / (n * m);
        let (mut apart, mut traces) = (-2.0 * total, 0.0);
        for (side, rows) in picked.iter().enumerate() {
            let (size, count) = (self.groups[side].len(), rows.len() as f64);
            let cell = |i: usize, j: usize| self.within[side][i * size + j];
            let mean =
                rows.iter().map(|&i| rows.iter().map(|&j| cell(i, j)).sum::<f64>()).sum::<f64>() / (count * count);
            apart += mean;
            traces += (rows.iter().map(|&i| cell(i, i)).sum::<f64>() - count * mean) / (count - 1.0);
        }
        // Centring rows on both sides is centring the products by line and by column.
        let width = second.len();
        let lines: Vec<f64> = cross.chunks_exact(width).map(|line| line.iter().sum::<f64>() / m).collect();
        let mut means = vec![0.0; width];
        for line in cross.chunks_exact(width) {
            means.iter_mut().zip(line).for_each(|(sum, value)| *sum += value / n);
        }
        let scale = 1.0 / ((n - 1.0) * (m - 1.0)).sqrt();
        for (line, mean) in cross.chunks_exact_mut(width).zip(&lines) {
            line.iter_mut().zip(&means).for_each(|(value, other)| *value = (*value - mean - other + total) * scale);
        }
        let rows = first.len();
        let mut gram = vec![0.0; rows * rows];
        rows_by_rows(&cross, &cross, width, &mut gram);
        let common: f64 = values(gram, rows).ok_or_else(unsettled)?.iter().map(|value| value.max(0.0).sqrt()).sum();
        Ok(Some((apart.max(0.0) + traces - 2.0 * common).max(0.0)))
    }
}
