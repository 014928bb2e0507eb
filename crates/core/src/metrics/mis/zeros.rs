//! Where a zero can be an extreme activation: zeros of sparse codes are not stored, and are looked at only there.

use std::ops::Range;

use super::extremes::Limit;

/// Units for which 0 can be beyond a limit, by the place of a row.
pub(super) struct Zeros {
    /// The units, ascending, in four cases: whether a 0 on a low limit counts, and whether one on a high limit counts.
    units: [Vec<u32>; 4],
    /// A 0 on a low limit counts before this place at the most, and one on a high limit after that place.
    low_until: u32,
    high_from: u32,
}

impl Zeros {
    /// By limits of units.
    pub fn new(limits: &[[Limit; 2]]) -> Zeros {
        let tied = |side: usize| limits.iter().map(move |limits| limits[side]).filter(|limit| limit.value == 0.0);
        let units = |on_low: bool, on_high: bool| {
            let is_outside = |[low, high]: &[Limit; 2]| {
                low.value > 0.0 || (on_low && low.value == 0.0) || high.value < 0.0 || (on_high && high.value == 0.0)
            };
            let units = limits.iter().enumerate().filter(|(_, limits)| is_outside(limits));
            units.map(|(unit, _)| unit as u32).collect()
        };
        Zeros {
            units: [units(false, false), units(false, true), units(true, false), units(true, true)],
            low_until: tied(0).map(|limit| limit.place).max().unwrap_or(0),
            high_from: tied(1).map(|limit| limit.place).min().unwrap_or(u32::MAX),
        }
    }

    /// The units of a range for which a 0 at a place can be extreme, and possibly more.
    pub fn at(&self, place: u32, range: &Range<usize>) -> &[u32] {
        let case = 2 * usize::from(place < self.low_until) + usize::from(place > self.high_from);
        let units = &self.units[case];
        let bound = |end: usize| units.partition_point(|&unit| (unit as usize) < end);
        &units[bound(range.start)..bound(range.end)]
    }
}

#[cfg(test)]
mod tests {
    use super::super::extremes::NO_LIMITS;
    use super::*;

    #[test]
    fn zeros_are_looked_at_where_they_can_be_extreme() {
        let limits = |low, low_place, high, high_place| {
            [Limit { value: low, place: low_place }, Limit { value: high, place: high_place }]
        };
        // Never; among the lowest before place 5; among the highest after place 8; always.
        let zeros = Zeros::new(&[limits(-1.0, 9, 1.0, 0), limits(0.0, 5, 1.0, 0), limits(-1.0, 9, 0.0, 8), NO_LIMITS]);
        for (place, expected) in [(4, &[1, 3][..]), (5, &[3]), (8, &[3]), (9, &[2, 3])] {
            assert_eq!(zeros.at(place, &(0..4)), expected, "{place}");
        }
        assert_eq!((zeros.at(4, &(0..3)), zeros.at(9, &(3..4))), (&[1][..], &[3][..]));
    }
}
