//! The encoder product: rows times a packed matrix, one small tile at a time. A tile is consumed while it is in the
//! first-level cache, so the full product never reaches memory.
//!
//! Every element is one chain of fused multiply-adds over the inner index, in order, on every processor. Results do not
//! depend on the instruction set, on neighbouring rows, or on threads.

use std::slice::from_mut;

use pulp::{Arch, Simd, WithSimd};

use super::aligned::Aligned;
use super::avx512;
use super::vectorised::vectorised;

/// Columns of a panel.
pub const PANEL: usize = 32;

/// Rows of a tile.
pub const TILE_ROWS: usize = 12;

/// Length of the blocks of the inner index: 32 KB of a panel, which leaves space for rows and tiles in the first-level
/// cache. A chain continues from one piece to the next, so its bits do not depend on this.
const PIECE: usize = 256;

/// The values of a tile, row by row.
pub type Tile = [f32; TILE_ROWS * PANEL];

/// A matrix of `columns` vectors, packed in panels of 32: a panel stores the values of its columns by inner index.
#[derive(Clone, Debug)]
pub struct Panels {
    inner: usize,
    columns: usize,
    values: Aligned,
}

impl Panels {
    /// A zero matrix of `columns` vectors of length `inner`. Missing columns of the last panel stay zero.
    pub fn new(columns: usize, inner: usize) -> Panels {
        Panels { inner, columns, values: Aligned::zeros(columns.div_ceil(PANEL) * PANEL * inner) }
    }

    /// Packs contiguous vectors.
    pub fn pack(vectors: &[f32], inner: usize) -> Panels {
        let columns = vectors.len().checked_div(inner).unwrap_or(0);
        let mut panels = Panels::new(columns, inner);
        let size = panels.panel_size().max(1);
        for (panel, first) in panels.values.chunks_exact_mut(size).zip((0..).step_by(PANEL)) {
            let end = (first + PANEL).min(columns);
            fill_panel(panel, &vectors[first * inner..end * inner], inner);
        }
        panels
    }

    /// The vectors, contiguous.
    pub fn unpack(&self) -> Vec<f32> {
        let mut vectors = vec![0.0; self.columns * self.inner];
        for (column, vector) in vectors.chunks_exact_mut(self.inner.max(1)).enumerate() {
            let panel = &self.values[column / PANEL * self.panel_size()..];
            vector.iter_mut().enumerate().for_each(|(k, value)| *value = panel[k * PANEL + column % PANEL]);
        }
        vectors
    }

    /// Number of vectors.
    pub fn columns(&self) -> usize {
        self.columns
    }

    /// Length of a vector.
    pub fn inner(&self) -> usize {
        self.inner
    }

    /// Number of panels.
    pub fn panels(&self) -> usize {
        self.columns.div_ceil(PANEL)
    }

    fn panel_size(&self) -> usize {
        self.inner * PANEL
    }

    /// The panels, to be repacked in parallel.
    pub fn panels_mut(&mut self) -> std::slice::ChunksExactMut<'_, f32> {
        let size = self.panel_size().max(1);
        self.values.chunks_exact_mut(size)
    }

    /// The packed values: panel by panel, within a panel by inner index.
    pub fn values(&self) -> &[f32] {
        &self.values
    }

    /// The packed values, mutable.
    pub fn values_mut(&mut self) -> &mut [f32] {
        &mut self.values
    }

    /// Copies one vector out.
    pub fn column(&self, column: usize, into: &mut [f32]) {
        let panel = &self.values[column / PANEL * self.panel_size()..][..self.panel_size()];
        for (into, line) in into.iter_mut().zip(panel.chunks_exact(PANEL)) {
            *into = line[column % PANEL];
        }
    }

    /// Copies one vector in.
    pub fn set_column(&mut self, column: usize, vector: &[f32]) {
        let size = self.panel_size();
        let panel = &mut self.values[column / PANEL * size..][..size];
        for (value, line) in vector.iter().zip(panel.chunks_exact_mut(PANEL)) {
            line[column % PANEL] = *value;
        }
    }

    /// Twelve rows of length `inner` against one panel.
    pub fn product(&self, rows: &[f32], panel: usize, out: &mut Tile) {
        Arch::new().dispatch(Products {
            rows: RowSource::Plain(rows),
            panel: self.panel(panel),
            inner: self.inner,
            out: from_mut(out),
        });
    }

    /// Blocks of twelve packed rows ([`fill_block`]) against one panel, one tile per block. A piece of the panel stays in
    /// the first-level cache while all rows use it; pass [`blocks_at_once`] blocks per call.
    pub fn products(&self, blocks: &[f32], panel: usize, out: &mut [Tile]) {
        Arch::new().dispatch(Products {
            rows: RowSource::Packed(blocks),
            panel: self.panel(panel),
            inner: self.inner,
            out,
        });
    }

    fn panel(&self, panel: usize) -> &[f32] {
        let size = self.panel_size();
        &self.values[panel * size..][..size]
    }
}

