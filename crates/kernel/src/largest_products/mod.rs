//! The largest products of every row with other rows, exact: products of 8-bit integers with error bounds propose pairs, each
//! of which serves both rows ([`pair_search`](super::pair_search)), `f32` products with error bounds select candidates, and
//! sums in `f64` decide. A pair is dropped only if a bound proves that it is not among the largest, so the result is the
//! same as sorting all sums.

mod candidates;

use std::borrow::Cow;
use std::ops::Range;

use rayon::prelude::*;

use super::pair_search::{PairSearch, RowCandidates};
use super::pairs::{ordered_dots, pair_dots};
use super::product::{ABSOLUTE_ERROR, dot, relative_error};
use super::thin;
pub use candidates::Candidates;

/// Rows between two checks for cancellation.
const ROWS: usize = 64;

/// Rows that one row is compared with at once.
const CHUNK: usize = 512;

/// Products that are computed together.
const TOGETHER: usize = 8;

/// Other rows with their product, largest first, ties to the lower row.
pub type Largest = Vec<(u32, f64)>;

/// Rows prepared for the search.
pub struct Products<'a> {
    values: Cow<'a, [f32]>,
    width: usize,
    lengths: Vec<f64>,
    search: PairSearch,
}

impl<'a> Products<'a> {
    /// Ranges of rows must begin at a multiple of this.
    pub const ALIGNMENT: usize = PairSearch::ALIGNMENT;

    /// Bytes of the prepared rows, without the values themselves.
    pub fn bytes(rows: usize, width: usize) -> u64 {
        PairSearch::bytes(rows, width) + (rows * size_of::<f64>()) as u64
    }

    /// Bytes of a search for `rows` rows.
    pub fn search_bytes(rows: usize, keep: usize) -> u64 {
        PairSearch::search_bytes(rows, keep) + (rows * keep * size_of::<(u32, f64)>()) as u64
    }

