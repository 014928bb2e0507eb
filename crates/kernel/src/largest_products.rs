//! The largest products of every row with the other rows, exact: int8 products ([`int8`](super::int8)) with error bounds
//! propose pairs, `f32` products with error bounds select candidates, and sums in `f64` decide. A pair is dropped only if a
//! bound proves that it is not among the largest, so the result is the same as sorting all sums.

use std::borrow::Cow;
use std::ops::Range;

use rayon::prelude::*;

use super::int8::{Arithmetic, Columns, QuantisedRows};
use super::packed::{PANEL, Panels};
use super::pairs::{ordered_dots, pair_dots};
use super::product::dot;
use super::thin;

/// Rows quantised together, and compared before the floors rise.
const CHUNK: usize = 512;

/// Floors rise after every chunk up to this one, and after as many chunks from then on.
const EVERY: usize = 8;

/// Other rows with their product, largest first, ties to the lower row.
pub type Largest = Vec<(u32, f64)>;

/// Candidates for the largest products of a row: values with a bound of their error, offered in ascending order of rows.
#[derive(Clone, Debug)]
pub struct Candidates {
    keep: usize,
    /// Other row, smallest and largest possible value.
    list: Vec<(u32, f64, f64)>,
    /// As many candidates as are kept are at least this large.
    floor: f64,
}

impl Candidates {
    /// Bytes of the candidates of a row, unless many values are equal within their error.
    pub fn bytes(keep: usize) -> usize {
        (2 * keep + 16) * size_of::<(u32, f64, f64)>()
    }

    /// No candidates yet; at least one is kept.
    pub fn new(keep: usize) -> Candidates {
        let keep = keep.max(1);
        Candidates { keep, list: Vec::with_capacity(2 * keep + 16), floor: f64::NEG_INFINITY }
    }

    /// A larger row must be larger than this to be among the largest.
    pub fn floor(&self) -> f64 {
        self.floor
    }

    /// Offers a row whose product differs from `value` by at most `error`. Anything is possible for a value that is not
    /// finite.
    pub fn offer(&mut self, value: f64, error: f64, row: u32) {
        let possible = value - error..value + error;
        let known = possible.start.is_finite() && possible.end.is_finite();
        let (least, most) = if known { (possible.start, possible.end) } else { (f64::NEG_INFINITY, f64::INFINITY) };
        // A tie goes to the lower row.
        if most > self.floor || self.list.len() < self.keep {
            self.list.push((row, least, most));
            if self.list.len() >= self.list.capacity() {
                self.shorten();
                // Many values that are equal within their error.
                if self.list.len() > self.list.capacity() / 2 {
                    self.list.reserve(self.list.len());
                }
            }
        }
    }

    /// Raises the floor and drops what is below it.
    pub fn shorten(&mut self) {
        if self.list.len() < self.keep {
            return;
        }
        let mut least: Vec<f64> = self.list.iter().map(|candidate| candidate.1).collect();
        let (_, floor, _) = least.select_nth_unstable_by(self.keep - 1, |a, b| b.total_cmp(a));
        self.floor = self.floor.max(*floor);
        // Equal values stay: the later rows that raised the floor lose a tie.
        self.list.retain(|candidate| candidate.2 >= self.floor);
    }

    /// The largest products, given exact values of some rows in ascending order.
    pub fn decide(mut self, exact: impl FnOnce(&[u32]) -> Vec<f64>) -> Largest {
        self.shorten();
        let rows: Vec<u32> = self.list.iter().map(|candidate| candidate.0).collect();
        // Adding 0 turns −0 into 0, which `total_cmp` would order differently.
        let mut largest: Largest =
            rows.iter().copied().zip(exact(&rows)).map(|(row, value)| (row, value + 0.0)).collect();
        largest.sort_unstable_by(|a, b| b.1.total_cmp(&a.1).then(a.0.cmp(&b.0)));
        largest.truncate(self.keep);
        largest.shrink_to_fit();
        largest
    }
}

/// Bound of the relative rounding error of a product, as a share of the product of both lengths, if at most `roundings`
/// roundings follow each other. It covers the error of the sum in `f64` too.
pub fn relative_error(roundings: usize, width: usize) -> f64 {
    1.01 * (roundings as f64 * f64::from(f32::EPSILON) / 2.0 + width as f64 * f64::EPSILON)
}

/// Bound of the part of the error that is due to numbers below the smallest normal one.
pub const ABSOLUTE_ERROR: f64 = 1e-38;

/// Rows prepared for the search.
pub struct Products<'a> {
    values: Cow<'a, [f32]>,
    width: usize,
    lengths: Vec<f64>,
    chunks: Vec<Columns>,
}

