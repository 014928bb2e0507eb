//! Products of 8-bit integers that say, for certain, which products of rows and columns can be large.
//!
//! Rows and columns are rounded to 8 bits with a scale each. What rounding took from a row x and a column w bounds what
//! it took from their product: |x·w − x̂·ŵ| ≤ |x − x̂||w| + |x̂||w − ŵ|. A product whose rounded value plus this bound
//! stays below a floor is below the floor, so that it need not be known. The bound is rounded up, and leaves room for the
//! rounding of the exact product too.

use pulp::{Arch, Simd, WithSimd};
use rayon::prelude::*;

use super::integer;
use super::panels::{PANEL, TILE_ROWS};

/// Numbers whose products are added in one lane.
const FOUR: usize = 4;

/// More numbers than this in a row could overflow a sum.
const LONGEST: usize = 1 << 16;

/// Rows and columns with larger or smaller numbers than these are left to exact products.
const RANGE: std::ops::Range<f32> = 1e-12..1e12;

/// Room for the rounding of a handful of operations, as a part of their result.
const SLACK: f32 = 1e-5;

/// Lanes in which a row is looked at.
const LANES: usize = 16;

/// The columns of some panels, rounded to 8 bits.
#[derive(Clone, Debug, Default)]
pub struct Columns {
    inner: usize,
    /// For every panel and four of the inner index: four bytes of each column, 128 added.
    bytes: Vec<[u32; PANEL]>,
    numbers: Vec<PanelNumbers>,
}

/// What is known about the rounding of a panel.
#[derive(Clone, Copy, Debug)]
pub(super) struct PanelNumbers {
    /// The size of one unit, by column.
    pub units: [f32; PANEL],
    /// Not less than the length, by column.
    pub lengths: [f32; PANEL],
    /// Not less than the part of its length that any column lost.
    loss: f32,
    /// Whether products with it can be bounded at all.
    usable: bool,
}

impl Default for PanelNumbers {
    fn default() -> Self {
        PanelNumbers { units: [0.0; PANEL], lengths: [0.0; PANEL], loss: 0.0, usable: false }
    }
}

impl Columns {
    /// Rounds packed panels ([`Panels::values`](super::panels::Panels::values)) on this thread.
    pub fn new(values: &[f32], inner: usize) -> Columns {
        let mut columns = Columns::default();
        let size = columns.resize(values, inner);
        let parts = columns.bytes.chunks_exact_mut(inner.div_ceil(FOUR).max(1)).zip(&mut columns.numbers);
        for (panel, (bytes, numbers)) in values.chunks_exact(size).zip(parts) {
            *numbers = Arch::new().dispatch(RoundPanel { panel, bytes });
        }
        columns
    }

    /// Rounds packed panels on all threads. Memory of the last time is used again.
    pub fn fill(&mut self, values: &[f32], inner: usize) {
        let size = self.resize(values, inner);
        let bytes = self.bytes.par_chunks_exact_mut(inner.div_ceil(FOUR).max(1));
        (values.par_chunks_exact(size), bytes, &mut self.numbers)
            .into_par_iter()
            .with_min_len(4)
            .for_each(|(panel, bytes, numbers)| *numbers = Arch::new().dispatch(RoundPanel { panel, bytes }));
    }

    /// Makes room; returns the numbers in a panel. Rows that are too long have no room, so that nothing is usable.
    fn resize(&mut self, values: &[f32], inner: usize) -> usize {
        let size = (inner * PANEL).max(1);
        let panels = if inner > LONGEST { 0 } else { values.len() / size };
        self.inner = inner;
        self.bytes.resize(panels * inner.div_ceil(FOUR), [0; PANEL]);
        self.numbers.resize(panels, PanelNumbers::default());
        size
    }

    /// How many panels there are.
    pub fn panels(&self) -> usize {
        self.numbers.len()
    }

    /// Whether every panel can be used.
    pub fn usable(&self) -> bool {
        !self.numbers.is_empty() && self.numbers.iter().all(|numbers| numbers.usable)
    }

    /// Not less than the length of any column.
    pub fn longest(&self) -> f32 {
        self.numbers.iter().flat_map(|numbers| numbers.lengths).fold(0.0, f32::max)
    }

