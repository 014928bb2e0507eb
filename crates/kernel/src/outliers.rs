//! The values of a row that are outside of limits of their own: a filter in front of a search for extreme values.

use pulp::{Arch, Simd, WithSimd};

use crate::prefetch::fetch;

/// Values that are compared before any of them is looked at.
const TOGETHER: usize = 64;

/// Values of a cache line, and of a vector.
const LINE: usize = 16;

/// Marks an outlier on the high side.
const HIGH: u32 = 1 << 31;

/// Marks an outlier on both sides.
const BOTH: u32 = 1 << 30;

/// The limits of many values on one side: a value is outside if it is beyond its limit, or equal to it and at a place beyond that
/// of the limit. *Beyond* is lower for low limits, higher for high ones.
#[derive(Clone, Copy, Debug)]
pub struct Limits<'a> {
    /// The limits.
    pub values: &'a [f32],
    /// The places.
    pub places: &'a [u32],
}

/// How values that are equal to a limit are found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ties {
    /// All of them, whatever their place: faster if there are few.
    All,
    /// Those that are outside.
    Outside,
}

/// A value outside of limits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Outlier(u32);

impl Outlier {
    /// Its position in the row.
    #[inline]
    pub fn position(self) -> usize {
        (self.0 & (BOTH - 1)) as usize
    }

    /// Whether it is outside of its high limit.
    #[inline]
    pub fn is_high(self) -> bool {
        self.0 & HIGH != 0
    }

    /// Whether it is outside of both of its limits.
    #[inline]
    pub fn is_both(self) -> bool {
        self.0 & BOTH != 0
    }
}

/// Finds values outside of limits, with a buffer that is reused between rows.
///
/// ```
/// use etalon_kernel::outliers::{Limits, Outliers, Ties};
///
/// let (low, high) = (Limits { values: &[-1.0; 4], places: &[3; 4] }, Limits { values: &[1.0; 4], places: &[3; 4] });
/// let mut outliers = Outliers::default();
/// // The last value is equal to its limit, and place 7 is higher than 3.
/// let found = outliers.find(&[0.0, 5.0, -3.0, 1.0], 7, [low, high], Ties::Outside, &[]);
/// assert_eq!(found.map(|one| (one.position(), one.is_high())).collect::<Vec<_>>(), [(1, true), (2, false), (3, true)]);
/// ```
#[derive(Debug, Default)]
pub struct Outliers {
    found: Vec<u32>,
}

impl Outliers {
    /// The values of a row that are outside of a low or a high limit, in order. `later` are values that will be searched soon: they
    /// are prefetched.
    pub fn find(
        &mut self,
        values: &[f32],
        place: u32,
        [low, high]: [Limits<'_>; 2],
        ties: Ties,
        later: &[f32],
    ) -> impl ExactSizeIterator<Item = Outlier> + use<'_> {
        let lengths = [low.values.len(), low.places.len(), high.values.len(), high.places.len()];
        assert!(lengths.iter().all(|length| *length == values.len()), "limits and values differ in number");
        assert!(values.len() < BOTH as usize, "too many values");
        // A vector of positions is written at once, of which only the first count.
        let enough = values.len() + TOGETHER;
        if self.found.len() < enough {
            self.found.resize(enough, 0);
        }
        let comparison = Comparison { values, place, low, high, later };
        let count = comparison.find(ties, &mut self.found);
        self.found[..count].iter().map(|&found| Outlier(found))
    }
}

/// Values with their limits.
#[derive(Clone, Copy)]
struct Comparison<'a> {
    values: &'a [f32],
    place: u32,
    low: Limits<'a>,
    high: Limits<'a>,
    later: &'a [f32],
}

