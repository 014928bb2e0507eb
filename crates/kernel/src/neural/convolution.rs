//! Convolutions of maps whose channels come last, with packed weights.
//!
//! A filter reads `taps` runs of `run` values for every output position: the channels of a neighbour, or of a whole line
//! of neighbours. A table says where each run starts. There is no copy of the neighbourhoods, as in a product of gathered rows:
//! on the layers of ResNet-50 this takes 0.91 of the time of that product, packed weights included.
//!
//! Every output is one chain of fused multiply-adds over taps and values, in order, on every processor. Results depend
//! neither on the instruction set, nor on the other positions of a call, nor on threads.

use std::ops::Range;

use pulp::{Arch, Simd, WithSimd};
use rayon::prelude::*;

use super::finish::Finish;
use crate::aligned::Aligned;

/// The start of a run outside of the map; its values are zero.
pub const OUTSIDE: usize = usize::MAX;

/// Columns are packed in multiples of this number.
const COLUMNS: usize = 16;

/// The widest panel, in multiples of [`COLUMNS`]: with six rows, 24 of 32 registers are accumulators.
const WIDEST: usize = 4;

/// Length of the blocks of the inner index: at most 128 KB of a panel, which stay in the second-level cache while all
/// positions use them. A chain continues from one block to the next, so its bits do not depend on this.
const BLOCK: usize = 512;

/// The values of a run outside of the map.
static ZEROS: [f32; BLOCK] = [0.0; BLOCK];

/// The weights of a convolution, packed in panels of 16 to 64 columns: a panel has the weights of its columns by inner
/// index.
#[derive(Clone, Debug)]
pub struct Filters {
    taps: usize,
    run: usize,
    columns: usize,
    panels: Vec<Panel>,
    values: Aligned,
}

/// Some columns of packed weights. The values of a panel start at its first column times the length of the inner index.
#[derive(Clone, Copy, Debug)]
pub(super) struct Panel {
    /// The first column.
    pub column: usize,
    /// Columns, in multiples of [`COLUMNS`].
    pub groups: usize,
}

impl Panel {
    /// Columns, with those that are there only to fill a vector.
    pub fn width(&self) -> usize {
        self.groups * COLUMNS
    }
}

/// Divides columns into panels of nearly equal width: 9 groups are 3 + 3 + 3.
pub(super) fn panels(columns: usize) -> Vec<Panel> {
    let groups = columns.div_ceil(COLUMNS);
    let count = groups.div_ceil(WIDEST);
    let borders = |panel: usize| panel * groups / count;
    let panel = |panel: usize| Panel { column: borders(panel) * COLUMNS, groups: borders(panel + 1) - borders(panel) };
    (0..count).map(panel).collect()
}

/// Transposes a matrix of `rows × columns`: row `r` starts at `from[r · pitch]`, and becomes a column of `to`.
fn transpose((from, pitch): (&[f32], usize), (to, to_pitch): (&mut [f32], usize), [rows, columns]: [usize; 2]) {
    for row in (0..rows).step_by(COLUMNS) {
        let height = COLUMNS.min(rows - row);
        for column in (0..columns).step_by(COLUMNS) {
            // A square at a time, so that whole cache lines are read and written.
            let mut square = [[0.0f32; COLUMNS]; COLUMNS];
            let width = COLUMNS.min(columns - column);
            for r in 0..height {
                let line = &from[(row + r) * pitch + column..][..width];
                line.iter().zip(&mut square).for_each(|(&value, square)| square[r] = value);
            }
            for (c, square) in square[..width].iter().enumerate() {
                to[(column + c) * to_pitch + row..][..height].copy_from_slice(&square[..height]);
            }
        }
    }
}

impl Filters {
    /// Packs weights; `weight(index, column)` is asked for every inner index `tap · run + value` and every column.
    pub fn pack(taps: usize, run: usize, columns: usize, weight: impl Fn(usize, usize) -> f32 + Sync) -> Filters {
        let mut filters = Filters::zeros(taps, run, columns);
        filters.fill(|panel, values| {
            let (width, used) = (panel.width(), panel.width().min(columns - panel.column));
            for (index, line) in values.chunks_exact_mut(width.max(1)).enumerate() {
                line[..used].iter_mut().enumerate().for_each(|(at, value)| *value = weight(index, panel.column + at));
            }
        });
        filters
    }

