//! Eigenvalues and eigenvectors of a symmetric matrix: Householder tridiagonalisation, then implicit QL.

use rayon::prelude::*;

use crate::monitor::{Cancelled, Monitor, Silent};

/// Maximum number of sweeps per eigenvalue; a handful is usual.
const SWEEPS: usize = 100;

/// Eigenvalues in descending order and their unit eigenvectors.
#[derive(Clone, Debug, PartialEq)]
pub struct Eigen {
    /// Descending.
    pub values: Vec<f64>,
    /// One row per value; the entry of largest size is positive.
    pub vectors: Vec<f64>,
}

/// Decomposes a symmetric matrix of `size` × `size` finite values; `None` if the iteration does not converge.
///
/// About 4 · size³ operations. Rows are distributed over threads; each is computed in a fixed order.
pub fn symmetric(matrix: Vec<f64>, size: usize) -> Option<Eigen> {
    try_symmetric(matrix, size, &Silent).ok().flatten()
}

/// [`symmetric`] that can be cancelled.
pub fn try_symmetric(mut matrix: Vec<f64>, size: usize, monitor: &dyn Monitor) -> Result<Option<Eigen>, Cancelled> {
    assert!(size.checked_mul(size) == Some(matrix.len()), "a matrix that is not square");
    let Tridiagonal { mut diagonal, mut off_diagonal, reflections } = tridiagonal(&mut matrix, size, monitor)?;
    let mut vectors = accumulate(&reflections, size, monitor)?;
    if rotate(&mut diagonal, &mut off_diagonal, &mut vectors, size, monitor)?.is_none() {
        return Ok(None);
    }
    let mut order: Vec<usize> = (0..size).collect();
    order.sort_by(|&a, &b| diagonal[b].total_cmp(&diagonal[a]).then(a.cmp(&b)));
    let mut sorted = Eigen { values: Vec::with_capacity(size), vectors: Vec::with_capacity(size * size) };
    for index in order {
        let vector = &vectors[index * size..][..size];
        let largest = vector.iter().fold(0.0f64, |best, &part| if part.abs() > best.abs() { part } else { best });
        let sign = if largest < 0.0 { -1.0 } else { 1.0 };
        sorted.values.push(diagonal[index]);
        sorted.vectors.extend(vector.iter().map(|part| sign * part));
    }
    Ok(Some(sorted))
}

/// The eigenvalues alone, in descending order: a third of the work, and no second matrix.
pub fn values(mut matrix: Vec<f64>, size: usize, monitor: &dyn Monitor) -> Result<Option<Vec<f64>>, Cancelled> {
    assert!(size.checked_mul(size) == Some(matrix.len()), "a matrix that is not square");
    let Tridiagonal { mut diagonal, mut off_diagonal, .. } = tridiagonal(&mut matrix, size, monitor)?;
    if rotate(&mut diagonal, &mut off_diagonal, &mut [], size, monitor)?.is_none() {
        return Ok(None);
    }
    diagonal.sort_by(|a, b| b.total_cmp(a));
    Ok(Some(diagonal))
}

fn dot(a: &[f64], b: &[f64]) -> f64 {
    let (a, a_rest) = a.as_chunks::<8>();
    let (b, b_rest) = b.as_chunks::<8>();
    let mut lanes = [0.0; 8];
    for (a, b) in a.iter().zip(b) {
        (0..8).for_each(|lane| lanes[lane] += a[lane] * b[lane]);
    }
    lanes.iter().sum::<f64>() + a_rest.iter().zip(b_rest).map(|(a, b)| a * b).sum::<f64>()
}

/// The Householder reflection `1 − factor · v vᵀ` of the last entries.
struct Reflection {
    vector: Vec<f64>,
    factor: f64,
}

impl Reflection {
    /// The reflection that maps a vector to a multiple of the first axis, and that multiple.
    fn of(line: &[f64]) -> (Reflection, f64) {
        let mut vector = line.to_vec();
        if vector[1..].iter().all(|&part| part == 0.0) {
            let first = vector[0];
            return (Reflection { vector, factor: 0.0 }, first);
        }
        // Scaled, so that squares neither underflow nor overflow.
        let scale = vector.iter().fold(0.0f64, |most, part| most.max(part.abs()));
        vector.iter_mut().for_each(|part| *part /= scale);
        let length = dot(&vector, &vector).sqrt();
        let image = if vector[0] > 0.0 { -length } else { length };
        vector[0] -= image;
        let factor = 2.0 / dot(&vector, &vector);
        (Reflection { vector, factor }, image * scale)
    }
}