impl Comparison<'_> {
    fn find(&self, ties: Ties, found: &mut [u32]) -> usize {
        #[cfg(target_arch = "x86_64")]
        if let Some(simd) = pulp::x86::V4::try_new() {
            return match ties {
                Ties::All => simd.vectorize(avx512::Find::<false> { simd, comparison: *self, found }),
                Ties::Outside => simd.vectorize(avx512::Find::<true> { simd, comparison: *self, found }),
            };
        }
        self.find_portable(ties, found)
    }

    fn find_portable(&self, ties: Ties, found: &mut [u32]) -> usize {
        match ties {
            Ties::All => Arch::new().dispatch(Find::<false> { comparison: *self, found }),
            Ties::Outside => Arch::new().dispatch(Find::<true> { comparison: *self, found }),
        }
    }

    /// Appends the outliers from `first` on to the first `count` of `found`, one by one; returns their number.
    #[inline(always)]
    fn find_from<const PLACES: bool>(&self, first: usize, mut count: usize, found: &mut [u32]) -> usize {
        for index in first..self.values.len() {
            let (value, low, high) = (self.values[index], self.low.values[index], self.high.values[index]);
            let at_low = (value == low) & (!PLACES | (self.place < self.low.places[index]));
            let at_high = (value == high) & (!PLACES | (self.place > self.high.places[index]));
            let (is_low, is_high) = ((value < low) | at_low, (value > high) | at_high);
            found[count] = index as u32 | (HIGH * u32::from(is_high)) | (BOTH * u32::from(is_low & is_high));
            count += usize::from(is_low | is_high);
        }
        count
    }
}

/// With masks and compression of lanes.
#[cfg(target_arch = "x86_64")]
mod avx512 {
    use pulp::x86::V4;
    use pulp::{NullaryFnOnce, Simd, cast, u32x16};

    use super::{BOTH, Comparison, HIGH, LINE};
    use crate::prefetch::fetch;

    pub(super) struct Find<'a, const PLACES: bool> {
        pub simd: V4,
        pub comparison: Comparison<'a>,
        pub found: &'a mut [u32],
    }

    impl<const PLACES: bool> NullaryFnOnce for Find<'_, PLACES> {
        type Output = usize;

        #[inline(always)]
        fn call(self) -> usize {
            let Find { simd, comparison, found } = self;
            let Comparison { values, place, low, high, later } = comparison;
            let [(values, _), (low_values, _), (high_values, _)] =
                [values, low.values, high.values].map(<V4 as Simd>::as_simd_f32s);
            let [(low_places, _), (high_places, _)] = [low.places, high.places].map(<V4 as Simd>::as_simd_u32s);
            let limits = low_values.iter().zip(low_places).zip(high_values.iter().zip(high_places));
            let [place, high_mark, both_mark, line] =
                [place, HIGH, BOTH, LINE as u32].map(|number| simd.splat_u32x16(number));
            let mut positions: u32x16 = cast(std::array::from_fn::<u32, LINE, _>(|lane| lane as u32));
            let (mut count, mut next) = (0, 0);
            for (&value, ((&low, low_place), (&high, high_place))) in values.iter().zip(limits) {
                fetch(later, next);
                let (is_low, is_high) = if PLACES {
                    let at_low = simd.cmp_eq_f32x16(value, low).0 & simd.cmp_lt_u32x16(place, *low_place).0;
                    let at_high = simd.cmp_eq_f32x16(value, high).0 & simd.cmp_lt_u32x16(*high_place, place).0;
                    (simd.cmp_lt_f32x16(value, low).0 | at_low, simd.cmp_gt_f32x16(value, high).0 | at_high)
                } else {
                    (simd.cmp_le_f32x16(value, low).0, simd.cmp_ge_f32x16(value, high).0)
                };
                let outside = is_low | is_high;
                let wide = simd.avx512f;
                let marked = wide._mm512_mask_or_epi32(cast(positions), is_high, cast(positions), cast(high_mark));
                let marked = wide._mm512_mask_or_epi32(marked, is_low & is_high, marked, cast(both_mark));
                let lanes: [u32; LINE] = cast(wide._mm512_maskz_compress_epi32(outside, marked));
                found[count..count + LINE].copy_from_slice(&lanes);
                count += outside.count_ones() as usize;
                positions = simd.add_u32s(positions, line);
                next += LINE;
            }
            comparison.find_from::<PLACES>(next, count, found)
        }
    }
}

struct Find<'a, const PLACES: bool> {
    comparison: Comparison<'a>,
    found: &'a mut [u32],
}

