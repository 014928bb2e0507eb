//! Sums and products of rows, in parallel.

use etalon_kernel::neural;
use rayon::prelude::*;

use super::CHUNK;

/// Values that one task processes.
const VALUES: usize = 1 << 14;

/// `into += x`.
pub fn add(x: &[f32], into: &mut [f32]) {
    into.par_chunks_mut(VALUES).zip(x.par_chunks(VALUES)).for_each(|(into, x)| neural::add(x, into));
}

/// Multiplies every row by `scale`, value by value.
pub fn multiply_rows(scale: &[f32], rows: &mut [f32]) {
    rows.par_chunks_mut(CHUNK * scale.len()).for_each(|rows| neural::multiply_rows(scale, rows));
}
