//! An int8 pre-filter without false negatives: finds all products of rows and columns that may exceed a floor.
//!
//! Rows and columns are quantised to 8 bits with one scale each. The rounding errors of a row x and a column w bound the
//! error of their product: |x·w − x̂·ŵ| ≤ |x − x̂||w| + |x̂||w − ŵ|. If the quantised product plus this bound is below a
//! floor, the exact product is too and need not be computed. The bound is rounded up and covers the rounding of the exact
//! product as well.

mod columns;
mod rows;
mod square;

use std::array::from_fn;

pub use columns::Columns;
pub(super) use columns::{ColumnLine, PanelBounds};
pub use rows::QuantisedRows;
use rows::RowBoundsList;
pub(super) use square::{PanelSums, QuantisedBlock, SQUARE};

use super::amx::{self, BLOCK, Sums, Tiles};
use super::avx512;
use super::packed::{PANEL, TILE_ROWS};

/// Bytes whose products are added in one 32-bit lane.
pub(super) const PER_LANE: usize = 4;

/// Rows and columns whose largest value is outside this range need exact products.
pub(super) const RANGE: std::ops::Range<f32> = 1e-12..1e12;

/// Relative margin for the rounding of a handful of operations.
const SLACK: f32 = 1e-5;

/// Added to a value below 2²², leaves the nearest integer in the lowest bits.
pub(super) const MAGIC: f32 = 12_582_912.0;

/// The instruction set that multiplies 8-bit integers. Integer sums are exact, so all give the same results.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Arithmetic {
    /// Portable loops.
    #[default]
    Scalar,
    /// AVX-512 VNNI.
    Avx512,
    /// AMX tiles.
    Amx,
}

impl Arithmetic {
    /// From the slowest to the fastest.
    pub const ALL: [Arithmetic; 3] = [Arithmetic::Scalar, Arithmetic::Avx512, Arithmetic::Amx];

    /// The fastest that this processor supports.
    pub fn fastest() -> Arithmetic {
        if amx::available() {
            Arithmetic::Amx
        } else if avx512::available() {
            Arithmetic::Avx512
        } else {
            Arithmetic::Scalar
        }
    }

    /// The name in messages.
    pub fn name(self) -> &'static str {
        match self {
            Arithmetic::Scalar => "loops",
            Arithmetic::Avx512 => "AVX-512 VNNI",
            Arithmetic::Amx => "AMX",
        }
    }
}

impl Columns {
    /// Writes a mask per row, with a bit per column of a panel: set where the product plus the column's offset may exceed
    /// the row's floor. There are no false negatives, but some false positives.
    pub fn propose(&self, rows: &QuantisedRows, panel: usize, offsets: &[f32; PANEL], masks: &mut [u32]) {
        let (bytes, panel) = self.panel(panel);
        if rows.arithmetic == Arithmetic::Amx {
            let (tiles, mut sums) = (Tiles::configure(), Sums([[0; PANEL]; BLOCK]));
            for (which, masks) in masks.chunks_mut(BLOCK).enumerate() {
                match &tiles {
                    Some(tiles) => tiles.multiply(bytes, rows.block(which), &mut sums),
                    None => amx::multiply_portable(bytes, rows.block(which), &mut sums),
                }
                let mut tile = TileBounds::<BLOCK>::new(&rows.bounds, which, panel.loss);
                if !avx512::compare(&sums.0, panel, offsets, &mut tile) {
                    compare(&sums.0, panel, offsets, &mut tile);
                }
                masks.copy_from_slice(&tile.masks[..masks.len()]);
            }
            return;
        }
        let vectors = rows.arithmetic == Arithmetic::Avx512;
        for (which, masks) in masks.chunks_mut(TILE_ROWS).enumerate() {
            let block = rows.twelve(which);
            let mut tile = TileBounds::<TILE_ROWS>::new(&rows.bounds, which, panel.loss);
            if !(vectors && avx512::propose(bytes, block, panel, offsets, &mut tile)) {
                let mut sums = [[0; PANEL]; TILE_ROWS];
                for (line, fours) in bytes.iter().zip(block) {
                    fours.iter().zip(&mut sums).for_each(|(four, sums)| line.add_products(*four, sums));
                }
                compare(&sums, panel, offsets, &mut tile);
            }
            masks.copy_from_slice(&tile.masks[..masks.len()]);
        }
    }
}

/// Bounds of a block of rows against one panel, and the resulting masks.
pub(super) struct TileBounds<const ROWS: usize> {
    pub starts: [i32; ROWS],
    pub inverses: [f32; ROWS],
    pub bounds: [f32; ROWS],
    pub floors: [f32; ROWS],
    pub masks: [u32; ROWS],
}

impl<const ROWS: usize> TileBounds<ROWS> {
    /// The bounds of one block of rows against a panel with the given loss.
    fn new(rows: &RowBoundsList, block: usize, loss: f32) -> TileBounds<ROWS> {
        let of = |numbers: &[f32]| numbers.as_chunks::<ROWS>().0[block];
        let (own, by_loss) = (of(&rows.own), of(&rows.by_loss));
        TileBounds {
            starts: rows.starts.as_chunks::<ROWS>().0[block],
            inverses: of(&rows.inverses),
            bounds: from_fn(|r| by_loss[r] * loss + own[r]),
            floors: of(&rows.floors),
            masks: [0; ROWS],
        }
    }
}