    /// Says for every row, as a bit per column of a panel, where the product plus the column's offset may exceed the
    /// row's floor. No bit is missing; some are too many.
    pub fn propose(&self, rows: &Rows, panel: usize, offsets: &[f32; PANEL], masks: &mut [u32]) {
        let fours = self.inner.div_ceil(FOUR);
        let bytes = &self.bytes[panel * fours..][..fours];
        for (which, masks) in masks.chunks_mut(TILE_ROWS).enumerate() {
            let block = &rows.bytes[which * fours..][..fours];
            let mut tile = TileNumbers::new(&rows.numbers[which], self.numbers[panel].loss);
            if !(rows.vectors && integer::propose(bytes, block, &self.numbers[panel], offsets, &mut tile)) {
                propose(bytes, block, &self.numbers[panel], offsets, &mut tile);
            }
            masks.copy_from_slice(&tile.masks[..masks.len()]);
        }
    }
}

/// Rounds one panel.
struct RoundPanel<'a> {
    panel: &'a [f32],
    bytes: &'a mut [[u32; PANEL]],
}

impl WithSimd for RoundPanel<'_> {
    type Output = PanelNumbers;

    /// Compiled for the widest instructions there are; the arithmetic is the same with any.
    #[inline(always)]
    fn with_simd<S: Simd>(self, _: S) -> PanelNumbers {
        let RoundPanel { panel, bytes } = self;
        let lines = panel.as_chunks::<PANEL>().0;
        let (mut most, mut squares) = ([0.0f32; PANEL], [0.0f32; PANEL]);
        for line in lines {
            for c in 0..PANEL {
                most[c] = if line[c].abs() <= most[c] { most[c] } else { line[c].abs() };
                squares[c] = line[c].mul_add(line[c], squares[c]);
            }
        }
        let inverse = most.map(|most| if most > 0.0 { 127.0 / most } else { 0.0 });
        let units = most.map(|most| most / 127.0);
        let mut lost = [0.0f32; PANEL];
        for (lines, four) in lines.chunks(FOUR).zip(bytes) {
            let mut line = [0; PANEL];
            for (shift, values) in (0..).step_by(8).zip(lines) {
                for c in 0..PANEL {
                    let shifted = values[c] * inverse[c] + MAGIC;
                    let left = (MAGIC - shifted).mul_add(units[c], values[c]);
                    lost[c] = left.mul_add(left, lost[c]);
                    line[c] |= (shifted.to_bits().wrapping_sub(MAGIC.to_bits() - 128) & 255) << shift;
                }
            }
            // What is missing in the last four is 0 in the rows, so that it does not matter here.
            *four = line;
        }
        let grown = 1.0 + SLACK + lines.len() as f32 * f32::EPSILON;
        let lengths: [f32; PANEL] = std::array::from_fn(|c| squares[c].sqrt() * grown + 1e-20);
        let loss = (0..PANEL).map(|c| (lost[c].sqrt() * grown + 1e-25) / lengths[c]).fold(0.0f32, f32::max) * grown;
        // What is not a number makes a length that is none.
        let usable = most.iter().all(|&most| most == 0.0 || RANGE.contains(&most))
            && lengths.iter().all(|length| length.is_finite());
        PanelNumbers { units, lengths, loss, usable }
    }
}

/// Added to a number of less than 2²², it leaves the nearest integer in the lowest bits.
const MAGIC: f32 = 12_582_912.0;

/// Some rows, rounded to 8 bits.
#[derive(Clone, Debug, Default)]
pub struct Rows {
    /// For every twelve rows and four of the inner index: four bytes of each row.
    bytes: Vec<[i32; TILE_ROWS]>,
    numbers: Vec<[RowNumbers; TILE_ROWS]>,
    vectors: bool,
}

/// What is known about the rounding of a row. All is in units of the row.
#[derive(Clone, Copy, Debug)]
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

/// A row that proposes nothing.
const SILENT: RowNumbers = RowNumbers { start: 0, inverse: 0.0, own: 0.0, by_loss: 0.0, floor: f32::INFINITY };

