//! How many entries of two co-occurrence matrices exceed each of a grid of thresholds, and how many only in one of them.

use std::sync::OnceLock;

/// Thresholds: 0, then quarters of a decade from 10⁻⁶ to 10⁶.
pub(super) const THRESHOLDS: usize = 50;

/// Groups of rows that the jackknife leaves out in turn; the first half of them is one half of the rows.
pub(super) const GROUPS: usize = 20;

/// A threshold by number.
pub(super) fn threshold(place: usize) -> f64 {
    match place.checked_sub(1) {
        None => 0.0,
        Some(quarters) => libm::pow(10.0, quarters as f64 / 4.0 - 6.0),
    }
}

/// The number of the largest threshold that is not above a value.
pub(super) fn place_of(value: f64) -> usize {
    (0..THRESHOLDS).rev().find(|&place| threshold(place) <= value).unwrap_or(0)
}

/// All thresholds, and from which on to look for a value by its exponent: an octave has at most two of them.
struct Ladder {
    thresholds: [f64; THRESHOLDS],
    first: Vec<u8>,
}

/// Exponents of doubles.
const EXPONENTS: u64 = 1 << 11;

fn ladder() -> &'static Ladder {
    static LADDER: OnceLock<Ladder> = OnceLock::new();
    LADDER.get_or_init(|| {
        let thresholds: [f64; THRESHOLDS] = std::array::from_fn(threshold);
        let first = |exponent: u64| {
            let least = f64::from_bits(exponent << 52);
            thresholds.partition_point(|&threshold| threshold < least) as u8
        };
        Ladder { first: (0..EXPONENTS).map(first).collect(), thresholds }
    })
}

impl Ladder {
    /// How many thresholds are below a value.
    fn below(&self, value: f64) -> usize {
        if value <= 0.0 {
            return 0;
        }
        let first = usize::from(self.first[((value.to_bits() >> 52) % EXPONENTS) as usize]);
        let above = self.thresholds[first..].iter().take_while(|&&threshold| threshold < value).count();
        first + above
    }
}

/// Counts entries of two matrices, A and B.
#[derive(Clone)]
pub(super) struct Comparison {
    ladder: &'static Ladder,
    /// Per threshold and one more: entries of A and of B that exceed exactly so many thresholds; then where the stretch
    /// begins and ends in which only B, or only A, is above.
    counts: Vec<u64>,
}

const LINE: usize = THRESHOLDS + 1;

/// What a comparison found at one threshold.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct At {
    pub in_a: u64,
    pub in_b: u64,
    pub only_b: u64,
    pub only_a: u64,
}

impl Comparison {
    pub fn new() -> Comparison {
        Comparison { ladder: ladder(), counts: vec![0; 6 * LINE] }
    }

    /// Takes up the counts of a tally.
    pub fn of(counts: &[u64]) -> Comparison {
        Comparison { counts: counts.to_vec(), ..Comparison::new() }
    }

    pub fn into_counts(self) -> Vec<u64> {
        self.counts
    }

    /// Adds an entry of both.
    pub fn add(&mut self, a: f64, b: f64) {
        let (a, b) = (self.ladder.below(a), self.ladder.below(b));
        self.counts[a] += 1;
        self.counts[LINE + b] += 1;
        // Above in B only from where A ends to where B ends, and the other way round.
        let (line, begin, end) = if a < b { (2, a, b) } else { (4, b, a) };
        if begin < end {
            self.counts[line * LINE + begin] += 1;
            self.counts[(line + 1) * LINE + end] += 1;
        }
    }

    pub fn at(&self, place: usize) -> At {
        let line = |line: usize| &self.counts[line * LINE..(line + 1) * LINE];
        let above = |at: usize| line(at)[place + 1..].iter().sum::<u64>();
        let within = |at: usize| line(at)[..=place].iter().sum::<u64>() - line(at + 1)[..=place].iter().sum::<u64>();
        At { in_a: above(0), in_b: above(1), only_b: within(2), only_a: within(4) }
    }
}

/// Every group of rows, as bits.
pub(super) const ALL: u32 = (1 << GROUPS) - 1;

/// How many entries exceed the threshold in B, only in B, in A, only in A, without each group of rows.
#[derive(Clone)]
pub(super) struct WithoutGroup {
    /// What is counted for all groups.
    every: [u64; 4],
    /// And what is to be added for one.
    one: [[i64; 4]; GROUPS],
}