/// A tridiagonal matrix and the reflections that produced it.
struct Tridiagonal {
    diagonal: Vec<f64>,
    off_diagonal: Vec<f64>,
    reflections: Vec<Reflection>,
}

/// Reduces the matrix to tridiagonal form, column by column.
///
/// The matrix is read once per column: each row is updated and at once multiplied with the next reflection.
fn tridiagonal(matrix: &mut [f64], size: usize, monitor: &dyn Monitor) -> Result<Tridiagonal, Cancelled> {
    let mut reflections: Vec<Reflection> = Vec::new();
    let mut off_diagonal = vec![0.0; size];
    // The update by the previous reflection that is still to be applied: w of B − v wᵀ − w vᵀ.
    let mut pending: Vec<f64> = Vec::new();
    for column in 0..size.saturating_sub(1) {
        monitor.check()?;
        let start = column + 1;
        let before = reflections.last().filter(|before| before.factor != 0.0).map(|before| before.vector.as_slice());
        let change = |index: usize, row: &mut [f64]| {
            if let Some(vector) = before {
                let (mine, other) = (vector[index], pending[index]);
                for ((value, part), change) in row[column..].iter_mut().zip(vector).zip(&pending) {
                    *value -= mine * change + other * part;
                }
            }
        };
        change(0, &mut matrix[column * size..][..size]);
        let (reflection, first) = Reflection::of(&matrix[column * size + start..(column + 1) * size]);
        off_diagonal[column] = first;
        let product = |(index, row): (usize, &mut [f64])| {
            change(index + 1, row);
            reflection.factor * dot(&row[start..], &reflection.vector)
        };
        let below = matrix[start * size..].par_chunks_mut(size).with_min_len(64).enumerate();
        let mut next: Vec<f64> = below.map(product).collect();
        // p = factor · B v, and w = p − (factor / 2)(p·v) v.
        let half = 0.5 * reflection.factor * dot(&next, &reflection.vector);
        next.iter_mut().zip(&reflection.vector).for_each(|(change, part)| *change -= half * part);
        pending = next;
        reflections.push(reflection);
    }
    // The last reflection acts on a single entry and does nothing, so no update is pending.
    let diagonal = (0..size).map(|index| matrix[index * size + index]).collect();
    Ok(Tridiagonal { diagonal, off_diagonal, reflections })
}

/// The product of all reflections; row `i` is its column `i`, so that rotations work on whole rows.
fn accumulate(reflections: &[Reflection], size: usize, monitor: &dyn Monitor) -> Result<Vec<f64>, Cancelled> {
    let mut vectors = vec![0.0; size * size];
    (0..size).for_each(|index| vectors[index * size + index] = 1.0);
    for (column, Reflection { vector, factor }) in reflections.iter().enumerate().rev() {
        monitor.check()?;
        if *factor == 0.0 {
            continue;
        }
        let start = column + 1;
        vectors[start * size..].par_chunks_mut(size).with_min_len(64).for_each(|row| {
            let along = factor * dot(&row[start..], vector);
            row[start..].iter_mut().zip(vector).for_each(|(value, part)| *value -= along * part);
        });
    }
    Ok(vectors)
}

