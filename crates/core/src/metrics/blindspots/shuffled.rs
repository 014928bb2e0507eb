//! The distance of generated rows to real rows of other prompts: the baseline of `divergence`.

use super::distance::{RowList, each_difference};
use crate::context::{Reservation, Reserved};
use crate::error::Result;
use crate::run::{CODES, GENERATED, Job, Lazy, Work};
use etalon_kernel::random::{permutation, stream};

/// Rows per block.
const BLOCK: usize = 1 << 14;

/// For every row another one: the next in a random order.
struct OtherRows {
    of_row: Vec<usize>,
    _memory: Reservation,
}

impl OtherRows {
    fn new(rows: usize, job: &Job<'_>) -> Result<OtherRows> {
        let memory = job.budget().reserve(16 * rows as u64, "a random order of the rows")?;
        let order = permutation(rows, &mut stream(job.seed, "divergence/shuffled", 0));
        let mut of_row = vec![0; rows];
        for (position, &row) in order.iter().enumerate() {
            of_row[row] = order[(position + 1) % rows];
        }
        Ok(OtherRows { of_row, _memory: memory })
    }
}

/// The distance of every generated row to a real row of another prompt, model by model; empty below two rows.
pub(super) fn shuffled(job: &Job<'_>, work: &mut Work<'_>) -> Result<Reserved<RowList<f64>>> {
    let (real, models) = (job.get(&CODES)?, job.all(&GENERATED));
    let rows = real.rows();
    let blocks = if rows > 1 { rows.div_ceil(BLOCK) } else { 0 };
    let others = Lazy::new(|| OtherRows::new(rows, job));
    let count = models.len() * blocks;
    work.fold_with(&others, "blocks of shuffled rows", count, RowList::default, |others, found, block| {
        let (real, made) = (real.all()?, models[block / blocks].1.codes.all()?);
        let first = block % blocks * BLOCK;
        for row in first..(first + BLOCK).min(rows) {
            let mut square = 0.0;
            each_difference(real.row(others.of_row[row]), made.row(row), |_, difference| {
                square += difference * difference;
            });
            found.0.push(square.sqrt());
        }
        Ok(())
    })
}
