//! Directions scaled to length 1, and the lengths that codes are multiplied by in return.
//!
//! A dictionary is the same function if a direction is divided by a number and its codes are multiplied by it. Metrics whose
//! numbers would change use the scaling in which all directions have length 1, as SAEBench does.

use etalon_kernel::product::dot;
use rayon::prelude::*;

use crate::context::Reserved;
use crate::error::{Error, Result};
use crate::run::{DIRECTIONS, Job};

/// Directions between two checks for cancellation.
const TOGETHER: usize = 256;

/// The lengths of the directions of all latents; `None` without directions.
pub(super) fn direction_lengths(job: &Job<'_>) -> Result<Option<Reserved<Vec<f32>>>> {
    let Some(directions) = job.find(&DIRECTIONS) else { return Ok(None) };
    let memory = job.budget().reserve(4 * directions.rows() as u64, "lengths of directions")?;
    let mut lengths = Vec::with_capacity(directions.rows());
    for first in (0..directions.rows()).step_by(TOGETHER) {
        job.check()?;
        let tile = directions.tile(first..(first + TOGETHER).min(directions.rows()))?;
        lengths.extend((0..tile.rows()).map(|row| dot(tile.row(row), tile.row(row)).sqrt() as f32));
    }
    Ok(Some(Reserved::new(lengths, memory)))
}

/// Scales every row to length 1 and returns which rows have a length. Rows of length 0 stay 0.
pub(super) fn scale_to_unit(job: &Job<'_>, rows: &mut [f32], width: usize) -> Result<Vec<bool>> {
    let scale = |row: &mut [f32]| {
        job.check()?;
        let length = dot(row, row).sqrt();
        if length > 0.0 {
            row.iter_mut().for_each(|part| *part = (f64::from(*part) / length) as f32);
        }
        Ok::<bool, Error>(length > 0.0)
    };
    rows.par_chunks_exact_mut(width).map(scale).collect()
}
