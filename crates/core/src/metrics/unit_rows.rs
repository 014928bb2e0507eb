//! Directions scaled to length 1.

use etalon_kernel::product::dot;
use rayon::prelude::*;

use crate::error::{Error, Result};
use crate::run::Job;

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