    fn zeros(taps: usize, run: usize, columns: usize) -> Filters {
        let panels = panels(columns);
        let values = Aligned::zeros(columns.div_ceil(COLUMNS) * COLUMNS * taps * run);
        Filters { taps, run, columns, panels, values }
    }

    /// Fills the values of every panel, on all threads.
    fn fill(&mut self, fill: impl Fn(&Panel, &mut [f32]) + Sync) {
        let inner = self.taps * self.run;
        let mut left = &mut self.values[..];
        let mut parts = Vec::with_capacity(self.panels.len());
        for panel in &self.panels {
            let (part, rest) = left.split_at_mut(panel.width() * inner);
            parts.push((panel, part));
            left = rest;
        }
        parts.into_par_iter().for_each(|(panel, values)| fill(panel, values));
    }

    /// The weights by inner index: `columns` values for each.
    pub fn unpack(&self) -> Vec<f32> {
        let (inner, columns) = (self.taps * self.run, self.columns);
        let mut out = vec![0.0; inner * columns];
        for panel in &self.panels {
            let (width, used) = (panel.width(), panel.width().min(columns - panel.column));
            let lines = self.values[panel.column * inner..][..width * inner].chunks_exact(width);
            for (out, line) in out.chunks_exact_mut(columns).zip(lines) {
                out[panel.column..][..used].copy_from_slice(&line[..used]);
            }
        }
        out
    }

    /// The weights of the transposed product, with one tap: inner indices and columns are exchanged.
    pub fn transposed(&self) -> Filters {
        let (inner, columns) = (self.taps * self.run, self.columns);
        let mut out = Filters::zeros(1, columns, inner);
        out.fill(|panel, values| {
            let (width, used) = (panel.width(), panel.width().min(inner - panel.column));
            for source in &self.panels {
                let lines = &self.values[source.column * inner + panel.column * source.width()..];
                let count = source.width().min(columns - source.column);
                let target = &mut values[source.column * width..][..count * width];
                transpose((lines, source.width()), (target, width), [used, count]);
            }
        });
        out
    }

    /// Values per output position.
    pub fn columns(&self) -> usize {
        self.columns
    }

    /// Runs per output position.
    pub fn taps(&self) -> usize {
        self.taps
    }

    /// Values per run.
    pub fn run(&self) -> usize {
        self.run
    }

    /// Number of panels.
    pub fn panels(&self) -> usize {
        self.panels.len()
    }

    /// The columns of some panels.
    pub fn columns_of(&self, panels: Range<usize>) -> Range<usize> {
        let column = |panel: usize| self.panels.get(panel).map_or(self.columns, |panel| panel.column);
        column(panels.start)..column(panels.end)
    }

    /// The outputs of some positions, on the calling thread. `starts` has the start of the runs in `x`, tap by tap, a
    /// value per position; `out` has a row per position.
    pub fn apply(&self, x: &[f32], starts: &[usize], finish: &Finish<'_>, out: &mut [f32]) {
        self.apply_panels(0..self.panels.len(), x, starts, finish, out);
    }

    /// Like [`Filters::apply`] for the columns of some panels: `finish` and the rows of `out` have these columns only.
    pub fn apply_panels(
        &self,
        panels: Range<usize>,
        x: &[f32],
        starts: &[usize],
        finish: &Finish<'_>,
        out: &mut [f32],
    ) {
        let columns = self.columns_of(panels.clone());
        let (first, pitch) = (columns.start, columns.len());
        let positions = out.len().checked_div(pitch).unwrap_or(0);
        assert!(out.len() == positions * pitch && starts.len() == self.taps * positions, "shapes differ");
        let inside = |start: &usize| *start == OUTSIDE || start.checked_add(self.run).is_some_and(|end| end <= x.len());
        assert!(starts.iter().all(inside), "a run ends outside of the map");
        finish.check(pitch, positions);
        let work = Runs { x, starts, positions, run: self.run, inner: self.taps * self.run };
        if work.inner == 0 {
            out.fill(0.0);
            return finish.apply(pitch, out);
        }
        // Columns that fill no vector go through a buffer, and the rows are finished afterwards.
        let whole = pitch.is_multiple_of(COLUMNS);
        for panel in &self.panels[panels] {
            let (width, column) = (panel.width(), panel.column - first);
            let weights = &self.values[panel.column * work.inner..][..width * work.inner];
            if whole {
                let target = Target { out, pitch, column, finish: Some(finish) };
                Arch::new().dispatch(Products { runs: &work, weights, groups: panel.groups, target });
            } else {
                let mut buffer = vec![0.0; positions * width];
                let target = Target { out: &mut buffer, pitch: width, column: 0, finish: None };
                Arch::new().dispatch(Products { runs: &work, weights, groups: panel.groups, target });
                let used = width.min(pitch - column);
                for (out, row) in out.chunks_exact_mut(pitch).zip(buffer.chunks_exact(width)) {
                    out[column..][..used].copy_from_slice(&row[..used]);
                }
            }
        }
        if !whole {
            finish.apply(pitch, out);
        }
    }
}

