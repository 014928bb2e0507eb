//! Columns quantised to 8 bits.

use pulp::{Arch, Simd, WithSimd};
use rayon::prelude::*;

use super::{MAGIC, PER_LANE, RANGE, SLACK};
use crate::amx::DEPTH;
use crate::packed::PANEL;

/// Longer rows could overflow a sum.
const MAX_INNER: usize = 1 << 16;

/// Four values of the inner index: four bytes of each column of a panel, offset by 128.
#[derive(Clone, Copy, Debug)]
#[repr(C, align(64))]
pub(crate) struct ColumnLine(pub [u32; PANEL]);

impl ColumnLine {
    /// Adds the products with four bytes of a row to `sums`.
    #[inline(always)]
    pub fn add_products(&self, row: i32, sums: &mut [i32; PANEL]) {
        let row = row.to_le_bytes().map(|byte| i32::from(byte as i8));
        for (sum, column) in sums.iter_mut().zip(&self.0) {
            let column = column.to_le_bytes().map(i32::from);
            *sum = sum.wrapping_add((0..PER_LANE).map(|i| row[i] * column[i]).sum());
        }
    }
}

/// The columns of packed panels, quantised to 8 bits.
#[derive(Clone, Debug, Default)]
pub struct Columns {
    /// Lines per panel, padded to whole AMX steps. Rows are zero in the padding, so its values do not matter here.
    lines: usize,
    bytes: Vec<ColumnLine>,
    bounds: Vec<PanelBounds>,
}

/// Scales and error bounds of a quantised panel.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PanelBounds {
    /// Quantisation step of each column.
    pub units: [f32; PANEL],
    /// Upper bound of the length of each column.
    pub lengths: [f32; PANEL],
    /// Upper bound of the share of its length that any column lost by rounding.
    pub loss: f32,
    /// Whether products with this panel can be bounded.
    usable: bool,
}

impl Default for PanelBounds {
    fn default() -> Self {
        PanelBounds { units: [0.0; PANEL], lengths: [0.0; PANEL], loss: 0.0, usable: false }
    }
}

impl Columns {
    /// Quantises packed panels ([`Panels::values`](crate::packed::Panels::values)) on this thread.
    pub fn new(values: &[f32], inner: usize) -> Columns {
        let mut columns = Columns::default();
        let size = columns.resize(values, inner);
        let parts = columns.bytes.chunks_exact_mut(columns.lines).zip(&mut columns.bounds);
        for (panel, (bytes, bounds)) in values.chunks_exact(size).zip(parts) {
            *bounds = Arch::new().dispatch(RoundPanel { panel, bytes });
        }
        columns
    }

    /// Quantises packed panels on all threads, reusing the allocations.
    pub fn fill(&mut self, values: &[f32], inner: usize) {
        let size = self.resize(values, inner);
        (values.par_chunks_exact(size), self.bytes.par_chunks_exact_mut(self.lines), &mut self.bounds)
            .into_par_iter()
            .with_min_len(4)
            .for_each(|(panel, bytes, bounds)| *bounds = Arch::new().dispatch(RoundPanel { panel, bytes }));
    }

    /// Resizes the buffers; returns the values per panel. Rows that are too long get no panels, so nothing is usable.
    fn resize(&mut self, values: &[f32], inner: usize) -> usize {
        let size = (inner * PANEL).max(1);
        let panels = if inner > MAX_INNER { 0 } else { values.len() / size };
        self.lines = inner.div_ceil(DEPTH).max(1) * (DEPTH / PER_LANE);
        self.bytes.resize(panels * self.lines, ColumnLine([0; PANEL]));
        self.bounds.resize(panels, PanelBounds::default());
        size
    }

    /// Number of panels.
    pub fn panels(&self) -> usize {
        self.bounds.len()
    }

    /// Whether every panel can be used.
    pub fn usable(&self) -> bool {
        !self.bounds.is_empty() && self.bounds.iter().all(|bounds| bounds.usable)
    }

    /// Upper bound of the length of all columns.
    pub fn longest(&self) -> f32 {
        self.bounds.iter().flat_map(|bounds| bounds.lengths).fold(0.0, f32::max)
    }

    /// One panel and its bounds.
    pub(super) fn panel(&self, panel: usize) -> (&[ColumnLine], &PanelBounds) {
        (&self.bytes[panel * self.lines..][..self.lines], &self.bounds[panel])
    }
}

/// Quantises one panel.
struct RoundPanel<'a> {
    panel: &'a [f32],
    bytes: &'a mut [ColumnLine],
}

impl WithSimd for RoundPanel<'_> {
    type Output = PanelBounds;

    /// Compiled for the widest instructions available; the arithmetic is the same for all.
    #[inline(always)]
    fn with_simd<S: Simd>(self, _: S) -> PanelBounds {
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
        for (lines, four) in lines.chunks(PER_LANE).zip(bytes) {
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
        // NaN values make the length NaN.
        let usable = most.iter().all(|&most| most == 0.0 || RANGE.contains(&most))
            && lengths.iter().all(|length| length.is_finite());
        PanelBounds { units, lengths, loss, usable }
    }
}
