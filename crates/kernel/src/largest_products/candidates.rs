//! Candidates for the largest products of a row.

use super::Largest;

/// Candidates for the largest products of a row: values with a bound of their error, offered in ascending order of rows.
#[derive(Clone, Debug)]
pub struct Candidates {
    keep: usize,
    /// Other row, smallest and largest possible value.
    list: Vec<(u32, f64, f64)>,
    /// As many candidates as are kept are at least this large.
    floor: f64,
}

impl Candidates {
    /// Bytes of the candidates of a row, unless many values are equal within their error.
    pub fn bytes(keep: usize) -> usize {
        (2 * keep + 16) * size_of::<(u32, f64, f64)>()
    }

    /// No candidates yet; at least one is kept.
    pub fn new(keep: usize) -> Candidates {
        let keep = keep.max(1);
        Candidates { keep, list: Vec::with_capacity(2 * keep + 16), floor: f64::NEG_INFINITY }
    }

    /// A larger row must be larger than this to be among the largest.
    pub fn floor(&self) -> f64 {
        self.floor
    }

    /// Offers a row whose product differs from `value` by at most `error`. Anything is possible for a value that is not
    /// finite.
    pub fn offer(&mut self, value: f64, error: f64, row: u32) {
        let possible = value - error..value + error;
        let known = possible.start.is_finite() && possible.end.is_finite();
        let (least, most) = if known { (possible.start, possible.end) } else { (f64::NEG_INFINITY, f64::INFINITY) };
        // A tie goes to the lower row.
        if most > self.floor || self.list.len() < self.keep {
            self.list.push((row, least, most));
            if self.list.len() >= self.list.capacity() {
                self.shorten();
                // Many values that are equal within their error.
                if self.list.len() > self.list.capacity() / 2 {
                    self.list.reserve(self.list.len());
                }
            }
        }
    }

    /// Raises the floor and drops what is below it.
    pub fn shorten(&mut self) {
        if self.list.len() < self.keep {
            return;
        }
        let mut least: Vec<f64> = self.list.iter().map(|candidate| candidate.1).collect();
        let (_, floor, _) = least.select_nth_unstable_by(self.keep - 1, |a, b| b.total_cmp(a));
        self.floor = self.floor.max(*floor);
        // Equal values stay: the later rows that raised the floor lose a tie.
        self.list.retain(|candidate| candidate.2 >= self.floor);
    }

    /// The largest products, given exact values of some rows in ascending order.
    pub fn decide(mut self, exact: impl FnOnce(&[u32]) -> Vec<f64>) -> Largest {
        self.shorten();
        let rows: Vec<u32> = self.list.iter().map(|candidate| candidate.0).collect();
        // Adding 0 turns −0 into 0, which `total_cmp` would order differently.
        let mut largest: Largest =
            rows.iter().copied().zip(exact(&rows)).map(|(row, value)| (row, value + 0.0)).collect();
        largest.sort_unstable_by(|a, b| b.1.total_cmp(&a.1).then(a.0.cmp(&b.0)));
        largest.truncate(self.keep);
        largest.shrink_to_fit();
        largest
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn candidates_keep_what_may_be_large_enough() {
        // 5 ± 1 and 7 ± 1 are the two largest so far: 3 ± 0.5 is below the floor of 4, 4 ± 0 is at best a tie, which the
        // lower row wins, 4.4 ± 1 stays.
        let mut candidates = Candidates::new(2);
        candidates.offer(5.0, 1.0, 0);
        candidates.offer(7.0, 1.0, 1);
        candidates.shorten();
        assert_eq!(candidates.floor(), 4.0);
        candidates.offer(4.0, 0.0, 2);
        candidates.offer(3.0, 0.5, 3);
        candidates.offer(4.4, 1.0, 4);
        candidates.offer(f64::NAN, 1.0, 5);
        let mut offered = Vec::new();
        let largest = candidates.decide(|rows| {
            offered = rows.to_vec();
            vec![4.5, 6.5, 5.0, 1.0]
        });
        assert_eq!(offered, [0, 1, 4, 5]);
        assert_eq!(largest, [(1, 6.5), (4, 5.0)]);
    }
}
