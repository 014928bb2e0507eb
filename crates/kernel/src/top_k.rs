//! Top-k selection with a total order: value descending, then index ascending.
//!
//! ```
//! use etalon_kernel::top_k::largest;
//!
//! let mut best = Vec::new();
//! largest(&[0.5, 3.0, -1.0, 3.0], 2, &mut best);
//! assert_eq!(best, [(3.0, 1), (3.0, 3)]);
//! ```

use std::cmp::Ordering;

use super::vectorised::vectorised;

/// Larger value first; among equal values the lower index first.
pub fn by_value(a: &(f32, u32), b: &(f32, u32)) -> Ordering {
    b.0.total_cmp(&a.0).then(a.1.cmp(&b.1))
}

/// The `keep` largest values with their indices, best first. `scratch` is reused between calls.
pub fn largest(values: &[f32], keep: usize, scratch: &mut Vec<(f32, u32)>) {
    scratch.clear();
    let limit = 2 * keep + AT_ONCE;
    let mut floor = None;
    for (first, values) in (0..).step_by(AT_ONCE).zip(values.chunks(AT_ONCE)) {
        // Without branches, because a value is rarely large enough; NaN is kept.
        if floor.is_some_and(|floor: f32| values.iter().fold(true, |none, value| none & (*value < floor))) {
            continue;
        }
        scratch.extend((first..).zip(values).map(|(index, &value)| (value, index)));
        if scratch.len() >= limit && keep > 0 {
            truncate_to_largest(scratch, keep);
            floor = scratch.last().map(|worst| worst.0);
        }
    }
    truncate_to_largest(scratch, keep);
}

/// Values that are compared with a floor at once.
const AT_ONCE: usize = 64;

/// Values of a chunk of [`chunks_above`].
pub const CHUNK: usize = 16;

/// The chunks of [`CHUNK`] values, of which the last may be shorter, that have a value above a floor. `found` is reused between
/// calls.
pub fn chunks_above(values: &[f64], floor: f64, found: &mut Vec<u32>) {
    found.clear();
    let (chunks, rest) = values.as_chunks::<CHUNK>();
    vectorised(
        #[inline(always)]
        || {
            for (index, chunk) in chunks.iter().enumerate() {
                // Without branches, because a value is rarely large enough.
                if chunk.iter().fold(false, |any, &value| any | (value > floor)) {
                    found.push(index as u32);
                }
            }
        },
    );
    if rest.iter().any(|&value| value > floor) {
        found.push(chunks.len() as u32);
    }
}

/// Keeps the `keep` best entries of a list, best first.
pub fn truncate_to_largest(list: &mut Vec<(f32, u32)>, keep: usize) {
    if keep == 0 {
        list.clear();
    } else if list.len() > keep {
        list.select_nth_unstable_by(keep - 1, by_value);
        list.truncate(keep);
    }
    list.sort_unstable_by(by_value);
}

/// Keeps the `keep` best entries of a list with ascending indices, in order; returns the smallest value kept. `scratch`
/// is reused between calls.
pub fn keep_largest(list: &mut Vec<(f32, u32)>, keep: usize, scratch: &mut Vec<i32>) -> f32 {
    if keep == 0 {
        list.clear();
        return f32::INFINITY;
    }
    if list.len() < keep {
        return f32::NEG_INFINITY;
    }
    if list.len() - keep <= DROP_ONE_BY_ONE {
        // Drop a few entries one by one; among equals the last is dropped first.
        while list.len() > keep {
            list.remove(smallest(list));
        }
        return list[smallest(list)].0;
    }
    scratch.clear();
    scratch.extend(list.iter().map(|entry| key(entry.0)));
    vectorised(
        #[inline(always)]
        || keep_from(list, keep, scratch),
    )
}

/// The `n`-th largest of at least as many values. `scratch` is reused between calls.
pub(crate) fn nth_largest(values: impl Iterator<Item = f32>, n: usize, scratch: &mut Vec<i32>) -> f32 {
    scratch.clear();
    scratch.extend(values.map(key));
    vectorised(
        #[inline(always)]
        || {
            let least = smallest_kept(scratch, n).0;
            let floor = scratch.iter().fold(i32::MAX, |floor, &key| if key >= least { floor.min(key) } else { floor });
            value(floor)
        },
    )
}

