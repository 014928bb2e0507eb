//! The number of samples in which each latent fires, if rows belong to samples.

use super::sums::fires;
use crate::context::Reserved;
use crate::error::Result;
use crate::run::leaves::BATCH_ROWS;
use crate::run::{CODES, Count, EMBEDDINGS, Job, Work};

/// Rows per block.
const BLOCK_ROWS: usize = 1 << 16;

/// Maximum number of blocks: each visits the sample numbers of all rows.
const MOST_BLOCKS: usize = 64;

/// By latent, the number of samples with at least one row where it fires.
pub(super) fn samples_by_latent(job: &Job<'_>, work: &mut Work<'_>) -> Result<Option<Reserved<Count>>> {
    let codes = job.get(&CODES)?;
    let Some(samples) = job.find(&EMBEDDINGS).and_then(|store| store.samples()) else { return Ok(None) };
    let latents = codes.latents();
    let samples = &samples[..samples.len().min(codes.rows())];
    let numbers = samples.iter().max().map_or(0, |&largest| largest as usize + 1);
    let blocks = samples.len().div_ceil(BLOCK_ROWS).min(MOST_BLOCKS);
    let count = |count: &mut Count, block: usize| {
        let range = numbers * block / blocks..numbers * (block + 1) / blocks;
        let is_inside = |row: &usize| range.contains(&(samples[*row] as usize));
        let rows = (0..samples.len()).filter(is_inside).count();
        let bytes = 8 * (rows + latents) as u64;
        let _memory = job.budget().reserve(bytes, format!("the order of {rows} rows by sample"))?;
        // Rows of a sample need not be consecutive, so they are visited sample by sample.
        let mut order: Vec<usize> = Vec::with_capacity(rows);
        order.extend((0..samples.len()).filter(is_inside));
        order.sort_by_key(|&row| (samples[row], row));
        let mut last = vec![None; latents];
        // Consecutive rows are read together.
        for rows in order.chunk_by(|row, next| row + 1 == *next).flat_map(|run| run.chunks(BATCH_ROWS)) {
            job.check()?;
            for (row, latents, values) in codes.view(rows[0]..rows[0] + rows.len())?.iter() {
                for (&latent, _) in latents.iter().zip(values).filter(|(_, value)| fires(**value, job.profile)) {
                    if last[latent as usize].replace(samples[row]) != Some(samples[row]) {
                        count[latent as usize] += 1;
                    }
                }
            }
        }
        Ok(())
    };
    work.fold("samples", blocks, || Count::new(latents), count).map(Some)
}