/// Sets the bits of products that may exceed a floor. Portable version of [`avx512::compare`].
fn compare<const ROWS: usize>(
    sums: &[[i32; PANEL]; ROWS],
    panel: &PanelBounds,
    offsets: &[f32; PANEL],
    tile: &mut TileBounds<ROWS>,
) {
    for (r, sums) in sums.iter().enumerate() {
        let mut mask = 0;
        for c in 0..PANEL {
            let rest = tile.inverses[r].mul_add(offsets[c], tile.bounds[r] * panel.lengths[c]);
            let sum = sums[c].wrapping_add(tile.starts[r]);
            let most = (sum as f32).mul_add(panel.units[c], rest);
            mask |= u32::from(most > tile.floors[r]) << c;
        }
        tile.masks[r] = mask;
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::packed::Panels;
    use crate::random::{stream, unit};

    /// Values of one of several numerically difficult kinds.
    fn difficult(count: usize, kind: u32, seed: u64) -> Vec<f32> {
        let mut random = stream(seed, "nasty rows", u64::from(kind));
        let mut draw = |_| unit(&mut random) as f32 - 0.5;
        let mut values: Vec<f32> = (0..count).map(&mut draw).collect();
        match kind {
            0 => {}
            1 => values.iter_mut().step_by(7).for_each(|value| *value *= 1000.0),
            2 => values.fill(0.0),
            3 => values.iter_mut().for_each(|value| *value *= 1e-41),
            4 => values.iter_mut().for_each(|value| *value *= 1e9),
            5 => values.iter_mut().step_by(2).for_each(|value| *value *= 1e-30),
            6 => values.iter_mut().for_each(|value| *value = value.signum()),
            _ => values.iter_mut().for_each(|value| *value = 3.0 + 0.01 * *value),
        }
        values
    }

    #[test]
    fn all_arithmetics_propose_the_same() {
        // Two columns (1, −2, 0.5) and (0, 127, −127), units 2/127 and 1: (64, −127, 32) and (0, 127, −127). The row
        // (127, 0, 1) has unit 1: sums 127 · 64 + 32 = 8160 and −127, which a floor of 0 separates.
        let panels = Panels::pack(&[1.0, -2.0, 0.5, 0.0, 127.0, -127.0], 3);
        let columns = Columns::new(panels.values(), 3);
        let line = columns.panel(0).0[0].0;
        assert_eq!(line[0].to_le_bytes(), [64 + 128, 1, 32 + 128, 0]);
        assert_eq!(line[1].to_le_bytes(), [128, 255, 1, 0]);
        for arithmetic in Arithmetic::ALL {
            let mut rows = QuantisedRows::default();
            assert!(rows.fill(&[127.0, 0.0, 1.0], 3, 3, &[0.0], columns.longest(), arithmetic).is_empty());
            assert_eq!(rows.bounds.starts[0], -128 * 128);
            let mut masks = [7];
            columns.propose(&rows, 0, &[0.0; PANEL], &mut masks);
            // 8160 · 2/127 is 128.5; −127 may be wrong by less than 2.
            assert_eq!(masks[0] & 3, 1);
            rows.fill(&[127.0, 0.0, 1.0], 3, 3, &[-130.0], columns.longest(), arithmetic);
            columns.propose(&rows, 0, &[0.0; PANEL], &mut masks);
            assert_eq!(masks[0] & 3, 3);
        }
    }

    #[test]
    fn values_that_are_not_finite_are_never_used() {
        for value in [f32::NAN, f32::INFINITY, 1e30, -1e-30] {
            let panels = Panels::pack(&[1.0, value, 2.0, 1.0, 1.0, 1.0], 3);
            assert!(!Columns::new(panels.values(), 3).usable() || value == -1e-30);
            let mut rows = QuantisedRows::default();
            let left = rows.fill(&[1.0, value, 2.0], 3, 3, &[0.0], 1.0, Arithmetic::Avx512);
            assert_eq!(left.len(), usize::from(value != -1e-30));
        }
        assert!(!Columns::default().usable());
        assert_eq!(QuantisedRows::default().fill(&[1e10; 3], 3, 3, &[0.0], 1e30, Arithmetic::Avx512), [0]);
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(60))]

        #[test]
        fn nothing_above_a_floor_is_missed(
            inner in 1usize..200, row_kind in 0u32..8, column_kind in 0u32..8, seed in 0u64..1000, floor in -2.0f32..2.0,
            count in 1usize..80,
        ) {
            let width = 40;
            let vectors = difficult(width * inner, column_kind, seed);
            let values = difficult(count * inner, row_kind, seed + 1);
            let panels = Panels::pack(&vectors, inner);
            let columns = Columns::new(panels.values(), inner);
            let chain = |row: usize, column: usize| -> f32 {
                let pairs = values[row * inner..][..inner].iter().zip(&vectors[column * inner..][..inner]);
                pairs.fold(0.0f32, |sum, (a, b)| a.mul_add(*b, sum))
            };
            // Floors among the products, so that some are on either side.
            let floors: Vec<f32> = (0..count).map(|row| floor * chain(row, row % width).abs()).collect();
            if columns.usable() {
                let proposed = Arithmetic::ALL.map(|arithmetic| {
                    let (mut rows, mut masks) = (QuantisedRows::default(), vec![7; 2 * count]);
                    let left = rows.fill(&values, inner, inner, &floors, columns.longest(), arithmetic);
                    for (panel, masks) in masks.chunks_exact_mut(count).enumerate() {
                        columns.propose(&rows, panel, &[0.0; PANEL], masks);
                    }
                    (left, masks)
                });
                prop_assert_eq!(&proposed[0], &proposed[1]);
                prop_assert_eq!(&proposed[0], &proposed[2]);
                let (left, masks) = &proposed[0];
                for row in (0..count).filter(|row| !left.contains(row)) {
                    for column in 0..width {
                        let proposed = masks[column / PANEL * count + row] >> (column % PANEL) & 1 == 1;
                        prop_assert!(proposed || chain(row, column) <= floors[row], "row {row}, column {column}");
                    }
                }
            }
        }
    }
}
