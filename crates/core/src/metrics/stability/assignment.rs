//! Pairs the directions of two dictionaries: optimally where they are few, greedily where they are many.

use std::borrow::Cow;
use std::cmp::Ordering;
use std::collections::BinaryHeap;

use etalon_kernel::assignment::assign_monitored;
use etalon_kernel::product::{dot, rows_by_rows};
use etalon_kernel::statistics::mean;
use etalon_kernel::top::{largest, truncate_to_largest};
use rayon::prelude::*;

use super::Compared;
use crate::context::Reservation;
use crate::error::{Error, Result};
use crate::results::Profile;
use crate::run::Job;
use crate::store::ActivationStore;

/// Lines that are multiplied at a time.
pub(super) const LINES: usize = 256;

/// Candidates of a row that are kept at a time.
const CANDIDATES: usize = 64;

/// Columns with their cosines, best first, ties to the lower column.
pub(super) type Candidates = Vec<(f32, u32)>;

/// Directions of length 1; those without length are 0.
struct Units {
    values: Vec<f32>,
    takes_part: Vec<bool>,
}

impl Units {
    /// `keep` lets directions without length take part.
    fn of(store: &ActivationStore, keep: bool) -> Result<Units> {
        let mut values = store.tile(0..store.rows())?.values.into_owned();
        let mut takes_part = Vec::with_capacity(store.rows());
        for row in values.chunks_exact_mut(store.width()) {
            let length = dot(row, row).sqrt();
            takes_part.push(keep || length > 0.0);
            if length > 0.0 {
                row.iter_mut().for_each(|part| *part = (f64::from(*part) / length) as f32);
            }
        }
        Ok(Units { values, takes_part })
    }

    fn len(&self) -> usize {
        self.takes_part.len()
    }
}

/// The cosines of the directions of two dictionaries, never all at once unless they are few.
pub(super) struct Cosines {
    rows: Units,
    columns: Units,
    width: usize,
    unsigned: bool,
    _memory: Reservation,
}

impl Cosines {
    /// Of all latents of the first with all of the second.
    pub fn new(first: &ActivationStore, second: &ActivationStore, unsigned: bool, job: &Job<'_>) -> Result<Cosines> {
        let (rows, columns, width) = (first.rows(), second.rows(), first.width());
        let bytes = (rows as u64 + columns as u64).saturating_mul(4 * width as u64);
        let _memory = job.budget().reserve(bytes, format!("the directions of {rows} and {columns} latents"))?;
        let keep = job.profile == Profile::Reference;
        Ok(Cosines { rows: Units::of(first, keep)?, columns: Units::of(second, keep)?, width, unsigned, _memory })
    }

    fn row(&self, row: usize) -> &[f32] {
        &self.rows.values[row * self.width..][..self.width]
    }

    /// What is reported is computed in double precision.
    fn exactly(&self, row: usize, column: usize) -> f64 {
        let cosine = dot(self.row(row), &self.columns.values[column * self.width..][..self.width]).clamp(-1.0, 1.0);
        if self.unsigned { cosine.abs() } else { cosine }
    }

    /// The cosines of some rows with all columns, line by line; minus infinity where a column takes no part.
    fn lines(&self, rows: &[f32]) -> Vec<f32> {
        let columns = self.columns.len();
        let mut lines = vec![0.0; rows.len() / self.width * columns];
        rows_by_rows(rows, &self.columns.values, self.width, &mut lines);
        for line in lines.chunks_exact_mut(columns.max(1)) {
            for (cosine, takes_part) in line.iter_mut().zip(&self.columns.takes_part) {
                *cosine = match takes_part {
                    true if self.unsigned => cosine.abs(),
                    true => *cosine,
                    false => f32::NEG_INFINITY,
                };
            }
        }
        lines
    }