impl<'a> Products<'a> {
    /// Whether this processor multiplies 8-bit integers faster than other numbers.
    pub fn is_faster() -> bool {
        Arithmetic::fastest() != Arithmetic::Scalar
    }

    /// Bytes of the prepared rows, without the values themselves.
    pub fn bytes(rows: usize, width: usize) -> u64 {
        // One byte per value, lines and panels rounded up, bounds, and the packed values of a chunk on each thread.
        let chunk = CHUNK * width * size_of::<f32>() * rayon::current_num_threads();
        (rows.next_multiple_of(PANEL) * (width.next_multiple_of(64) + 24) + chunk) as u64
    }

    /// Bytes of a search for `rows` rows.
    pub fn search_bytes(rows: usize, width: usize, keep: usize) -> u64 {
        let first = PANEL * CHUNK * size_of::<f32>();
        (first + rows * (width + 128 + Candidates::bytes(keep))) as u64
    }

    /// Quantises rows of `width` values.
    pub fn new(values: Cow<'a, [f32]>, width: usize) -> Products<'a> {
        let lengths = values.par_chunks_exact(width.max(1)).with_min_len(64).map(|row| dot(row, row).sqrt()).collect();
        let chunks = values
            .par_chunks(CHUNK * width.max(1))
            .map(|rows| Columns::new(Panels::pack(rows, width).values(), width))
            .collect();
        Products { values, width, lengths, chunks }
    }

    fn rows(&self, rows: Range<usize>) -> &[f32] {
        &self.values[rows.start * self.width..rows.end * self.width]
    }

    fn row(&self, row: usize) -> &[f32] {
        self.rows(row..row + 1)
    }

    /// The `keep` largest products of each of some rows with all other rows. `check` is called between chunks; its error
    /// ends the search.
    pub fn largest<E>(
        &self,
        rows: Range<usize>,
        keep: usize,
        check: &dyn Fn() -> Result<(), E>,
    ) -> Result<Vec<Largest>, E> {
        let mut search = RowSearch::new(self, rows.clone(), keep);
        for chunk in 0..self.chunks.len() {
            check()?;
            search.compare(chunk);
        }
        let decide = |(row, candidates): (usize, Candidates)| {
            candidates.decide(|others| {
                let others: Vec<&[f32]> = others.iter().map(|&other| self.row(other as usize)).collect();
                ordered_dots(self.row(row), &others)
            })
        };
        Ok(rows.zip(search.candidates).map(decide).collect())
    }
}

/// The search for some rows.
struct RowSearch<'s> {
    products: &'s Products<'s>,
    rows: Range<usize>,
    candidates: Vec<Candidates>,
    quantised: QuantisedRows,
    /// Rows whose products cannot be bounded: all are computed.
    left: Vec<usize>,
    error: f64,
    longest: f32,
    masks: Vec<u32>,
    pairs: Vec<(u32, u32)>,
}

impl<'s> RowSearch<'s> {
    fn new(products: &'s Products<'s>, rows: Range<usize>, keep: usize) -> RowSearch<'s> {
        RowSearch {
            products,
            candidates: rows.clone().map(|_| Candidates::new(keep)).collect(),
            masks: vec![0; rows.len()],
            quantised: QuantisedRows::default(),
            left: Vec::new(),
            // Sixteen lanes, each one chain, which are added in a tree.
            error: relative_error(products.width / 16 + 8, products.width),
            longest: products.chunks.iter().map(Columns::longest).fold(0.0, f32::max),
            pairs: Vec::new(),
            rows,
        }
    }

    /// Compares the rows with a chunk of others.
    fn compare(&mut self, chunk: usize) {
        let (width, columns) = (self.products.width, &self.products.chunks[chunk]);
        let others = chunk * CHUNK..((chunk + 1) * CHUNK).min(self.products.lengths.len());
        if chunk <= EVERY || chunk.is_multiple_of(EVERY) {
            self.raise_floors();
        }
        if chunk == 0 || !columns.usable() {
            for first in (0..self.rows.len()).step_by(PANEL) {
                self.offer_all(first..(first + PANEL).min(self.rows.len()), others.clone());
            }
            return;
        }
        for index in 0..self.left.len() {
            let row = self.left[index];
            self.offer_all(row..row + 1, others.clone());
        }
        for panel in 0..columns.panels() {
            let first = others.start + panel * PANEL;
            let missing = (first + PANEL).saturating_sub(others.end);
            let mut offsets = [0.0; PANEL];
            offsets[PANEL - missing..].fill(f32::NEG_INFINITY);
            columns.propose(&self.quantised, panel, &offsets, &mut self.masks);
            self.pairs.clear();
            for (row, mut mask) in self.masks.iter().copied().enumerate() {
                while mask != 0 {
                    self.pairs.push((row as u32, first as u32 + mask.trailing_zeros()));
                    mask &= mask - 1;
                }
            }
            let start = self.rows.start;
            for pairs in self.pairs.chunks(4) {
                // A shorter last group repeats its first pair.
                let of = |index: usize| *pairs.get(index).unwrap_or(&pairs[0]);
                let rows = std::array::from_fn(|index| self.products.row(start + of(index).0 as usize));
                let others = std::array::from_fn(|index| self.products.row(of(index).1 as usize));
                let values = pair_dots::<4>(rows, others, width);
                for (&(row, other), value) in pairs.iter().zip(values) {
                    self.products.offer(
                        &mut self.candidates[row as usize],
                        start + row as usize,
                        other as usize,
                        value,
                        self.error,
                    );
                }
            }
        }
    }

    /// Quantises the rows with their present floors.
    fn raise_floors(&mut self) {
        self.candidates.iter_mut().for_each(Candidates::shorten);
        // Rounded down.
        let floors: Vec<f32> = self.candidates.iter().map(|row| (row.floor() as f32).next_down()).collect();
        let width = self.products.width;
        let values = self.products.rows(self.rows.clone());
        self.left = self.quantised.fill(values, width, width, &floors, self.longest, Arithmetic::fastest());
    }

    /// Computes all products of some rows with some others.
    fn offer_all(&mut self, rows: Range<usize>, others: Range<usize>) {
        let (products, start) = (self.products, self.rows.start);
        let mine = start + rows.start..start + rows.end;
        let mut values = vec![0.0; mine.len() * others.len()];
        thin::dots(products.rows(others.clone()), products.rows(mine.clone()), products.width, &mut values);
        let lists = self.candidates[rows].iter_mut().zip(values.chunks_exact(others.len().max(1)));
        for (row, (candidates, values)) in mine.zip(lists) {
            for (other, &value) in others.clone().zip(values) {
                products.offer(candidates, row, other, value, self.error);
            }
        }
    }
}

