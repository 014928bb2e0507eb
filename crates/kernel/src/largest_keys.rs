//! The largest of a few integers: drops the others, without sorting.

use crate::vectorised::vectorised;

/// Up to this many integers, a threshold is found by counting; more are partitioned.
const COUNTED: usize = 1024;

/// Moves the largest of different `keys` to the front, in any order: at least `keep`, and at most `most`. Returns their number and
/// the smallest of them; `None` if there are none.
///
/// ```
/// let mut keys = [5, 9, 2, 7];
/// assert_eq!(etalon_kernel::largest_keys::keep_largest(&mut keys, 2, 2), Some((2, 7)));
/// assert_eq!(keys[..2], [9, 7]);
/// ```
pub fn keep_largest(keys: &mut [u64], keep: usize, most: usize) -> Option<(usize, u64)> {
    if most >= keys.len() {
        return keys.iter().min().map(|&smallest| (keys.len(), smallest));
    }
    if keep == 0 {
        return None;
    }
    if keys.len() > COUNTED {
        return Some((keep, *keys.select_nth_unstable_by(keep - 1, |a, b| b.cmp(a)).1));
    }
    let threshold = vectorised(
        #[inline(always)]
        || threshold(keys, keep, most),
    );
    Some(match compress_avx512(keys, threshold) {
        Some(kept) => kept,
        None => compress(keys, 0, (0, u64::MAX), threshold),
    })
}

/// A number that at least `keep` and at most `most` keys are not below, by bisection: a vector instruction compares many keys with
/// a number, so that counting is faster than moving.
#[inline(always)]
fn threshold(keys: &[u64], keep: usize, most: usize) -> u64 {
    let (mut low, mut high) = (u64::MAX, 0);
    for &key in keys {
        (low, high) = (low.min(key), high.max(key));
    }
    // At least `keep` keys are at least `low`, and fewer are above `high`.
    while low < high {
        let middle = low + (high - low).div_ceil(2);
        let count: u64 = keys.iter().map(|&key| u64::from(key >= middle)).sum();
        if count >= keep as u64 {
            low = middle;
            if count <= most as u64 {
                break;
            }
        } else {
            high = middle - 1;
        }
    }
    low
}

/// Moves the keys from `first` on that are not below a threshold behind those that are kept already; returns number and smallest.
#[inline(always)]
fn compress(keys: &mut [u64], first: usize, (mut kept, mut smallest): (usize, u64), threshold: u64) -> (usize, u64) {
    for index in first..keys.len() {
        let key = keys[index];
        keys[kept] = key;
        let is_kept = key >= threshold;
        kept += usize::from(is_kept);
        smallest = smallest.min(if is_kept { key } else { u64::MAX });
    }
    (kept, smallest)
}

/// [`compress`] with masks; `None` if the processor does not have them.
#[cfg(target_arch = "x86_64")]
fn compress_avx512(keys: &mut [u64], threshold: u64) -> Option<(usize, u64)> {
    let simd = pulp::x86::V4::try_new()?;
    Some(simd.vectorize(avx512::Compress { simd, keys, threshold }))
}

#[cfg(not(target_arch = "x86_64"))]
fn compress_avx512(_: &mut [u64], _: u64) -> Option<(usize, u64)> {
    None
}

#[cfg(target_arch = "x86_64")]
mod avx512 {
    use pulp::x86::V4;
    use pulp::{NullaryFnOnce, cast, u64x8};

    const LANES: usize = 8;

    pub(super) struct Compress<'a> {
        pub simd: V4,
        pub keys: &'a mut [u64],
        pub threshold: u64,
    }

    impl NullaryFnOnce for Compress<'_> {
        type Output = (usize, u64);

        #[inline(always)]
        fn call(self) -> (usize, u64) {
            let Compress { simd, keys, threshold } = self;
            let least = simd.splat_u64x8(threshold);
            let (mut kept, mut smallest) = (0, simd.splat_u64x8(u64::MAX));
            let whole = keys.len() / LANES * LANES;
            for first in (0..whole).step_by(LANES) {
                let lanes: [u64; LANES] = std::array::from_fn(|lane| keys[first + lane]);
                let lanes: u64x8 = cast(lanes);
                let is_kept = simd.cmp_ge_u64x8(lanes, least).0;
                let wide = simd.avx512f;
                smallest = cast(wide._mm512_mask_min_epu64(cast(smallest), is_kept, cast(smallest), cast(lanes)));
                let compressed: [u64; LANES] = cast(wide._mm512_maskz_compress_epi64(is_kept, cast(lanes)));
                // Never beyond the keys that were read.
                keys[kept..kept + LANES].copy_from_slice(&compressed);
                kept += is_kept.count_ones() as usize;
            }
            let smallest: [u64; LANES] = cast(smallest);
            let smallest = smallest.into_iter().fold(u64::MAX, u64::min);
            super::compress(keys, whole, (kept, smallest), threshold)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::random::{index, stream};

    #[test]
    fn the_kept_keys_are_those_of_a_sorted_list() {
        let mut random = stream(3, "largest keys", 0);
        for (length, keep) in
            [(0, 3), (1, 1), (2, 1), (7, 0), (7, 7), (7, 9), (240, 200), (241, 1), (1024, 500), (3000, 2500)]
        {
            // Close together, far apart, and with the extremes of the type.
            for shift in [0, 13, 31] {
                let mut keys: Vec<u64> =
                    (0..length).map(|number| ((index(1 << 20, &mut random) << 12 | number) as u64) << shift).collect();
                if let [first, second, ..] = &mut keys[..] {
                    (*first, *second) = (u64::MAX, 0);
                }
                let mut sorted = keys.clone();
                sorted.sort_unstable_by(|a, b| b.cmp(a));
                for most in [keep, keep + keep / 20] {
                    let mut keys = keys.clone();
                    let found = keep_largest(&mut keys, keep, most);
                    let kept = found.map_or(0, |(kept, _)| kept);
                    assert!((keep.min(length)..=most).contains(&kept), "{length}, {keep}, {most}: {kept}");
                    assert_eq!(found.map(|(_, smallest)| smallest), sorted[..kept].last().copied());
                    keys.truncate(kept);
                    keys.sort_unstable_by(|a, b| b.cmp(a));
                    assert_eq!(keys, sorted[..kept], "{length}, {keep}, {most}");
                }
                if let Some(&threshold) = sorted.get(keep / 2) {
                    let mut portable = keys.clone();
                    let kept = compress(&mut portable, 0, (0, u64::MAX), threshold);
                    assert_eq!(compress_avx512(&mut keys, threshold).unwrap_or(kept), kept);
                }
            }
        }
    }
}
