//! Block Lanczos: the largest eigenvalues of a symmetric matrix that is only available as a product with vectors.
//!
//! Each step multiplies a block of vectors; the new directions of the product extend an orthogonal basis, with full
//! reorthogonalisation. The projection onto the basis is a small matrix, which is solved exactly. Blocks find repeated
//! eigenvalues and read a sparse matrix once for eight vectors.

use rayon::prelude::*;

use super::eigen::{Eigen, try_symmetric};
use super::monitor::{Cancelled, Monitor, Silent};
use super::product::{rows_by_columns, rows_by_rows};
use super::random::{stream, unit};

/// Vectors of a block.
pub const BLOCK: usize = 8;

/// Coordinates per piece; sums over pieces are taken in order, so bits do not depend on threads.
const PIECE: usize = 4096;

/// A remainder below this share of a vector's length is rounding error.
const ROUNDING: f64 = 1e-10;

/// Random replacements tried for a vector that vanished; the first nearly always succeeds.
const ATTEMPTS: usize = 20;

/// Up to this size the basis is complete and the result exact.
const SMALL: usize = 256;

/// Parameters of [`largest`].
#[derive(Clone, Copy, Debug)]
pub struct LanczosParams {
    /// Number of eigenvalues.
    pub count: usize,
    /// A pair has converged when the length of `A v − λ v` is below this share of the largest eigenvalue.
    pub tolerance: f64,
    /// Maximum size of the basis.
    pub basis: usize,
    /// Seed of the initial vectors.
    pub seed: u64,
}

/// The largest eigenvalues and their accuracy.
#[derive(Clone, Debug)]
pub struct Largest {
    /// Values in descending order with their unit vectors; the entry of largest size is positive.
    pub eigen: Eigen,
    /// The length of `A v − λ v` for each.
    pub residuals: Vec<f64>,
    /// Number of leading pairs that converged.
    pub converged: usize,
}

/// The largest eigenvalues of a symmetric matrix of `size` × `size`; `None` if the small problem cannot be solved.
///
/// `multiply` receives [`BLOCK`] vectors, coordinate by coordinate (the first coordinate of all, then the second), and
/// writes their products in the same layout. It must be deterministic.
pub fn largest(size: usize, params: &LanczosParams, multiply: impl Fn(&[f64], &mut [f64])) -> Option<Largest> {
    try_largest(size, params, &Silent, multiply).ok().flatten()
}

/// [`largest`] that can be cancelled.
pub fn try_largest(
    size: usize,
    params: &LanczosParams,
    monitor: &dyn Monitor,
    multiply: impl Fn(&[f64], &mut [f64]),
) -> Result<Option<Largest>, Cancelled> {
    let count = params.count.min(size);
    let limit = if size <= SMALL { size } else { params.basis.max(count + 2 * BLOCK).min(size) };
    if count == 0 {
        let eigen = Eigen { values: Vec::new(), vectors: Vec::new() };
        return Ok(Some(Largest { eigen, residuals: Vec::new(), converged: 0 }));
    }
    let mut basis = Basis::new(size, params.seed);
    let mut block = basis.random(BLOCK.min(limit));
    let lengths = norms(&block, size);
    basis.orthonormalise(&mut block, &lengths);
    // The projected matrix, row by row; each row is as long as the basis was at that step.
    let mut small: Vec<Vec<f64>> = Vec::new();
    let (mut given, mut product) = (vec![0.0; size * BLOCK], vec![0.0; size * BLOCK]);
    let mut next_check = if size <= SMALL { limit } else { (count + 2 * BLOCK).max(4 * BLOCK).min(limit) };
    loop {
        monitor.check()?;
        let width = block.len() / size;
        basis.append(&block);
        interleave(&block, size, &mut given);
        multiply(&given, &mut product);
        let mut next = separate(&product, size, width);
        let lengths = norms(&next, size);
        let along = basis.remove(&mut next);
        small.extend(along.chunks_exact(basis.count).map(<[f64]>::to_vec));
        let rest = next.clone();
        let free = (limit - basis.count).min(BLOCK);
        next.truncate(free.min(width) * size);
        if free > 0 {
            basis.orthonormalise(&mut next, &lengths[..free.min(width)]);
        }
        if basis.count >= next_check || free == 0 {
            let Some(eigen) = try_symmetric(square(&small), basis.count, monitor)? else { return Ok(None) };
            let residuals: Vec<f64> = (0..count)
                .map(|pair| {
                    let last = &eigen.vectors[(pair + 1) * basis.count - width..(pair + 1) * basis.count];
                    length_of_sum(&rest, last, size)
                })
                .collect();
            let bound = params.tolerance * eigen.values[0].abs();
            let converged = residuals.iter().take_while(|&&length| length <= bound).count();
            if converged == count || free == 0 {
                let values = eigen.values[..count].to_vec();
                let vectors = basis.combine(&eigen.vectors[..count * basis.count], count, monitor)?;
                let complete = basis.count == size;
                let converged = if complete { count } else { converged };
                return Ok(Some(Largest { eigen: Eigen { values, vectors }, residuals, converged }));
            }
            next_check = (next_check * 5 / 4).max(next_check + BLOCK).min(limit);
        }
        block = next;
    }
}