    /// The partners with the largest sum of cosines.
    pub fn optimal(&self, job: &Job<'_>) -> Result<Compared> {
        let (rows, columns) = (self.rows.len(), self.columns.len());
        let cells = (rows as u64).saturating_mul(columns as u64);
        let what = format!("the assignment of {rows} and {columns} latents");
        let _memory = job.budget().reserve(cells.saturating_mul(12), what)?;
        // A pair that is not allowed has no finite cost.
        let mut costs = vec![f64::INFINITY; rows * columns];
        let blocks =
            costs.par_chunks_mut((LINES * columns).max(1)).zip(self.rows.values.par_chunks(LINES * self.width));
        blocks.enumerate().try_for_each(|(block, (costs, values))| {
            job.check()?;
            let lines = self.lines(values);
            for (row, (costs, line)) in (block * LINES..).zip(costs.chunks_mut(columns).zip(lines.chunks(columns))) {
                if self.rows.takes_part[row] {
                    costs.iter_mut().zip(line).for_each(|(cost, &cosine)| *cost = -f64::from(cosine));
                }
            }
            Ok::<_, Error>(())
        })?;
        let least = |line: &[f64]| line.iter().copied().filter(|cost| cost.is_finite()).reduce(f64::min);
        let best: Vec<f64> = costs.chunks(columns.max(1)).filter_map(least).map(|least| -least).collect();
        let partners = assign_monitored(&costs, rows, columns, job.context)?;
        Ok(self.compared(&partners, &best, true))
    }

    /// The best columns of the rows of a block.
    pub fn candidates(&self, block: usize, job: &Job<'_>) -> Result<Vec<Candidates>> {
        let columns = self.columns.len();
        let rows = block * LINES..((block + 1) * LINES).min(self.rows.len());
        let bytes = (rows.len() as u64 * 4 + 8).saturating_mul(columns as u64);
        let _memory = job.budget().reserve(bytes, format!("cosines of {} and {columns} latents", rows.len()))?;
        let lines = self.lines(&self.rows.values[rows.start * self.width..rows.end * self.width]);
        let mut scratch = Vec::new();
        let of_row = |row: usize| {
            scratch.clear();
            if self.rows.takes_part[row] {
                largest(&lines[(row - rows.start) * columns..][..columns], CANDIDATES, &mut scratch);
                scratch.retain(|entry| entry.0.is_finite());
            }
            scratch.clone()
        };
        Ok(rows.clone().map(of_row).collect())
    }

    /// The best columns of a row among the free ones.
    fn candidates_among(&self, row: usize, free: &[bool]) -> Candidates {
        let line = self.lines(self.row(row));
        let open = line.iter().zip(free).enumerate().filter(|(_, (cosine, free))| **free && cosine.is_finite());
        let mut list: Candidates = open.map(|(column, (&cosine, _))| (cosine, column as u32)).collect();
        truncate_to_largest(&mut list, CANDIDATES);
        list
    }

    /// Partners by the largest cosine of all, then the largest of the rest. `candidates` are those of the blocks; a row
    /// looks again when all of its own are taken.
    pub fn greedy(&self, candidates: &[Vec<Candidates>], job: &Job<'_>) -> Result<Compared> {
        let (rows, columns) = (self.rows.len(), self.columns.len());
        let bytes = 80 * rows as u64 + 16 * columns as u64;
        let _memory = job.budget().reserve(bytes, format!("candidates among {columns} latents for {rows}"))?;
        let mut lists: Vec<Cow<'_, [(f32, u32)]>> =
            candidates.iter().flatten().map(|list| Cow::Borrowed(&list[..])).collect();
        let best: Vec<f64> = lists.iter().filter_map(|list| list.first()).map(|entry| f64::from(entry.0)).collect();
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

    fn compared(&self, partners: &[Option<usize>], best: &[f64], optimal: bool) -> Compared {
        let cosine = |(row, column): (usize, &Option<usize>)| column.map(|column| self.exactly(row, column));
        Compared {
            cosines: partners.iter().enumerate().map(cosine).collect(),
            partners: partners.iter().map(|partner| partner.map(|column| column as u32)).collect(),
            bound: mean(best),
            optimal,
        }
    }
}

/// The best that a row can still have. Larger cosine first, then the lower row, then the lower column.
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
