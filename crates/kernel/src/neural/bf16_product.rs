//! Products of rows with weights of 16 bits (bfloat16: the upper half of an `f32`).
//!
//! Rows and weights are rounded to bfloat16, ties to even. A product of two such numbers is exact in `f32`. A sum takes two
//! of them per step, as the instruction `VDPBF16PS` does; loops do the same where the instruction is missing. Results
//! depend neither on the instruction set nor on other rows nor on threads.

use super::convolution::{Panel, panels};
use super::vectorised;

/// Lanes of a vector.
const LANES: usize = 16;

/// Rows that are multiplied together.
const ROWS: usize = 6;

/// Weights rounded to bfloat16.
#[derive(Clone, Debug)]
pub struct Bf16Weights {
    inner: usize,
    columns: usize,
    panels: Vec<Panel>,
    /// By panel, pair of the inner index and column: the first in the lower half.
    pairs: Vec<u32>,
}

/// Rows rounded to bfloat16.
#[derive(Clone, Debug, Default)]
pub struct Bf16Rows {
    inner: usize,
    /// By row and pair of the inner index.
    pairs: Vec<u32>,
}

/// The nearest bfloat16, ties to even, as the bits of an `f32`. Numbers below the normal ones become 0, as the instruction
/// reads them.
#[inline(always)]
fn round(value: f32) -> u32 {
    let bits = value.to_bits();
    let rounded = bits.wrapping_add(0x7fff + ((bits >> 16) & 1)) & 0xffff_0000;
    let rounded = if bits & 0x7f80_0000 == 0 { bits & 0x8000_0000 } else { rounded };
    // A NaN could become infinite.
    if value.is_nan() { (bits & 0xffff_0000) | 0x0040_0000 } else { rounded }
}

#[inline(always)]
fn pair(first: f32, second: f32) -> u32 {
    round(first) >> 16 | round(second)
}

/// Sums below the normal numbers are 0.
#[inline(always)]
fn flushed(value: f32) -> f32 {
    if value.abs() < f32::MIN_POSITIVE { 0.0f32.copysign(value) } else { value }
}

/// One step of a sum.
#[inline(always)]
fn add_pair(sum: f32, row: u32, weights: u32) -> f32 {
    let halves = |pair: u32| (f32::from_bits(pair << 16), f32::from_bits(pair & 0xffff_0000));
    let ((a, b), (c, d)) = (halves(row), halves(weights));
    flushed(a.mul_add(c, flushed(b.mul_add(d, sum))))
}

impl Bf16Weights {
    /// Rounds weights; `weight(index, column)` is asked for every inner index and column.
    pub fn pack(inner: usize, columns: usize, weight: impl Fn(usize, usize) -> f32) -> Bf16Weights {
        let (panels, count) = (panels(columns), inner.div_ceil(2));
        let mut pairs = vec![0; panels.iter().map(Panel::width).sum::<usize>() * count];
        for panel in &panels {
            let (width, used) = (panel.width(), panel.width().min(columns - panel.column));
            for (index, line) in pairs[panel.column * count..][..width * count].chunks_exact_mut(width).enumerate() {
                for (column, into) in line[..used].iter_mut().enumerate() {
                    let value = |index: usize| if index < inner { weight(index, panel.column + column) } else { 0.0 };
                    *into = pair(value(2 * index), value(2 * index + 1));
                }
            }
        }
        Bf16Weights { inner, columns, panels, pairs }
    }

    /// Number of columns.
    pub fn columns(&self) -> usize {
        self.columns
    }

    /// The rounded weights by inner index: `columns` values for each.
    pub fn unpack(&self) -> Vec<f32> {
        let count = self.inner.div_ceil(2);
        let mut out = vec![0.0; self.inner * self.columns];
        for panel in &self.panels {
            let (width, used) = (panel.width(), panel.width().min(self.columns - panel.column));
            for (index, out) in out.chunks_exact_mut(self.columns).enumerate() {
                let line = &self.pairs[panel.column * count + index / 2 * width..][..used];
                for (out, pair) in out[panel.column..].iter_mut().zip(line) {
                    *out = f32::from_bits(if index % 2 == 0 { pair << 16 } else { pair & 0xffff_0000 });
                }
            }
        }
        out
    }

    /// `out = rows · weights`, on the calling thread.
    pub fn apply(&self, rows: &Bf16Rows, out: &mut [f32]) {
        self.apply_with(rows, out, instructions_are_there());
    }

