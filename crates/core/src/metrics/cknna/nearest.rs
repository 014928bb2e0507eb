//! The nearest rows of every row under a linear kernel, block by block: a matrix of rows × rows never exists.

use std::borrow::Cow;
use std::ops::Range;

use crate::codes::{Codes, Latent};
use crate::error::Result;
use crate::kernel::product::{dot, rows_by_rows};

/// Other rows with their kernel value, largest value first, ties to the lower row.
pub(super) type Neighbours = Vec<(u32, f64)>;

/// Values of a dense piece of rows: 4 MB.
const PIECE: usize = 1 << 20;

/// Further rows kept by their `f32` value, so that the exact value decides who is nearest.
const SPARE: usize = 16;

/// How much faster a dense multiplication is than one that looks up its operand.
const DENSE_GAIN: f64 = 16.0;

/// The nearest rows by the dot product of embeddings.
pub(super) fn of_embeddings(values: &[f32], width: usize, rows: Range<usize>, keep: usize) -> Vec<Neighbours> {
    let piece = |range: Range<usize>| Cow::Borrowed(&values[range.start * width..range.end * width]);
    let row = |row: usize| &values[row * width..][..width];
    by_product(rows, values.len() / width, width, keep, &piece, &|i, j| dot(row(i), row(j)))
}

/// The nearest rows by the dot product of codes.
pub(super) fn of_codes(codes: &Codes, dense: bool, rows: Range<usize>, keep: usize) -> Result<Vec<Neighbours>> {
    if !dense {
        return by_columns(codes, rows, keep);
    }
    let (all, latents) = (codes.all()?, codes.latents());
    let piece = |range: Range<usize>| {
        let mut values = vec![0.0; range.len() * latents];
        for (place, row) in range.enumerate() {
            let (indices, row) = all.row(row);
            indices.iter().zip(row).for_each(|(&latent, &value)| values[place * latents + latent as usize] = value);
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
    Ok(by_product(rows, codes.rows(), latents, keep, &piece, &exact))
}

/// Are the codes so full that a dense product is quicker than walking over their columns?
pub(super) fn is_dense(codes: &Codes) -> Result<bool> {
    let columns = codes.columns()?;
    let squares = (0..codes.latents()).map(|latent| (columns.latent(Latent(latent as u32)).0.len() as f64).powi(2));
    Ok(squares.sum::<f64>() * DENSE_GAIN > (codes.rows() as f64).powi(2) * codes.latents() as f64)
}

/// Adds up, for one row after the other, the products with every row that shares a latent.
fn by_columns(codes: &Codes, rows: Range<usize>, keep: usize) -> Result<Vec<Neighbours>> {
    let (all, columns) = (codes.all()?, codes.columns()?);
    let mut sums = vec![0.0; codes.rows()];
    let nearest = rows.map(|row| {
        sums.fill(0.0);
        let (latents, values) = all.row(row);
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
        shortlist.finish()
    });
    Ok(nearest.collect())
}

/// Dense products in `f32` draw up a list, exact values in `f64` decide.
fn by_product<'a>(
    rows: Range<usize>,
    all: usize,
    width: usize,
    keep: usize,
    piece: &dyn Fn(Range<usize>) -> Cow<'a, [f32]>,
    exact: &dyn Fn(usize, usize) -> f64,
) -> Vec<Neighbours> {
    let mut lists: Vec<Shortlist> = rows.clone().map(|_| Shortlist::new(keep + SPARE)).collect();
    let step = (PIECE / width.max(1)).clamp(16, 1024);
    let (block, mut products) = (piece(rows.clone()), Vec::new());
    for first in (0..all).step_by(step) {
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
    nearest.collect()
}

/// The best of what is offered in ascending order of rows.
struct Shortlist {
    keep: usize,
    list: Neighbours,
    bar: f64,
}

impl Shortlist {
    fn new(keep: usize) -> Shortlist {
        Shortlist { keep, list: Vec::with_capacity(2 * keep), bar: f64::NEG_INFINITY }
    }

    /// A later row must be better than the worst one kept, because ties go to the lower row.
    fn offer(&mut self, value: f64, row: usize) {
        if value > self.bar {
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
        if let Some(worst) = self.list.get(self.keep - 1) {
            self.bar = worst.1;
        }
    }

    fn finish(mut self) -> Neighbours {
        self.shorten();
        self.list
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kernel::random::{stream, unit};

    #[test]
    fn all_three_ways_find_the_same_rows() {
        // 300 rows of 9 latents, two thirds zero, some negative; row 250 repeats row 3, so that there are ties.
        let mut random = stream(1, "nearest", 0);
        let mut values: Vec<f32> = (0..300 * 9)
            .map(|_| if unit(&mut random) < 0.67 { 0.0 } else { (unit(&mut random) * 8.0) as f32 - 1.0 })
            .collect();
        values.copy_within(27..36, 2250);
        let codes = Codes::from_dense(&values, 9).unwrap();
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
            assert_eq!(of_codes(&codes, false, block.clone(), 12).unwrap(), expected);
            assert_eq!(of_codes(&codes, true, block.clone(), 12).unwrap(), expected);
            assert_eq!(of_embeddings(&values, 9, block, 12), expected);
        }
    }

    #[test]
    fn rows_without_anything_in_common_go_by_index() {
        let codes = Codes::from_dense(&[1.0, 0.0, 0.0, 0.0, 2.0, 0.0, 0.0, 3.0, -1.0, 0.0], 2).unwrap();
        let nearest = of_codes(&codes, false, 0..1, 3).unwrap();
        assert_eq!(nearest[0], [(2, 2.0), (1, 0.0), (3, 0.0)]);
    }
}
