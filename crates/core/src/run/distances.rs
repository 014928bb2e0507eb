//! The role `distances`: how different every two images look.

use std::path::Path;

use super::artefact::Artefact;
use crate::error::{InFile, InputError, Key, Result};
use crate::store::ActivationStore;

/// A square, symmetric matrix of distances between rows, with a diagonal of 0.
#[derive(Debug)]
pub struct DistanceMatrix(ActivationStore);

/// Rows and columns that are compared with their mirror images at a time.
const BLOCK: usize = 256;

/// Distances that differ by this share of themselves count as equal: programs compute both in `f32`.
const RELATIVE: f32 = 1e-3;

/// Distances that differ by this share of the largest one count as equal.
const OF_LARGEST: f32 = 1e-5;

/// The diagonal may reach this share of the largest distance.
const DIAGONAL: f32 = 1e-3;

impl DistanceMatrix {
    /// Checks that the matrix is square and symmetric, that no distance is negative, and that the diagonal is 0. `check`
    /// returns an error if the user cancelled.
    pub fn new(matrix: ActivationStore, check: impl Fn() -> Result<()>) -> Result<DistanceMatrix> {
        let (rows, columns) = (matrix.rows(), matrix.width());
        if rows != columns {
            return Err(InputError::new("the matrix of distances is not square")
                .expected(format!("{rows} × {rows}: a row and a column for every image"))
                .found(format!("{rows} × {columns}"))
                .advice(format!("vectors of images are given as {}", Key("similarity")))
                .into());
        }
        let mut largest = 0.0f32;
        for first in (0..rows).step_by(BLOCK) {
            check()?;
            let tile = matrix.tile(first..(first + BLOCK).min(rows))?;
            if let Some(index) = tile.values.iter().position(|&distance| distance < 0.0) {
                return Err(InputError::new("a distance is negative")
                    .expected("distances, 0 or more")
                    .found(tile.values[index])
                    .at(format!("row {}, column {}", first + index / columns, index % columns))
                    .advice("subtract similarities from the largest possible one")
                    .into());
            }
            largest = tile.values.iter().copied().fold(largest, f32::max);
        }
        for row in (0..rows).step_by(BLOCK) {
            check()?;
            let lines = matrix.tile(row..(row + BLOCK).min(rows))?;
            for column in (0..=row).step_by(BLOCK) {
                let mirror = matrix.tile(column..(column + BLOCK).min(rows))?;
                check_mirrored(&lines.values, &mirror.values, [row, column], rows, largest)?;
            }
        }
        Ok(DistanceMatrix(matrix))
    }

    /// Reads a matrix; adds its file to messages.
    pub(super) fn in_file(matrix: ActivationStore, file: &Path, check: impl Fn() -> Result<()>) -> Result<Self> {
        DistanceMatrix::new(matrix, check).in_file(file)
    }

    /// Number of images.
    pub fn rows(&self) -> usize {
        self.0.rows()
    }

    /// Calls `read` with the distances of an image to all images.
    pub fn with_row<T>(&self, row: usize, read: impl FnOnce(&[f32]) -> T) -> Result<T> {
        Ok(read(self.0.tile(row..row + 1)?.row(0)))
    }
}

/// Compares a block of rows with a block of columns. `from` has the first row of `lines` and of `mirror`.
fn check_mirrored(lines: &[f32], mirror: &[f32], from: [usize; 2], rows: usize, largest: f32) -> Result<()> {
    for (i, line) in lines.chunks_exact(rows).enumerate() {
        for (j, other) in mirror.chunks_exact(rows).enumerate() {
            let (row, column) = (from[0] + i, from[1] + j);
            let (here, there) = (line[column], other[row]);
            if (here - there).abs() > RELATIVE * here.max(there) + OF_LARGEST * largest {
                return Err(InputError::new("the matrix of distances is not symmetric")
                    .expected("the same distance from i to j and from j to i")
                    .found(format!("{here} and {there}"))
                    .at(format!("row {row}, column {column}, and row {column}, column {row}"))
                    .advice("use a symmetric measure, or the mean of the matrix and its transpose")
                    .into());
            }
            if row == column && here > DIAGONAL * largest {
                return Err(InputError::new("the distance of an image to itself is not 0")
                    .expected("a diagonal of 0")
                    .found(here)
                    .at(format!("row {row}, column {row}"))
                    .advice("subtract similarities from the largest possible one")
                    .into());
            }
        }
    }
    Ok(())
}

impl Artefact for DistanceMatrix {
    fn sizes(&self) -> Vec<usize> {
        vec![self.rows()]
    }

    fn id(&self) -> Result<String> {
        self.0.id()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn matrix(values: &[f32], width: usize) -> Result<DistanceMatrix> {
        DistanceMatrix::new(ActivationStore::from_rows(values.to_vec(), width)?, || Ok(()))
    }

    #[test]
    fn distances_are_checked() {
        let good = matrix(&[0.0, 1.0, 2.0, 1.0, 1e-6, 3.0, 2.0001, 3.0, 0.0], 3).unwrap();
        assert_eq!(good.with_row(1, <[f32]>::to_vec).unwrap(), [1.0, 1e-6, 3.0]);
        let message = |values: &[f32], width: usize| matrix(values, width).unwrap_err().to_string();
        assert!(message(&[0.0, 1.0, 1.0, 0.0, 2.0, 3.0], 2).contains("found: 3 × 2"));
        assert!(message(&[0.0, 1.0, 1.5, 0.0], 2).contains("row 1, column 0"));
        assert!(message(&[0.0, -1.0, -1.0, 0.0], 2).contains("negative"));
        assert!(message(&[1.0, 0.2, 0.2, 1.0], 2).contains("itself"));
        assert!(message(&[0.0, f32::NAN, 1.0, 0.0], 2).contains("not finite"));
    }

    #[test]
    fn mirrored_values_are_found_in_other_blocks() {
        let rows = 2 * BLOCK + 40;
        let distance = |i: usize, j: usize| i.abs_diff(j) as f32;
        let mut values: Vec<f32> = (0..rows * rows).map(|at| distance(at / rows, at % rows)).collect();
        assert!(matrix(&values, rows).is_ok());
        values[(2 * BLOCK + 7) * rows + 3] += 2.0;
        assert!(matrix(&values, rows).unwrap_err().to_string().contains("row 519, column 3"));
    }
}
