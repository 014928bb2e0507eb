//! Columns, rounded to 8 bits.

use pulp::{Arch, Simd, WithSimd};
use rayon::prelude::*;

use super::{FOUR, MAGIC, RANGE, SLACK};
use crate::amx::DEPTH;
use crate::packed::PANEL;

/// More numbers than this in a row could overflow a sum.
const LONGEST: usize = 1 << 16;

/// Four of the inner index: four bytes of each column of a panel, 128 added.
#[derive(Clone, Copy, Debug)]
#[repr(C, align(64))]
pub(crate) struct ColumnLine(pub [u32; PANEL]);

impl ColumnLine {
    /// Adds its products with four bytes of a row to sums.
    #[inline(always)]
    pub fn add_products(&self, row: i32, sums: &mut [i32; PANEL]) {
        let row = row.to_le_bytes().map(|byte| i32::from(byte as i8));
        for (sum, column) in sums.iter_mut().zip(&self.0) {
            let column = column.to_le_bytes().map(i32::from);
            *sum = sum.wrapping_add((0..FOUR).map(|i| row[i] * column[i]).sum());
        }
    }
}

/// The columns of some panels, rounded to 8 bits.
#[derive(Clone, Debug, Default)]
pub struct Columns {
    /// Lines of a panel: enough for whole steps of tiles. What is missing in the inner index is 0 in the rows, so that it
    /// does not matter here.
    lines: usize,
    bytes: Vec<ColumnLine>,
    numbers: Vec<PanelNumbers>,
}

/// What is known about the rounding of a panel.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PanelNumbers {
    /// The size of one unit, by column.
    pub units: [f32; PANEL],
    /// Not less than the length, by column.
    pub lengths: [f32; PANEL],
    /// Not less than the part of its length that any column lost.
    pub loss: f32,
    /// Whether products with it can be bounded at all.
    usable: bool,
}

impl Default for PanelNumbers {
    fn default() -> Self {
        PanelNumbers { units: [0.0; PANEL], lengths: [0.0; PANEL], loss: 0.0, usable: false }
    }
}

impl Columns {
    /// Rounds packed panels ([`Panels::values`](crate::packed::Panels::values)) on this thread.
    pub fn new(values: &[f32], inner: usize) -> Columns {
        let mut columns = Columns::default();
        let size = columns.resize(values, inner);
        let parts = columns.bytes.chunks_exact_mut(columns.lines).zip(&mut columns.numbers);
        for (panel, (bytes, numbers)) in values.chunks_exact(size).zip(parts) {
            *numbers = Arch::new().dispatch(RoundPanel { panel, bytes });
        }
        columns
    }

    /// Rounds packed panels on all threads. Memory of the last time is used again.
    pub fn fill(&mut self, values: &[f32], inner: usize) {
        let size = self.resize(values, inner);
        (values.par_chunks_exact(size), self.bytes.par_chunks_exact_mut(self.lines), &mut self.numbers)
            .into_par_iter()
            .with_min_len(4)
            .for_each(|(panel, bytes, numbers)| *numbers = Arch::new().dispatch(RoundPanel { panel, bytes }));
    }

    /// Makes room; returns the numbers in a panel. Rows that are too long have no room, so that nothing is usable.
    fn resize(&mut self, values: &[f32], inner: usize) -> usize {
        let size = (inner * PANEL).max(1);
        let panels = if inner > LONGEST { 0 } else { values.len() / size };
        self.lines = inner.div_ceil(DEPTH).max(1) * (DEPTH / FOUR);
        self.bytes.resize(panels * self.lines, ColumnLine([0; PANEL]));
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

    /// One panel, and what is known about its rounding.
    pub(super) fn panel(&self, panel: usize) -> (&[ColumnLine], &PanelNumbers) {
        (&self.bytes[panel * self.lines..][..self.lines], &self.numbers[panel])
    }
}

/// Rounds one panel.
struct RoundPanel<'a> {
    panel: &'a [f32],
    bytes: &'a mut [ColumnLine],
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
            four.0 = line;
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
