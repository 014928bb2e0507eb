//! Cholesky factors of positive semi-definite matrices, and linear systems solved with them.

use crate::monitor::{Cancelled, Monitor};

/// Solves `matrix · x = right` in place: `right` becomes `x`, the lower triangle of `matrix` its Cholesky factor.
///
/// Returns false if the matrix is not positive definite to working precision; `right` is then unspecified.
pub fn solve(matrix: &mut [f64], right: &mut [f64]) -> bool {
    let size = right.len();
    if matrix.len() != size * size || !factor(matrix, size) {
        return false;
    }
    for row in 0..size {
        let (done, rest) = right.split_at_mut(row);
        let sum = dot(&matrix[row * size..][..row], done);
        rest[0] = (rest[0] - sum) / matrix[row * size + row];
    }
    for row in (0..size).rev() {
        let sum: f64 = (row + 1..size).map(|below| matrix[below * size + row] * right[below]).sum();
        right[row] = (right[row] - sum) / matrix[row * size + row];
    }
    true
}

/// Computes the lower factor in place, row by row.
fn factor(matrix: &mut [f64], size: usize) -> bool {
    for row in 0..size {
        let (above, rest) = matrix.split_at_mut(row * size);
        let current = &mut rest[..size];
        for column in 0..row {
            let other = &above[column * size..][..=column];
            let sum = dot(&current[..column], other);
            current[column] = (current[column] - sum) / other[column];
        }
        let square = current[row] - dot(&current[..row], &current[..row]);
        // A pivot below the rounding error of its diagonal entry carries no information.
        if square <= 1e-14 * current[row].abs() || !square.is_finite() {
            return false;
        }
        current[row] = square.sqrt();
    }
    true
}

/// Pivoted Cholesky factor: rows R, at most `size`, with Rᵀ R = `matrix`, which may be rank-deficient. The largest
/// remaining diagonal entry is the next pivot, until only rounding error remains.
pub fn root(matrix: &[f64], size: usize, monitor: &dyn Monitor) -> Result<Vec<f64>, Cancelled> {
    assert!(size.checked_mul(size) == Some(matrix.len()), "a matrix that is not square");
    let mut remaining: Vec<f64> = (0..size).map(|index| matrix[index * size + index]).collect();
    let threshold = remaining.iter().fold(0.0f64, |largest, &value| largest.max(value)) * f64::EPSILON * size as f64;
    let mut root: Vec<f64> = Vec::with_capacity(size * size);
    for _ in 0..size {
        monitor.check()?;
        let largest = |best: usize, index: usize| if remaining[index] > remaining[best] { index } else { best };
        let next = (1..size).fold(0, largest);
        if remaining[next] <= threshold {
            break;
        }
        let mut row = matrix[next * size..][..size].to_vec();
        for done in root.chunks_exact(size) {
            let part = done[next];
            row.iter_mut().zip(done).for_each(|(value, done)| *value -= part * done);
        }
        let length = remaining[next].sqrt();
        for (value, remaining) in row.iter_mut().zip(&mut remaining) {
            *value /= length;
            *remaining -= *value * *value;
        }
        remaining[next] = 0.0;
        root.extend_from_slice(&row);
    }
    Ok(root)
}

/// The dot product over the common length, in four lanes: a fixed order without a serial dependency.
fn dot(a: &[f64], b: &[f64]) -> f64 {
    let length = a.len().min(b.len());
    let (a, a_rest) = a[..length].as_chunks::<4>();
    let (b, b_rest) = b[..length].as_chunks::<4>();
    let mut lanes = [0.0; 4];
    for (a, b) in a.iter().zip(b) {
        for lane in 0..4 {
            lanes[lane] += a[lane] * b[lane];
        }
    }
    lanes.iter().sum::<f64>() + a_rest.iter().zip(b_rest).map(|(a, b)| a * b).sum::<f64>()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::monitor::Silent;

    #[test]
    fn solves_small_systems() {
        // [4 2; 2 3] x = [8; 7]: determinant 8, x = ((24 - 14)/8, (28 - 16)/8) = (1.25, 1.5).
        let mut right = [8.0, 7.0];
        assert!(solve(&mut [4.0, 2.0, 2.0, 3.0], &mut right));
        assert!((right[0] - 1.25).abs() < 1e-15 && (right[1] - 1.5).abs() < 1e-15);
        assert!(!solve(&mut [1.0, 2.0, 2.0, 1.0], &mut [1.0, 1.0]));
        assert!(!solve(&mut [1.0, 1.0, 1.0, 1.0], &mut [1.0, 1.0]));
        assert!(solve(&mut [], &mut []));
    }

    #[test]
    fn roots_of_full_and_deficient_rank() {
        // [4 2; 2 3]: first row (2, 1), then 3 − 1 = 2 remains.
        let found = root(&[4.0, 2.0, 2.0, 3.0], 2, &Silent).unwrap();
        assert_eq!(found[..3], [2.0, 1.0, 0.0]);
        assert!((found[3] - 2f64.sqrt()).abs() < 1e-15);
        // The larger 9 is the first pivot: (1, 3), and nothing of the 1 remains.
        assert_eq!(root(&[1.0, 3.0, 3.0, 9.0], 2, &Silent).unwrap(), [1.0, 3.0]);
        let empty = |matrix: &[f64], size| root(matrix, size, &Silent).unwrap().is_empty();
        assert!(empty(&[0.0; 4], 2) && empty(&[], 0));
        // Three rows in seven dimensions.
        let rows: Vec<f64> = (0..21).map(|i| f64::from((i * 37 + 11) % 17) - 8.0).collect();
        let cell = |rows: &[f64], i: usize, j: usize| rows.chunks_exact(7).map(|row| row[i] * row[j]).sum::<f64>();
        let matrix: Vec<f64> = (0..49).map(|i| cell(&rows, i / 7, i % 7)).collect();
        let found = root(&matrix, 7, &Silent).unwrap();
        assert_eq!(found.len(), 21);
        for (index, value) in matrix.iter().enumerate() {
            assert!((cell(&found, index / 7, index % 7) - value).abs() < 1e-10);
        }
    }
}
