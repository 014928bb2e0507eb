//! Products of rows with weights of 8 bits.
//!
//! The inner index is divided into groups of 128. The weights of a column and the values of a row are rounded to 8 bits with
//! one step per group. Products of integers and their sums within a group are exact; the groups are added in `f32`, in
//! order. Results therefore depend neither on the instruction set nor on other rows nor on threads.
//!
//! Values of a row that are far above the others of their group are outliers, as the rows of language models have them: one of them
//! would make the step so large that the others become 0. They are not rounded; their products with the rounded weights are added
//! in `f32` after the groups.

use super::convolution::{Panel, panels};
use super::vectorised;

/// Values of the inner index with one step. A sum of this many products of bytes is exact in `f32`.
const GROUP: usize = 128;

/// Bytes whose products one 32-bit lane adds.
const PER_LANE: usize = 4;

/// Fours of a group.
const FOURS: usize = GROUP / PER_LANE;

/// Lanes of a vector.
const LANES: usize = 16;

/// Added to a value below 2²², leaves the nearest integer in the lowest bits.
const MAGIC: f32 = 12_582_912.0;

/// Rows that are multiplied together.
const ROWS: usize = 6;

/// Values above this many times the root mean square of their group are outliers: one of 16,000 values of a normal distribution.
const FAR: f32 = 4.0;

/// Groups of smaller values are zero: the inverse of their step would overflow.
const TINY: f32 = 1e-30;

/// Weights rounded to 8 bits.
#[derive(Clone, Debug)]
pub struct Int8Weights {
    inner: usize,
    columns: usize,
    panels: Vec<Panel>,
    /// By panel, four of the inner index and column: four bytes, offset by 128.
    fours: Vec<u32>,
    /// By panel, group and column: the step.
    steps: Vec<f32>,
}

/// Rows rounded to 8 bits.
#[derive(Clone, Debug, Default)]
pub struct Int8Rows {
    inner: usize,
    /// By row and four of the inner index: four signed bytes.
    fours: Vec<i32>,
    /// By row and group: the step.
    steps: Vec<f32>,
    /// By row and group: what the offset of the weights adds, negated.
    starts: Vec<i32>,
    /// Values that are not rounded, by row and inner index.
    outliers: Vec<Outlier>,
    /// By row: the end of its outliers.
    ends: Vec<usize>,
}

/// A value that is not rounded.
#[derive(Clone, Copy, Debug)]
struct Outlier {
    index: u32,
    value: f32,
}

impl Int8Rows {
    fn outliers_of(&self, row: usize) -> &[Outlier] {
        let start = row.checked_sub(1).map_or(0, |before| self.ends[before]);
        &self.outliers[start..self.ends[row]]
    }
}

fn groups(inner: usize) -> usize {
    inner.div_ceil(GROUP)
}

impl Int8Weights {
    /// Rounds weights; `weight(index, column)` is asked for every inner index and column.
    pub fn pack(inner: usize, columns: usize, weight: impl Fn(usize, usize) -> f32) -> Int8Weights {
        let (panels, groups) = (panels(columns), groups(inner));
        let width = panels.iter().map(Panel::width).sum::<usize>();
        let mut fours = vec![u32::from_le_bytes([128; 4]); width * groups * FOURS];
        let mut steps = vec![0.0; width * groups];
        for panel in &panels {
            let width = panel.width();
            for column in 0..width.min(columns - panel.column) {
                for group in 0..groups {
                    let indices = group * GROUP..((group + 1) * GROUP).min(inner);
                    let values = indices.map(|index| weight(index, panel.column + column));
                    let mut bytes = [128u8; GROUP];
                    let mut rounded = [0.0; GROUP];
                    rounded.iter_mut().zip(values).for_each(|(into, value)| *into = value);
                    let (step, inverse) = step(largest(&rounded));
                    bytes.iter_mut().zip(rounded).for_each(|(byte, value)| *byte = (round(value, inverse) + 128) as u8);
                    steps[(panel.column * groups) + group * width + column] = step;
                    for (four, bytes) in bytes.as_chunks::<PER_LANE>().0.iter().enumerate() {
                        let at = panel.column * groups * FOURS + (group * FOURS + four) * width + column;
                        fours[at] = u32::from_le_bytes(*bytes);
                    }
                }
            }
        }
        Int8Weights { inner, columns, panels, fours, steps }
    }

    /// Number of columns.
    pub fn columns(&self) -> usize {
        self.columns
    }