/// Implicit QL: each sweep chases one bump along the matrix, until the off-diagonal entries are rounding errors. Applies
/// the rotations to `vectors` unless empty. `None` if the iteration does not converge.
fn rotate(
    diagonal: &mut [f64],
    off_diagonal: &mut [f64],
    vectors: &mut [f64],
    size: usize,
    monitor: &dyn Monitor,
) -> Result<Option<()>, Cancelled> {
    for first in 0..size {
        monitor.check()?;
        for sweep in 0.. {
            let small = |k: usize| off_diagonal[k].abs() <= f64::EPSILON * (diagonal[k].abs() + diagonal[k + 1].abs());
            let last = (first..size - 1).find(|&k| small(k)).unwrap_or(size - 1);
            if last == first {
                break;
            }
            if sweep == SWEEPS {
                return Ok(None);
            }
            let ratio = (diagonal[first + 1] - diagonal[first]) / (2.0 * off_diagonal[first]);
            let root = libm::hypot(ratio, 1.0);
            let mut carried = diagonal[last] - diagonal[first]
                + off_diagonal[first] / (ratio + if ratio < 0.0 { -root } else { root });
            let (mut sine, mut cosine, mut moved) = (1.0, 1.0, 0.0);
            let mut split = false;
            for k in (first..last).rev() {
                let (bump, rest) = (sine * off_diagonal[k], cosine * off_diagonal[k]);
                let length = libm::hypot(bump, carried);
                off_diagonal[k + 1] = length;
                if length == 0.0 {
                    diagonal[k + 1] -= moved;
                    off_diagonal[last] = 0.0;
                    split = true;
                    break;
                }
                (sine, cosine) = (bump / length, carried / length);
                let value = diagonal[k + 1] - moved;
                let mixed = (diagonal[k] - value) * sine + 2.0 * cosine * rest;
                moved = sine * mixed;
                diagonal[k + 1] = value + moved;
                carried = cosine * mixed - rest;
                if vectors.is_empty() {
                    continue;
                }
                let (upper, lower) = vectors[k * size..(k + 2) * size].split_at_mut(size);
                for (upper, lower) in upper.iter_mut().zip(lower) {
                    (*upper, *lower) = (cosine * *upper - sine * *lower, sine * *upper + cosine * *lower);
                }
            }
            if !split {
                diagonal[first] -= moved;
                off_diagonal[first] = carried;
                off_diagonal[last] = 0.0;
            }
        }
    }
    Ok(Some(()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::monitor::Stop;
    use crate::random::{stream, unit};

    #[test]
    fn small_examples() {
        // (2 1; 1 2): 3 along (1, 1)/√2, 1 along (1, −1)/√2.
        let found = symmetric(vec![2.0, 1.0, 1.0, 2.0], 2).unwrap();
        assert!((found.values[0] - 3.0).abs() < 1e-14 && (found.values[1] - 1.0).abs() < 1e-14, "{found:?}");
        assert!(found.vectors.iter().all(|part| (part.abs() - 0.5f64.sqrt()).abs() < 1e-14));
        assert!(found.vectors[0] > 0.0 && found.vectors[1] > 0.0 && found.vectors[2] * found.vectors[3] < 0.0);
        // A diagonal matrix is only sorted; an empty one is valid.
        let found = symmetric(vec![1.0, 0.0, 0.0, 0.0, 5.0, 0.0, 0.0, 0.0, 3.0], 3).unwrap();
        assert_eq!((&found.values[..], &found.vectors[..3]), (&[5.0, 3.0, 1.0][..], &[0.0, 1.0, 0.0][..]));
        assert_eq!(symmetric(vec![7.0], 1).unwrap(), Eigen { values: vec![7.0], vectors: vec![1.0] });
        assert!(symmetric(vec![], 0).unwrap().values.is_empty());
        assert_eq!(symmetric(vec![0.0; 16], 4).unwrap().values, [0.0; 4]);
    }

    #[test]
    fn stops_when_cancelled() {
        assert_eq!(try_symmetric(vec![1.0, 0.5, 0.5, 1.0], 2, &Stop), Err(Cancelled));
        assert_eq!(values(vec![1.0, 0.5, 0.5, 1.0], 2, &Stop), Err(Cancelled));
    }

    #[test]
    fn vectors_are_orthonormal_and_reconstruct_the_matrix() {
        for (size, rank, scale) in [(5, 5, 1.0), (40, 40, 1e-9), (33, 7, 1e6), (130, 130, 1.0)] {
            let mut random = stream(size as u64, "eigen", 0);
            let rows: Vec<f64> = (0..rank * size).map(|_| (unit(&mut random) - 0.5) * scale).collect();
            let cell = |i: usize, j: usize| (0..rank).map(|r| rows[r * size + i] * rows[r * size + j]).sum::<f64>();
            let matrix: Vec<f64> = (0..size * size).map(|k| cell(k / size, k % size)).collect();
            let found = symmetric(matrix.clone(), size).unwrap();
            assert_eq!(values(matrix.clone(), size, &Silent).unwrap().unwrap(), found.values);
            let row = |index: usize| &found.vectors[index * size..][..size];
            let largest = matrix.iter().fold(0.0f64, |largest, value| largest.max(value.abs()));
            assert!(found.values.windows(2).all(|pair| pair[0] >= pair[1]));
            for i in 0..size {
                for j in 0..size {
                    let product = dot(row(i), row(j));
                    assert!((product - f64::from(u8::from(i == j))).abs() < 1e-12, "{size}: {i} {j} {product}");
                    let back: f64 = (0..size).map(|v| found.values[v] * row(v)[i] * row(v)[j]).sum();
                    assert!((back - matrix[i * size + j]).abs() < 1e-12 * largest * size as f64);
                }
            }
            let pool = rayon::ThreadPoolBuilder::new().num_threads(7).build().unwrap();
            assert_eq!(pool.install(|| symmetric(matrix, size)).unwrap(), found);
        }
    }
}
