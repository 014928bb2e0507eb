//! The co-occurrence matrices, row by row: a thread holds one row of each in memory.

use std::ops::Range;
use std::sync::{Mutex, PoisonError};

use serde::{Deserialize, Serialize};

use super::counts::{GROUPS, JointCounts, WithoutGroup, threshold};
use super::matrix_row::{MatrixRow, Scale};
use super::pairs::{LatentCounts, PairRecord, Pairs, fill_alone, ranges};
use super::sets::{CodeSets, Sets, SetsShape};
use crate::context::{Reservation, Reserved};
use crate::error::Result;
use crate::run::{Job, TopRows, Work};
use crate::state;
use etalon_kernel::huge_pages::HugeVec;
use etalon_kernel::prefetch::DISTANCE;

/// Pairs per block, all sets together. Every block scans all rows, so more pairs mean fewer scans.
const PAIRS: u64 = 1 << 24;

/// Rows per block.
pub(super) const ROWS: usize = 1 << 19;

/// The rows of a block.
pub(super) fn block_rows(block: usize, shape: &SetsShape<'_>) -> Range<usize> {
    block * ROWS..((block + 1) * ROWS).min(shape.rows)
}

/// The counts of latents in the real rows and in those of every model.
pub(super) fn counts(sets: &CodeSets<'_>, work: &mut Work<'_>) -> Result<Reserved<Vec<LatentCounts>>> {
    let CodeSets { job, shape, lazy } = sets;
    let empty = || vec![LatentCounts::new(shape.latents); shape.sets()];
    work.fold_with(lazy, "blocks of rows", shape.rows.div_ceil(ROWS), empty, |sets, counts, block| {
        let mut both = counts.iter_mut().zip(&sets.codes);
        both.try_for_each(|(counts, codes)| counts.add(codes, block_rows(block, shape), job.context))
    })
}

/// The result of a sweep over all rows of the matrices.
#[derive(Serialize, Deserialize)]
pub(super) struct Sweep {
    /// One half of the real rows against the other.
    pub null: JointCounts,
    pub models: Vec<ModelSweep>,
    /// For every latent, those with the largest products in the real rows.
    pub partners: TopRows,
}

state!(Sweep { null, models, partners });

/// The real rows against those of a model.
#[derive(Clone, Serialize, Deserialize)]
pub(super) struct ModelSweep {
    pub whole: JointCounts,
    /// The first half of the real rows against the second half of the model's.
    pub half: JointCounts,
    pub without: WithoutGroup,
}

state!(ModelSweep { whole, half, without });

impl Sweep {
    fn new(shape: &SetsShape<'_>, partners: usize) -> Sweep {
        let model = || ModelSweep { whole: JointCounts::new(), half: JointCounts::new(), without: WithoutGroup::new() };
        Sweep {
            null: JointCounts::new(),
            models: shape.names.iter().map(|_| model()).collect(),
            partners: TopRows::new(shape.latents, partners),
        }
    }
}

/// Compares all rows of the matrices. `threshold` is the index of the headline threshold.
pub(super) fn sweep(
    sets: &CodeSets<'_>,
    counts: &[LatentCounts],
    threshold: usize,
    work: &mut Work<'_>,
) -> Result<Reserved<Sweep>> {
    let CodeSets { job, shape, lazy } = sets;
    let mut pairs = vec![0; shape.latents];
    for counts in counts {
        pairs.iter_mut().zip(counts.after.iter()).for_each(|(pairs, after)| *pairs += after);
    }
    let blocks = ranges(&pairs, PAIRS);
    let records = |block| counts.iter().map(|counts| Pairs::records(block, &counts.after)).max().unwrap_or(0);
    let sizes = ScratchSizes {
        sets: shape.sets(),
        latents: shape.latents,
        by_group: threshold > 0 || counts.iter().any(LatentCounts::is_signed),
        records: blocks.iter().filter(|block| block.len() > 1).map(records).max().unwrap_or(0),
    };
    let pool = ScratchPool::default();
    let partners = job.whole("partners")?;
    work.fold_with(
        lazy,
        "blocks of latents",
        blocks.len(),
        || Sweep::new(shape, partners),
        |sets, sweep, block| {
            let mut scratch = pool.take(&sizes, job)?;
            let added = sweep.add(sets, counts, blocks[block].clone(), &scale(sets, threshold), &mut scratch, job);
            pool.give(scratch);
            added
        },
    )
}

/// The scale of entries, which are means over rows or sums.
fn scale(sets: &Sets, index: usize) -> Scale {
    let rows = sets.groups.len();
    let half = |half: usize| sets.scale(sets.group_rows[half * GROUPS / 2..(half + 1) * GROUPS / 2].iter().sum());
    Scale {
        whole: sets.scale(rows),
        halves: [half(0), half(1)],
        without: sets.group_rows.map(|group| threshold(index) / sets.scale(rows - group)),
    }
}

