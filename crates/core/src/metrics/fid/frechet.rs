//! The Fréchet distance of two sets of rows, each approximated by a normal distribution: by covariances for few dimensions,
//! by products of rows with rows for many.

use serde::{Deserialize, Serialize};

use crate::error::{Error, Result};
use crate::run::Job;
use etalon_kernel::cholesky::root;
use etalon_kernel::eigen::values;
use etalon_kernel::product::try_rows_by_rows;

/// Groups of rows. The jackknife leaves each out in turn; the first half of the groups is one half of the rows.
pub(super) const GROUPS: usize = 10;

/// A part of the groups.
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

/// Writes a row into a slice of zeros.
pub(super) type Fill<'a> = dyn Fn(usize, &mut [f64]) -> Result<()> + Sync + 'a;

/// Count, sum and second moments of the rows of one group.
#[derive(Serialize, Deserialize)]
pub(super) struct Moments {
    count: usize,
    sum: Vec<f64>,
    squares: Vec<f64>,
}

/// Rows per matrix product.
const BATCH: usize = 1024;

impl Moments {
    /// Of some rows, relative to `centre`: covariances do not depend on it, and a centre near the rows reduces rounding.
    pub fn of(rows: &[usize], fill: &Fill<'_>, centre: &[f64], job: &Job<'_>) -> Result<Moments> {
        let dimensions = centre.len();
        let bytes = (2 * dimensions as u64 + BATCH as u64).saturating_mul(8 * dimensions as u64);
        let _memory = job.budget().reserve(bytes, format!("a covariance of {dimensions} dimensions"))?;
        let (mut sum, mut squares) = (vec![0.0; dimensions], vec![0.0; dimensions * dimensions]);
        let mut added = vec![0.0; dimensions * dimensions];
        for rows in rows.chunks(BATCH) {
            job.check()?;
            // By dimension, so that a product of the matrix with itself gives the second moments.
            let mut by_dimension = vec![0.0; dimensions * rows.len()];
            let mut values = vec![0.0; dimensions];
            for (index, &row) in rows.iter().enumerate() {
                values.fill(0.0);
                fill(row, &mut values)?;
                for (dimension, (value, centre)) in values.iter().zip(centre).enumerate() {
                    by_dimension[dimension * rows.len() + index] = value - centre;
                    sum[dimension] += value - centre;
                }
            }
            try_rows_by_rows(&by_dimension, &by_dimension, rows.len(), &mut added, job.context)?;
            squares.iter_mut().zip(&added).for_each(|(sum, value)| *sum += value);
        }
        Ok(Moments { count: rows.len(), sum, squares })
    }
}

/// The moments of a set by group, and the part of the groups to use.
pub(super) type Grouped<'a> = (&'a [Moments], Part);

/// Mean and covariance (with n − 1) of a part; `None` below two rows.
fn normal((groups, part): Grouped<'_>, dimensions: usize) -> Option<(Vec<f64>, Vec<f64>)> {
    let (mut count, mut mean, mut covariance) = (0, vec![0.0; dimensions], vec![0.0; dimensions * dimensions]);
    for (_, group) in groups.iter().enumerate().filter(|(group, _)| part.has(*group)) {
        count += group.count;
        mean.iter_mut().zip(&group.sum).for_each(|(sum, value)| *sum += value);
        covariance.iter_mut().zip(&group.squares).for_each(|(sum, value)| *sum += value);
    }
    if count < 2 {
        return None;
    }
    let n = count as f64;
    mean.iter_mut().for_each(|sum| *sum /= n);
    for i in 0..dimensions {
        for j in 0..dimensions {
            let cell = &mut covariance[i * dimensions + j];
            *cell = (*cell - n * mean[i] * mean[j]) / (n - 1.0);
        }
    }
    Some((mean, covariance))
}