impl Rows {
    /// Rounds rows of some pitch, the first `inner` numbers of each. `floors` has what the products of each row must
    /// exceed. Returns the rows that have to be left to exact products: theirs could overflow, with columns of up to a
    /// length and offsets of up to a size, or are too small to be bounded. With `vectors`, the processor's own
    /// products of integers are used, if it has them; without, loops do the same.
    pub fn fill(
        &mut self,
        rows: &[f32],
        pitch: usize,
        inner: usize,
        floors: &[f32],
        longest: f32,
        vectors: bool,
    ) -> Vec<usize> {
        let fours = inner.div_ceil(FOUR);
        let blocks = floors.len().div_ceil(TILE_ROWS);
        self.bytes.clear();
        self.bytes.resize(blocks * fours, [0; TILE_ROWS]);
        self.numbers.clear();
        self.numbers.resize(blocks, [SILENT; TILE_ROWS]);
        self.vectors = vectors;
        let mut left = Vec::new();
        for (row, &floor) in floors.iter().enumerate() {
            let block = &mut self.bytes[row / TILE_ROWS * fours..][..fours];
            let values = &rows[row * pitch..][..inner];
            let round = RoundRow { values, floor, longest, place: row % TILE_ROWS, block };
            match Arch::new().dispatch(round) {
                Some(numbers) => self.numbers[row / TILE_ROWS][row % TILE_ROWS] = numbers,
                None => left.push(row),
            }
        }
        left
    }
}

/// Rounds one row; nothing if it cannot be used.
struct RoundRow<'a> {
    values: &'a [f32],
    floor: f32,
    longest: f32,
    place: usize,
    block: &'a mut [[i32; TILE_ROWS]],
}