/// Number of blocks of twelve rows to multiply with a panel per call: few enough to share the second-level cache with it,
/// enough to amortise loading it, and such that the calls divide evenly among `threads`.
pub fn blocks_at_once(blocks: usize, inner: usize, threads: usize) -> usize {
    let limit = ((1 << 20) / (TILE_ROWS * 4 * inner.max(1))).clamp(8, 64);
    let calls = blocks.div_ceil(limit).next_multiple_of(threads.max(1));
    blocks.div_ceil(calls.max(1)).max(1)
}

/// Packs up to twelve rows for [`Panels::products`], by inner index. Missing rows are zero.
pub fn fill_block(rows: &[f32], inner: usize, block: &mut [f32]) {
    if rows.len() < TILE_ROWS * inner {
        block.fill(0.0);
    }
    for (r, row) in rows.chunks_exact(inner.max(1)).take(TILE_ROWS).enumerate() {
        for (&value, line) in row.iter().zip(block.as_chunks_mut::<TILE_ROWS>().0) {
            line[r] = value;
        }
    }
}

/// Writes up to 32 vectors into a panel.
pub fn fill_panel(panel: &mut [f32], vectors: &[f32], inner: usize) {
    transpose(vectors, inner, vectors.len().checked_div(inner).unwrap_or(0).min(PANEL), panel);
}

/// Writes `count` vectors (at most 32), `pitch` values apart, into a panel. Their length is `panel.len() / 32`.
pub fn transpose(vectors: &[f32], pitch: usize, count: usize, panel: &mut [f32]) {
    let done = avx512::transpose(vectors, pitch, count, panel);
    let inner = panel.len() / PANEL;
    for column in 0..count {
        // The remainder outside whole 16 × 16 squares.
        let start = if column < done.0 { done.1 } else { 0 };
        let vector = &vectors[column * pitch..][..inner];
        for (&value, line) in vector.iter().zip(panel.as_chunks_mut::<PANEL>().0).skip(start) {
            line[column] = value;
        }
    }
}

/// Sums the vectors of a panel, each times its weight. Lanes sixteen apart are added first, then halves.
pub fn panel_times(panel: &[f32], weights: &[f32; PANEL], into: &mut [f32]) {
    Arch::new().dispatch(PanelTimes { panel, weights, into });
}

struct PanelTimes<'a> {
    panel: &'a [f32],
    weights: &'a [f32; PANEL],
    into: &'a mut [f32],
}

impl WithSimd for PanelTimes<'_> {
    type Output = ();

    /// Compiled for the widest instructions available; the arithmetic is the same for all.
    #[inline(always)]
    fn with_simd<S: Simd>(self, _: S) {
        for (line, into) in self.panel.as_chunks::<PANEL>().0.iter().zip(self.into) {
            let mut lanes = [0.0f32; PANEL / 2];
            for lane in 0..PANEL / 2 {
                lanes[lane] = line[lane] * self.weights[lane] + line[lane + PANEL / 2] * self.weights[lane + PANEL / 2];
            }
            let mut eight = [0.0f32; 8];
            (0..8).for_each(|lane| eight[lane] = lanes[lane] + lanes[lane + 8]);
            let four: [f32; 4] = [eight[0] + eight[4], eight[1] + eight[5], eight[2] + eight[6], eight[3] + eight[7]];
            *into = (four[0] + four[2]) + (four[1] + four[3]);
        }
    }
}

