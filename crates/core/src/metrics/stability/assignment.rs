//! Pairs the directions of two dictionaries: optimally if they are few, greedily if they are many.

use std::borrow::Cow;
use std::cmp::Ordering;
use std::collections::BinaryHeap;

use etalon_kernel::assignment::assign_monitored;
use etalon_kernel::product::{dot, rows_by_rows};
use etalon_kernel::statistics::mean;
use etalon_kernel::top_k::{largest, truncate_to_largest};
use rayon::prelude::*;

use super::Compared;
use crate::context::Reservation;
use crate::error::{Error, Result};
use crate::metrics::unit_rows::scale_to_unit;
use crate::results::Profile;
use crate::run::Job;
use crate::store::ActivationStore;

/// Rows per block of cosines.
pub(super) const BLOCK: usize = 256;

/// Candidates kept per row.
const CANDIDATES: usize = 64;

/// Columns with their cosines, best first, ties to the lower column.
pub(super) type Candidates = Vec<(f32, u32)>;

/// Directions scaled to length 1; those of length 0 stay 0.
struct UnitDirections {
    values: Vec<f32>,
    takes_part: Vec<bool>,
}

impl UnitDirections {
    fn of(store: &ActivationStore, job: &Job<'_>) -> Result<UnitDirections> {
        let mut values = store.tile(0..store.rows())?.values.into_owned();
        let has_length = scale_to_unit(job, &mut values, store.width())?;
        // In the released code, directions of length 0 take part.
        let takes_part = has_length.into_iter().map(|has| has || job.profile == Profile::Reference).collect();
        Ok(UnitDirections { values, takes_part })
    }

    fn len(&self) -> usize {
        self.takes_part.len()
    }
}

/// The cosines of the directions of two dictionaries, computed in blocks.
pub(super) struct Cosines {
    rows: UnitDirections,
    columns: UnitDirections,
    width: usize,
    unsigned: bool,
    _memory: Reservation,
}

impl Cosines {
    /// Rows are the latents of the first dictionary, columns those of the second.
    pub fn new(first: &ActivationStore, second: &ActivationStore, unsigned: bool, job: &Job<'_>) -> Result<Cosines> {
        let (rows, columns, width) = (first.rows(), second.rows(), first.width());
        let bytes = (rows as u64 + columns as u64).saturating_mul(4 * width as u64);
        let _memory = job.budget().reserve(bytes, format!("the directions of {rows} and {columns} latents"))?;
        Ok(Cosines {
            rows: UnitDirections::of(first, job)?,
            columns: UnitDirections::of(second, job)?,
            width,
            unsigned,
            _memory,
        })
    }

    fn row(&self, row: usize) -> &[f32] {
        &self.rows.values[row * self.width..][..self.width]
    }

    /// One cosine in double precision, for the results.
    fn exact(&self, row: usize, column: usize) -> f64 {
        let cosine = dot(self.row(row), &self.columns.values[column * self.width..][..self.width]).clamp(-1.0, 1.0);
        if self.unsigned { cosine.abs() } else { cosine }
    }

    /// The cosines of some rows with all columns, row-major; minus infinity if a column takes no part.
    fn cosines(&self, rows: &[f32]) -> Vec<f32> {
        let columns = self.columns.len();
        let mut cosines = vec![0.0; rows.len() / self.width * columns];
        rows_by_rows(rows, &self.columns.values, self.width, &mut cosines);
        for row in cosines.chunks_exact_mut(columns.max(1)) {
            for (cosine, takes_part) in row.iter_mut().zip(&self.columns.takes_part) {
                *cosine = match takes_part {
                    true if self.unsigned => cosine.abs(),
                    true => *cosine,
                    false => f32::NEG_INFINITY,
                };
            }
        }
        cosines
    }

    /// The partners with the largest sum of cosines.
    pub fn optimal(&self, job: &Job<'_>) -> Result<Compared> {
        let (rows, columns) = (self.rows.len(), self.columns.len());
        let cells = (rows as u64).saturating_mul(columns as u64);
        let what = format!("the assignment of {rows} and {columns} latents");
        let _memory = job.budget().reserve(cells.saturating_mul(12), what)?;
        // A pair with infinite cost is not allowed.
        let mut costs = vec![f64::INFINITY; rows * columns];
        let blocks =
            costs.par_chunks_mut((BLOCK * columns).max(1)).zip(self.rows.values.par_chunks(BLOCK * self.width));
        blocks.enumerate().try_for_each(|(block, (costs, values))| {
            job.check()?;
            let cosines = self.cosines(values);
            for (row, (costs, cosines)) in (block * BLOCK..).zip(costs.chunks_mut(columns).zip(cosines.chunks(columns)))
            {
                if self.rows.takes_part[row] {
                    costs.iter_mut().zip(cosines).for_each(|(cost, &cosine)| *cost = -f64::from(cosine));
                }
            }
            Ok::<_, Error>(())
        })?;
        let least = |costs: &[f64]| {
            (0..costs.len()).filter(|&c| costs[c].is_finite()).min_by(|&a, &b| costs[a].total_cmp(&costs[b]))
        };
        let best: Vec<Option<usize>> = costs.chunks(columns.max(1)).map(least).collect();
        let partners = assign_monitored(&costs, rows, columns, job.context)?;
        Ok(self.compared(&partners, &best, true))
    }

