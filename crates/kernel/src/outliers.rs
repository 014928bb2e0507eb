//! The values of a row that lie outside of bounds of their own: a filter in front of a search for extreme values.

use pulp::{Arch, Simd, WithSimd};

/// Values that are compared before any of them is looked at.
const TOGETHER: usize = 64;

/// Finds values outside of bounds, with a buffer that is reused between rows.
///
/// ```
/// let mut outliers = etalon_kernel::outliers::Outliers::default();
/// assert_eq!(outliers.find(&[0.0, 5.0, -3.0, 1.0], &[-1.0; 4], &[1.0; 4]), [1, 2, 3]);
/// ```
#[derive(Debug, Default)]
pub struct Outliers {
    found: Vec<u32>,
}

impl Outliers {
    /// The positions, ascending, of the values that are at most `low` or at least `high` of the same position.
    pub fn find(&mut self, values: &[f32], low: &[f32], high: &[f32]) -> &[u32] {
        assert!(values.len() == low.len() && values.len() == high.len(), "bounds and values differ in number");
        // A vector of positions is written at once, of which only the first count.
        let enough = values.len() + TOGETHER;
        if self.found.len() < enough {
            self.found.resize(enough, 0);
        }
        let comparison = Comparison { values, low, high };
        let count = match comparison.find_avx512(&mut self.found) {
            Some(count) => count,
            None => Arch::new().dispatch(Find { comparison, found: &mut self.found }),
        };
        &self.found[..count]
    }
}

/// Values with their bounds.
#[derive(Clone, Copy)]
struct Comparison<'a> {
    values: &'a [f32],
    low: &'a [f32],
    high: &'a [f32],
}

impl Comparison<'_> {
    /// Appends the positions from `first` on to the first `count` of `found`, one by one; returns their number.
    #[inline(always)]
    fn find_from(&self, first: usize, mut count: usize, found: &mut [u32]) -> usize {
        for index in first..self.values.len() {
            found[count] = index as u32;
            count += usize::from(self.values[index] <= self.low[index] || self.values[index] >= self.high[index]);
        }
        count
    }

    /// With masks and compression of lanes; `None` if the processor does not have them.
    #[cfg(target_arch = "x86_64")]
    fn find_avx512(&self, found: &mut [u32]) -> Option<usize> {
        let simd = pulp::x86::V4::try_new()?;
        Some(simd.vectorize(avx512::Find { simd, comparison: *self, found }))
    }

    #[cfg(not(target_arch = "x86_64"))]
    fn find_avx512(&self, _: &mut [u32]) -> Option<usize> {
        None
    }
}

#[cfg(target_arch = "x86_64")]
mod avx512 {
    use pulp::x86::V4;
    use pulp::{NullaryFnOnce, Simd, cast, u32x16};

    use super::Comparison;

    const LANES: usize = 16;

    pub(super) struct Find<'a> {
        pub simd: V4,
        pub comparison: Comparison<'a>,
        pub found: &'a mut [u32],
    }

    impl NullaryFnOnce for Find<'_> {
        type Output = usize;

        #[inline(always)]
        fn call(self) -> usize {
            let Find { simd, comparison, found } = self;
            let [(values, _), (low, _), (high, _)] =
                [comparison.values, comparison.low, comparison.high].map(<V4 as Simd>::as_simd_f32s);
            let mut positions: u32x16 = cast(std::array::from_fn::<u32, LANES, _>(|lane| lane as u32));
            let mut count = 0;
            for ((&value, &low), &high) in values.iter().zip(low).zip(high) {
                let outside = simd.cmp_le_f32x16(value, low).0 | simd.cmp_ge_f32x16(value, high).0;
                let lanes: [u32; LANES] = cast(simd.avx512f._mm512_maskz_compress_epi32(outside, cast(positions)));
                found[count..count + LANES].copy_from_slice(&lanes);
                count += outside.count_ones() as usize;
                positions = simd.add_u32s(positions, simd.splat_u32x16(LANES as u32));
            }
            comparison.find_from(values.len() * LANES, count, found)
        }
    }
}

struct Find<'a> {
    comparison: Comparison<'a>,
    found: &'a mut [u32],
}

impl WithSimd for Find<'_> {
    type Output = usize;

    #[inline(always)]
    fn with_simd<S: Simd>(self, _: S) -> usize {
        let Comparison { values, low, high } = self.comparison;
        let mut count = 0;
        let chunks = values.chunks_exact(TOGETHER).zip(low.chunks_exact(TOGETHER)).zip(high.chunks_exact(TOGETHER));
        for (chunk, ((values, low), high)) in chunks.enumerate() {
            // One byte per value, so that the comparisons are vector instructions; words of zero bytes are skipped.
            let mut outside = [0u8; TOGETHER];
            for (outside, ((value, low), high)) in outside.iter_mut().zip(values.iter().zip(low).zip(high)) {
                *outside = u8::from(value <= low) | u8::from(value >= high);
            }
            for (word, bytes) in outside.as_chunks::<8>().0.iter().enumerate() {
                let mut left = u64::from_le_bytes(*bytes);
                while left != 0 {
                    let lane = left.trailing_zeros() as usize / 8;
                    self.found[count] = (chunk * TOGETHER + word * 8 + lane) as u32;
                    count += 1;
                    left &= left - 1;
                }
            }
        }
        self.comparison.find_from(values.len() / TOGETHER * TOGETHER, count, self.found)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::random::{stream, unit};

    #[test]
    fn finds_the_same_as_a_plain_loop() {
        let mut random = stream(1, "outliers", 0);
        let mut outliers = Outliers::default();
        for length in [1000, 0, 1, 15, 16, 17, 63, 64, 65, 200] {
            let mut draw = |scale: f64, shift: f64| -> Vec<f32> {
                (0..length).map(|_| ((unit(&mut random) * scale + shift) * 8.0).round() as f32 / 8.0).collect()
            };
            let (values, low, high) = (draw(4.0, -2.0), draw(1.0, -2.5), draw(1.0, 1.0));
            let outside = |&index: &usize| values[index] <= low[index] || values[index] >= high[index];
            let expected: Vec<u32> = (0..length).filter(outside).map(|index| index as u32).collect();
            assert_eq!(outliers.find(&values, &low, &high), expected, "{length}");
            // All values are outside, and none; without wide registers.
            assert_eq!(outliers.find(&values, &values, &values).len(), length);
            let comparison = Comparison { values: &values, low: &low, high: &high };
            let mut found = vec![0; length + TOGETHER];
            let count = Arch::new().dispatch(Find { comparison, found: &mut found });
            assert_eq!(found[..count], expected, "{length}, portable");
        }
    }
}
