//! Named splits of the rows, such as `train` and `test`.

use std::collections::BTreeMap;
use std::ops::Range;

use crate::error::{InputError, Result};

/// The row ranges of every split, ascending and disjoint. Different splits may share rows.
pub type SplitRanges = BTreeMap<String, Vec<Range<usize>>>;

/// Refuses ranges that overlap, are reversed or exceed the number of rows.
pub fn check(splits: &SplitRanges, rows: usize) -> Result<()> {
    for (name, ranges) in splits {
        let mut last = 0;
        for range in ranges {
            if range.start < last || range.start > range.end || range.end > rows {
                return Err(InputError::new(format!("split `{name}` has an invalid range of rows"))
                    .expected(format!("ascending ranges within {last} to {rows}"))
                    .found(format!("{} to {}", range.start, range.end))
                    .advice("check the rows of the split")
                    .into());
            }
            last = range.end;
        }
    }
    Ok(())
}

/// The ranges of a split.
pub fn find<'a>(splits: &'a SplitRanges, name: &str) -> Result<&'a [Range<usize>]> {
    splits.get(name).map(Vec::as_slice).ok_or_else(|| {
        let known: Vec<&str> = splits.keys().map(String::as_str).collect();
        InputError::new(format!("there is no split `{name}`"))
            .expected(if known.is_empty() { "data with splits".into() } else { known.join(", ") })
            .found(format!("`{name}`"))
            .advice("check the name of the split")
            .into()
    })
}

/// Adjusts splits when rows are dropped: computes the new index of every boundary while rows are read in order.
#[derive(Debug)]
pub struct Boundaries {
    /// The new index of each boundary.
    moved: BTreeMap<usize, usize>,
    /// Boundaries that were not reached yet, descending.
    waiting: Vec<usize>,
}

impl Boundaries {
    /// All starts and ends.
    pub fn of(splits: &SplitRanges) -> Boundaries {
        let ends = splits.values().flatten().flat_map(|range| [range.start, range.end]);
        let moved: BTreeMap<usize, usize> = ends.map(|end| (end, 0)).collect();
        let waiting = moved.keys().rev().copied().collect();
        Boundaries { moved, waiting }
    }

    /// Of the first `row` rows, `kept` were kept.
    pub fn pass(&mut self, row: usize, kept: usize) {
        while let Some(&boundary) = self.waiting.last()
            && boundary <= row
        {
            self.moved.insert(boundary, kept);
            self.waiting.pop();
        }
    }

    /// The splits over the kept rows, without empty ranges.
    pub fn adjusted(&self, splits: &SplitRanges) -> SplitRanges {
        let new = |end: &usize| self.moved.get(end).copied().unwrap_or(0);
        let moved = |range: &Range<usize>| new(&range.start)..new(&range.end);
        let ranges = |ranges: &Vec<Range<usize>>| ranges.iter().map(moved).filter(|range| !range.is_empty()).collect();
        splits.iter().map(|(name, old)| (name.clone(), ranges(old))).collect()
    }
}

#[cfg(test)]
#[expect(clippy::single_range_in_vec_init, reason = "a split of one range is a list of one range")]
mod tests {
    use super::*;

    #[test]
    fn boundaries_move_with_dropped_rows() {
        // Rows 0..6, of which 1 and 4 are dropped: 0 2 3 5 become 0 1 2 3.
        let splits: SplitRanges = [("a".into(), vec![0..2, 4..5]), ("b".into(), vec![2..6])].into();
        check(&splits, 6).unwrap();
        let mut boundaries = Boundaries::of(&splits);
        let mut kept = 0;
        for row in 0..6 {
            boundaries.pass(row, kept);
            kept += usize::from(row != 1 && row != 4);
        }
        boundaries.pass(6, kept);
        assert_eq!(boundaries.adjusted(&splits), [("a".into(), vec![0..1]), ("b".into(), vec![1..4])].into());
    }

    #[test]
    fn wrong_ranges_are_refused() {
        #[expect(clippy::reversed_empty_ranges)]
        for ranges in [vec![0..7], vec![3..2], vec![0..3, 2..4]] {
            assert!(check(&[("a".into(), ranges)].into(), 6).is_err());
        }
    }
}