/// Adds a panel's biases to a tile. Returns a bit per row: set where a value exceeds both its row's and its column's
/// floor, or is NaN.
pub fn add_and_compare(tile: &mut Tile, bias: &[f32], floors: &[f32], row_floors: &[f32; TILE_ROWS]) -> u16 {
    let mut rows = 0;
    Arch::new().dispatch(Compare { tile, bias: &bias[..PANEL], floors: &floors[..PANEL], row_floors, rows: &mut rows });
    rows
}

/// A bit mask of the values of a line that exceed both their own floor and the common `floor`, or are NaN.
pub fn exceeding(line: &[f32; PANEL], floors: &[f32; PANEL], floor: f32) -> u32 {
    // Compiled for the widest instructions available; a table of single bits keeps it free of branches.
    vectorised(
        #[inline(always)]
        || {
            let mut mask = 0;
            for lane in 0..PANEL {
                #[expect(clippy::neg_cmp_op_on_partial_ord, reason = "NaN passes")]
                let passes = !(line[lane] <= floors[lane].max(floor));
                mask |= if passes { BITS[lane] } else { 0 };
            }
            mask
        },
    )
}

/// One bit per lane.
pub(super) const BITS: [u32; PANEL] = {
    let mut bits = [0; PANEL];
    let mut lane = 0;
    while lane < PANEL {
        bits[lane] = 1 << lane;
        lane += 1;
    }
    bits
};

struct Compare<'a> {
    tile: &'a mut Tile,
    bias: &'a [f32],
    floors: &'a [f32],
    row_floors: &'a [f32; TILE_ROWS],
    rows: &'a mut u16,
}

impl WithSimd for Compare<'_> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) {
        let ((bias, _), (floors, _)) = (S::as_simd_f32s(self.bias), S::as_simd_f32s(self.floors));
        for (r, line) in self.tile.chunks_exact_mut(PANEL).enumerate() {
            let floor = simd.splat_f32s(self.row_floors[r]);
            let (line, _) = S::as_mut_simd_f32s(line);
            let mut any = false;
            for ((value, bias), floors) in line.iter_mut().zip(bias).zip(floors) {
                *value = simd.add_f32s(*value, *bias);
                let below = simd.less_than_or_equal_f32s(*value, simd.max_f32s(floor, *floors));
                any |= simd.first_true_m32s(simd.not_m32s(below)) < S::F32_LANES;
            }
            *self.rows |= u16::from(any) << r;
        }
    }
}

/// Memory layout of the rows of a product.
#[derive(Clone, Copy)]
enum RowSource<'a> {
    Plain(&'a [f32]),
    Packed(&'a [f32]),
}

struct Products<'a> {
    rows: RowSource<'a>,
    panel: &'a [f32],
    inner: usize,
    out: &'a mut [Tile],
}

impl WithSimd for Products<'_> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) {
        // Accumulators must fit the registers: 24 of 32 with 16 lanes, 12 of 16 with 8.
        match S::F32_LANES {
            16 => self.pieces::<S, 12, 2>(simd),
            8 => self.pieces::<S, 6, 2>(simd),
            4 => self.pieces::<S, 4, 2>(simd),
            _ => self.pieces::<S, 1, 8>(simd),
        }
    }
}

impl Products<'_> {
    #[inline(always)]
    fn pieces<S: Simd, const ROWS: usize, const VECTORS: usize>(self, simd: S) {
        let Products { rows, panel, inner, out } = self;
        if inner == 0 {
            return out.iter_mut().for_each(|tile| tile.fill(0.0));
        }
        let size = TILE_ROWS * inner;
        for start in (0..inner).step_by(PIECE) {
            let length = PIECE.min(inner - start);
            let lines = &panel[start * PANEL..][..length * PANEL];
            for (which, tile) in out.iter_mut().enumerate() {
                let piece = Piece { lines, first: start == 0, tile };
                match rows {
                    RowSource::Plain(rows) => {
                        let rows = &rows[which * size..][..size];
                        piece.add::<S, ROWS, VECTORS>(simd, |k, r| rows[r * inner + start + k]);
                    }
                    RowSource::Packed(blocks) => {
                        let block = &blocks[which * size + start * TILE_ROWS..][..length * TILE_ROWS];
                        let (block, _) = block.as_chunks::<TILE_ROWS>();
                        piece.add::<S, ROWS, VECTORS>(simd, |k, r| block[k][r]);
                    }
                }
            }
        }
    }
}