    fn apply_with(&self, rows: &Bf16Rows, out: &mut [f32], vectors: bool) {
        let (pairs, count) = (self.inner.div_ceil(2), out.len().checked_div(self.columns).unwrap_or(0));
        assert!(rows.inner == self.inner && out.len() == count * self.columns, "shapes differ");
        assert!(rows.pairs.len() == count * pairs, "shapes differ");
        let mut tile = [0.0; ROWS * 4 * LANES];
        for panel in &self.panels {
            let (width, used) = (panel.width(), panel.width().min(self.columns - panel.column));
            let weights = &self.pairs[panel.column * pairs..][..width * pairs];
            for first in (0..count).step_by(ROWS) {
                let tile = &mut tile[..ROWS.min(count - first) * width];
                let rows = &rows.pairs[first * pairs..][..tile.len() / width * pairs];
                match panel.groups {
                    _ if !vectors => plain(weights, rows, tile, width),
                    1 => in_vectors::<1>(weights, rows, tile),
                    2 => in_vectors::<2>(weights, rows, tile),
                    3 => in_vectors::<3>(weights, rows, tile),
                    _ => in_vectors::<4>(weights, rows, tile),
                }
                for (row, tile) in tile.chunks_exact(width).enumerate() {
                    let out = &mut out[(first + row) * self.columns + panel.column..][..used];
                    out.copy_from_slice(&tile[..used]);
                }
            }
        }
    }
}

impl Bf16Rows {
    /// Rounds rows of `inner` values; the allocation is used again.
    pub fn fill(&mut self, rows: &[f32], inner: usize) {
        let pairs = inner.div_ceil(2);
        self.inner = inner;
        self.pairs.resize(rows.len().checked_div(inner).unwrap_or(0) * pairs, 0);
        if inner > 0 {
            let lines = self.pairs.chunks_exact_mut(pairs);
            rows.chunks_exact(inner).zip(lines).for_each(|(row, pairs)| round_row(row, pairs));
        }
    }
}

vectorised! {
    fn round_row(row: &[f32], pairs: &mut [u32]) {
        let (whole, rest) = row.as_chunks::<2>();
        pairs.iter_mut().zip(whole).for_each(|(into, two)| *into = pair(two[0], two[1]));
        if let ([last], Some(into)) = (rest, pairs.last_mut()) {
            *into = pair(*last, 0.0);
        }
    }
}

vectorised! {
    /// Some rows times a panel.
    fn plain(weights: &[u32], rows: &[u32], tile: &mut [f32], width: usize) {
        tile.fill(0.0);
        let pairs = weights.len() / width.max(1);
        for (row, tile) in rows.chunks_exact(pairs.max(1)).zip(tile.chunks_exact_mut(width)) {
            for (value, line) in row.iter().zip(weights.chunks_exact(width)) {
                tile.iter_mut().zip(line).for_each(|(sum, weights)| *sum = add_pair(*sum, *value, *weights));
            }
        }
    }
}

/// The same with AVX-512 BF16, for panels of `VECTORS` vectors.
fn in_vectors<const VECTORS: usize>(weights: &[u32], rows: &[u32], tile: &mut [f32]) {
    let width = VECTORS * LANES;
    let (pairs, count) = (weights.len() / width, tile.len() / width);
    assert!(weights.len() == pairs * width && tile.len() == count * width && rows.len() == count * pairs);
    #[cfg(target_arch = "x86_64")]
    #[allow(unsafe_code)]
    // SAFETY: the caller checked the instructions. All lengths that the function needs are asserted above.
    unsafe {
        match count {
            ROWS => multiply::<ROWS, VECTORS>(weights, rows, tile),
            _ => (0..count).for_each(|row| {
                multiply::<1, VECTORS>(weights, &rows[row * pairs..][..pairs], &mut tile[row * width..][..width]);
            }),
        }
    }
    #[cfg(not(target_arch = "x86_64"))]
    plain(weights, rows, tile, width);
}

/// # Safety
///
/// The processor has AVX-512 BF16. The weights have lines of `VECTORS` vectors; there are `COUNT` rows with a pair for each of
/// them, and `COUNT` rows of `VECTORS` vectors in `tile`.
#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx512f,avx512bw,avx512bf16")]
#[allow(unsafe_code)]
unsafe fn multiply<const COUNT: usize, const VECTORS: usize>(weights: &[u32], rows: &[u32], tile: &mut [f32]) {
    use std::arch::x86_64::*;
    let pairs = weights.len() / (VECTORS * LANES);
    let mut sums = [[_mm512_setzero_ps(); VECTORS]; COUNT];
    for index in 0..pairs {
        // SAFETY: the caller guarantees `pairs` lines of weights and `COUNT · pairs` pairs of rows. Vectors of 16 pairs and
        // of 32 numbers have the same bits.
        unsafe {
            let line = weights.as_ptr().add(index * VECTORS * LANES);
            let weights: [__m512bh; VECTORS] = std::array::from_fn(|vector| {
                std::mem::transmute::<__m512i, __m512bh>(_mm512_loadu_si512(line.add(vector * LANES).cast()))
            });
            for (row, sums) in sums.iter_mut().enumerate() {
                let value = _mm512_set1_epi32(*rows.as_ptr().add(row * pairs + index) as i32);
                let value = std::mem::transmute::<__m512i, __m512bh>(value);
                for (sum, weight) in sums.iter_mut().zip(weights) {
                    *sum = _mm512_dpbf16_ps(*sum, value, weight);
                }
            }
        }
    }
    for (vector, sum) in sums.iter().flatten().enumerate() {
        // SAFETY: `tile` has `COUNT · VECTORS` vectors.
        unsafe { _mm512_storeu_ps(tile.as_mut_ptr().add(vector * LANES), *sum) };
    }
}