/// The rows of the product. Every start is [`OUTSIDE`], or `run` values are inside `x` from there on.
struct Runs<'a> {
    x: &'a [f32],
    starts: &'a [usize],
    positions: usize,
    run: usize,
    inner: usize,
}

/// Where outputs go: row `p` of a panel starts at `out[p · pitch + column]`.
struct Target<'a> {
    out: &'a mut [f32],
    pitch: usize,
    column: usize,
    finish: Option<&'a Finish<'a>>,
}

/// All positions times one panel.
struct Products<'a> {
    runs: &'a Runs<'a>,
    weights: &'a [f32],
    groups: usize,
    target: Target<'a>,
}

impl WithSimd for Products<'_> {
    type Output = ();

    /// Accumulators must fit the registers: at most 24 of 32 with 16 or 4 lanes, 12 of 16 with 8.
    #[inline(always)]
    fn with_simd<S: Simd>(mut self, simd: S) {
        match (S::F32_LANES, self.groups) {
            (16, 4) => self.blocks::<S, 6, 4>(simd, 0),
            (16, 3) => self.blocks::<S, 8, 3>(simd, 0),
            (16, 2) => self.blocks::<S, 8, 2>(simd, 0),
            (16, _) => self.blocks::<S, 8, 1>(simd, 0),
            (8, groups) => (0..groups).for_each(|group| self.blocks::<S, 6, 2>(simd, group)),
            (4, groups) => (0..groups).for_each(|group| self.blocks::<S, 6, 4>(simd, group)),
            (_, groups) => (0..groups * COLUMNS / 8).for_each(|part| self.blocks::<S, 1, 8>(simd, part)),
        }
    }
}

