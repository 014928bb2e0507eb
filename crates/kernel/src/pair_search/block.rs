//! A block of rows as either factor of products with other blocks, and what bounds the errors of these products.

use pulp::{Arch, Simd, WithSimd};
use rayon::prelude::*;

use crate::int8::{MAGIC, PER_LANE, QuantisedBlock, RANGE, SQUARE};
use crate::product::dot;

/// SIMD lanes in which a row is processed.
const LANES: usize = 16;

/// Relative margin for the rounding of an estimate: a handful of operations in `f32`.
const SLACK: f64 = 1e-6;

/// Relative margin for the rounding of an offset and of its sum with others.
const OFFSET_SLACK: f64 = 4e-7;

/// What bounds the errors of the estimates of a block of rows. Missing rows have an offset of negative infinity.
pub(super) struct Bounds {
    /// Quantisation steps; 1 for `f32`.
    pub units: Vec<f32>,
    /// Upper bounds of the lengths.
    pub lengths: Vec<f32>,
    /// Upper bounds of the lengths of what is lost by rounding.
    pub lost: Vec<f32>,
    /// Added to products, rounded up; negative infinity for rows whose products cannot be bounded.
    pub offsets: Vec<f32>,
}

/// A block of rows.
pub(super) struct Block {
    /// Number of rows.
    pub count: usize,
    /// The quantised rows; `None` if products are computed in `f32`.
    pub quantised: Option<QuantisedBlock>,
    pub bounds: Bounds,
}

/// A point that is subtracted from all rows before they are quantised: the product of two rows is that of the differences,
/// plus an offset of each row.
pub(super) struct Centre {
    pub point: Vec<f32>,
    /// Half of its squared length.
    pub half: f64,
}

impl Centre {
    /// The origin.
    pub fn origin(width: usize) -> Centre {
        Centre { point: vec![0.0; width], half: 0.0 }
    }

    /// The mean of all rows, each weighted by one over its squared length, so that a few long rows do not move it; the origin
    /// if it is not finite.
    pub fn mean(rows: &[f32], width: usize) -> Centre {
        let sums = |rows: &[f32]| {
            let (mut sums, mut total) = (vec![0.0; width], 0.0);
            for row in rows.chunks_exact(width) {
                let weight = 1.0 / dot(row, row);
                if weight.is_finite() {
                    sums.iter_mut().zip(row).for_each(|(sum, &value)| *sum += weight * f64::from(value));
                    total += weight;
                }
            }
            (sums, total)
        };
        let parts: Vec<(Vec<f64>, f64)> = rows.par_chunks(SQUARE * width).map(sums).collect();
        let total: f64 = parts.iter().map(|part| part.1).sum();
        let mean = |column: usize| (parts.iter().map(|part| part.0[column]).sum::<f64>() / total) as f32;
        let point: Vec<f32> = (0..width).map(mean).collect();
        let half = dot(&point, &point) / 2.0;
        if half.is_finite() { Centre { point, half } } else { Centre::origin(width) }
    }
}

impl Block {
    /// Prepares up to [`SQUARE`] rows. `offset` has what is added to the products of a row of the block. `relative` bounds
    /// the error of products in `f32`.
    pub fn new(
        rows: &[f32],
        centre: &Centre,
        quantised: Option<QuantisedBlock>,
        relative: f64,
        offset: &dyn Fn(usize) -> f64,
    ) -> Block {
        let width = centre.point.len();
        let empty = || vec![0.0; SQUARE];
        let bounds =
            Bounds { units: empty(), lengths: empty(), lost: empty(), offsets: vec![f32::NEG_INFINITY; SQUARE] };
        let mut block = Block { count: rows.len() / width, quantised, bounds };
        let mut words = vec![0; QuantisedBlock::words(width)];
        for (index, row) in rows.chunks_exact(width).enumerate() {
            let round = RoundRow { row, centre: &centre.point, words: &mut words };
            let Some(rounded) = Arch::new().dispatch(round) else { continue };
            let (unit, lost) = match &mut block.quantised {
                Some(quantised) => {
                    quantised.set(index, &words, rounded.sum);
                    (rounded.unit, rounded.lost)
                }
                None => (1.0, relative * rounded.length),
            };
            let length = rounded.length * (1.0 + SLACK);
            let (along, given) = (dot(row, &centre.point), offset(index));
            let sum = given + along - centre.half;
            let slack = OFFSET_SLACK * sum.abs() + 1e-12 * (given.abs() + along.abs() + centre.half);
            block.bounds.units[index] = unit;
            block.bounds.lengths[index] = (length as f32).next_up();
            block.bounds.lost[index] = ((lost * (1.0 + SLACK) + SLACK * length) as f32).next_up();
            block.bounds.offsets[index] = ((sum + slack) as f32).next_up();
        }
        block
    }

