//! Blocks of rows quantised to 8 bits, as either factor of products with each other.

use super::{Arithmetic, ColumnLine, PER_LANE};
use crate::amx::{self, BLOCK, DEPTH, RowLine, Sums, Tiles};
use crate::avx512;
use crate::packed::{PANEL, TILE_ROWS};

/// Rows of a block: whole panels, whole tiles of rows, and whole blocks of AMX. Two blocks fit the second-level cache.
pub(crate) const SQUARE: usize = 384;

/// The sums of a block of rows with one panel of columns.
pub(crate) type PanelSums = [[i32; PANEL]; SQUARE];

/// Turns four signed bytes into bytes with an offset of 128.
const OFFSET: u32 = 0x8080_8080;

/// A block of rows in the layouts of both factors. Missing rows are zero.
pub(crate) struct QuantisedBlock {
    arithmetic: Arithmetic,
    /// Lines per panel.
    lines: usize,
    columns: Vec<ColumnLine>,
    /// For scalar code and AVX-512: for every 12 rows and 4 values of the inner index, four bytes of each row.
    twelves: Vec<[i32; TILE_ROWS]>,
    /// For AMX: for every 32 rows and 64 values of the inner index, a line of each row.
    tiles: Vec<RowLine>,
    /// Added to the sums of a row to undo the offset of the columns.
    starts: [i32; SQUARE],
}

impl QuantisedBlock {
    /// The largest number of values per row, so that no sum overflows.
    pub const MAX_INNER: usize = 1 << 16;

    /// Bytes of a block.
    pub fn bytes(inner: usize) -> usize {
        2 * SQUARE * inner.next_multiple_of(DEPTH) + size_of::<QuantisedBlock>()
    }

    /// Number of four-byte words of a row.
    pub fn words(inner: usize) -> usize {
        inner.div_ceil(DEPTH) * (DEPTH / PER_LANE)
    }

    /// A block of zero rows of `inner` values.
    pub fn new(inner: usize, arithmetic: Arithmetic) -> QuantisedBlock {
        let lines = QuantisedBlock::words(inner);
        let tiles = arithmetic == Arithmetic::Amx;
        QuantisedBlock {
            arithmetic,
            lines,
            columns: vec![ColumnLine([OFFSET; PANEL]); lines * (SQUARE / PANEL)],
            twelves: vec![[0; TILE_ROWS]; if tiles { 0 } else { lines * (SQUARE / TILE_ROWS) }],
            tiles: vec![RowLine::default(); if tiles { lines / (DEPTH / PER_LANE) * SQUARE } else { 0 }],
            starts: [0; SQUARE],
        }
    }

    /// Sets a row from words of four signed bytes, whose sum is `sum`.
    pub fn set(&mut self, row: usize, words: &[i32], sum: i32) {
        self.starts[row] = -128 * sum;
        let lines = &mut self.columns[row / PANEL * self.lines..][..self.lines];
        lines.iter_mut().zip(words).for_each(|(line, word)| line.0[row % PANEL] = *word as u32 ^ OFFSET);
        if self.arithmetic == Arithmetic::Amx {
            let size = self.tiles.len() / (SQUARE / BLOCK);
            let lines = self.tiles[row / BLOCK * size..][..size].iter_mut().skip(row % BLOCK).step_by(BLOCK);
            lines.zip(words.as_chunks().0).for_each(|(line, words)| line.0 = *words);
        } else {
            let lines = &mut self.twelves[row / TILE_ROWS * self.lines..][..self.lines];
            lines.iter_mut().zip(words).for_each(|(line, word)| line[row % TILE_ROWS] = *word);
        }
    }

    /// The products of the first `rows` rows with the columns of a panel of another block.
    pub fn products(&self, rows: usize, other: &QuantisedBlock, panel: usize, sums: &mut PanelSums) {
        let panel = &other.columns[panel * other.lines..][..other.lines];
        if self.arithmetic == Arithmetic::Amx {
            let (tiles, mut part) = (Tiles::configure(), Sums([[0; PANEL]; BLOCK]));
            let size = self.tiles.len() / (SQUARE / BLOCK);
            let blocks = self.tiles.chunks_exact(size.max(1)).take(rows.div_ceil(BLOCK));
            let outputs = sums.as_chunks_mut::<BLOCK>().0.iter_mut().zip(self.starts.as_chunks::<BLOCK>().0);
            for (block, (sums, starts)) in blocks.zip(outputs) {
                match &tiles {
                    Some(tiles) => tiles.multiply(panel, block, &mut part),
                    None => amx::multiply_portable(panel, block, &mut part),
                }
                for ((sums, part), start) in sums.iter_mut().zip(&part.0).zip(starts) {
                    sums.iter_mut().zip(part).for_each(|(sum, part)| *sum = part.wrapping_add(*start));
                }
            }
            return;
        }
        let blocks = self.twelves.chunks_exact(self.lines.max(1)).take(rows.div_ceil(TILE_ROWS));
        let outputs = sums.as_chunks_mut::<TILE_ROWS>().0.iter_mut().zip(self.starts.as_chunks::<TILE_ROWS>().0);
        for (block, (sums, starts)) in blocks.zip(outputs) {
            if self.arithmetic == Arithmetic::Avx512 && avx512::sums(panel, block, starts, sums) {
                continue;
            }
            *sums = starts.map(|start| [start; PANEL]);
            for (line, fours) in panel.iter().zip(block) {
                fours.iter().zip(&mut *sums).for_each(|(four, sums)| line.add_products(*four, sums));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::random::{index, stream};

    #[test]
    fn all_arithmetics_give_the_sums_of_products() {
        for inner in [1, 4, 63, 64, 130] {
            let mut random = stream(inner as u64, "square", 0);
            let mut draw = |rows: usize| -> Vec<i8> {
                (0..rows * inner).map(|_| (index(255, &mut random) as i32 - 127) as i8).collect()
            };
            let (left, right) = (draw(SQUARE), draw(40));
            for arithmetic in Arithmetic::ALL {
                let block = |values: &[i8]| {
                    let mut block = QuantisedBlock::new(inner, arithmetic);
                    for (row, values) in values.chunks_exact(inner).enumerate() {
                        let mut words = vec![0; QuantisedBlock::words(inner)];
                        for (k, &value) in values.iter().enumerate() {
                            words[k / PER_LANE] |= i32::from(value as u8) << (8 * (k % PER_LANE));
                        }
                        block.set(row, &words, values.iter().map(|&value| i32::from(value)).sum());
                    }
                    block
                };
                let (mine, theirs) = (block(&left), block(&right));
                let mut sums = Box::new([[7; PANEL]; SQUARE]);
                mine.products(SQUARE, &theirs, 1, &mut sums);
                for (row, sums) in sums.iter().enumerate() {
                    for (column, &sum) in sums.iter().enumerate() {
                        let of =
                            |values: &[i8], row: usize| values.get(row * inner..(row + 1) * inner).map(<[i8]>::to_vec);
                        let other = of(&right, PANEL + column).unwrap_or_else(|| vec![0; inner]);
                        let pairs = left[row * inner..][..inner].iter().zip(&other);
                        let expected: i32 = pairs.map(|(&a, &b)| i32::from(a) * i32::from(b)).sum();
                        assert_eq!(sum, expected, "{arithmetic:?}, {inner}: {row}, {column}");
                    }
                }
            }
        }
    }
}