/// A tile and one piece of the inner index.
struct Piece<'a> {
    lines: &'a [f32],
    first: bool,
    tile: &'a mut Tile,
}

impl Piece<'_> {
    /// Continues every chain of the tile from the previous piece. `value` returns a row's value: (inner index, row).
    #[inline(always)]
    fn add<S: Simd, const ROWS: usize, const VECTORS: usize>(self, simd: S, value: impl Fn(usize, usize) -> f32) {
        let lanes = S::F32_LANES;
        for first in (0..TILE_ROWS).step_by(ROWS) {
            for column in (0..PANEL).step_by(VECTORS * lanes) {
                let mut sums = [[simd.splat_f32s(0.0); VECTORS]; ROWS];
                if !self.first {
                    for (r, sums) in sums.iter_mut().enumerate() {
                        let line = &self.tile[(first + r) * PANEL + column..][..VECTORS * lanes];
                        sums.copy_from_slice(S::as_simd_f32s(line).0);
                    }
                }
                for (k, line) in self.lines.chunks_exact(PANEL).enumerate() {
                    let (vectors, _) = S::as_simd_f32s(&line[column..column + VECTORS * lanes]);
                    let vectors: [S::f32s; VECTORS] = std::array::from_fn(|v| vectors[v]);
                    #[expect(clippy::needless_range_loop, reason = "indices keep the sums in registers")]
                    for r in 0..ROWS {
                        let value = simd.splat_f32s(value(k, first + r));
                        for v in 0..VECTORS {
                            sums[r][v] = simd.mul_add_f32s(value, vectors[v], sums[r][v]);
                        }
                    }
                }
                for (r, sums) in sums.iter().enumerate() {
                    let line = &mut self.tile[(first + r) * PANEL + column..][..VECTORS * lanes];
                    S::as_mut_simd_f32s(line).0.copy_from_slice(sums);
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_element_is_one_chain_of_fused_operations() {
        for (inner, columns) in [(1, 1), (7, 33), (24, 64), (768, 100)] {
            let vectors: Vec<f32> = (0..columns * inner).map(|i| ((i * 7919 % 1013) as f32 - 500.0) / 317.0).collect();
            let rows: Vec<f32> = (0..TILE_ROWS * inner).map(|i| ((i * 104_729 % 997) as f32 - 490.0) / 211.0).collect();
            let panels = Panels::pack(&vectors, inner);
            assert_eq!(panels.unpack(), vectors);
            let (mut tile, mut tiles) = ([0.0; TILE_ROWS * PANEL], [[0.0; TILE_ROWS * PANEL]; 2]);
            let mut blocks = vec![9.0; 2 * TILE_ROWS * inner];
            let (first, second) = blocks.split_at_mut(TILE_ROWS * inner);
            fill_block(&rows[..5 * inner], inner, first);
            fill_block(&rows, inner, second);
            for panel in 0..panels.panels() {
                panels.product(&rows, panel, &mut tile);
                panels.products(&blocks, panel, &mut tiles);
                assert!(tiles[1] == tile && tiles[0][..5 * PANEL] == tile[..5 * PANEL]);
                assert!(tiles[0][5 * PANEL..].iter().all(|value| *value == 0.0));
                for r in 0..TILE_ROWS {
                    for c in 0..PANEL.min(columns - panel * PANEL) {
                        let vector = &vectors[(panel * PANEL + c) * inner..][..inner];
                        let chain = rows[r * inner..][..inner]
                            .iter()
                            .zip(vector)
                            .fold(0.0f32, |sum, (a, b)| a.mul_add(*b, sum));
                        assert_eq!(tile[r * PANEL + c].to_bits(), chain.to_bits());
                    }
                }
            }
        }
    }

    #[test]
    fn transposed_vectors_have_the_layout_of_a_panel() {
        for (count, inner, pitch) in [(1, 1, 1), (16, 16, 16), (31, 40, 41), (32, 33, 50), (5, 100, 100)] {
            let vectors: Vec<f32> = (0..count * pitch).map(|index| index as f32).collect();
            let mut panel = vec![-1.0; inner * PANEL];
            transpose(&vectors, pitch, count, &mut panel);
            for (k, line) in panel.as_chunks::<PANEL>().0.iter().enumerate() {
                for (column, &value) in line.iter().enumerate() {
                    assert_eq!(value, if column < count { (column * pitch + k) as f32 } else { -1.0 });
                }
            }
        }
    }

    #[test]
    fn weighted_sums_add_halves_first() {
        let panel: Vec<f32> = (0..3 * PANEL).map(|i| ((i * 7919 % 1013) as f32 - 500.0) / 317.0).collect();
        let weights: [f32; PANEL] = std::array::from_fn(|lane| (lane as f32 - 9.5) / 7.0);
        let mut sums = [0.0; 3];
        panel_times(&panel, &weights, &mut sums);
        for (line, sum) in panel.as_chunks::<PANEL>().0.iter().zip(sums) {
            let mut lanes: Vec<f32> = line.iter().zip(weights).map(|(a, b)| a * b).collect();
            while lanes.len() > 1 {
                let half = lanes.split_off(lanes.len() / 2);
                lanes.iter_mut().zip(half).for_each(|(lane, other)| *lane += other);
            }
            assert_eq!(sum.to_bits(), lanes[0].to_bits());
        }
    }

    #[test]
    fn blocks_are_distributed_evenly() {
        // 86 blocks of width 768: at most 28 per call, so four calls of 22 for two threads. Three calls of 29 are too large.
        assert_eq!((blocks_at_once(86, 768, 2), blocks_at_once(86, 768, 1)), (22, 22));
        assert_eq!((blocks_at_once(0, 768, 2), blocks_at_once(1, 768, 7), blocks_at_once(9, 0, 1)), (1, 1, 9));
        assert_eq!(blocks_at_once(1000, 1 << 20, 1), 8);
    }

    #[test]
    fn packing_round_trips() {
        let vectors: Vec<f32> = (0..33 * 5).map(|i| i as f32).collect();
        let mut panels = Panels::pack(&vectors, 5);
        assert_eq!(panels.unpack(), vectors);
        panels.set_column(32, &[9.0; 5]);
        let mut column = [0.0; 5];
        panels.column(32, &mut column);
        assert_eq!(column, [9.0; 5]);
        panels.column(31, &mut column);
        assert_eq!(column[..], vectors[31 * 5..32 * 5]);
    }

    #[test]
    fn weighted_vectors_are_summed() {
        let vectors: Vec<f32> = (0..5 * 3).map(|i| i as f32).collect();
        let mut weights = [0.0; PANEL];
        weights[..5].copy_from_slice(&[1.0, -1.0, 2.0, 0.0, 0.5]);
        let mut sums = [9.0; 3];
        panel_times(Panels::pack(&vectors, 3).values(), &weights, &mut sums);
        // 0 − 3 + 2·6 + 12/2 = 15, and every further column adds 1 − 1 + 2 + 1/2.
        assert_eq!(sums, [15.0, 17.5, 20.0]);
    }

    #[test]
    fn floors_of_rows_and_columns_both_count() {
        let mut tile = [0.0; TILE_ROWS * PANEL];
        (tile[3], tile[PANEL + 3], tile[2 * PANEL + 31]) = (1.0, 1.0, 1.0);
        let (mut bias, mut floors, mut row_floors) = ([0.0; PANEL], [0.0; PANEL], [0.0; TILE_ROWS]);
        // Row 0 passes; row 1 has a higher row floor; row 2 plus its bias equals its column's floor, which is not above it.
        (bias[31], floors[31], row_floors[1], tile[4 * PANEL]) = (0.5, 1.5, 1.0, f32::NAN);
        assert_eq!(add_and_compare(&mut tile, &bias, &floors, &row_floors), 0b10001);
        assert_eq!(tile[2 * PANEL + 31], 1.5);
        let mut line = [1.0; PANEL];
        (line[0], line[5], floors[7]) = (2.0, f32::NAN, 3.0);
        assert_eq!(exceeding(&line, &floors, 1.0), 0b100001);
        assert_eq!(exceeding(&line, &floors, 0.5), !(1 << 7 | 1 << 31));
    }
}
