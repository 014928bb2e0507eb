//! How many entries of two co-occurrence matrices exceed each of a grid of thresholds, and how many only in one of them.

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

/// Counts entries of two matrices, A and B.
#[derive(Clone)]
pub(super) struct Comparison {
    thresholds: [f64; THRESHOLDS],
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
        Comparison { thresholds: std::array::from_fn(threshold), counts: vec![0; 6 * LINE] }
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
        let above = |value: f64| self.thresholds.partition_point(|&threshold| threshold < value);
        let (a, b) = (above(a), above(b));
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

/// How many entries exceed the threshold in B, only in B, in A, only in A, without each group of rows.
#[derive(Clone)]
pub(super) struct WithoutGroup(pub Vec<u64>);

impl WithoutGroup {
    pub fn new() -> WithoutGroup {
        WithoutGroup(vec![0; 4 * GROUPS])
    }

    pub fn add(&mut self, a: &[f64; GROUPS], b: &[f64; GROUPS], thresholds: &[f64; GROUPS]) {
        for (group, at) in self.0.chunks_exact_mut(4).enumerate() {
            let (in_a, in_b) = (a[group] > thresholds[group], b[group] > thresholds[group]);
            at[0] += u64::from(in_b);
            at[1] += u64::from(in_b && !in_a);
            at[2] += u64::from(in_a);
            at[3] += u64::from(in_a && !in_b);
        }
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
    fn a_sum_without_its_only_part_is_exactly_zero() {
        let mut parts = [0.0; GROUPS];
        (parts[3], parts[7]) = (0.1, 0.0);
        assert_eq!(sums_without(&parts)[3], 0.0);
        parts[7] = 0.3;
        let without = sums_without(&parts);
        assert_eq!((without[3], without[7], without[0]), (0.3, 0.1, 0.1 + 0.3));
    }
}