    /// The best columns of the rows of a block.
    pub fn candidates(&self, block: usize, job: &Job<'_>) -> Result<Vec<Candidates>> {
        let columns = self.columns.len();
        let rows = block * BLOCK..((block + 1) * BLOCK).min(self.rows.len());
        let bytes = (rows.len() as u64 * 4 + 8).saturating_mul(columns as u64);
        let _memory = job.budget().reserve(bytes, format!("cosines of {} and {columns} latents", rows.len()))?;
        let cosines = self.cosines(&self.rows.values[rows.start * self.width..rows.end * self.width]);
        let mut scratch = Vec::new();
        let of_row = |row: usize| {
            scratch.clear();
            if self.rows.takes_part[row] {
                largest(&cosines[(row - rows.start) * columns..][..columns], CANDIDATES, &mut scratch);
                scratch.retain(|entry| entry.0.is_finite());
            }
            scratch.clone()
        };
        Ok(rows.clone().map(of_row).collect())
    }

    /// The best free columns of a row.
    fn candidates_among(&self, row: usize, free: &[bool]) -> Candidates {
        let cosines = self.cosines(self.row(row));
        let open = cosines.iter().zip(free).enumerate().filter(|(_, (cosine, free))| **free && cosine.is_finite());
        let mut list: Candidates = open.map(|(column, (&cosine, _))| (cosine, column as u32)).collect();
        truncate_to_largest(&mut list, CANDIDATES);
        list
    }

    /// Pairs the largest cosine of all, then the largest of the rest. `candidates` are those of the blocks; a row gets new
    /// candidates when all of its own are taken.
    pub fn greedy(&self, candidates: &[Vec<Candidates>], job: &Job<'_>) -> Result<Compared> {
        let (rows, columns) = (self.rows.len(), self.columns.len());
        let bytes = 80 * rows as u64 + 16 * columns as u64;
        let _memory = job.budget().reserve(bytes, format!("candidates among {columns} latents for {rows}"))?;
        let mut lists: Vec<Cow<'_, [(f32, u32)]>> =
            candidates.iter().flatten().map(|list| Cow::Borrowed(&list[..])).collect();
        let best: Vec<Option<usize>> =
            lists.iter().map(|list| list.first().map(|&(_, column)| column as usize)).collect();
        let mut free = vec![true; columns];
        let mut partners = vec![None; rows];
        let mut next = vec![0usize; rows];
        let head = |list: &[(f32, u32)], row: usize, index: usize| {
            list.get(index).map(|&(cosine, column)| Head { cosine, row, column: column as usize })
        };
        let mut heap: BinaryHeap<Head> =
            lists.iter().enumerate().filter_map(|(row, list)| head(list, row, 0)).collect();
        while let Some(Head { row, column, .. }) = heap.pop() {
            job.check()?;
            if std::mem::replace(&mut free[column], false) {
                partners[row] = Some(column);
                continue;
            }
            while lists[row].get(next[row]).is_some_and(|entry| !free[entry.1 as usize]) {
                next[row] += 1;
            }
            if next[row] == lists[row].len() {
                (lists[row], next[row]) = (Cow::Owned(self.candidates_among(row, &free)), 0);
            }
            heap.extend(head(&lists[row], row, next[row]));
        }
        Ok(self.compared(&partners, &best, false))
    }

    /// The result for some partners; `best` is the column with the largest cosine of every row.
    fn compared(&self, partners: &[Option<usize>], best: &[Option<usize>], optimal: bool) -> Compared {
        let cosine = |(row, column): (usize, &Option<usize>)| column.map(|column| self.exact(row, column));
        let cosines: Vec<Option<f64>> = partners.iter().enumerate().map(cosine).collect();
        // In double precision a partner may be nearer than the best of the single-precision cosines.
        let larger =
            |(best, found): (Option<f64>, &Option<f64>)| best.map(|best| found.map_or(best, |found| best.max(found)));
        let mut largest: Vec<f64> = best.iter().enumerate().map(cosine).zip(&cosines).filter_map(larger).collect();
        // Only as many rows as have partners count, the best ones.
        largest.sort_by(|a, b| b.total_cmp(a));
        largest.truncate(cosines.iter().flatten().count());
        // Sums of the same values in another order may differ in the last bit.
        let reached = mean(&cosines.iter().copied().flatten().collect::<Vec<f64>>());
        Compared {
            bound: mean(&largest).zip(reached).map(|(bound, reached)| bound.max(reached)),
            partners: partners.iter().map(|partner| partner.map(|column| column as u32)).collect(),
            cosines,
            optimal,
        }
    }
}

/// The best candidate of a row. Larger cosine first, then the lower row, then the lower column.
struct Head {
    cosine: f32,
    row: usize,
    column: usize,
}

impl Ord for Head {
    fn cmp(&self, other: &Head) -> Ordering {
        self.cosine.total_cmp(&other.cosine).then(other.row.cmp(&self.row)).then(other.column.cmp(&self.column))
    }
}

impl PartialOrd for Head {
    fn partial_cmp(&self, other: &Head) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Head {
    fn eq(&self, other: &Head) -> bool {
        self.cmp(other).is_eq()
    }
}

impl Eq for Head {}