/// Orthonormal vectors, cut into pieces of coordinates so that threads share the work.
struct Basis {
    size: usize,
    seed: u64,
    drawn: u64,
    count: usize,
    pieces: Vec<Vec<f64>>,
}

impl Basis {
    fn new(size: usize, seed: u64) -> Basis {
        Basis { size, seed, drawn: 0, count: 0, pieces: vec![Vec::new(); size.div_ceil(PIECE)] }
    }

    /// Random vectors, one after the other.
    fn random(&mut self, vectors: usize) -> Vec<f64> {
        let mut random = stream(self.seed, "lanczos", self.drawn);
        self.drawn += 1;
        (0..vectors * self.size).map(|_| unit(&mut random) - 0.5).collect()
    }

    fn append(&mut self, vectors: &[f64]) {
        for vector in vectors.chunks_exact(self.size) {
            vector.chunks(PIECE).zip(&mut self.pieces).for_each(|(part, piece)| piece.extend_from_slice(part));
            self.count += 1;
        }
    }

    /// Projects vectors onto the complement of the basis; returns the removed coefficients, vector by vector.
    fn remove(&self, vectors: &mut [f64]) -> Vec<f64> {
        let (width, count) = (vectors.len() / self.size, self.count);
        let mut total = vec![0.0; width * count];
        if count == 0 {
            return total;
        }
        // Twice, because the first projection leaves rounding errors.
        for _ in 0..2 {
            let parts: Vec<Vec<f64>> = self.each_piece(vectors);
            let products: Vec<Vec<f64>> = parts
                .par_iter()
                .zip(&self.pieces)
                .map(|(part, piece)| {
                    let mut product = vec![0.0; width * count];
                    rows_by_rows(part, piece, part.len() / width, &mut product);
                    product
                })
                .collect();
            let mut along = vec![0.0; width * count];
            for product in &products {
                along.iter_mut().zip(product).for_each(|(sum, value)| *sum += value);
            }
            let spans: Vec<Vec<f64>> = self
                .pieces
                .par_iter()
                .map(|piece| {
                    let columns = piece.len() / count;
                    let mut span = vec![0.0; width * columns];
                    rows_by_columns(&along, piece, count, columns, &mut span);
                    span
                })
                .collect();
            for (vector, values) in vectors.chunks_exact_mut(self.size).enumerate() {
                for (values, span) in values.chunks_mut(PIECE).zip(&spans) {
                    let span = &span[vector * values.len()..][..values.len()];
                    values.iter_mut().zip(span).for_each(|(value, span)| *value -= span);
                }
            }
            total.iter_mut().zip(&along).for_each(|(sum, value)| *sum += value);
        }
        total
    }

    /// The vectors by piece: the coordinates of one piece of all vectors are contiguous.
    fn each_piece(&self, vectors: &[f64]) -> Vec<Vec<f64>> {
        let range = |piece: usize| piece * PIECE..((piece + 1) * PIECE).min(self.size);
        (0..self.pieces.len())
            .map(|piece| vectors.chunks_exact(self.size).flat_map(|vector| vector[range(piece)].to_vec()).collect())
            .collect()
    }