impl Sweep {
    /// Adds the rows of a range of latents.
    fn add(
        &mut self,
        sets: &Sets,
        counts: &[LatentCounts],
        latents: Range<usize>,
        scale: &Scale,
        scratch: &mut Scratch,
        job: &Job<'_>,
    ) -> Result<()> {
        let Sweep { null, models: found, partners } = self;
        let Scratch { rows, records, offers, .. } = scratch;
        let groups = &sets.groups;
        // By set, the sorted pairs. A single latent may have more pairs than fit into memory, and needs no sorting.
        let mut sorted = Vec::new();
        if latents.len() > 1 {
            for ((codes, counts), records) in sets.codes.iter().zip(counts).zip(records) {
                sorted.push(Pairs::of(codes, groups, latents.clone(), &counts.after, records, job.context)?);
            }
        }
        for latent in latents {
            job.check()?;
            for (set, (row, codes)) in rows.iter_mut().zip(&sets.codes).enumerate() {
                row.clear();
                match sorted.get(set) {
                    Some(pairs) => pairs.fill(latent, row),
                    None => fill_alone(codes, groups, latent as u32, row, job.context)?,
                }
            }
            let Some((mine, models)) = rows.split_first_mut() else { continue };
            mine.rank(scale, |other, rank, product| {
                null.add(rank.halves[0], rank.halves[1]);
                let product = (product as f32).min(f32::MAX);
                if product > 0.0 {
                    partners.offer(latent, product, other as u32);
                    // The lists of other latents are far apart in memory: those that change are prefetched below.
                    if partners.takes(other, product) {
                        offers.push((product, other));
                    }
                }
            });
            for (index, &(product, other)) in offers.iter().enumerate() {
                if let Some(&(_, coming)) = offers.get(index + DISTANCE) {
                    partners.prefetch(coming);
                }
                partners.offer(other, product, latent as u32);
            }
            offers.clear();
            for (theirs, ModelSweep { whole, half, without }) in models.iter_mut().zip(&mut *found) {
                theirs.rank(scale, |_, _, _| {});
                mine.compare(theirs, |other, a, b| {
                    whole.add(a.whole, b.whole);
                    half.add(a.halves[0], b.halves[1]);
                    without.add(a.case, b.case, || [&*mine, &*theirs].map(|row| row.above_without(other, scale)));
                });
            }
        }
        Ok(())
    }
}

/// The size of a block's memory.
struct ScratchSizes {
    sets: usize,
    latents: usize,
    /// Whether rows need sums by group.
    by_group: bool,
    /// Records of one set in the largest block of several latents.
    records: usize,
}

/// Memory of a block.
struct Scratch {
    /// By set.
    rows: Vec<MatrixRow>,
    records: Vec<HugeVec<PairRecord>>,
    offers: Vec<(f32, usize)>,
    _memory: Reservation,
}

impl Scratch {
    fn new(sizes: &ScratchSizes, job: &Job<'_>) -> Result<Scratch> {
        let of_set = MatrixRow::bytes(sizes.latents, sizes.by_group) + sizes.records as u64 * Pairs::BYTES;
        // Every latent may be offered.
        let bytes = sizes.sets as u64 * of_set + 16 * sizes.latents as u64;
        let memory = job.budget().reserve(bytes, format!("the co-occurrences of {} latents", sizes.latents))?;
        Ok(Scratch {
            rows: (0..sizes.sets).map(|_| MatrixRow::new(sizes.latents, sizes.by_group)).collect(),
            records: (0..sizes.sets).map(|_| HugeVec::zeros(sizes.records)).collect(),
            offers: Vec::new(),
            _memory: memory,
        })
    }
}

/// Memory of finished blocks, for reuse: new pages cost as much as writing the records.
#[derive(Default)]
struct ScratchPool(Mutex<Spare>);

#[derive(Default)]
struct Spare {
    running: usize,
    free: Vec<Scratch>,
}

impl ScratchPool {
    fn take(&self, sizes: &ScratchSizes, job: &Job<'_>) -> Result<Scratch> {
        let free = self.0.lock().unwrap_or_else(PoisonError::into_inner).free.pop();
        let scratch = free.map_or_else(|| Scratch::new(sizes, job), Ok)?;
        self.0.lock().unwrap_or_else(PoisonError::into_inner).running += 1;
        Ok(scratch)
    }

    /// Keeps at most as many as are in use, or one: unused memory may be what other blocks need.
    fn give(&self, scratch: Scratch) {
        let mut spare = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        spare.running -= 1;
        if spare.free.len() < spare.running.max(1) {
            spare.free.push(scratch);
        }
    }
}