    /// The rounded weights by inner index: `columns` values for each.
    pub fn unpack(&self) -> Vec<f32> {
        let groups = groups(self.inner);
        let mut out = vec![0.0; self.inner * self.columns];
        for panel in &self.panels {
            let width = panel.width();
            for (index, out) in out.chunks_exact_mut(self.columns).enumerate() {
                let fours = panel.column * groups * FOURS + index / PER_LANE * width;
                let steps = panel.column * groups + index / GROUP * width;
                for column in 0..width.min(self.columns - panel.column) {
                    let byte = self.fours[fours + column].to_le_bytes()[index % PER_LANE];
                    out[panel.column + column] = (f32::from(byte) - 128.0) * self.steps[steps + column];
                }
            }
        }
        out
    }

    /// `out = rows · weights`, on the calling thread.
    pub fn apply(&self, rows: &Int8Rows, out: &mut [f32]) {
        self.apply_with(rows, out, instructions_are_there());
    }

    fn apply_with(&self, rows: &Int8Rows, out: &mut [f32], vectors: bool) {
        let (groups, count) = (groups(self.inner), out.len().checked_div(self.columns).unwrap_or(0));
        assert!(rows.inner == self.inner && out.len() == count * self.columns, "shapes differ");
        assert!(rows.starts.len() == count * groups && rows.ends.len() == count, "shapes differ");
        let mut tile = [0.0; ROWS * 4 * LANES];
        for panel in &self.panels {
            let (width, used) = (panel.width(), panel.width().min(self.columns - panel.column));
            let work = Tile {
                fours: &self.fours[panel.column * groups * FOURS..][..width * groups * FOURS],
                steps: &self.steps[panel.column * groups..][..width * groups],
                width,
                groups,
                rows,
            };
            for first in (0..count).step_by(ROWS) {
                let rows = ROWS.min(count - first);
                let tile = &mut tile[..rows * width];
                match panel.groups {
                    _ if !vectors => work.plain(first, tile),
                    1 => work.vectors::<1>(first, tile),
                    2 => work.vectors::<2>(first, tile),
                    3 => work.vectors::<3>(first, tile),
                    _ => work.vectors::<4>(first, tile),
                }
                for (row, tile) in tile.chunks_exact_mut(width).enumerate() {
                    work.add_outliers(first + row, tile);
                    let out = &mut out[(first + row) * self.columns + panel.column..][..used];
                    out.copy_from_slice(&tile[..used]);
                }
            }
        }
    }
}

impl Int8Rows {
    /// Rounds rows of `inner` values; the allocations are used again. A group with a value that is not finite gets the
    /// step NaN.
    pub fn fill(&mut self, rows: &[f32], inner: usize) {
        let (count, groups) = (rows.len().checked_div(inner).unwrap_or(0), groups(inner));
        self.inner = inner;
        self.fours.clear();
        self.fours.resize(count * groups * FOURS, 0);
        self.steps.resize(count * groups, 0.0);
        self.starts.resize(count * groups, 0);
        self.outliers.clear();
        self.ends.clear();
        if groups == 0 {
            return;
        }
        let lines = self.fours.chunks_exact_mut(groups * FOURS);
        let about = self.steps.chunks_exact_mut(groups).zip(self.starts.chunks_exact_mut(groups));
        for ((row, fours), (steps, starts)) in rows.chunks_exact(inner).zip(lines).zip(about) {
            round_row(row, fours, steps, starts, &mut self.outliers);
            self.ends.push(self.outliers.len());
        }
    }
}

/// The step of values up to `largest`, and its inverse; NaN and 0 if it is not finite.
#[inline(always)]
fn step(largest: f32) -> (f32, f32) {
    if largest < TINY {
        (0.0, 0.0)
    } else if largest < f32::INFINITY {
        (largest / 127.0, 127.0 / largest)
    } else {
        (f32::NAN, 0.0)
    }
}

/// The nearest integer of `value · inverse`, from −127 to 127.
#[inline(always)]
fn round(value: f32, inverse: f32) -> i32 {
    ((value * inverse + MAGIC).to_bits() as i32).wrapping_sub(MAGIC.to_bits() as i32)
}

/// The largest absolute value; infinite if a value is NaN.
#[inline(always)]
fn largest(values: &[f32]) -> f32 {
    let mut lanes = [0.0f32; LANES];
    let (whole, rest) = values.as_chunks::<LANES>();
    for line in whole {
        for (lane, value) in lanes.iter_mut().zip(line) {
            let size = value.abs();
            // A NaN fails the comparison and becomes the lane's value, which then fails all others.
            *lane = if size <= *lane { *lane } else { size };
        }
    }
    let mut most = 0.0f32;
    for size in lanes.into_iter().chain(rest.iter().map(|value| value.abs())) {
        most = if size <= most { most } else { size };
    }
    let undefined = most.is_nan() || values.iter().any(|value| value.is_nan());
    if undefined { f32::INFINITY } else { most }
}