/// Up to this many entries are dropped one by one.
const DROP_ONE_BY_ONE: usize = 3;

/// An integer key in the order of `f32::total_cmp`: all bits of negative values but the sign are inverted.
#[inline(always)]
fn key(value: f32) -> i32 {
    let bits = value.to_bits() as i32;
    bits ^ ((bits >> 31) as u32 >> 1) as i32
}

/// The value of a key.
#[inline(always)]
fn value(key: i32) -> f32 {
    f32::from_bits((key ^ ((key >> 31) as u32 >> 1) as i32) as u32)
}

/// The position of the last of the smallest entries.
fn smallest(list: &[(f32, u32)]) -> usize {
    let least = list.iter().map(|entry| key(entry.0)).fold(i32::MAX, i32::min);
    list.iter().rposition(|entry| key(entry.0) == least).unwrap_or(0)
}

/// A key that the `keep` largest of a longer list reach, found by bisection: counting keys is vectorised, and about a dozen
/// counts suffice. If no more than these reach it, also their number.
#[inline(always)]
fn smallest_kept(keys: &[i32], keep: usize) -> (i32, Option<usize>) {
    let count_from = |least: i32| keys.iter().map(|&key| u32::from(key >= least)).sum::<u32>() as usize;
    let extremes = keys.iter().fold((i32::MAX, i32::MIN), |(low, high), &key| (low.min(key), high.max(key)));
    let (mut low, mut high) = (i64::from(extremes.0), i64::from(extremes.1));
    // More than `keep` keys are at least `low`, and fewer are above `high`.
    while low < high {
        let middle = low + (high - low + 1) / 2;
        match count_from(middle as i32).cmp(&keep) {
            Ordering::Equal => return (middle as i32, Some(keep)),
            Ordering::Greater => low = middle,
            Ordering::Less => high = middle - 1,
        }
    }
    (low as i32, None)
}

/// Keeps the `keep` best of a longer list by key.
#[inline(always)]
fn keep_from(list: &mut Vec<(f32, u32)>, keep: usize, keys: &[i32]) -> f32 {
    let (least, equal) = smallest_kept(keys, keep);
    // If not all keys equal to the smallest fit, the first are kept.
    let mut free = equal.unwrap_or_else(|| keep - keys.iter().filter(|&&key| key > least).count());
    let (mut kept, mut floor) = (0, i32::MAX);
    for (index, &key) in keys.iter().enumerate() {
        let fits = (key == least) & (free > 0);
        let stays = (key > least) | fits;
        free -= usize::from(fits);
        list[kept] = list[index];
        kept += usize::from(stays);
        floor = if stays { floor.min(key) } else { floor };
    }
    list.truncate(keep);
    value(floor)
}

