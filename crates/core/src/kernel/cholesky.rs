//! Linear equations with a symmetric positive definite matrix.

/// Solves `matrix · x = right` in place of `right`; the lower triangle of `matrix` becomes its factor.
///
/// False when the matrix is not positive definite to working precision; `right` is then of no use.
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

/// The lower factor, row by row.
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
        // What is left of a diagonal below its own rounding error says nothing.
        if square <= 1e-14 * current[row].abs() || !square.is_finite() {
            return false;
        }
        current[row] = square.sqrt();
    }
    true
}

/// A dot product of what both have, in four lanes: a fixed order that does not wait for the sum before.
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

    #[test]
    fn by_hand() {
        // [4 2; 2 3] x = [8; 7]: determinant 8, x = ((24 - 14)/8, (28 - 16)/8) = (1.25, 1.5).
        let mut right = [8.0, 7.0];
        assert!(solve(&mut [4.0, 2.0, 2.0, 3.0], &mut right));
        assert!((right[0] - 1.25).abs() < 1e-15 && (right[1] - 1.5).abs() < 1e-15);
        assert!(!solve(&mut [1.0, 2.0, 2.0, 1.0], &mut [1.0, 1.0]));
        assert!(!solve(&mut [1.0, 1.0, 1.0, 1.0], &mut [1.0, 1.0]));
        assert!(solve(&mut [], &mut []));
    }
}