/// The root mean square of a group of `count` values up to `most`, and zeros; infinite if they are too small to matter.
#[inline(always)]
fn root_mean_square(values: &[f32; GROUP], count: usize, most: f32) -> f32 {
    if most < TINY {
        return f32::INFINITY;
    }
    let mut lanes = [0.0f32; LANES];
    for line in values.as_chunks::<LANES>().0 {
        for (lane, value) in lanes.iter_mut().zip(line) {
            let part = value / most;
            *lane = part.mul_add(part, *lane);
        }
    }
    most * (lanes.iter().sum::<f32>() / count as f32).sqrt()
}

vectorised! {
    /// Adds an outlier times weights: the bytes of `fours` from bit `shift` on.
    fn add_outlier(value: f32, fours: &[u32], shift: u32, steps: &[f32], out: &mut [f32]) {
        for ((out, &four), &step) in out.iter_mut().zip(fours).zip(steps) {
            let weight = (((four >> shift) & 255) as i32 - 128) as f32;
            *out = value.mul_add(weight * step, *out);
        }
    }
}

vectorised! {
    fn round_row(row: &[f32], fours: &mut [i32], steps: &mut [f32], starts: &mut [i32], outliers: &mut Vec<Outlier>) {
        for (group, values) in row.chunks(GROUP).enumerate() {
            let mut padded = [0.0f32; GROUP];
            padded[..values.len()].copy_from_slice(values);
            let mut most = largest(&padded);
            let first = outliers.len();
            // Without some outliers, others may stand out.
            while most < f32::INFINITY {
                let limit = FAR * root_mean_square(&padded, values.len(), most);
                if most <= limit {
                    break;
                }
                for (index, value) in padded.iter_mut().enumerate().filter(|(_, value)| value.abs() > limit) {
                    outliers.push(Outlier { index: (group * GROUP + index) as u32, value: std::mem::take(value) });
                }
                most = largest(&padded);
            }
            outliers[first..].sort_unstable_by_key(|outlier| outlier.index);
            let (step, inverse) = step(most);
            steps[group] = step;
            // A value times 0 is 0 or NaN, and NaN may be any byte: the step makes the result undefined anyway.
            let mut bytes = [0i8; GROUP];
            let mut sum = 0i32;
            for (byte, value) in bytes.iter_mut().zip(padded) {
                let rounded = round(value, inverse) as i8;
                *byte = rounded;
                sum = sum.wrapping_add(i32::from(rounded));
            }
            starts[group] = sum.wrapping_mul(-128);
            let line = &mut fours[group * FOURS..][..FOURS];
            for (four, bytes) in line.iter_mut().zip(bytes.as_chunks::<PER_LANE>().0) {
                *four = i32::from_le_bytes(bytes.map(|byte| byte as u8));
            }
        }
    }
}

/// One panel of weights, and all rows.
struct Tile<'a> {
    fours: &'a [u32],
    steps: &'a [f32],
    width: usize,
    groups: usize,
    rows: &'a Int8Rows,
}