    /// The rows whose products cannot be bounded.
    pub fn unbounded(&self) -> impl Iterator<Item = usize> {
        (0..self.count).filter(|&row| self.bounds.offsets[row] == f32::NEG_INFINITY)
    }
}

/// The larger of two values; NaN if either is.
#[inline(always)]
fn larger(one: f32, other: f32) -> f32 {
    if one >= other || one.is_nan() { one } else { other }
}

/// A quantised row.
struct Rounded {
    unit: f32,
    length: f64,
    /// Length of what is lost.
    lost: f64,
    /// The sum of the integers.
    sum: i32,
}

/// Quantises the difference of a row from the centre; `None` if its products cannot be bounded.
struct RoundRow<'a> {
    row: &'a [f32],
    centre: &'a [f32],
    words: &'a mut [i32],
}

impl WithSimd for RoundRow<'_> {
    type Output = Option<Rounded>;

    /// Compiled for the widest instructions available; the arithmetic is the same for all.
    #[inline(always)]
    fn with_simd<S: Simd>(self, _: S) -> Option<Rounded> {
        let ((rows, rest), (centres, centre_rest)) = (self.row.as_chunks::<LANES>(), self.centre.as_chunks::<LANES>());
        let (mut last, mut last_centre) = ([0.0; LANES], [0.0; LANES]);
        last[..rest.len()].copy_from_slice(rest);
        last_centre[..rest.len()].copy_from_slice(centre_rest);
        let lines = || rows.iter().chain([&last]).zip(centres.iter().chain([&last_centre]));
        let mut most = [0.0f32; LANES];
        for (row, centre) in lines() {
            for lane in 0..LANES {
                most[lane] = larger(most[lane], (row[lane] - centre[lane]).abs());
            }
        }
        let most = most.iter().copied().fold(0.0, larger);
        if most != 0.0 && !RANGE.contains(&most) {
            return None;
        }
        let (unit, inverse) = (most / 127.0, if most > 0.0 { 127.0 / most } else { 0.0 });
        let (mut squares, mut lost, mut sum) = ([0.0f64; LANES], [0.0f64; LANES], [0i32; LANES]);
        for ((row, centre), words) in lines().zip(self.words.as_chunks_mut::<{ LANES / PER_LANE }>().0) {
            let mut integers = [0i32; LANES];
            for lane in 0..LANES {
                let shifted = (row[lane] - centre[lane]) * inverse + MAGIC;
                integers[lane] = shifted.to_bits().wrapping_sub(MAGIC.to_bits()) as i32;
                sum[lane] += integers[lane];
                let apart = f64::from(row[lane]) - f64::from(centre[lane]);
                let left = apart - f64::from(integers[lane]) * f64::from(unit);
                squares[lane] += apart * apart;
                lost[lane] += left * left;
            }
            for (four, word) in integers.as_chunks::<PER_LANE>().0.iter().zip(words) {
                *word = i32::from_le_bytes(four.map(|value| value as i8 as u8));
            }
        }
        let root = |squares: [f64; LANES]| squares.iter().sum::<f64>().sqrt();
        Some(Rounded { unit, length: root(squares), lost: root(lost), sum: sum.iter().sum() })
    }
}