impl Products<'_> {
    #[inline]
    fn offer(&self, candidates: &mut Candidates, row: usize, other: usize, value: f32, error: f64) {
        if row != other {
            let error = error * self.lengths[row] * self.lengths[other] + ABSOLUTE_ERROR;
            // A zero row has no error.
            let error = if self.lengths[row] == 0.0 || self.lengths[other] == 0.0 { 0.0 } else { error };
            candidates.offer(f64::from(value), error, other as u32);
        }
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

    fn check(values: Vec<f32>, width: usize, keep: usize) {
        let products = Products::new((&values[..]).into(), width);
        let count = values.len() / width;
        for rows in [0..count.min(40), count / 2..(count / 2 + 30).min(count), count - 1..count] {
            let found = products.largest::<()>(rows.clone(), keep, &|| Ok(())).unwrap();
            assert_eq!(found.len(), rows.len());
            for (row, found) in rows.zip(found) {
                assert_eq!(found, sorted(&values, width, row, keep), "row {row} of {count} × {width}");
            }
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
                check(values, width, keep);
            }
        }
    }

    #[test]
    fn ties_go_to_the_lower_row() {
        // Products of row 1: 2, itself, 2, 6, 0.
        let values = vec![1.0, 2.0, 1.0, 3.0, 0.0];
        let found = Products::new(values.into(), 1).largest::<()>(1..2, 3, &|| Ok(())).unwrap();
        assert_eq!(found, [[(3, 6.0), (0, 2.0), (2, 2.0)]]);
    }

    #[test]
    fn a_search_can_be_cancelled() {
        let products = Products::new(vec![1.0; 30].into(), 3);
        assert_eq!(products.largest(0..2, 3, &|| Err("stop")), Err("stop"));
    }

    #[test]
    fn candidates_keep_what_may_be_large_enough() {
        // 5 ± 1 and 7 ± 1 are the two largest so far: 3 ± 0.5 is below the floor of 4, 4 ± 0 is at best a tie, which the
        // lower row wins, 4.4 ± 1 stays.
        let mut candidates = Candidates::new(2);
        candidates.offer(5.0, 1.0, 0);
        candidates.offer(7.0, 1.0, 1);
        candidates.shorten();
        assert_eq!(candidates.floor(), 4.0);
        candidates.offer(4.0, 0.0, 2);
        candidates.offer(3.0, 0.5, 3);
        candidates.offer(4.4, 1.0, 4);
        candidates.offer(f64::NAN, 1.0, 5);
        let mut offered = Vec::new();
        let largest = candidates.decide(|rows| {
            offered = rows.to_vec();
            vec![4.5, 6.5, 5.0, 1.0]
        });
        assert_eq!(offered, [0, 1, 4, 5]);
        assert_eq!(largest, [(1, 6.5), (4, 5.0)]);
    }
}