impl Tile<'_> {
    /// Adds the products of the outliers of a row to its sums.
    fn add_outliers(&self, row: usize, tile: &mut [f32]) {
        for &Outlier { index, value } in self.rows.outliers_of(row) {
            let index = index as usize;
            let fours = &self.fours[index / PER_LANE * self.width..][..self.width];
            let steps = &self.steps[index / GROUP * self.width..][..self.width];
            add_outlier(value, fours, 8 * (index % PER_LANE) as u32, steps, tile);
        }
    }

    /// The rows from `first` on, as many as `tile` has, with loops.
    fn plain(&self, first: usize, tile: &mut [f32]) {
        tile.fill(0.0);
        for (row, tile) in tile.chunks_exact_mut(self.width).enumerate() {
            for group in 0..self.groups {
                let at = (first + row) * self.groups + group;
                let fours = &self.rows.fours[at * FOURS..][..FOURS];
                let (step, start) = (self.rows.steps[at], self.rows.starts[at]);
                for (column, out) in tile.iter_mut().enumerate() {
                    let mut sum = start;
                    for (four, values) in fours.iter().enumerate() {
                        let weights = self.fours[(group * FOURS + four) * self.width + column].to_le_bytes();
                        let pairs = values.to_le_bytes().into_iter().zip(weights);
                        sum += pairs.map(|(value, weight)| i32::from(value as i8) * i32::from(weight)).sum::<i32>();
                    }
                    *out = (sum as f32).mul_add(step * self.steps[group * self.width + column], *out);
                }
            }
        }
    }

    /// The same with AVX-512 VNNI, for panels of `VECTORS` vectors.
    fn vectors<const VECTORS: usize>(&self, first: usize, tile: &mut [f32]) {
        let count = tile.len() / self.width.max(1);
        assert!(self.width == VECTORS * LANES && tile.len() == count * self.width && count <= ROWS);
        assert!(self.fours.len() == self.groups * FOURS * self.width && self.steps.len() == self.groups * self.width);
        let end = (first + count) * self.groups;
        assert!(self.rows.fours.len() >= end * FOURS && self.rows.starts.len() >= end && self.rows.steps.len() >= end);
        tile.fill(0.0);
        #[cfg(target_arch = "x86_64")]
        #[allow(unsafe_code)]
        // SAFETY: the caller checked the instructions. All lengths that the function needs are asserted above.
        unsafe {
            match count {
                ROWS => self.tile::<ROWS, VECTORS>(first, tile),
                _ => (0..count).for_each(|row| {
                    self.tile::<1, VECTORS>(first + row, &mut tile[row * self.width..][..self.width]);
                }),
            }
        }
        #[cfg(not(target_arch = "x86_64"))]
        self.plain(first, tile);
    }

    /// # Safety
    ///
    /// The processor has AVX-512 VNNI. The panel has `VECTORS` vectors, `tile` has `COUNT` rows of them, and there are
    /// `COUNT` rounded rows from `first` on.
    #[cfg(target_arch = "x86_64")]
    #[target_feature(enable = "avx512f,avx512bw,avx512vnni")]
    #[allow(unsafe_code)]
    unsafe fn tile<const COUNT: usize, const VECTORS: usize>(&self, first: usize, tile: &mut [f32]) {
        use std::arch::x86_64::*;
        for group in 0..self.groups {
            // SAFETY: the caller guarantees that all groups of these rows and of this panel are inside of their slices.
            unsafe {
                let at: [usize; COUNT] = std::array::from_fn(|row| (first + row) * self.groups + group);
                let rows = at.map(|at| self.rows.fours.as_ptr().add(at * FOURS));
                let mut sums = at.map(|at| [_mm512_set1_epi32(self.rows.starts[at]); VECTORS]);
                let weights = self.fours.as_ptr().add(group * FOURS * self.width);
                for four in 0..FOURS {
                    let line = weights.add(four * self.width);
                    let weights: [__m512i; VECTORS] =
                        std::array::from_fn(|vector| _mm512_loadu_si512(line.add(vector * LANES).cast()));
                    for row in 0..COUNT {
                        let value = _mm512_set1_epi32(*rows[row].add(four));
                        for vector in 0..VECTORS {
                            sums[row][vector] = _mm512_dpbusd_epi32(sums[row][vector], weights[vector], value);
                        }
                    }
                }
                let steps = self.steps.as_ptr().add(group * self.width);
                for row in 0..COUNT {
                    let step = _mm512_set1_ps(self.rows.steps[at[row]]);
                    for (vector, sum) in sums[row].iter().enumerate() {
                        let out = tile.as_mut_ptr().add((row * VECTORS + vector) * LANES);
                        let both = _mm512_mul_ps(step, _mm512_loadu_ps(steps.add(vector * LANES)));
                        _mm512_storeu_ps(out, _mm512_fmadd_ps(_mm512_cvtepi32_ps(*sum), both, _mm512_loadu_ps(out)));
                    }
                }
            }
        }
    }
}

