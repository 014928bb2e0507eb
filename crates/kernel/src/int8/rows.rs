//! Rows quantised to 8 bits.

use pulp::{Arch, Simd, WithSimd};

use super::{Arithmetic, MAGIC, PER_LANE, RANGE, SLACK};
use crate::amx::{BLOCK, DEPTH, RowLine};
use crate::packed::TILE_ROWS;

/// SIMD lanes in which a row is processed.
const LANES: usize = 16;

/// Rows quantised to 8 bits, in the layout of one [`Arithmetic`].
#[derive(Clone, Debug, Default)]
pub struct QuantisedRows {
    pub(super) arithmetic: Arithmetic,
    /// For scalar code and AVX-512: for every 12 rows and 4 values of the inner index, four bytes of each row.
    twelves: Vec<[i32; TILE_ROWS]>,
    /// For AMX: for every 32 rows and 64 values of the inner index, a line of each row. The padding is 0.
    lines: Vec<RowLine>,
    pub(super) bounds: RowBoundsList,
    /// Scratch: the current row, four bytes per entry, padded with 0.
    row: Vec<i32>,
}

/// Scale and error bounds of a quantised row, in its quantisation steps.
struct RowBounds {
    /// Added to a sum of products to undo the offset of the columns.
    start: i32,
    /// Quantisation steps per 1.
    inverse: f32,
    /// Part of the error bound that is multiplied by the column's length.
    own: f32,
    /// Part of the error bound that is multiplied by the column's length and loss.
    by_loss: f32,
    /// The value that products must exceed.
    floor: f32,
}

/// The [`RowBounds`] of all rows, padded to whole blocks with rows that never propose a candidate.
#[derive(Clone, Debug, Default)]
pub(super) struct RowBoundsList {
    pub starts: Vec<i32>,
    pub inverses: Vec<f32>,
    pub own: Vec<f32>,
    pub by_loss: Vec<f32>,
    pub floors: Vec<f32>,
}

impl RowBoundsList {
    /// Resets to `rows` rows that never propose a candidate.
    fn reset(&mut self, rows: usize) {
        self.starts.clear();
        self.starts.resize(rows, 0);
        for bounds in [&mut self.inverses, &mut self.own, &mut self.by_loss, &mut self.floors] {
            bounds.clear();
            bounds.resize(rows, 0.0);
        }
        self.floors.fill(f32::INFINITY);
    }

    fn set(&mut self, row: usize, bounds: RowBounds) {
        self.starts[row] = bounds.start;
        self.inverses[row] = bounds.inverse;
        self.own[row] = bounds.own;
        self.by_loss[row] = bounds.by_loss;
        self.floors[row] = bounds.floor;
    }
}

impl QuantisedRows {
    /// Quantises rows that are `pitch` values apart, the first `inner` values of each. Products of row `i` must exceed
    /// `floors[i]`; `longest` bounds the length of the columns. Returns the rows that need exact products, because theirs
    /// could overflow or are too small to be bounded. If the processor lacks the arithmetic, scalar code is used.
    pub fn fill(
        &mut self,
        rows: &[f32],
        pitch: usize,
        inner: usize,
        floors: &[f32],
        longest: f32,
        arithmetic: Arithmetic,
    ) -> Vec<usize> {
        let (fours, steps) = (inner.div_ceil(PER_LANE), inner.div_ceil(DEPTH));
        let tiles = arithmetic == Arithmetic::Amx;
        let block = if tiles { BLOCK } else { TILE_ROWS };
        let blocks = floors.len().div_ceil(block);
        self.arithmetic = arithmetic;
        self.twelves.clear();
        self.twelves.resize(if tiles { 0 } else { blocks * fours }, [0; TILE_ROWS]);
        self.lines.clear();
        self.lines.resize(if tiles { blocks * steps * BLOCK } else { 0 }, RowLine::default());
        self.bounds.reset(blocks * block);
        self.row.clear();
        self.row.resize(steps * DEPTH / PER_LANE, 0);
        let mut left = Vec::new();
        for (row, &floor) in floors.iter().enumerate() {
            let values = &rows[row * pitch..][..inner];
            let Some(bounds) = Arch::new().dispatch(RoundRow { values, floor, longest, fours: &mut self.row }) else {
                left.push(row);
                continue;
            };
            self.bounds.set(row, bounds);
            let (which, within) = (row / block, row % block);
            if tiles {
                let lines = self.lines[which * steps * BLOCK..].iter_mut().skip(within).step_by(BLOCK);
                lines.zip(self.row.as_chunks().0).for_each(|(line, fours)| line.0 = *fours);
            } else {
                let lines = &mut self.twelves[which * fours..][..fours];
                lines.iter_mut().zip(&self.row).for_each(|(line, four)| line[within] = *four);
            }
        }
        left
    }

