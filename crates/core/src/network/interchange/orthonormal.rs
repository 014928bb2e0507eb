//! The orthonormal factor of a square matrix, by Householder reflections.

use rayon::prelude::*;

use crate::context::Context;
use crate::error::Result;

/// Which of the factors that differ in the signs of columns only.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Signs {
    /// The diagonal of the triangular factor is positive, so that a matrix close to an orthonormal one stays close to it.
    Continuous,
    /// Those of LAPACK, and so of PyTorch: most columns change their sign.
    Lapack,
}

/// Numbers that are summed independently of each other.
const LANES: usize = 8;

fn dot(a: &[f64], b: &[f64]) -> f64 {
    let (a_parts, a_rest) = a.as_chunks::<LANES>();
    let (b_parts, b_rest) = b.as_chunks::<LANES>();
    let mut sums = [0.0; LANES];
    for (a, b) in a_parts.iter().zip(b_parts) {
        sums.iter_mut().zip(a.iter().zip(b)).for_each(|(sum, (a, b))| *sum += a * b);
    }
    sums.iter().sum::<f64>() + a_rest.iter().zip(b_rest).map(|(a, b)| a * b).sum::<f64>()
}

/// Reflects a column below an index: `vector` is the reflection without its first entry, which is 1.
fn reflect(column: &mut [f64], at: usize, vector: &[f64], factor: f64) {
    let by = factor * (column[at] + dot(vector, &column[at + 1..]));
    column[at] -= by;
    column[at + 1..].iter_mut().zip(vector).for_each(|(value, part)| *value -= by * part);
}