/// Whether the processor has AVX-512 VNNI.
fn instructions_are_there() -> bool {
    #[cfg(target_arch = "x86_64")]
    {
        use std::arch::is_x86_feature_detected as has;
        has!("avx512f") && has!("avx512bw") && has!("avx512vnni")
    }
    #[cfg(not(target_arch = "x86_64"))]
    false
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::random::{stream, unit};

    fn draw(count: usize, seed: u64) -> Vec<f32> {
        let mut random = stream(seed, "int8 product", 0);
        (0..count).map(|_| unit(&mut random) as f32 - 0.5).collect()
    }

    fn rounded(rows: &[f32], inner: usize) -> Int8Rows {
        let mut made = Int8Rows::default();
        made.fill(rows, inner);
        made
    }

    #[test]
    fn a_product_by_hand() {
        // The column (127, −63.5, 0) has step 1: (127, −64, 0) by rounding to even. The row (2, 1, 5) has step 5/127:
        // (50.8, 25.4, 127) becomes (51, 25, 127). 51 · 127 − 25 · 64 = 4877.
        let weights = Int8Weights::pack(3, 1, |index, _| [127.0, -63.5, 0.0][index]);
        assert_eq!(weights.unpack(), [127.0, -64.0, 0.0]);
        let mut out = [0.0];
        weights.apply(&rounded(&[2.0, 1.0, 5.0], 3), &mut out);
        assert_eq!(out, [4877.0 * (5.0f32 / 127.0)]);
    }

    #[test]
    fn vectors_have_the_bits_of_loops_and_are_close_to_the_product() {
        for (inner, columns, count) in
            [(1, 1, 1), (128, 64, 6), (576, 192, 13), (300, 70, 7), (130, 33, 12), (64, 150, 5)]
        {
            let (w, x) = (draw(inner * columns, 1), draw(count * inner, 2));
            let weights = Int8Weights::pack(inner, columns, |index, column| w[index * columns + column]);
            let rows = rounded(&x, inner);
            let (mut fast, mut plain) = (vec![7.0; count * columns], vec![7.0; count * columns]);
            weights.apply(&rows, &mut fast);
            weights.apply_with(&rows, &mut plain, false);
            assert_eq!(fast, plain, "{inner} {columns} {count}");
            // Every value is wrong by at most half a step of 1/254 of the largest, which is below 0.5.
            let bound = inner as f32 * (0.5 * 0.5 / 254.0 * 2.0 + 1e-5);
            for (i, out) in fast.iter().enumerate() {
                let exact: f32 =
                    (0..inner).map(|k| x[i / columns * inner + k] * w[k * columns + i % columns]).sum::<f32>();
                assert!((out - exact).abs() < bound, "{out} {exact}");
            }
            // A row alone has the same bits.
            let mut alone = vec![0.0; columns];
            weights.apply(&rounded(&x[(count - 1) * inner..], inner), &mut alone);
            assert_eq!(alone, fast[(count - 1) * columns..]);
        }
    }

    #[test]
    fn outliers_do_not_round_the_others_away() {
        // One value of 1000 among values of about 1: with a common step of 1000/127 all others would be 0.
        let (inner, columns) = (200, 40);
        let w = draw(inner * columns, 3);
        let weights = Int8Weights::pack(inner, columns, |index, column| w[index * columns + column]);
        let mut x = draw(3 * inner, 4);
        (x[5], x[inner + 150], x[inner + 151]) = (1000.0, -800.0, 700.0);
        let rows = rounded(&x, inner);
        assert_eq!((0..3).map(|row| rows.outliers_of(row).len()).collect::<Vec<_>>(), [1, 2, 0]);
        let (mut fast, mut plain) = (vec![0.0; 3 * columns], vec![0.0; 3 * columns]);
        weights.apply(&rows, &mut fast);
        weights.apply_with(&rows, &mut plain, false);
        assert_eq!(fast, plain);
        let exact = weights.unpack();
        for (i, out) in fast.iter().enumerate() {
            let sum: f64 = (0..inner)
                .map(|k| f64::from(x[i / columns * inner + k]) * f64::from(exact[k * columns + i % columns]))
                .sum();
            // The rows are rounded by at most half a step of 0.5/127, the weights are exact here.
            assert!((f64::from(*out) - sum).abs() < 200.0 * 0.5 * 0.5 / 127.0 * 0.5 + 1e-3, "{out} {sum}");
        }
        let mut alone = vec![0.0; columns];
        weights.apply(&rounded(&x[inner..2 * inner], inner), &mut alone);
        assert_eq!(alone, fast[columns..2 * columns]);
    }

    #[test]
    fn undefined_zero_and_tiny_values() {
        let weights = Int8Weights::pack(2, 1, |_, _| 1.0);
        for (row, finite) in [([f32::NAN, 1.0], false), ([1.0, f32::INFINITY], false), ([0.0, 1e-35], true)] {
            let mut out = [1.0];
            weights.apply(&rounded(&row, 2), &mut out);
            assert_eq!(out[0].is_finite(), finite, "{row:?}");
            assert!(!finite || out[0] == 0.0);
        }
        let mut out = [3.0];
        Int8Weights::pack(0, 1, |_, _| 1.0).apply_with(&rounded(&[], 0), &mut out[..0], true);
        assert_eq!(Int8Weights::pack(2, 1, |_, _| 0.0).unpack(), [0.0, 0.0]);
    }
}