/// Whether the processor has AVX-512 BF16.
fn instructions_are_there() -> bool {
    #[cfg(target_arch = "x86_64")]
    {
        use std::arch::is_x86_feature_detected as has;
        has!("avx512f") && has!("avx512bw") && has!("avx512bf16")
    }
    #[cfg(not(target_arch = "x86_64"))]
    false
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::random::{stream, unit};

    fn draw(count: usize, seed: u64, tiny: f32) -> Vec<f32> {
        let mut random = stream(seed, "bf16 product", 0);
        let mut value = || unit(&mut random) as f32 - 0.5;
        // Some values are so small that products leave the range of normal numbers.
        (0..count).map(|i| value() * if i % 3 == 0 { tiny } else { 1.0 }).collect()
    }

    fn rounded(rows: &[f32], inner: usize) -> Bf16Rows {
        let mut made = Bf16Rows::default();
        made.fill(rows, inner);
        made
    }

    fn bits(values: &[f32]) -> Vec<u32> {
        values.iter().map(|value| value.to_bits()).collect()
    }

    #[test]
    fn numbers_are_rounded_to_even() {
        let rounded = |value: f32| f32::from_bits(round(value));
        // 8 bits of precision: steps of 2^-7 above 1.
        assert_eq!(rounded(1.0 + 0.003), 1.0);
        assert_eq!(rounded(1.0 + 1.0 / 256.0), 1.0);
        assert_eq!(rounded(1.0 + 3.0 / 256.0), 1.0 + 4.0 / 256.0);
        assert_eq!(rounded(-2.0), -2.0);
        assert_eq!((rounded(1e-39), rounded(f32::MAX)), (0.0, f32::INFINITY));
        assert!(rounded(f32::NAN).is_nan() && rounded(f32::from_bits(0x7f80_0001)).is_nan());
    }

    #[test]
    fn vectors_have_the_bits_of_loops_and_are_close_to_the_product() {
        let sizes = [(1, 1, 1), (128, 64, 6), (576, 192, 13), (301, 70, 7), (130, 33, 12), (64, 150, 5)];
        for (seed, tiny) in [(1, 1.0), (2, 1e-20), (3, 3e-38), (4, 1e-30)] {
            for (inner, columns, count) in sizes {
                let (w, x) = (draw(inner * columns, seed, tiny), draw(count * inner, 10 + seed, tiny));
                let weights = Bf16Weights::pack(inner, columns, |index, column| w[index * columns + column]);
                let (rows, other) = (rounded(&x, inner), weights.unpack());
                let (mut fast, mut slow) = (vec![7.0; count * columns], vec![7.0; count * columns]);
                weights.apply(&rows, &mut fast);
                weights.apply_with(&rows, &mut slow, false);
                assert_eq!(bits(&fast), bits(&slow), "{inner} {columns} {count} {tiny}");
                for (i, out) in fast.iter().enumerate() {
                    let exact: f64 = (0..inner)
                        .map(|k| {
                            let value = f32::from_bits(round(x[i / columns * inner + k]));
                            f64::from(value) * f64::from(other[k * columns + i % columns])
                        })
                        .sum();
                    assert!((f64::from(*out) - exact).abs() < 1e-6 * inner as f64, "{out} {exact}");
                }
            }
        }
    }

    #[test]
    fn sums_below_the_normal_numbers_have_the_same_bits() {
        // Products between 2^-126 and 2^-149, of both signs, and sums that cancel.
        let numbers = [1e-19f32, -1e-19, 1.1e-19, 3e-20, 0.0, -0.0, 1e-38, 5e-39, 1.0, -1.0, 2e-38, 1.25e-38];
        let (inner, columns) = (4, 16);
        for seed in 0..400usize {
            let pick = |i: usize| numbers[(i * 7 + seed * 31 + i * i * seed) % numbers.len()];
            let weights = Bf16Weights::pack(inner, columns, |index, column| pick(index * columns + column));
            let x: Vec<f32> = (0..inner).map(|i| pick(i + 1000)).collect();
            let (mut fast, mut slow) = (vec![7.0; columns], vec![7.0; columns]);
            weights.apply(&rounded(&x, inner), &mut fast);
            weights.apply_with(&rounded(&x, inner), &mut slow, false);
            assert_eq!(bits(&fast), bits(&slow), "{x:?}");
        }
    }
}