impl WithoutGroup {
    pub fn new() -> WithoutGroup {
        WithoutGroup { every: [0; 4], one: [[0; 4]; GROUPS] }
    }

    /// Adds an entry of both: without which groups is it above, as bits?
    pub fn add(&mut self, in_a: u32, in_b: u32) {
        for (which, groups) in [in_b, in_b & !in_a, in_a, in_a & !in_b].into_iter().enumerate() {
            // Nearly all entries are above without any group, or without any but one: only the exceptions are written.
            let is_most = groups.count_ones() as usize > GROUPS / 2;
            self.every[which] += u64::from(is_most);
            let (mut few, step) = if is_most { (ALL & !groups, -1) } else { (groups, 1) };
            while few != 0 {
                self.one[few.trailing_zeros() as usize][which] += step;
                few &= few - 1;
            }
        }
    }

    /// Four counts per group.
    pub fn into_counts(self) -> Vec<u64> {
        let of_group =
            |one: &[i64; 4]| std::array::from_fn::<u64, 4, _>(|at| self.every[at].wrapping_add_signed(one[at]));
        self.one.iter().flat_map(of_group).collect()
    }
}

/// The sum without each part: of the parts before and after it, so that zeros stay exactly zero.
pub(super) fn sums_without(parts: &[f64]) -> [f64; GROUPS] {
    let mut without = [0.0; GROUPS];
    let mut before = 0.0;
    for (without, part) in without.iter_mut().zip(parts) {
        *without = before;
        before += part;
    }
    let mut after = 0.0;
    for (without, part) in without.iter_mut().zip(parts).rev() {
        *without += after;
        after += part;
    }
    without
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn by_hand() {
        // Entries (A, B): (0, 2), (3, 0), (0.5, 2). Above 0: A has 2, B has 2, only B 1, only A 1. Above 1 (place 25):
        // A has 1, B has 2, only B 2, only A 1. Above 10⁶: nothing.
        let mut counts = Comparison::new();
        for (a, b) in [(0.0, 2.0), (3.0, 0.0), (0.5, 2.0)] {
            counts.add(a, b);
        }
        assert!((threshold(25) - 1.0).abs() < 1e-12 && threshold(0) == 0.0);
        assert_eq!((place_of(0.0), place_of(1.1), place_of(f64::MAX)), (0, 25, THRESHOLDS - 1));
        assert_eq!(counts.at(0), At { in_a: 2, in_b: 2, only_b: 1, only_a: 1 });
        assert_eq!(counts.at(25), At { in_a: 1, in_b: 2, only_b: 2, only_a: 1 });
        assert_eq!(counts.at(THRESHOLDS - 1), At { in_a: 0, in_b: 0, only_b: 0, only_a: 0 });
        assert_eq!(Comparison::of(&counts.clone().into_counts()).at(25), counts.at(25));
    }

    #[test]
    fn the_ladder_finds_what_a_search_finds() {
        let near = (0..THRESHOLDS).map(threshold).flat_map(|value| [value, value.next_up(), value.next_down()]);
        let far = [-1.0, f64::MIN_POSITIVE / 2.0, 1e-300, 1e300, f64::INFINITY];
        for value in near.chain(far) {
            let expected = (0..THRESHOLDS).filter(|&place| threshold(place) < value).count();
            assert_eq!(ladder().below(value), expected, "{value}");
        }
    }

    #[test]
    fn exceptions_are_counted_for_their_group() {
        // Two entries: A above without any group but 3, B above without 0 and 1 only; A never, B always.
        let mut counts = WithoutGroup::new();
        counts.add(ALL & !8, 3);
        counts.add(0, ALL);
        let counts = counts.into_counts();
        let of = |group: usize| counts[4 * group..4 * group + 4].to_vec();
        assert_eq!((of(0), of(2), of(3)), (vec![2, 1, 1, 0], vec![1, 1, 1, 1], vec![1, 1, 0, 0]));
    }

    #[test]
    fn a_sum_without_its_only_part_is_exactly_zero() {
        let mut parts = [0.0; GROUPS];
        (parts[3], parts[7]) = (0.1, 0.0);
        assert_eq!(sums_without(&parts)[3], 0.0);
        parts[7] = 0.3;
        let without = sums_without(&parts);
        assert_eq!((without[3], without[7], without[0]), (0.3, 0.1, 0.1 + 0.3));
    }
}