    /// Makes vectors orthogonal to the basis and to each other, with length 1. Replaces a vector whose remainder is only
    /// rounding error, relative to its previous length, by a random one.
    fn orthonormalise(&mut self, vectors: &mut [f64], lengths: &[f64]) {
        let size = self.size;
        for (index, &before) in lengths.iter().enumerate() {
            let mut length = before;
            for _ in 0..ATTEMPTS {
                if orthogonalise(vectors, index, size) > ROUNDING * length {
                    break;
                }
                let mut fresh = self.random(1);
                length = norm(&fresh);
                self.remove(&mut fresh);
                vectors[index * size..(index + 1) * size].copy_from_slice(&fresh);
            }
        }
        // Scaling up a small remainder amplifies its rounding errors: orthogonalise again.
        self.remove(vectors);
        (0..lengths.len()).for_each(|index| {
            orthogonalise(vectors, index, size);
        });
    }

    /// Linear combinations of the basis, normalised, each with its largest entry positive.
    fn combine(&self, weights: &[f64], count: usize, monitor: &dyn Monitor) -> Result<Vec<f64>, Cancelled> {
        let spans = self
            .pieces
            .par_iter()
            .map(|piece| {
                monitor.check()?;
                let columns = piece.len() / self.count;
                let mut span = vec![0.0; count * columns];
                rows_by_columns(weights, piece, self.count, columns, &mut span);
                Ok(span)
            })
            .collect::<Result<Vec<_>, Cancelled>>()?;
        let mut vectors = Vec::with_capacity(count * self.size);
        for vector in 0..count {
            for (piece, span) in spans.iter().enumerate() {
                let columns = ((piece + 1) * PIECE).min(self.size) - piece * PIECE;
                vectors.extend_from_slice(&span[vector * columns..(vector + 1) * columns]);
            }
        }
        for vector in vectors.chunks_exact_mut(self.size) {
            let largest = vector.iter().fold(0.0f64, |best, &part| if part.abs() > best.abs() { part } else { best });
            let factor = if largest < 0.0 { -1.0 } else { 1.0 } / norm(vector).max(f64::MIN_POSITIVE);
            vector.iter_mut().for_each(|part| *part *= factor);
        }
        Ok(vectors)
    }
}

/// Makes a vector orthogonal to those before it and scales it to length 1; returns its length before scaling.
fn orthogonalise(vectors: &mut [f64], index: usize, size: usize) -> f64 {
    let (earlier, rest) = vectors.split_at_mut(index * size);
    let vector = &mut rest[..size];
    for _ in 0..2 {
        for other in earlier.chunks_exact(size) {
            let along = inner(other, vector);
            vector.iter_mut().zip(other).for_each(|(value, other)| *value -= along * other);
        }
    }
    let length = norm(vector);
    let factor = if length > 0.0 { 1.0 / length } else { 0.0 };
    vector.iter_mut().for_each(|value| *value *= factor);
    length
}

fn inner(a: &[f64], b: &[f64]) -> f64 {
    a.iter().zip(b).map(|(a, b)| a * b).sum()
}

fn norm(vector: &[f64]) -> f64 {
    inner(vector, vector).sqrt()
}

fn norms(vectors: &[f64], size: usize) -> Vec<f64> {
    vectors.chunks_exact(size).map(norm).collect()
}

/// The length of a weighted sum of vectors.
fn length_of_sum(vectors: &[f64], weights: &[f64], size: usize) -> f64 {
    let part = |k: usize| weights.iter().enumerate().map(|(v, weight)| weight * vectors[v * size + k]).sum::<f64>();
    (0..size).map(|k| part(k).powi(2)).sum::<f64>().sqrt()
}

/// The full symmetric matrix from rows that reach slightly beyond the diagonal. Entries known twice are averaged.
fn square(rows: &[Vec<f64>]) -> Vec<f64> {
    let size = rows.len();
    let mut matrix = vec![0.0; size * size];
    for (row, values) in rows.iter().enumerate() {
        for (column, &value) in values.iter().enumerate() {
            let other = rows[column].get(row).copied();
            let value = other.map_or(value, |other| 0.5 * (value + other));
            (matrix[row * size + column], matrix[column * size + row]) = (value, value);
        }
    }
    matrix
}

fn interleave(vectors: &[f64], size: usize, out: &mut [f64]) {
    out.fill(0.0);
    for (index, vector) in vectors.chunks_exact(size).enumerate() {
        vector.iter().enumerate().for_each(|(k, &value)| out[k * BLOCK + index] = value);
    }
}

