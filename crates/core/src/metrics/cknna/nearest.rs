//! The nearest rows of every row under a linear kernel, block by block, without a matrix of rows × rows.

use std::borrow::Cow;
use std::cmp::Ordering;
use std::ops::Range;

use etalon_kernel::largest_products::{Candidates, Largest};
use etalon_kernel::product::{ABSOLUTE_ERROR, dot, relative_error, rows_by_rows};
use etalon_kernel::top_k::{CHUNK, chunks_above};

use crate::codes::{Codes, Latent};
use crate::error::Result;

/// Other rows with their kernel value, largest value first, ties to the lower row.
pub(super) type Neighbours = Largest;

/// Returns an error if the run is cancelled.
pub(super) type Check<'a> = &'a dyn Fn() -> Result<()>;

/// Values per dense panel of rows: 4 MB.
const PANEL: usize = 1 << 20;

/// Maximum rows of a dense panel.
const PANEL_ROWS: usize = 1024;

/// Speed of a dense multiplication relative to an indexed one.
const DENSE_GAIN: f64 = 16.0;

/// Values that are compared with a floor at once.
const AT_ONCE: usize = 64;

/// Sums that are compared with a floor before it rises.
const SEGMENT: usize = 64 * CHUNK;

/// Scratch memory of the search for the neighbours of some rows of codes, in bytes.
pub(super) fn scratch_bytes(codes: &Codes, dense: bool, rows: usize, keep: usize) -> u64 {
    let latents = codes.latents();
    let codes = if dense { 4 * latents * (rows + panel_rows(latents)) } else { 8 * codes.rows() };
    let (products, lists) = (4 * rows * PANEL_ROWS, rows * (Candidates::bytes(keep) + size_of::<(u32, f64)>() * keep));
    (codes + products + lists) as u64
}

/// The nearest rows by the dot product of codes.
pub(super) fn of_codes(
    codes: &Codes,
    dense: bool,
    rows: Range<usize>,
    keep: usize,
    check: Check<'_>,
) -> Result<Vec<Neighbours>> {
    if !dense {
        return by_columns(codes, rows, keep, check);
    }
    let (all, latents) = (codes.all()?, codes.latents());
    let panel = |range: Range<usize>| {
        let mut values = vec![0.0; range.len() * latents];
        for (row, values) in range.zip(values.chunks_exact_mut(latents)) {
            let (indices, row) = all.row(row);
            indices.iter().zip(row).for_each(|(&latent, &value)| values[latent as usize] = value);
        }
        Cow::Owned(values)
    };
    let exact = |i: usize, j: usize| {
        let ((left, a), (right, b)) = (all.row(i), all.row(j));
        let (mut m, mut n, mut sum) = (0, 0, 0.0);
        while m < left.len() && n < right.len() {
            if left[m] == right[n] {
                sum += f64::from(a[m]) * f64::from(b[n]);
            }
            let (here, there) = (left[m], right[n]);
            m += usize::from(here <= there);
            n += usize::from(there <= here);
        }
        sum
    };
    let exact = |i: usize, others: &[u32]| others.iter().map(|&other| exact(i, other as usize)).collect();
    by_product(rows, Shape { all: codes.rows(), width: latents, keep }, &panel, &exact, check)
}

/// Whether the codes are so dense that a dense product is faster than a scan of their columns.
pub(super) fn is_dense(codes: &Codes) -> Result<bool> {
    let columns = codes.columns()?;
    let squares = (0..codes.latents()).map(|latent| (columns.latent(Latent(latent as u32)).0.len() as f64).powi(2));
    Ok(squares.sum::<f64>() * DENSE_GAIN > (codes.rows() as f64).powi(2) * codes.latents() as f64)
}

/// Sums, row by row, the products with every row that shares a latent.
fn by_columns(codes: &Codes, rows: Range<usize>, keep: usize, check: Check<'_>) -> Result<Vec<Neighbours>> {
    let (view, columns) = (codes.view(rows)?, codes.columns()?);
    let (mut sums, mut chunks) = (vec![0.0; codes.rows()], Vec::new());
    let nearest = view.iter().map(|(row, latents, values)| {
        check()?;
        for (&latent, &value) in latents.iter().zip(values) {
            let (others, weights) = columns.latent(Latent(latent));
            for (&other, &weight) in others.iter().zip(weights) {
                sums[other as usize] += f64::from(value) * f64::from(weight);
            }
        }
        let mut shortlist = Shortlist::new(keep);
        for (first, sums) in (0..).step_by(SEGMENT).zip(sums.chunks_mut(SEGMENT)) {
            chunks_above(sums, shortlist.worst, &mut chunks);
            for start in chunks.iter().map(|&chunk| chunk as usize * CHUNK) {
                for (other, &sum) in (first + start..).zip(sums[start..].iter().take(CHUNK)) {
                    // A later row must be larger than the smallest one kept, because ties go to the lower row.
                    if sum > shortlist.worst && other != row {
                        shortlist.push(sum, other);
                    }
                }
            }
            sums.fill(0.0);
        }
        Ok(shortlist.finish())
    });
    nearest.collect()
}

/// Number of rows, width of a row, and number of neighbours to keep.
struct Shape {
    all: usize,
    width: usize,
    keep: usize,
}

/// Rows per dense panel.
fn panel_rows(width: usize) -> usize {
    (PANEL / width.max(1)).clamp(16, PANEL_ROWS)
}

