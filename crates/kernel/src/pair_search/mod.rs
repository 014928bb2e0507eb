//! Candidates for the largest values of every row, where the value of two rows is their dot product plus an offset of each.
//! Every pair of rows is multiplied once.
//!
//! Products of 8-bit integers, or in `f32` on processors without fast ones, have a proven bound of their error. A row keeps
//! the others whose value may reach its floor. The floor is a guess: the `keep`-th largest estimate, each lowered by a part of
//! its bound. Whoever computes exact values checks that `keep` of them reach it ([`RowCandidates::below`]): then no other row
//! can be among the largest. Estimates, floors and candidates depend neither on threads nor on the order of blocks.

mod block;
mod lists;
mod scan;

use std::ops::Range;
use std::sync::{Mutex, MutexGuard, PoisonError};

use pulp::Arch;
use rayon::prelude::*;

use super::int8::{Arithmetic, PanelSums, QuantisedBlock, SQUARE};
use super::packed::PANEL;
use super::product::{relative_error, rows_by_rows};
use block::{Block, Centre};
use lists::Lists;
use scan::{Candidate, Dots, Proposal, Scan};

/// If a larger share of rows cannot be bounded, nothing is gained by bounding the others.
const MOST_UNBOUNDED: usize = 8;

/// The floor is this many times the bound below the estimates, divided by the square root of the width: rounding errors are
/// independent unless rows are degenerate.
const GUESS: f32 = 4.0;

/// Rows prepared for comparison with each other.
pub struct PairSearch {
    width: usize,
    count: usize,
    blocks: Vec<Block>,
    /// Rows whose products cannot be bounded, ascending.
    unbounded: Vec<u32>,
    /// The part of the bound of an error by which values are probably not below their estimate.
    share: f32,
}

/// The candidates of a row.
#[derive(Clone, Debug, PartialEq)]
pub struct RowCandidates {
    /// Other rows, ascending.
    pub rows: Vec<u32>,
    /// The exact values of all rows that are not listed are below this.
    pub below: f32,
}

impl PairSearch {
    /// Ranges of rows must begin at a multiple of this.
    pub const ALIGNMENT: usize = SQUARE;

    /// Bytes of prepared rows.
    pub fn bytes(rows: usize, width: usize) -> u64 {
        (rows.div_ceil(SQUARE) * (QuantisedBlock::bytes(width) + 4 * SQUARE * size_of::<f32>())) as u64
    }

    /// Bytes of a search for `rows` rows.
    pub fn search_bytes(rows: usize, keep: usize) -> u64 {
        let square = rows.min(SQUARE).pow(2) * (size_of::<f32>() + 2 * size_of::<Proposal>());
        let scratch = rayon::current_num_threads() * (square + size_of::<PanelSums>());
        (rows * (8 * keep + 256) * size_of::<Candidate>() + scratch) as u64
    }

    /// Number of comparisons of two blocks in a search among all rows.
    pub fn pairs(&self) -> usize {
        self.blocks.len() * (self.blocks.len() + 1) / 2
    }

    /// Prepares rows; `offset` is added to all products of a row.
    pub fn new(values: &[f32], width: usize, offset: &(dyn Fn(usize) -> f64 + Sync)) -> PairSearch {
        PairSearch::with(values, width, offset, Arithmetic::fastest())
    }

    fn with(
        values: &[f32],
        width: usize,
        offset: &(dyn Fn(usize) -> f64 + Sync),
        arithmetic: Arithmetic,
    ) -> PairSearch {
        let integers = arithmetic != Arithmetic::Scalar && width <= QuantisedBlock::MAX_INNER;
        let width = width.max(1);
        let centre = if integers { Centre::mean(values, width) } else { Centre::origin(width) };
        let relative = relative_error(width + 1, width);
        let blocks: Vec<Block> = values
            .par_chunks(SQUARE * width)
            .enumerate()
            .map(|(block, rows)| {
                let quantised = integers.then(|| QuantisedBlock::new(width, arithmetic));
                Block::new(rows, &centre, quantised, relative, &|row| offset(block * SQUARE + row))
            })
            .collect();
        let first = |block: usize| block * SQUARE;
        let unbounded = blocks.iter().enumerate();
        let unbounded =
            unbounded.flat_map(|(index, block)| block.unbounded().map(move |row| (first(index) + row) as u32));
        PairSearch {
            width,
            count: values.len() / width,
            unbounded: unbounded.collect(),
            share: (GUESS / (width as f32).sqrt()).min(1.0),
            blocks,
        }
    }

