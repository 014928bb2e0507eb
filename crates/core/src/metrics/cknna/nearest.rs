//! The nearest rows of every row under a linear kernel, block by block: a matrix of rows × rows never exists.

use std::borrow::Cow;
use std::ops::Range;

use etalon_kernel::product::{dot, rows_by_rows};

use crate::codes::{Codes, Latent};
use crate::error::Result;

/// Other rows with their kernel value, largest value first, ties to the lower row.
pub(super) type Neighbours = Vec<(u32, f64)>;

/// An error if the work should stop.
pub(super) type Check<'a> = &'a dyn Fn() -> Result<()>;

/// Values of a dense piece of rows: 4 MB.
const PIECE: usize = 1 << 20;

/// The most rows of a dense piece.
const PIECE_ROWS: usize = 1024;

/// Further rows kept by their `f32` value, so that the exact value decides who is nearest.
const SPARE: usize = 16;

/// How much faster a dense multiplication is than one that looks up its operand.
const DENSE_GAIN: f64 = 16.0;

/// Bytes that the search for the neighbours of some rows needs beside its results.
pub(super) fn scratch_bytes(codes: &Codes, dense: bool, rows: usize, keep: usize) -> u64 {
    let latents = codes.latents();
    let codes = if dense { 4 * latents * (rows + piece_rows(latents)) } else { 8 * codes.rows() };
    let (products, lists) = (4 * rows * PIECE_ROWS, rows * 2 * (keep + SPARE) * size_of::<(u32, f64)>());
    (codes + products + lists) as u64
}

/// The nearest rows by the dot product of embeddings.
pub(super) fn of_embeddings(
    values: &[f32],
    width: usize,
    rows: Range<usize>,
    keep: usize,
    check: Check<'_>,
) -> Result<Vec<Neighbours>> {
    let piece = |range: Range<usize>| Cow::Borrowed(&values[range.start * width..range.end * width]);
    let row = |row: usize| &values[row * width..][..width];
    let shape = Shape { all: values.len() / width, width, keep };
    by_product(rows, shape, &piece, &|i, j| dot(row(i), row(j)), check)
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
    let piece = |range: Range<usize>| {
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
    by_product(rows, Shape { all: codes.rows(), width: latents, keep }, &piece, &exact, check)
}

/// Are the codes so full that a dense product is quicker than walking over their columns?
pub(super) fn is_dense(codes: &Codes) -> Result<bool> {
    let columns = codes.columns()?;
    let squares = (0..codes.latents()).map(|latent| (columns.latent(Latent(latent as u32)).0.len() as f64).powi(2));
    Ok(squares.sum::<f64>() * DENSE_GAIN > (codes.rows() as f64).powi(2) * codes.latents() as f64)
}

/// Adds up, for one row after the other, the products with every row that shares a latent.
fn by_columns(codes: &Codes, rows: Range<usize>, keep: usize, check: Check<'_>) -> Result<Vec<Neighbours>> {
    let (view, columns) = (codes.view(rows)?, codes.columns()?);
    let mut sums = vec![0.0; codes.rows()];
    let nearest = view.iter().map(|(row, latents, values)| {
        check()?;
        sums.fill(0.0);
        for (&latent, &value) in latents.iter().zip(values) {
            let (others, weights) = columns.latent(Latent(latent));
            for (&other, &weight) in others.iter().zip(weights) {
                sums[other as usize] += f64::from(value) * f64::from(weight);
            }
        }
        let mut shortlist = Shortlist::new(keep);
        sums.iter()
            .enumerate()
            .filter(|&(other, _)| other != row)
            .for_each(|(other, &sum)| shortlist.offer(sum, other));
        Ok(shortlist.finish())
    });
    nearest.collect()
}

/// How many rows there are, how wide they are, and how many neighbours are kept.
struct Shape {
    all: usize,
    width: usize,
    keep: usize,
}

/// Rows of a dense piece.
fn piece_rows(width: usize) -> usize {
    (PIECE / width.max(1)).clamp(16, PIECE_ROWS)
}

/// Dense products in `f32` draw up a list, exact values in `f64` decide.
fn by_product<'a>(
    rows: Range<usize>,
    Shape { all, width, keep }: Shape,
    piece: &dyn Fn(Range<usize>) -> Cow<'a, [f32]>,
    exact: &dyn Fn(usize, usize) -> f64,
    check: Check<'_>,
) -> Result<Vec<Neighbours>> {
    let mut lists: Vec<Shortlist> = rows.clone().map(|_| Shortlist::new(keep + SPARE)).collect();
    let step = piece_rows(width);
    let (block, mut products) = (piece(rows.clone()), Vec::new());
    for first in (0..all).step_by(step) {
        check()?;
        let others = first..(first + step).min(all);
        products.resize(rows.len() * others.len(), 0.0);
        rows_by_rows(&block, &piece(others.clone()), width, &mut products);
        for ((row, list), products) in rows.clone().zip(&mut lists).zip(products.chunks_exact(others.len())) {
            let candidates = others.clone().zip(products).filter(|&(other, _)| other != row);
            candidates.for_each(|(other, &value)| list.offer(f64::from(value), other));
        }
    }
    let nearest = rows.zip(lists).map(|(row, list)| {
        let mut shortlist = Shortlist::new(keep);
        let mut candidates: Vec<u32> = list.finish().into_iter().map(|(other, _)| other).collect();
        candidates.sort_unstable();
        candidates.into_iter().for_each(|other| shortlist.offer(exact(row, other as usize), other as usize));
        shortlist.finish()
    });
    Ok(nearest.collect())
}

/// The best of what is offered in ascending order of rows.
struct Shortlist {
    keep: usize,
    list: Neighbours,
    /// The worst value that was kept, once there were enough.
    worst: Option<f64>,
}

impl Shortlist {
    fn new(keep: usize) -> Shortlist {
        Shortlist { keep, list: Vec::with_capacity(2 * keep), worst: None }
    }

    /// A later row must be better than the worst one kept, because ties go to the lower row.
    fn offer(&mut self, value: f64, row: usize) {
        if self.worst.is_none_or(|worst| value > worst) {
            // Adding 0 turns −0 into 0, which a total order would tell apart.
            self.list.push((row as u32, value + 0.0));
            if self.list.len() >= 2 * self.keep {
                self.shorten();
            }
        }
    }

    fn shorten(&mut self) {
        self.list.sort_unstable_by(|a, b| b.1.total_cmp(&a.1).then(a.0.cmp(&b.0)));
        self.list.truncate(self.keep);
        self.worst = self.list.get(self.keep - 1).map(|worst| worst.1);
    }

    fn finish(mut self) -> Neighbours {
        self.shorten();
        self.list.shrink_to_fit();
        self.list
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use etalon_kernel::random::{stream, unit};

    #[test]
    fn all_three_ways_find_the_same_rows() {
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
            assert_eq!(of_embeddings(&values, 9, block, 12, &check).unwrap(), expected);
        }
    }

    #[test]
    fn rows_without_anything_in_common_go_by_index() {
        let codes = Codes::from_dense(&[1.0, 0.0, 0.0, 0.0, 2.0, 0.0, 0.0, 3.0, -1.0, 0.0], 2).unwrap();
        let nearest = of_codes(&codes, false, 0..1, 3, &|| Ok(())).unwrap();
        assert_eq!(nearest[0], [(2, 2.0), (1, 0.0), (3, 0.0)]);
    }
}