    /// A block of twelve rows, for scalar code and AVX-512.
    pub(super) fn twelve(&self, which: usize) -> &[[i32; TILE_ROWS]] {
        let fours = self.twelves.len() * TILE_ROWS / self.bounds.starts.len();
        &self.twelves[which * fours..][..fours]
    }

    /// A block of 32 rows, for AMX.
    pub(super) fn block(&self, which: usize) -> &[RowLine] {
        let lines = self.lines.len() * BLOCK / self.bounds.starts.len();
        &self.lines[which * lines..][..lines]
    }
}

/// Quantises one row; `None` if it needs exact products.
struct RoundRow<'a> {
    values: &'a [f32],
    floor: f32,
    longest: f32,
    fours: &'a mut [i32],
}

impl WithSimd for RoundRow<'_> {
    type Output = Option<RowBounds>;

    /// Compiled for the widest instructions available; the arithmetic is the same for all.
    #[inline(always)]
    fn with_simd<S: Simd>(self, _: S) -> Option<RowBounds> {
        let RoundRow { values, floor, longest, fours } = self;
        let (lines, rest) = values.as_chunks::<LANES>();
        let (mut most, mut squares) = ([0.0f32; LANES], [0.0f32; LANES]);
        let mut last = [0.0; LANES];
        last[..rest.len()].copy_from_slice(rest);
        for line in lines.iter().chain([&last]) {
            for lane in 0..LANES {
                most[lane] = if line[lane].abs() <= most[lane] { most[lane] } else { line[lane].abs() };
                squares[lane] = line[lane].mul_add(line[lane], squares[lane]);
            }
        }
        let most = most.iter().fold(0.0f32, |most, &value| if value <= most { most } else { value });
        let grown = 1.0 + SLACK + values.len() as f32 * f32::EPSILON;
        let length = squares.iter().sum::<f32>().sqrt() * grown;
        // NaN fails every comparison.
        if !(RANGE.contains(&most) && length * longest < 1e36 && floor.abs() < 1e36) {
            return None;
        }
        let (unit, inverse) = (most / 127.0, 127.0 / most);
        let (mut lost, mut sum) = ([0.0f32; LANES], [0i32; LANES]);
        for (line, fours) in lines.iter().chain([&last]).zip(fours.as_chunks_mut::<{ LANES / PER_LANE }>().0) {
            let mut integers = [0i32; LANES];
            for lane in 0..LANES {
                let shifted = line[lane] * inverse + MAGIC;
                let left = (MAGIC - shifted).mul_add(unit, line[lane]);
                lost[lane] = left.mul_add(left, lost[lane]);
                integers[lane] = shifted.to_bits().wrapping_sub(MAGIC.to_bits()) as i32;
                sum[lane] += integers[lane];
            }
            for (four, into) in integers.as_chunks::<PER_LANE>().0.iter().zip(fours) {
                *into = i32::from_le_bytes(four.map(|value| value as i8 as u8));
            }
        }
        let lost = lost.iter().sum::<f32>().sqrt() * grown;
        // The exact product is a chain of `values.len()` roundings, each relative to the product of the lengths.
        let rounding = (values.len() + 64) as f32 * f32::EPSILON * length;
        Some(RowBounds {
            start: -128 * sum.iter().sum::<i32>(),
            inverse,
            own: (lost + rounding) * inverse * (1.0 + SLACK),
            by_loss: (length + lost) * inverse * (1.0 + SLACK),
            floor: floor * inverse - (floor * inverse).abs() * SLACK,
        })
    }
}