/// The distance between two sets of rows by their covariances.
pub(super) fn by_covariances(one: Grouped<'_>, other: Grouped<'_>, job: &Job<'_>) -> Result<Option<f64>> {
    let d = one.0.first().map_or(0, |moments| moments.sum.len());
    let _memory = job.budget().reserve((d as u64 * d as u64).saturating_mul(5 * 8), "the root of a covariance")?;
    let (Some((mean, a)), Some((other_mean, b))) = (normal(one, d), normal(other, d)) else { return Ok(None) };
    let apart: f64 = mean.iter().zip(&other_mean).map(|(a, b)| (a - b).powi(2)).sum();
    let trace = |matrix: &[f64]| (0..d).map(|i| matrix[i * d + i]).sum::<f64>();
    let traces = trace(&a) + trace(&b);
    // tr √(A B) = tr √(R B Rᵀ) with A = Rᵀ R.
    let root = root(&a, d, job.context)?;
    let rank = root.len().checked_div(d).unwrap_or(0);
    let (mut half, mut whole) = (vec![0.0; rank * d], vec![0.0; rank * rank]);
    try_rows_by_rows(&root, &b, d, &mut half, job.context)?;
    try_rows_by_rows(&half, &root, d, &mut whole, job.context)?;
    Ok(Some((apart + traces - 2.0 * sum_of_roots(whole, rank, job)?).max(0.0)))
}

/// The sum of the square roots of the eigenvalues.
fn sum_of_roots(matrix: Vec<f64>, size: usize, job: &Job<'_>) -> Result<f64> {
    let values = values(matrix, size, job.context)?;
    let values = values.ok_or_else(|| Error::Bug("the eigenvalues of a covariance do not converge".into()))?;
    Ok(values.iter().map(|value| value.max(0.0).sqrt()).sum())
}

/// The products of the rows of one set with those of another, for rows with more dimensions than there are rows.
pub(super) struct Products<'a> {
    /// The group of every row, the same for both sets.
    pub groups: &'a [u8],
    /// First × second.
    pub between: &'a [Vec<f64>],
    /// First × first and second × second.
    pub within: [&'a [Vec<f64>]; 2],
}

impl Products<'_> {
    /// `|μ₁ − μ₂|² + |A|² + |B|² − 2 ‖A Bᵀ‖` with centred rows over √(n − 1) and the nuclear norm.
    pub fn distance(&self, parts: [Part; 2], job: &Job<'_>) -> Result<Option<f64>> {
        let picked = parts.map(|part| {
            let inside = |row: &usize| part.has(usize::from(self.groups[*row]));
            (0..self.groups.len()).filter(inside).collect::<Vec<usize>>()
        });
        let [first, second] = &picked;
        if first.len() < 2 || second.len() < 2 {
            return Ok(None);
        }
        let cells = (first.len() * (first.len() + second.len())) as u64;
        let _memory = job.budget().reserve(8 * cells, "the products of a part of the rows")?;
        let (n, m) = (first.len() as f64, second.len() as f64);
        let mut cross: Vec<f64> =
            first.iter().flat_map(|&i| second.iter().map(move |&j| (i, j))).map(|(i, j)| self.between[i][j]).collect();
        let total = cross.iter().sum::<f64>() / (n * m);
        let (mut apart, mut traces) = (-2.0 * total, 0.0);
        for (within, rows) in self.within.iter().zip(&picked) {
            let count = rows.len() as f64;
            let mean =
                rows.iter().map(|&i| rows.iter().map(|&j| within[i][j]).sum::<f64>()).sum::<f64>() / (count * count);
            apart += mean;
            traces += (rows.iter().map(|&i| within[i][i]).sum::<f64>() - count * mean) / (count - 1.0);
        }
        // Centring the rows of both sets is centring the products by row and by column.
        let width = second.len();
        let row_means: Vec<f64> = cross.chunks_exact(width).map(|row| row.iter().sum::<f64>() / m).collect();
        let mut column_means = vec![0.0; width];
        for row in cross.chunks_exact(width) {
            column_means.iter_mut().zip(row).for_each(|(sum, value)| *sum += value / n);
        }
        let scale = 1.0 / ((n - 1.0) * (m - 1.0)).sqrt();
        for (row, mean) in cross.chunks_exact_mut(width).zip(&row_means) {
            row.iter_mut()
                .zip(&column_means)
                .for_each(|(value, other)| *value = (*value - mean - other + total) * scale);
        }
        let rows = first.len();
        let mut gram = vec![0.0; rows * rows];
        try_rows_by_rows(&cross, &cross, width, &mut gram, job.context)?;
        Ok(Some((apart.max(0.0) + traces - 2.0 * sum_of_roots(gram, rows, job)?).max(0.0)))
    }
}