    /// Prepares rows of `width` values.
    pub fn new(values: Cow<'a, [f32]>, width: usize) -> Products<'a> {
        let lengths = values.par_chunks_exact(width.max(1)).with_min_len(64).map(|row| dot(row, row).sqrt()).collect();
        let search = PairSearch::new(&values, width, &|_| 0.0);
        Products { values, width, lengths, search }
    }

    fn row(&self, row: usize) -> &[f32] {
        &self.values[row * self.width..][..self.width]
    }

    /// The `keep` largest products of the rows of `mine` with those of `theirs` and, unless both are the same, the reverse.
    /// The product of a row with itself does not count. `check` is called between blocks; its error ends the search.
    pub fn largest<E: Send>(
        &self,
        mine: Range<usize>,
        theirs: Range<usize>,
        keep: usize,
        check: &(dyn Fn() -> Result<(), E> + Sync),
    ) -> Result<(Vec<Largest>, Vec<Largest>), E> {
        let found = self.search.candidates(&self.values, mine.clone(), theirs.clone(), keep, check)?;
        let decide = |(index, found): (usize, &Option<RowCandidates>)| -> Result<Largest, E> {
            if index.is_multiple_of(ROWS) {
                check()?;
            }
            let (row, among) = match index < mine.len() {
                true => (mine.start + index, theirs.clone()),
                false => (theirs.start + index - mine.len(), mine.clone()),
            };
            let largest = found.as_ref().and_then(|found| self.decide(row, found, keep));
            Ok(largest.unwrap_or_else(|| self.decide_among_all(row, among, keep)))
        };
        let mut lists: Vec<Largest> =
            found.par_iter().enumerate().with_min_len(ROWS).map(decide).collect::<Result<_, E>>()?;
        let reverse = lists.split_off(mine.len());
        Ok((lists, reverse))
    }

    /// The largest products among candidates; `None` if rows that are no candidates might be larger.
    fn decide(&self, row: usize, found: &RowCandidates, keep: usize) -> Option<Largest> {
        let mut candidates = Candidates::new(keep);
        let mine = self.row(row);
        for others in found.rows.chunks(TOGETHER) {
            // A shorter last group repeats its first row.
            let of = |index: usize| self.row(*others.get(index).unwrap_or(&others[0]) as usize);
            let values = pair_dots::<TOGETHER>([mine; TOGETHER], std::array::from_fn(of), self.width);
            others.iter().zip(values).for_each(|(&other, value)| self.offer(&mut candidates, row, other, value));
        }
        let largest = self.finish(row, candidates);
        let is_certain = match largest.get(keep.wrapping_sub(1)) {
            Some(&(_, least)) => least >= f64::from(found.below),
            None => found.below == f32::MIN,
        };
        is_certain.then_some(largest)
    }

    /// The largest of all products of a row with a range of rows.
    fn decide_among_all(&self, row: usize, among: Range<usize>, keep: usize) -> Largest {
        let (mut candidates, mut values) = (Candidates::new(keep), Vec::new());
        for first in among.clone().step_by(CHUNK) {
            let others = first..(first + CHUNK).min(among.end);
            values.resize(others.len(), 0.0);
            let part = &self.values[others.start * self.width..others.end * self.width];
            thin::dots(part, self.row(row), self.width, &mut values);
            for (other, &value) in others.zip(&values).filter(|(other, _)| *other != row) {
                self.offer(&mut candidates, row, other as u32, value);
            }
            candidates.shorten();
        }
        self.finish(row, candidates)
    }

    /// Sums in `f64` decide.
    fn finish(&self, row: usize, candidates: Candidates) -> Largest {
        candidates.decide(|others| {
            let others: Vec<&[f32]> = others.iter().map(|&other| self.row(other as usize)).collect();
            ordered_dots(self.row(row), &others)
        })
    }

    #[inline]
    fn offer(&self, candidates: &mut Candidates, row: usize, other: u32, value: f32) {
        let error = match self.lengths[row] * self.lengths[other as usize] {
            // A zero row has no error.
            0.0 => 0.0,
            // Sixteen lanes, each one chain, which are added in a tree.
            size => relative_error(self.width / 16 + 8, self.width) * size + ABSOLUTE_ERROR,
        };
        candidates.offer(f64::from(value), error, other);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::random::{index, stream, unit};

    /// The definition: all sums, sorted.
    fn sorted(values: &[f32], width: usize, row: usize, keep: usize) -> Largest {
        let of = |row: usize| &values[row * width..][..width];
        let others = (0..values.len() / width).filter(|&other| other != row);
        let mut all: Largest = others.map(|other| (other as u32, dot(of(row), of(other)) + 0.0)).collect();
        all.sort_by(|a, b| b.1.total_cmp(&a.1).then(a.0.cmp(&b.0)));
        all.truncate(keep);
        all
    }

    fn check(values: &[f32], width: usize, keep: usize) {
        let products = Products::new(values.into(), width);
        let count = values.len() / width;
        let largest = |mine, theirs| products.largest::<()>(mine, theirs, keep, &|| Ok(())).unwrap();
        let (found, reverse) = largest(0..count, 0..count);
        assert!(found.len() == count && reverse.is_empty());
        for row in (0..count).step_by(count.div_ceil(50)).chain([count - 1]) {
            assert_eq!(found[row], sorted(values, width, row, keep), "row {row} of {count} × {width}");
        }
        // Three pairs of parts have the same largest products.
        let middle = Products::ALIGNMENT.min(count);
        let (both, reverse) = largest(0..middle, middle..count);
        let (own, others) = (largest(0..middle, 0..middle).0, largest(middle..count, middle..count).0);
        for (row, found) in found.iter().enumerate() {
            let mut parts = match row < middle {
                true => [own[row].clone(), both[row].clone()].concat(),
                false => [reverse[row - middle].clone(), others[row - middle].clone()].concat(),
            };
            parts.sort_by(|a, b| b.1.total_cmp(&a.1).then(a.0.cmp(&b.0)));
            parts.truncate(keep);
            assert_eq!(found, &parts, "row {row} of {count} × {width}");
        }
    }

    #[test]
    fn agrees_with_sorting_everything() {
        for (count, width, keep) in [(1, 3, 2), (5, 1, 9), (700, 33, 12), (1300, 100, 23), (1200, 20, 700)] {
            let mut random = stream(count as u64, "largest products", 0);
            let values: Vec<f32> = (0..count * width).map(|_| unit(&mut random) as f32 - 0.4).collect();
            // Repeated and zero rows, whose products are equal.
            let mut repeated = values.clone();
            for _ in 0..count / 2 {
                let (from, to) = (index(count, &mut random) * width, index(count, &mut random) * width);
                repeated.copy_within(from..from + width, to);
                repeated[index(count, &mut random) * width..][..width].fill(0.0);
            }
            // Rows of very different length, up to the largest and smallest numbers.
            let mut uneven = values.clone();
            for (row, values) in uneven.chunks_exact_mut(width).enumerate() {
                let scale = [1.0, 1.0, 300.0, 1e-3, 1e15, 1e-20, 1e25, 1e-30][row * row % 97 % 8];
                values.iter_mut().for_each(|value| *value *= scale);
            }
            // Nearly equal rows.
            let near = (0..count * width).map(|at| 1.0 + 1e-6 * values[at]).collect();
            for values in [values, repeated, uneven, near] {
                check(&values, width, keep);
            }
        }
    }

    #[test]
    fn guesses_that_are_too_high_are_noticed() {
        // All values but one are 3.6 quantisation steps, rounded to 4: estimates of products of similar rows are too large
        // by more than the guess allows. With every row also its opposite, so that the mean is 0.
        let width = 256;
        let mut random = stream(0, "largest products: guesses", 0);
        let mut values = Vec::new();
        for row in 0..400 {
            let mut cluster = stream(row / 40, "largest products: clusters", 0);
            for column in 0..width {
                let positive = (unit(&mut cluster) < 0.5) == (unit(&mut random) < 0.97);
                values.push(match column {
                    0 => 127.0,
                    _ if positive => 3.6,
                    _ => -3.6f32,
                });
            }
        }
        values.extend_from_within(..);
        values[400 * width..].iter_mut().for_each(|value| *value = -*value);
        let products = Products::new((&values[..]).into(), width);
        let found = products.search.candidates::<()>(&values, 0..800, 0..800, 12, &|| Ok(())).unwrap();
        let decided = |row: usize| found[row].as_ref().and_then(|found| products.decide(row, found, 12));
        assert!((0..800).any(|row| found[row].is_some() && decided(row).is_none()));
        check(&values, width, 12);
    }

    #[test]
    fn ties_go_to_the_lower_row() {
        // Products of row 1: 2, itself, 2, 6, 0.
        let values = vec![1.0, 2.0, 1.0, 3.0, 0.0];
        let (found, _) = Products::new(values.into(), 1).largest::<()>(0..5, 0..5, 3, &|| Ok(())).unwrap();
        assert_eq!(found[1], [(3, 6.0), (0, 2.0), (2, 2.0)]);
    }

    #[test]
    fn a_search_can_be_cancelled() {
        let products = Products::new(vec![1.0; 30].into(), 3);
        assert_eq!(products.largest(0..10, 0..10, 3, &|| Err("stop")), Err("stop"));
    }
}
