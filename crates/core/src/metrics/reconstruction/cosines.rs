//! The largest cosine of every direction with another one: blocks of the Gram matrix, of which only the maximum of every
//! row is kept. Symmetry halves the work.

use std::ops::Range;

use etalon_kernel::product::rows_by_rows;
use rayon::prelude::*;

use crate::context::Reservation;
use crate::error::Result;
use crate::metrics::unit_rows::scale_to_unit;
use crate::run::{Job, Lazy, Max, Work};

/// Directions per block.
const BLOCK: usize = 1024;

/// The largest cosine of every direction; `None` for a direction of length 0 or the only one.
pub(super) type LargestCosines = Vec<Option<f64>>;

/// The largest cosines of `count` directions; `copy` writes one of them. `name` is the name of the stage.
pub(super) fn largest_cosines(
    job: &Job<'_>,
    work: &mut Work<'_>,
    name: &str,
    (count, width): (usize, usize),
    copy: impl Fn(usize, &mut [f32]) -> Result<()> + Send + Sync,
) -> Result<LargestCosines> {
    let units = Lazy::new(|| UnitRows::new(job, (count, width), &copy));
    // A block is compared with itself and all later blocks.
    let empty = || Max::new(count);
    let largest = work.fold_with(&units, name, count.div_ceil(BLOCK), empty, |units, largest, block| {
        units.compare(block, largest, job)
    })?;
    Ok(largest.iter().map(|cosine| cosine.map(|cosine| f64::from(cosine).clamp(-1.0, 1.0))).collect())
}

/// Directions scaled to length 1; those of length 0 stay 0.
struct UnitRows {
    width: usize,
    values: Vec<f32>,
    has_length: Vec<bool>,
    _memory: Reservation,
}

impl UnitRows {
    fn new(
        job: &Job<'_>,
        (count, width): (usize, usize),
        copy: &(dyn Fn(usize, &mut [f32]) -> Result<()> + Sync),
    ) -> Result<UnitRows> {
        let bytes = (count as u64).saturating_mul(4 * width as u64 + 1);
        let _memory = job.budget().reserve(bytes, format!("the cosines of {count} directions"))?;
        let mut values = vec![0.0; count * width];
        values.par_chunks_exact_mut(width).enumerate().try_for_each(|(index, row)| {
            job.check()?;
            copy(index, row)
        })?;
        let has_length = scale_to_unit(job, &mut values, width)?;
        Ok(UnitRows { width, values, has_length, _memory })
    }

    fn block(&self, block: usize) -> Range<usize> {
        block * BLOCK..((block + 1) * BLOCK).min(self.has_length.len())
    }

    fn rows(&self, rows: &Range<usize>) -> &[f32] {
        &self.values[rows.start * self.width..rows.end * self.width]
    }

    fn compare(&self, block: usize, largest: &mut Max, job: &Job<'_>) -> Result<()> {
        let mine = self.block(block);
        let _memory = job.budget().reserve(4 * (mine.len() * BLOCK) as u64, "products of directions")?;
        let mut products = vec![0.0; mine.len() * BLOCK];
        for later in block..self.has_length.len().div_ceil(BLOCK) {
            job.check()?;
            let theirs = self.block(later);
            let products = &mut products[..mine.len() * theirs.len()];
            rows_by_rows(self.rows(&mine), self.rows(&theirs), self.width, products);
            for (row, cosines) in mine.clone().zip(products.chunks_exact(theirs.len())) {
                if !self.has_length[row] {
                    continue;
                }
                // Within a block only the part right of the diagonal, so that every pair counts once.
                let from = if later == block { row + 1 - theirs.start } else { 0 };
                let mut best = largest[row];
                for (index, &cosine) in cosines.iter().enumerate().skip(from) {
                    let other = theirs.start + index;
                    if self.has_length[other] {
                        best = larger(best, cosine);
                        largest[other] = larger(largest[other], cosine);
                    }
                }
                largest[row] = best;
            }
        }
        Ok(())
    }
}

#[inline]
fn larger(best: Option<f32>, cosine: f32) -> Option<f32> {
    Some(best.map_or(cosine, |best| best.max(cosine)))
}