/// Replaces a matrix, row by row, by its orthonormal factor of determinant 1: the first column is negated if it is −1.
pub(super) fn orthonormalise(matrix: &mut [f32], width: usize, signs: Signs, context: &Context) -> Result<()> {
    let mut columns: Vec<f64> = vec![0.0; width * width];
    columns.par_chunks_mut(width).enumerate().for_each(|(column, values)| {
        values.iter_mut().enumerate().for_each(|(row, value)| *value = f64::from(matrix[row * width + column]));
    });
    let (mut factors, mut diagonal) = (vec![0.0; width], vec![0.0; width]);
    let mut is_mirrored = false;
    for at in 0..width {
        context.check()?;
        let (done, rest) = columns.split_at_mut((at + 1) * width);
        let column = &mut done[at * width..];
        let first = column[at];
        let below = dot(&column[at + 1..], &column[at + 1..]);
        diagonal[at] = first;
        if below == 0.0 {
            continue;
        }
        let norm = (first * first + below).sqrt();
        let mirrored = if first >= 0.0 { -norm } else { norm };
        (diagonal[at], factors[at]) = (mirrored, (mirrored - first) / mirrored);
        column[at + 1..].iter_mut().for_each(|value| *value /= first - mirrored);
        is_mirrored = !is_mirrored;
        let (vector, factor) = (&column[at + 1..], factors[at]);
        rest.par_chunks_mut(width).for_each(|column| reflect(column, at, vector, factor));
    }
    let mut factor: Vec<f64> = vec![0.0; width * width];
    factor.par_chunks_mut(width).enumerate().for_each(|(index, column)| {
        column[index] = 1.0;
        for at in (0..=index).rev().filter(|at| factors[*at] != 0.0) {
            reflect(column, at, &columns[at * width + at + 1..(at + 1) * width], factors[at]);
        }
    });
    let mut negated: Vec<bool> = diagonal.iter().map(|value| signs == Signs::Continuous && *value < 0.0).collect();
    let is_negative = negated.iter().filter(|negated| **negated).count() % 2 == usize::from(!is_mirrored);
    if let Some(first) = negated.first_mut().filter(|_| is_negative) {
        *first = !*first;
    }
    matrix.par_chunks_mut(width).enumerate().for_each(|(row, values)| {
        for (index, value) in values.iter_mut().enumerate() {
            let entry = factor[index * width + row];
            *value = if negated[index] { -entry } else { entry } as f32;
        }
    });
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use etalon_kernel::random::{stream, unit};

    fn orthonormalise(matrix: &mut [f32], width: usize, signs: Signs) {
        super::orthonormalise(matrix, width, signs, &Context::silent(2, 1 << 20).unwrap()).unwrap();
    }

    fn determinant(matrix: &[f32], width: usize) -> f64 {
        if width == 1 {
            return f64::from(matrix[0]);
        }
        let minor = |skip: usize| -> Vec<f32> {
            let kept = |index: &usize| *index >= width && index % width != skip;
            (0..width * width).filter(kept).map(|index| matrix[index]).collect()
        };
        let sign = |column: usize| if column.is_multiple_of(2) { 1.0 } else { -1.0 };
        (0..width).map(|column| sign(column) * f64::from(matrix[column]) * determinant(&minor(column), width - 1)).sum()
    }

    #[test]
    fn factors_are_rotations_and_span_the_same_columns() {
        let mut random = stream(5, "orthonormal", 0);
        for width in 1..6 {
            let start: Vec<f32> = (0..width * width).map(|_| unit(&mut random) as f32 - 0.5).collect();
            for signs in [Signs::Continuous, Signs::Lapack] {
                let mut q = start.clone();
                orthonormalise(&mut q, width, signs);
                let column = |matrix: &[f32], index: usize| -> Vec<f64> {
                    (0..width).map(|row| f64::from(matrix[row * width + index])).collect()
                };
                for a in 0..width {
                    for b in 0..width {
                        let product = dot(&column(&q, a), &column(&q, b));
                        assert!((product - f64::from(u8::from(a == b))).abs() < 1e-6, "{width} {a} {b}");
                    }
                    // A column of the matrix is a combination of the factors up to its own: R is triangular.
                    let along = |b: usize| dot(&column(&start, a), &column(&q, b));
                    assert!((a + 1..width).all(|b| along(b).abs() < 1e-6));
                    assert!(signs == Signs::Lapack || a == 0 || along(a) > 0.0);
                }
                assert!((determinant(&q, width) - 1.0).abs() < 1e-5, "{width} {signs:?}");
            }
        }
    }

    #[test]
    fn a_rotation_stays_or_changes_signs_as_in_lapack() {
        // The identity needs no reflections.
        let mut identity = vec![1.0, 0.0, 0.0, 1.0];
        orthonormalise(&mut identity, 2, Signs::Lapack);
        assert_eq!(identity, [1.0, 0.0, 0.0, 1.0]);
        let turn = [0.6, -0.8, 0.8, 0.6];
        let (mut kept, mut lapack) = (turn.to_vec(), turn.to_vec());
        orthonormalise(&mut kept, 2, Signs::Continuous);
        orthonormalise(&mut lapack, 2, Signs::Lapack);
        assert!(kept.iter().zip(turn).all(|(a, b)| (a - b).abs() < 1e-6), "{kept:?}");
        // One reflection takes (0.6, 0.8) to (−1, 0): Q = [−0.6 −0.8; −0.8 0.6] of determinant −1. The first column is negated.
        assert!(lapack.iter().zip(turn).all(|(a, b)| (a - b).abs() < 1e-6), "{lapack:?}");
        // In three dimensions the same turn of the first two: one reflection, then none. A turn of all three has two reflections:
        // the first two columns change their signs.
        let turn = [0.36, -0.48, 0.8, 0.8, 0.6, 0.0, -0.48, 0.64, 0.6];
        let mut lapack = turn.to_vec();
        orthonormalise(&mut lapack, 3, Signs::Lapack);
        let changed = turn.iter().enumerate().map(|(index, value)| if index % 3 < 2 { -value } else { *value });
        assert!(lapack.iter().zip(changed).all(|(a, b)| (a - b).abs() < 1e-6), "{lapack:?}");
    }
}