    /// The candidates of the rows of `mine` among those of `theirs` and, unless both are the same, the reverse. A row has
    /// none if there are too many, or if its products cannot be bounded: compute all its values. `values` are those that
    /// were prepared. `check` is called between blocks; its error ends the search.
    pub fn candidates<E: Send>(
        &self,
        values: &[f32],
        mine: Range<usize>,
        theirs: Range<usize>,
        keep: usize,
        check: &(dyn Fn() -> Result<(), E> + Sync),
    ) -> Result<Vec<Option<RowCandidates>>, E> {
        let same = mine == theirs;
        let rows = if same { mine.len() } else { mine.len() + theirs.len() };
        if self.unbounded.len() > self.count / MOST_UNBOUNDED || keep == 0 {
            return Ok(vec![None; rows]);
        }
        let blocks = |rows: &Range<usize>| match rows.is_empty() {
            true => 0..0,
            false => rows.start / SQUARE..rows.end.div_ceil(SQUARE),
        };
        let (left, right) = (blocks(&mine), blocks(&theirs));
        let list = |block: usize| Mutex::new(Lists::new(self.blocks[block].count, keep));
        let mut lists: Vec<Mutex<Lists>> = left.clone().map(list).collect();
        if !same {
            lists.extend(right.clone().map(list));
        }
        for round in rounds(&left, &right) {
            round.par_iter().with_max_len(1).try_for_each_init(Scratch::default, |scratch, &(first, second)| {
                let mine = &lists[first - left.start];
                let theirs = &lists[if same { second - left.start } else { left.len() + second - right.start }];
                check().map(|()| self.compare(values, (first, second), (mine, theirs), scratch))
            })?;
            lists
                .par_iter_mut()
                .for_each(|lists| lists.get_mut().unwrap_or_else(PoisonError::into_inner).raise_floors());
        }
        let mut found = Vec::with_capacity(rows);
        let mut own = mine.clone().chain(theirs.clone());
        for list in lists {
            for candidates in list.into_inner().unwrap_or_else(PoisonError::into_inner).finish() {
                let among = if found.len() < mine.len() { &theirs } else { &mine };
                let row = own.next().unwrap_or_default() as u32;
                found.push(self.complete(row, candidates, among));
            }
        }
        Ok(found)
    }

    /// Adds the rows of a range that cannot be bounded.
    fn complete(&self, row: u32, found: Option<(Vec<u32>, f32)>, among: &Range<usize>) -> Option<RowCandidates> {
        let (mut rows, below) = found?;
        if self.unbounded.binary_search(&row).is_ok() {
            return None;
        }
        let more = self.unbounded.iter().copied().filter(|&other| among.contains(&(other as usize)));
        rows.extend(more);
        rows.sort_unstable();
        Some(RowCandidates { rows, below })
    }

    /// Compares two blocks; the lists are locked one at a time.
    fn compare(
        &self,
        values: &[f32],
        (first, second): (usize, usize),
        (mine, theirs): (&Mutex<Lists>, &Mutex<Lists>),
        scratch: &mut Scratch,
    ) {
        let (rows, columns) = (&self.blocks[first], &self.blocks[second]);
        let row_floors = lock(mine).floors.clone();
        let mut column_floors = match first == second {
            // Both halves of the square are computed: only its rows are used.
            true => vec![f32::INFINITY; columns.count],
            false => lock(theirs).floors.clone(),
        };
        column_floors.resize(SQUARE, f32::INFINITY);
        let part = |block: usize, count: usize| &values[block * SQUARE * self.width..][..count * self.width];
        if rows.quantised.is_none() {
            scratch.products.resize(rows.count * columns.count, 0.0);
            rows_by_rows(part(first, rows.count), part(second, columns.count), self.width, &mut scratch.products);
        }
        for panel in 0..columns.count.div_ceil(PANEL) {
            let dots = match (&rows.quantised, &columns.quantised) {
                (Some(left), Some(right)) => {
                    left.products(rows.count, right, panel, &mut scratch.sums);
                    Dots::Sums(&scratch.sums[..])
                }
                _ => Dots::Products(&scratch.products, columns.count),
            };
            Arch::new().dispatch(Scan {
                dots,
                rows: &rows.bounds,
                row_floors: &row_floors,
                columns: &columns.bounds,
                column_floors: &column_floors,
                panel,
                share: self.share,
                first: ((first * SQUARE) as u32, (second * SQUARE) as u32),
                left: &mut scratch.left,
                right: &mut scratch.right,
            });
        }
        if first == second {
            let start = (first * SQUARE) as u32;
            scratch.left.retain(|(row, candidate)| start + row != candidate.row);
        }
        lock(mine).take(&mut scratch.left);
        if !scratch.right.is_empty() {
            lock(theirs).take(&mut scratch.right);
        }
    }
}

fn lock(lists: &Mutex<Lists>) -> MutexGuard<'_, Lists> {
    lists.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Buffers of a thread.
struct Scratch {
    sums: Box<PanelSums>,
    products: Vec<f32>,
    left: Vec<Proposal>,
    right: Vec<Proposal>,
}

impl Default for Scratch {
    fn default() -> Scratch {
        Scratch { sums: Box::new([[0; PANEL]; SQUARE]), products: vec![], left: vec![], right: vec![] }
    }
}

/// All pairs of blocks in rounds: in the first every block is compared with one other, in the next with as many again as
/// before, so that floors rise early and rounds are few.
fn rounds(mine: &Range<usize>, theirs: &Range<usize>) -> Vec<Vec<(usize, usize)>> {
    let (same, swapped) = (mine == theirs, mine.len() > theirs.len());
    let (fewer, more) = if swapped { (theirs, mine) } else { (mine, theirs) };
    let steps = if same { mine.len() / 2 + 1 } else { more.len() };
    let pairs = |step: usize| {
        // Half way around the circle, both ends of a pair would name it.
        let count = if same && step > 0 && 2 * step == mine.len() { step } else { fewer.len() };
        let pair = move |index: usize| {
            let (one, other) = (fewer.start + index, more.start + (index + step) % more.len());
            if swapped { (other, one) } else { (one, other) }
        };
        (0..count).map(pair)
    };
    let (mut rounds, mut step) = (Vec::new(), 0);
    while step < steps {
        let end = (2 * step).max(1).min(steps);
        rounds.push((step..end).flat_map(pairs).collect());
        step = end;
    }
    rounds
}

#[cfg(test)]
mod tests;
