//! Rows, rounded to 8 bits.

use pulp::{Arch, Simd, WithSimd};

use super::{Arithmetic, FOUR, MAGIC, RANGE, SLACK};
use crate::amx::{BLOCK, DEPTH, RowLine};
use crate::packed::TILE_ROWS;

/// Lanes in which a row is looked at.
const LANES: usize = 16;

/// Some rows, rounded to 8 bits, as an arithmetic wants them.
#[derive(Clone, Debug, Default)]
pub struct QuantisedRows {
    pub(super) arithmetic: Arithmetic,
    /// For loops and vectors: for every twelve rows and four of the inner index, four bytes of each row.
    twelves: Vec<[i32; TILE_ROWS]>,
    /// For tiles: for every 32 rows and 64 of the inner index, a line of each row. What is missing is 0.
    lines: Vec<RowLine>,
    pub(super) numbers: Numbers,
    /// The row at hand: four bytes each, 0 after the end.
    row: Vec<i32>,
}

/// What is known about the rounding of a row. All is in units of the row.
struct RowNumbers {
    /// What has to be added to a sum of products, because columns are not signed.
    start: i32,
    /// Units per 1.
    inverse: f32,
    /// The bound of the error, as a part of the column's length: this, and this by the column's loss.
    own: f32,
    by_loss: f32,
    /// What products must exceed.
    floor: f32,
}

/// The numbers of all rows, in whole blocks: what fills the last one proposes nothing.
#[derive(Clone, Debug, Default)]
pub(super) struct Numbers {
    pub starts: Vec<i32>,
    pub inverses: Vec<f32>,
    pub own: Vec<f32>,
    pub by_loss: Vec<f32>,
    pub floors: Vec<f32>,
}

impl Numbers {
    /// So many rows that propose nothing.
    fn reset(&mut self, rows: usize) {
        self.starts.clear();
        self.starts.resize(rows, 0);
        for numbers in [&mut self.inverses, &mut self.own, &mut self.by_loss, &mut self.floors] {
            numbers.clear();
            numbers.resize(rows, 0.0);
        }
        self.floors.fill(f32::INFINITY);
    }

    fn set(&mut self, row: usize, numbers: RowNumbers) {
        self.starts[row] = numbers.start;
        self.inverses[row] = numbers.inverse;
        self.own[row] = numbers.own;
        self.by_loss[row] = numbers.by_loss;
        self.floors[row] = numbers.floor;
    }
}

impl QuantisedRows {
    /// Rounds rows of some pitch, the first `inner` numbers of each. `floors` has what the products of each row must
    /// exceed. Returns the rows that have to be left to exact products: theirs could overflow, with columns of up to a
    /// length and offsets of up to a size, or are too small to be bounded. Where the processor lacks an arithmetic, loops
    /// do the same.
    pub fn fill(
        &mut self,
        rows: &[f32],
        pitch: usize,
        inner: usize,
        floors: &[f32],
        longest: f32,
        arithmetic: Arithmetic,
    ) -> Vec<usize> {
        let (fours, steps) = (inner.div_ceil(FOUR), inner.div_ceil(DEPTH));
        let tiles = arithmetic == Arithmetic::Tiles;
        let block = if tiles { BLOCK } else { TILE_ROWS };
        let blocks = floors.len().div_ceil(block);
        self.arithmetic = arithmetic;
        self.twelves.clear();
        self.twelves.resize(if tiles { 0 } else { blocks * fours }, [0; TILE_ROWS]);
        self.lines.clear();
        self.lines.resize(if tiles { blocks * steps * BLOCK } else { 0 }, RowLine::default());
        self.numbers.reset(blocks * block);
        self.row.clear();
        self.row.resize(steps * DEPTH / FOUR, 0);
        let mut left = Vec::new();
        for (row, &floor) in floors.iter().enumerate() {
            let values = &rows[row * pitch..][..inner];
            let Some(numbers) = Arch::new().dispatch(RoundRow { values, floor, longest, fours: &mut self.row }) else {
                left.push(row);
                continue;
            };
            self.numbers.set(row, numbers);
            let (which, place) = (row / block, row % block);
            if tiles {
                let lines = self.lines[which * steps * BLOCK..].iter_mut().skip(place).step_by(BLOCK);
                lines.zip(self.row.as_chunks().0).for_each(|(line, fours)| line.0 = *fours);
            } else {
                let lines = &mut self.twelves[which * fours..][..fours];
                lines.iter_mut().zip(&self.row).for_each(|(line, four)| line[place] = *four);
            }
        }
        left
    }

    /// Twelve rows, for loops and vectors.
    pub(super) fn twelve(&self, which: usize) -> &[[i32; TILE_ROWS]] {
        let fours = self.twelves.len() * TILE_ROWS / self.numbers.starts.len();
        &self.twelves[which * fours..][..fours]
    }

    /// A block of rows, for tiles.
    pub(super) fn block(&self, which: usize) -> &[RowLine] {
        let lines = self.lines.len() * BLOCK / self.numbers.starts.len();
        &self.lines[which * lines..][..lines]
    }
}

/// Rounds one row; nothing if it cannot be used.
struct RoundRow<'a> {
    values: &'a [f32],
    floor: f32,
    longest: f32,
    fours: &'a mut [i32],
}

impl WithSimd for RoundRow<'_> {
    type Output = Option<RowNumbers>;

    /// Compiled for the widest instructions there are; the arithmetic is the same with any.
    #[inline(always)]
    fn with_simd<S: Simd>(self, _: S) -> Option<RowNumbers> {
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
        // What is not a number fails every comparison.
        if !(RANGE.contains(&most) && length * longest < 1e36 && floor.abs() < 1e36) {
            return None;
        }
        let (unit, inverse) = (most / 127.0, 127.0 / most);
        let (mut lost, mut sum) = ([0.0f32; LANES], [0i32; LANES]);
        for (line, fours) in lines.iter().chain([&last]).zip(fours.as_chunks_mut::<{ LANES / FOUR }>().0) {
            let mut integers = [0i32; LANES];
            for lane in 0..LANES {
                let shifted = line[lane] * inverse + MAGIC;
                let left = (MAGIC - shifted).mul_add(unit, line[lane]);
                lost[lane] = left.mul_add(left, lost[lane]);
                integers[lane] = shifted.to_bits().wrapping_sub(MAGIC.to_bits()) as i32;
                sum[lane] += integers[lane];
            }
            for (four, into) in integers.as_chunks::<FOUR>().0.iter().zip(fours) {
                *into = i32::from_le_bytes(four.map(|value| value as i8 as u8));
            }
        }
        let lost = lost.iter().sum::<f32>().sqrt() * grown;
        // The exact product is a chain of so many roundings, each of a part of the product of the lengths.
        let rounding = (values.len() + 64) as f32 * f32::EPSILON * length;
        Some(RowNumbers {
            start: -128 * sum.iter().sum::<i32>(),
            inverse,
            own: (lost + rounding) * inverse * (1.0 + SLACK),
            by_loss: (length + lost) * inverse * (1.0 + SLACK),
            floor: floor * inverse - (floor * inverse).abs() * SLACK,
        })
    }
}