/// Dense products in `f32` with a bound of their error select candidates; exact values in `f64` decide.
fn by_product<'a>(
    rows: Range<usize>,
    Shape { all, width, keep }: Shape,
    panel: &dyn Fn(Range<usize>) -> Cow<'a, [f32]>,
    exact: &dyn Fn(usize, &[u32]) -> Vec<f64>,
    check: Check<'_>,
) -> Result<Vec<Neighbours>> {
    let mut lists: Vec<Candidates> = rows.clone().map(|_| Candidates::new(keep)).collect();
    let (step, relative) = (panel_rows(width), relative_error(width + 1, width));
    let (block, mut products) = (panel(rows.clone()), Vec::new());
    let lengths = |panel: &[f32]| -> Vec<f64> { panel.chunks_exact(width).map(|row| dot(row, row).sqrt()).collect() };
    let own = lengths(&block);
    for first in (0..all).step_by(step) {
        check()?;
        let others = first..(first + step).min(all);
        products.resize(rows.len() * others.len(), 0.0);
        let panel = panel(others.clone());
        rows_by_rows(&block, &panel, width, &mut products);
        let lengths = lengths(&panel);
        let longest = lengths.iter().fold(0.0, |longest, &length| if length <= longest { longest } else { length });
        for (((row, list), products), own) in
            rows.clone().zip(&mut lists).zip(products.chunks_exact(others.len())).zip(&own)
        {
            let error = |length: f64| match own * length {
                0.0 => 0.0,
                size => relative * size + ABSOLUTE_ERROR,
            };
            for (start, products) in (0..).step_by(AT_ONCE).zip(products.chunks(AT_ONCE)) {
                // Rounded down. Without branches, because a product is rarely large enough; NaN is offered.
                let floor = ((list.floor() - error(longest)) as f32).next_down();
                if products.iter().fold(true, |none, value| none & (*value <= floor)) {
                    continue;
                }
                for (index, &value) in (start..).zip(products).filter(|&(index, _)| first + index != row) {
                    list.offer(f64::from(value), error(lengths[index]), (first + index) as u32);
                }
            }
            list.shorten();
        }
    }
    Ok(rows.zip(lists).map(|(row, list)| list.decide(|others| exact(row, others))).collect())
}

/// Larger value first; among equal values the lower row first.
fn by_value(a: &(u32, f64), b: &(u32, f64)) -> Ordering {
    b.1.total_cmp(&a.1).then(a.0.cmp(&b.0))
}

/// The rows with the largest values, offered in ascending order of rows.
struct Shortlist {
    keep: usize,
    list: Neighbours,
    /// The smallest value of a full list; negative infinity before.
    worst: f64,
}

impl Shortlist {
    fn new(keep: usize) -> Shortlist {
        Shortlist { keep, list: Vec::with_capacity(4 * keep), worst: f64::NEG_INFINITY }
    }

    fn push(&mut self, value: f64, row: usize) {
        // Adding 0 turns −0 into 0, which `total_cmp` would order differently.
        self.list.push((row as u32, value + 0.0));
        if self.list.len() >= 4 * self.keep {
            let (_, worst, _) = self.list.select_nth_unstable_by(self.keep - 1, by_value);
            self.worst = worst.1;
            self.list.truncate(self.keep);
        }
    }

    fn finish(mut self) -> Neighbours {
        self.list.sort_unstable_by(by_value);
        self.list.truncate(self.keep);
        self.list.shrink_to_fit();
        self.list
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use etalon_kernel::random::{stream, unit};

    #[test]
    fn all_methods_find_the_same_rows() {
        // 300 rows of 9 latents, two thirds zero, some negative; row 250 repeats row 3, so that there are ties.
        let mut random = stream(1, "nearest", 0);
        let mut values: Vec<f32> = (0..300 * 9)
            .map(|_| if unit(&mut random) < 0.67 { 0.0 } else { (unit(&mut random) * 8.0) as f32 - 1.0 })
            .collect();
        values.copy_within(27..36, 2250);
        let (codes, check) = (Codes::from_dense(&values, 9).unwrap(), || Ok(()));
        for block in [0..64, 200..300] {
            let expected: Vec<Neighbours> = block
                .clone()
                .map(|i| {
                    let row = |row: usize| &values[row * 9..][..9];
                    let mut all: Neighbours =
                        (0..300).filter(|&j| j != i).map(|j| (j as u32, dot(row(i), row(j)) + 0.0)).collect();
                    all.sort_by(|a, b| b.1.total_cmp(&a.1).then(a.0.cmp(&b.0)));
                    all.truncate(12);
                    all
                })
                .collect();
            assert_eq!(of_codes(&codes, false, block.clone(), 12, &check).unwrap(), expected);
            assert_eq!(of_codes(&codes, true, block.clone(), 12, &check).unwrap(), expected);
        }
    }

    #[test]
    fn ties_at_zero_go_to_the_lower_row() {
        let codes = Codes::from_dense(&[1.0, 0.0, 0.0, 0.0, 2.0, 0.0, 0.0, 3.0, -1.0, 0.0], 2).unwrap();
        let nearest = of_codes(&codes, false, 0..1, 3, &|| Ok(())).unwrap();
        assert_eq!(nearest[0], [(2, 2.0), (1, 0.0), (3, 0.0)]);
    }
}