/// A starting floor for similar lists, from `(smallest value kept, scale)` of each list: 2.5 standard deviations below the
/// mean of their ratios. 0 if more than a tenth of the lists were too short.
pub fn usual_floor(floors: impl Iterator<Item = (f32, f32)>) -> f32 {
    let (mut lists, mut full, mut sum, mut squares) = (0.0f64, 0.0f64, 0.0f64, 0.0f64);
    for (floor, scale) in floors {
        lists += 1.0;
        let part = f64::from(floor) / f64::from(scale);
        if part.is_finite() && part > 0.0 {
            (full, sum, squares) = (full + 1.0, sum + part, squares + part * part);
        }
    }
    if full == 0.0 || full < 0.9 * lists {
        return 0.0;
    }
    let mean = sum / full;
    let variance = (squares / full - mean * mean).max(0.0);
    (mean - 2.5 * variance.sqrt()).max(0.0) as f32
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ties_go_to_the_lowest_index() {
        let mut top = Vec::new();
        largest(&[1.0, 3.0, 3.0, 2.0, 3.0], 3, &mut top);
        assert_eq!(top, [(3.0, 1), (3.0, 2), (3.0, 4)]);
        largest(&[1.0], 5, &mut top);
        assert_eq!(top, [(1.0, 0)]);
        largest(&[1.0], 0, &mut top);
        assert!(top.is_empty());
        // Longer lists agree with sorting everything.
        let values: Vec<f32> =
            (0..1000).map(|index| [1.0, -0.0, 0.0, f32::NAN, -3.0, 7.0][index * index % 6]).collect();
        for keep in [1, 5, 170, 999, 2000] {
            let mut sorted: Vec<(f32, u32)> = values.iter().copied().zip(0..).collect();
            sorted.sort_by(by_value);
            sorted.truncate(keep);
            largest(&values, keep, &mut top);
            let bits = |list: &[(f32, u32)]| list.iter().map(|entry| (entry.0.to_bits(), entry.1)).collect::<Vec<_>>();
            assert_eq!(bits(&top), bits(&sorted));
        }
    }

    #[test]
    fn chunks_with_a_value_above_the_floor() {
        let mut values = vec![1.0; 3 * CHUNK + 2];
        let mut found = vec![7];
        chunks_above(&values, 1.0, &mut found);
        assert!(found.is_empty());
        (values[CHUNK + 3], values[3 * CHUNK + 1]) = (1.5, 2.0);
        chunks_above(&values, 1.0, &mut found);
        assert_eq!(found, [1, 3]);
        chunks_above(&values, f64::NEG_INFINITY, &mut found);
        assert_eq!(found, [0, 1, 2, 3]);
        chunks_above(&[], 0.0, &mut found);
        assert!(found.is_empty());
    }

    #[test]
    fn the_largest_are_kept_in_order_and_ties_keep_the_first() {
        let list = [(3.0, 0), (1.0, 2), (3.0, 5), (2.0, 6), (2.0, 9), (2.0, 11)];
        let kept = |keep: usize| {
            let mut list = list.to_vec();
            (keep_largest(&mut list, keep, &mut Vec::new()), list)
        };
        assert_eq!(kept(4), (2.0, vec![(3.0, 0), (3.0, 5), (2.0, 6), (2.0, 9)]));
        assert_eq!(kept(1), (3.0, vec![(3.0, 0)]));
        assert_eq!((kept(6).0, kept(6).1.len()), (1.0, 6));
        assert_eq!((kept(7).0, kept(7).1.len()), (f32::NEG_INFINITY, 6));
        assert!(kept(0).1.is_empty());
        for keep in 1..6 {
            let mut sorted = list.to_vec();
            truncate_to_largest(&mut sorted, keep);
            sorted.sort_by_key(|entry| entry.1);
            assert_eq!(kept(keep).1, sorted);
        }
    }

    #[test]
    fn dropping_few_or_many_uses_the_same_order() {
        let numbers = [1.0, -0.0, 0.0, f32::NAN, -3.0, f32::INFINITY, 1.0, f32::NEG_INFINITY, 2.0, -3.0, 1.0];
        let list: Vec<(f32, u32)> = (0..40).map(|index| (numbers[index * 7 % 11], index as u32)).collect();
        for keep in 1..=40 {
            let (mut kept, mut sorted) = (list.clone(), list.clone());
            let floor = keep_largest(&mut kept, keep, &mut Vec::new());
            truncate_to_largest(&mut sorted, keep);
            assert_eq!(floor.to_bits(), sorted[keep - 1].0.to_bits());
            let nth = nth_largest(list.iter().map(|entry| entry.0), keep, &mut Vec::new());
            assert_eq!(nth.to_bits(), floor.to_bits());
            sorted.sort_by_key(|entry| entry.1);
            let bits = |list: &[(f32, u32)]| list.iter().map(|e| (e.0.to_bits(), e.1)).collect::<Vec<_>>();
            assert_eq!(bits(&kept), bits(&sorted));
        }
    }

    #[test]
    fn the_usual_floor_is_below_nearly_all_lists() {
        assert_eq!(usual_floor([(2.0, 1.0), (4.0, 2.0)].into_iter()), 2.0);
        // Mean 3 and deviation 1/2: two and a half deviations below.
        assert_eq!(usual_floor([(2.5, 1.0), (3.5, 1.0)].into_iter()), 1.75);
        assert_eq!(usual_floor([(1.0, 1.0), (f32::NEG_INFINITY, 1.0), (1.0, 0.0)].into_iter()), 0.0);
        assert_eq!(usual_floor([].into_iter()), 0.0);
    }
}