impl Products<'_> {
    /// The columns of `VECTORS` vectors of the panel: part number `part` of them.
    #[inline(always)]
    fn blocks<S: Simd, const ROWS: usize, const VECTORS: usize>(&mut self, simd: S, part: usize) {
        let Runs { positions, inner, .. } = *self.runs;
        for start in (0..inner).step_by(BLOCK) {
            let block = start..(start + BLOCK).min(inner);
            let whole = positions / ROWS * ROWS;
            for position in (0..whole).step_by(ROWS) {
                self.tile::<S, ROWS, VECTORS>(simd, part, position, block.clone());
            }
            for position in whole..positions {
                self.tile::<S, 1, VECTORS>(simd, part, position, block.clone());
            }
        }
    }

    /// Continues the chains of `ROWS` positions and `VECTORS` vectors with a block of the inner index.
    #[inline(always)]
    #[allow(unsafe_code)]
    fn tile<S: Simd, const ROWS: usize, const VECTORS: usize>(
        &mut self,
        simd: S,
        part: usize,
        position: usize,
        block: std::ops::Range<usize>,
    ) {
        let Runs { x, starts, positions, run, inner } = *self.runs;
        let lanes = S::F32_LANES;
        let (line, first) = (self.groups * COLUMNS / lanes, part * VECTORS);
        let column = self.target.column + first * lanes;
        let (weights, _) = S::as_simd_f32s(self.weights);
        assert!(position + ROWS <= positions && starts.len() * run == positions * inner && block.end <= inner);
        assert!(weights.len() == inner * line && first + VECTORS <= line);
        let mut sums = [[simd.splat_f32s(0.0); VECTORS]; ROWS];
        if block.start > 0 {
            for (row, sums) in sums.iter_mut().enumerate() {
                let out = &self.target.out[(position + row) * self.target.pitch + column..][..VECTORS * lanes];
                sums.copy_from_slice(S::as_simd_f32s(out).0);
            }
        }
        let (mut tap, mut skipped, mut index) = (block.start / run, block.start % run, block.start);
        while index < block.end {
            let length = (run - skipped).min(block.end - index);
            // SAFETY: `tap` is below the number of taps, because `index < inner`, and there are `positions` starts per tap.
            let starts = unsafe { starts.as_ptr().add(tap * positions + position) };
            let rows: [*const f32; ROWS] = std::array::from_fn(|row| {
                // SAFETY: `position + row < positions`. A start is followed by `run` values inside of `x`.
                unsafe {
                    let start = *starts.add(row);
                    if start == OUTSIDE { ZEROS.as_ptr() } else { x.as_ptr().add(start + skipped) }
                }
            });
            // SAFETY: `index + length ≤ inner`, and there are `inner` lines of weights, each with `line` vectors.
            let lines = unsafe { weights.as_ptr().add(index * line + first) };
            for step in 0..length {
                // SAFETY: as above; `length` values of every row are inside of `x` or of `ZEROS`: `length ≤ BLOCK`.
                unsafe {
                    let weights: [S::f32s; VECTORS] = std::array::from_fn(|vector| *lines.add(step * line + vector));
                    for row in 0..ROWS {
                        let value = simd.splat_f32s(*rows[row].add(step));
                        for vector in 0..VECTORS {
                            sums[row][vector] = simd.mul_add_f32s(value, weights[vector], sums[row][vector]);
                        }
                    }
                }
            }
            (tap, skipped, index) = (tap + 1, 0, index + length);
        }
        let finish = self.target.finish.filter(|_| block.end == inner);
        for (row, sums) in sums.iter().enumerate() {
            let row = (position + row) * self.target.pitch;
            let out = &mut self.target.out[row + column..][..VECTORS * lanes];
            for (vector, (out, sum)) in S::as_mut_simd_f32s(out).0.iter_mut().zip(sums).enumerate() {
                *out = finish.map_or(*sum, |finish| finish.vector(simd, *sum, column + vector * lanes, row));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::neural::Clip;
    use crate::random::{stream, unit};

    fn draw(count: usize, seed: u64) -> Vec<f32> {
        let mut random = stream(seed, "convolution", 0);
        (0..count).map(|_| unit(&mut random) as f32 - 0.5).collect()
    }

    struct Case {
        x: Vec<f32>,
        starts: Vec<usize>,
        weights: Vec<f32>,
        shortcut: Vec<f32>,
        channels: Vec<f32>,
        size: [usize; 4],
    }

    impl Case {
        fn new(taps: usize, run: usize, columns: usize, positions: usize) -> Case {
            let x = draw(5 * run + 40, 1);
            let start = |index: usize| if index % 5 == 3 { OUTSIDE } else { (index * 7) % (x.len() - run + 1) };
            let starts = (0..taps * positions).map(start).collect();
            let weights = draw(taps * run * columns, 2);
            let shortcut = draw(positions * columns, 3);
            Case { x, starts, weights, shortcut, channels: draw(3 * columns, 4), size: [taps, run, columns, positions] }
        }

        fn finish(&self) -> Finish<'_> {
            let mut parts = self.channels.chunks_exact(self.size[2]);
            let mut next = || parts.next().unwrap();
            let (bias, scale, shift) = (next(), next(), next());
            let norm = Some((scale, shift));
            Finish { bias: Some(bias), norm, shortcut: Some(&self.shortcut), clip: Clip { floor: -0.3, ceiling: 0.4 } }
        }

        /// The definition: one chain per output.
        fn plain(&self) -> Vec<f32> {
            let [taps, run, columns, positions] = self.size;
            let mut out = Vec::new();
            for position in 0..positions {
                for column in 0..columns {
                    let mut sum = 0.0f32;
                    for tap in 0..taps {
                        let start = self.starts[tap * positions + position];
                        for value in 0..run {
                            let x = if start == OUTSIDE { 0.0 } else { self.x[start + value] };
                            sum = x.mul_add(self.weights[(tap * run + value) * columns + column], sum);
                        }
                    }
                    out.push(self.finish().value(sum, column, position * columns));
                }
            }
            out
        }

        fn filters(&self) -> Filters {
            let [taps, run, columns, _] = self.size;
            Filters::pack(taps, run, columns, |index, column| self.weights[index * columns + column])
        }
    }

    fn bits(values: &[f32]) -> Vec<u32> {
        values.iter().map(|value| value.to_bits()).collect()
    }

    #[test]
    fn every_shape_has_the_bits_of_the_definition() {
        let sizes = [
            [1, 1, 1, 1],
            [9, 3, 16, 7],
            [4, 300, 32, 9],
            [1, 600, 64, 13],
            [3, 200, 48, 8],
            [2, 20, 144, 6],
            [9, 5, 24, 17],
            [1, 7, 70, 5],
            [0, 4, 16, 3],
            [2, 3, 5, 0],
        ];
        for [taps, run, columns, positions] in sizes {
            let case = Case::new(taps, run, columns, positions);
            let mut out = vec![7.0; columns * positions];
            case.filters().apply(&case.x, &case.starts, &case.finish(), &mut out);
            assert_eq!(bits(&out), bits(&case.plain()), "{taps} {run} {columns} {positions}");
        }
    }

    #[test]
    fn weights_are_unpacked_and_transposed() {
        for (inner, columns) in [(1, 1), (7, 70), (40, 144), (33, 16), (100, 5), (64, 128)] {
            let weights = draw(inner * columns, 5);
            let filters = Filters::pack(1, inner, columns, |index, column| weights[index * columns + column]);
            assert_eq!(filters.unpack(), weights);
            let expected: Vec<f32> = (0..inner * columns).map(|i| weights[i % inner * columns + i / inner]).collect();
            assert_eq!(filters.transposed().unpack(), expected, "{inner} {columns}");
            // Padded columns are zero, so that they cannot make a sum undefined.
            let padded = filters.transposed().values.iter().filter(|value| **value == 0.0).count();
            assert_eq!(padded, (inner.next_multiple_of(COLUMNS) - inner) * columns);
        }
    }

    #[test]
    fn some_panels_have_the_bits_of_all() {
        let case = Case::new(2, 20, 150, 6);
        let (filters, all) = (case.filters(), case.plain());
        let mut from = 0;
        for panels in [0..1, 1..3] {
            let columns = filters.columns_of(panels.clone());
            assert_eq!(columns.start, from);
            from = columns.end;
            let part = |values: &[f32]| -> Vec<f32> {
                values.chunks_exact(150).flat_map(|row| &row[columns.clone()]).copied().collect()
            };
            let whole = case.finish();
            let (scale, shift) = whole.norm.unwrap();
            let shortcut = part(whole.shortcut.unwrap());
            let finish = Finish {
                bias: whole.bias.map(|bias| &bias[columns.clone()]),
                norm: Some((&scale[columns.clone()], &shift[columns.clone()])),
                shortcut: Some(&shortcut),
                clip: whole.clip,
            };
            let mut out = vec![7.0; columns.len() * 6];
            filters.apply_panels(panels, &case.x, &case.starts, &finish, &mut out);
            assert_eq!(bits(&out), bits(&part(&all)));
        }
        assert_eq!((from, filters.panels()), (150, 3));
    }

    #[test]
    fn instruction_sets_have_the_same_bits() {
        let case = Case::new(3, 200, 64, 13);
        let filters = case.filters();
        let (finish, plain) = (case.finish(), case.plain());
        let run = |with: &dyn Fn(Products<'_>)| {
            let mut out = vec![0.0; plain.len()];
            let runs = Runs { x: &case.x, starts: &case.starts, positions: 13, run: 200, inner: 600 };
            let target = Target { out: &mut out, pitch: 64, column: 0, finish: Some(&finish) };
            with(Products { runs: &runs, weights: &filters.values, groups: 4, target });
            assert_eq!(bits(&out), bits(&plain));
        };
        run(&|products| products.with_simd(pulp::Scalar));
        #[cfg(target_arch = "x86_64")]
        if let Some(avx2) = pulp::x86::V3::try_new() {
            run(&|products| Simd::vectorize(avx2, products));
        }
    }

    #[test]
    #[should_panic(expected = "a run ends outside of the map")]
    fn runs_outside_of_the_map_are_refused() {
        let filters = Filters::pack(1, 2, 1, |_, _| 1.0);
        filters.apply(&[0.0; 4], &[3], &Finish::NONE, &mut [0.0]);
    }
}