impl<const PLACES: bool> WithSimd for Find<'_, PLACES> {
    type Output = usize;

    #[inline(always)]
    fn with_simd<S: Simd>(self, _: S) -> usize {
        let Comparison { values, place, low, high, later } = self.comparison;
        let mut count = 0;
        for first in (0..values.len() / TOGETHER * TOGETHER).step_by(TOGETHER) {
            (first..first + TOGETHER).step_by(LINE).for_each(|index| fetch(later, index));
            // One byte per value, so that the comparisons are vector instructions; words of zero bytes are skipped. Bit 0 is
            // the low side, bit 1 the high one.
            let mut outside = [0u8; TOGETHER];
            let [values, low_values, high_values] =
                [values, low.values, high.values].map(|values| &values[first..][..TOGETHER]);
            let [low_places, high_places] = [low.places, high.places].map(|places| &places[first..][..TOGETHER]);
            for index in 0..TOGETHER {
                let (value, low, high) = (values[index], low_values[index], high_values[index]);
                let at_low = u8::from(value == low) & (u8::from(!PLACES) | u8::from(place < low_places[index]));
                let at_high = u8::from(value == high) & (u8::from(!PLACES) | u8::from(place > high_places[index]));
                outside[index] = u8::from(value < low) | at_low | (u8::from(value > high) | at_high) << 1;
            }
            for (word, bytes) in outside.as_chunks::<8>().0.iter().enumerate() {
                let mut left = u64::from_le_bytes(*bytes);
                while left != 0 {
                    let lane = left.trailing_zeros() as usize / 8;
                    let sides = u32::from(bytes[lane]);
                    let marks = (HIGH * (sides >> 1)) | (BOTH * u32::from(sides == 3));
                    self.found[count] = (first + word * 8 + lane) as u32 | marks;
                    count += 1;
                    left &= !(0xff << (8 * lane));
                }
            }
        }
        self.comparison.find_from::<PLACES>(values.len() / TOGETHER * TOGETHER, count, self.found)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::random::{index, stream, unit};

    #[test]
    fn finds_the_same_as_a_plain_loop() {
        let mut random = stream(1, "outliers", 0);
        let mut outliers = Outliers::default();
        for length in [1000, 0, 1, 15, 16, 17, 63, 64, 65, 200] {
            let mut draw = |scale: f64, shift: f64| -> Vec<f32> {
                (0..length).map(|_| ((unit(&mut random) * scale + shift) * 8.0).round() as f32 / 8.0).collect()
            };
            // Limits that are equal to values, and a few that cross.
            let (values, lows, highs) = (draw(4.0, -2.0), draw(1.0, -2.5), draw(4.0, -2.0));
            let mut draw = || -> Vec<u32> { (0..length).map(|_| index(5, &mut random) as u32).collect() };
            let (low_places, high_places) = (draw(), draw());
            let low = Limits { values: &lows, places: &low_places };
            let high = Limits { values: &highs, places: &high_places };
            for (place, ties) in (0..5).flat_map(|place| [(place, Ties::All), (place, Ties::Outside)]) {
                let all = ties == Ties::All;
                let sides = |index: usize| {
                    let value = values[index];
                    let is_low = value < lows[index] || (value == lows[index] && (all || place < low_places[index]));
                    let at_high = value == highs[index] && (all || place > high_places[index]);
                    (index, is_low, value > highs[index] || at_high)
                };
                let expected: Vec<_> = (0..length).map(sides).filter(|(_, low, high)| *low || *high).collect();
                let parts = |one: Outlier| (one.position(), one.is_both() || !one.is_high(), one.is_high());
                let found: Vec<_> = outliers.find(&values, place, [low, high], ties, &values).map(parts).collect();
                assert_eq!(found, expected, "{length}, {ties:?}");
                // Without wide registers.
                let comparison = Comparison { values: &values, place, low, high, later: &[] };
                let mut found = vec![0; length + TOGETHER];
                let count = comparison.find_portable(ties, &mut found);
                let found: Vec<_> = found[..count].iter().map(|&found| parts(Outlier(found))).collect();
                assert_eq!(found, expected, "{length}, {ties:?}, portable");
            }
        }
    }
}