fn separate(values: &[f64], size: usize, width: usize) -> Vec<f64> {
    (0..width * size).map(|i| values[i % size * BLOCK + i / size]).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::monitor::Stop;

    /// A symmetric matrix with given eigenvalues: two reflections around a diagonal.
    fn matrix(values: &[f64]) -> Vec<f64> {
        let size = values.len();
        let mut random = stream(5, "lanczos test", 0);
        let mut dense = vec![0.0; size * size];
        values.iter().enumerate().for_each(|(index, &value)| dense[index * size + index] = value);
        for _ in 0..2 {
            let vector: Vec<f64> = (0..size).map(|_| unit(&mut random) - 0.5).collect();
            let factor = 2.0 / inner(&vector, &vector);
            for _ in 0..2 {
                // From the left, then transposed from the left again.
                for column in 0..size {
                    let along = factor * (0..size).map(|row| vector[row] * dense[row * size + column]).sum::<f64>();
                    (0..size).for_each(|row| dense[row * size + column] -= along * vector[row]);
                }
                dense = (0..size * size).map(|i| dense[i % size * size + i / size]).collect();
            }
        }
        dense
    }

    fn solve(dense: &[f64], size: usize, count: usize, basis: usize) -> Largest {
        let multiply = |given: &[f64], out: &mut [f64]| {
            for row in 0..size {
                for vector in 0..BLOCK {
                    out[row * BLOCK + vector] =
                        (0..size).map(|k| dense[row * size + k] * given[k * BLOCK + vector]).sum();
                }
            }
        };
        largest(size, &LanczosParams { count, tolerance: 1e-9, basis, seed: 1 }, multiply).unwrap()
    }

    fn check(dense: &[f64], found: &Largest, expected: &[f64]) {
        let size = found.eigen.vectors.len() / expected.len();
        assert_eq!(found.converged, expected.len());
        for (index, (value, expected)) in found.eigen.values.iter().zip(expected).enumerate() {
            assert!((value - expected).abs() < 1e-8, "{index}: {value} and {expected}");
            let vector = &found.eigen.vectors[index * size..][..size];
            let error = (0..size).map(|row| inner(&dense[row * size..][..size], vector) - value * vector[row]);
            assert!(error.map(|part| part * part).sum::<f64>().sqrt() < 1e-6, "{index}");
        }
    }

    #[test]
    fn small_matrices_are_solved_completely() {
        // Three equal eigenvalues, zeros, and a negative one.
        let mut values = vec![0.0; 30];
        values[..6].copy_from_slice(&[4.0, 4.0, 4.0, 2.0, 1.0, -3.0]);
        let dense = matrix(&values);
        let found = solve(&dense, 30, 7, 10);
        check(&dense, &found, &[4.0, 4.0, 4.0, 2.0, 1.0, 0.0, 0.0]);
        let all = solve(&matrix(&[2.0, 5.0]), 2, 9, 1);
        assert!((all.eigen.values[0] - 5.0).abs() < 1e-12 && all.eigen.values.len() == 2);
        assert!(solve(&[], 0, 3, 1).eigen.values.is_empty());
    }

    #[test]
    fn stops_when_cancelled() {
        let params = LanczosParams { count: 1, tolerance: 1e-9, basis: 2, seed: 1 };
        assert!(try_largest(2, &params, &Stop, |_, _| {}).is_err());
    }

    #[test]
    fn large_matrices_give_their_largest_values() {
        let size = 400;
        let mut values: Vec<f64> = (0..size).map(|index| 100.0 / (1.0 + index as f64)).collect();
        // A repeated eigenvalue: Lanczos with a single vector would find it once.
        values[3] = values[2];
        let dense = matrix(&values);
        let found = solve(&dense, size, 12, 300);
        check(&dense, &found, &values[..12]);
        let pool = rayon::ThreadPoolBuilder::new().num_threads(7).build().unwrap();
        assert_eq!(pool.install(|| solve(&dense, size, 12, 300)).eigen, found.eigen);
        // With too small a basis, not all pairs converge.
        assert!(solve(&dense, size, 12, 30).converged < 12);
    }
}