impl WithSimd for RoundRow<'_> {
    type Output = Option<RowNumbers>;

    /// Compiled for the widest instructions there are; the arithmetic is the same with any.
    #[inline(always)]
    fn with_simd<S: Simd>(self, _: S) -> Option<RowNumbers> {
        let RoundRow { values, floor, longest, place, block } = self;
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
        for (line, fours) in lines.iter().chain([&last]).zip(block.chunks_mut(LANES / FOUR)) {
            let mut integers = [0i32; LANES];
            for lane in 0..LANES {
                let shifted = line[lane] * inverse + MAGIC;
                let left = (MAGIC - shifted).mul_add(unit, line[lane]);
                lost[lane] = left.mul_add(left, lost[lane]);
                integers[lane] = shifted.to_bits().wrapping_sub(MAGIC.to_bits()) as i32;
                sum[lane] += integers[lane];
            }
            for (four, into) in integers.as_chunks::<FOUR>().0.iter().zip(fours) {
                into[place] = i32::from_le_bytes(four.map(|value| value as i8 as u8));
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

/// The numbers of twelve rows as a tile wants them, and what it finds.
pub(super) struct TileNumbers {
    pub starts: [i32; TILE_ROWS],
    pub inverses: [f32; TILE_ROWS],
    pub bounds: [f32; TILE_ROWS],
    pub floors: [f32; TILE_ROWS],
    pub masks: [u32; TILE_ROWS],
}

impl TileNumbers {
    fn new(rows: &[RowNumbers; TILE_ROWS], loss: f32) -> TileNumbers {
        TileNumbers {
            starts: rows.map(|row| row.start),
            inverses: rows.map(|row| row.inverse),
            bounds: rows.map(|row| row.by_loss * loss + row.own),
            floors: rows.map(|row| row.floor),
            masks: [0; TILE_ROWS],
        }
    }
}

/// Twelve rows against a panel, in plain loops: what the vectors do.
fn propose(
    bytes: &[[u32; PANEL]],
    block: &[[i32; TILE_ROWS]],
    panel: &PanelNumbers,
    offsets: &[f32; PANEL],
    tile: &mut TileNumbers,
) {
    for r in 0..TILE_ROWS {
        let mut sums = [tile.starts[r]; PANEL];
        for (line, four) in bytes.iter().zip(block) {
            let row = four[r].to_le_bytes().map(|byte| i32::from(byte as i8));
            for (sum, column) in sums.iter_mut().zip(line) {
                let column = column.to_le_bytes().map(i32::from);
                *sum = sum.wrapping_add((0..FOUR).map(|i| row[i] * column[i]).sum());
            }
        }
        let mut mask = 0;
        for c in 0..PANEL {
            let rest = tile.inverses[r].mul_add(offsets[c], tile.bounds[r] * panel.lengths[c]);
            let most = (sums[c] as f32).mul_add(panel.units[c], rest);
            mask |= u32::from(most > tile.floors[r]) << c;
        }
        tile.masks[r] = mask;
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::kernel::panels::Panels;
    use crate::kernel::random::{stream, unit};

    /// Numbers of one of several nasty kinds.
    fn nasty(count: usize, kind: u32, seed: u64) -> Vec<f32> {
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
    fn sums_of_integers_are_those_of_plain_loops() {
        // Two columns (1, −2, 0.5) and (0, 127, −127), units 2/127 and 1: (64, −127, 32) and (0, 127, −127). The row
        // (127, 0, 1) has unit 1: sums 127 · 64 + 32 = 8160 and −127, which floors between them tell apart.
        let panels = Panels::pack(&[1.0, -2.0, 0.5, 0.0, 127.0, -127.0], 3);
        let columns = Columns::new(panels.values(), 3);
        let line = columns.bytes[0];
        assert_eq!(line[0].to_le_bytes(), [64 + 128, 1, 32 + 128, 0]);
        assert_eq!(line[1].to_le_bytes(), [128, 255, 1, 0]);
        for vectors in [false, true] {
            let mut rows = Rows::default();
            assert!(rows.fill(&[127.0, 0.0, 1.0], 3, 3, &[0.0], columns.longest(), vectors).is_empty());
            assert_eq!(rows.numbers[0][0].start, -128 * 128);
            let mut masks = [7];
            columns.propose(&rows, 0, &[0.0; PANEL], &mut masks);
            // 8160 · 2/127 is 128.5; −127 may be wrong by less than 2.
            assert_eq!(masks[0] & 3, 1);
            rows.fill(&[127.0, 0.0, 1.0], 3, 3, &[-130.0], columns.longest(), vectors);
            columns.propose(&rows, 0, &[0.0; PANEL], &mut masks);
            assert_eq!(masks[0] & 3, 3);
        }
    }

    #[test]
    fn what_is_not_a_number_is_never_used() {
        for value in [f32::NAN, f32::INFINITY, 1e30, -1e-30] {
            let panels = Panels::pack(&[1.0, value, 2.0, 1.0, 1.0, 1.0], 3);
            assert!(!Columns::new(panels.values(), 3).usable() || value == -1e-30);
            let mut rows = Rows::default();
            let left = rows.fill(&[1.0, value, 2.0], 3, 3, &[0.0], 1.0, true);
            assert_eq!(left.len(), usize::from(value != -1e-30));
        }
        assert!(!Columns::default().usable());
        assert_eq!(Rows::default().fill(&[1e10; 3], 3, 3, &[0.0], 1e30, true), [0]);
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(60))]

        #[test]
        fn nothing_above_a_floor_is_missed(
            inner in 1usize..90, row_kind in 0u32..8, column_kind in 0u32..8, seed in 0u64..1000, floor in -2.0f32..2.0,
        ) {
            let (count, width) = (17, 40);
            let vectors = nasty(width * inner, column_kind, seed);
            let values = nasty(count * inner, row_kind, seed + 1);
            let panels = Panels::pack(&vectors, inner);
            let columns = Columns::new(panels.values(), inner);
            let chain = |row: usize, column: usize| -> f32 {
                let pairs = values[row * inner..][..inner].iter().zip(&vectors[column * inner..][..inner]);
                pairs.fold(0.0f32, |sum, (a, b)| a.mul_add(*b, sum))
            };
            // Floors among the products, so that there is something on either side.
            let floors: Vec<f32> = (0..count).map(|row| floor * chain(row, row).abs()).collect();
            if columns.usable() {
                let (mut rows, mut plain) = (Rows::default(), Rows::default());
                let left = rows.fill(&values, inner, inner, &floors, columns.longest(), true);
                prop_assert_eq!(&left, &plain.fill(&values, inner, inner, &floors, columns.longest(), false));
                for panel in 0..2 {
                    let (mut masks, mut loops) = (vec![0; count], vec![0; count]);
                    columns.propose(&rows, panel, &[0.0; PANEL], &mut masks);
                    columns.propose(&plain, panel, &[0.0; PANEL], &mut loops);
                    prop_assert_eq!(&masks, &loops);
                    for row in (0..count).filter(|row| !left.contains(row)) {
                        for column in panel * PANEL..width.min(panel * PANEL + PANEL) {
                            let proposed = masks[row] >> (column % PANEL) & 1 == 1;
                            prop_assert!(proposed || chain(row, column) <= floors[row], "row {row}, column {column}");
                        }
                    }
                }
            }
        }
    }
}
