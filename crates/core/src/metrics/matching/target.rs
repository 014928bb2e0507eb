//! A concept as the target of a search: its rows, what a coalition of latents covers of them, and the latents chosen.

use std::borrow::Cow;

use etalon_kernel::bits::Bits;

use super::firing::Firing;

/// The complete run of one matcher for one concept.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Pursuit {
    pub latents: Vec<u32>,
    /// F1 after every step.
    pub f1: Vec<f64>,
    /// The weights of all latents so far, after every step; empty for matchers without weights.
    pub weights: Vec<Vec<f64>>,
}

/// The rows and counts of one concept. Rows with an unknown label are ignored.
pub(super) struct Target<'a> {
    pub firing: &'a Firing,
    /// The rows with the concept.
    pub yes: &'a Bits,
    /// The rows with a known label; `None` for all.
    pub known: Option<&'a Bits>,
    pub positives: usize,
    /// By latent, the rows with the concept in which it fires.
    pub hits: Vec<i32>,
    /// By latent, the known rows in which it fires.
    pub fired: Cow<'a, [i32]>,
}

impl<'a> Target<'a> {
    /// Counts the rows of a concept.
    pub fn new(firing: &'a Firing, yes: &'a Bits, known: &'a Bits) -> Target<'a> {
        let positives: Vec<u32> = yes.rows().map(|row| row as u32).collect();
        let mut hits = vec![0; firing.latents];
        firing.count(&positives, 1, &mut hits);
        let mut fired = Cow::Borrowed(&firing.fired[..]);
        let all_known = known.count() == firing.rows;
        if !all_known {
            let unknown: Vec<u32> = (0..firing.rows as u32).filter(|&row| !known.contains(row as usize)).collect();
            firing.count(&unknown, -1, fired.to_mut());
        }
        let known = (!all_known).then_some(known);
        Target { firing, yes, known, positives: positives.len(), hits, fired }
    }

    /// F1 of a latent alone.
    pub fn f1(&self, latent: usize) -> f64 {
        f1(self.hits[latent] as usize, self.positives, self.fired[latent] as usize)
    }
}

/// What a growing coalition covers: the known rows in which any of its latents fires.
pub(super) struct Cover<'a> {
    target: &'a Target<'a>,
    rows: Bits,
    /// Covered rows with the concept.
    pub true_positives: usize,
    predicted: usize,
}

impl<'a> Cover<'a> {
    pub fn new(target: &'a Target<'a>) -> Cover<'a> {
        Cover { target, rows: Bits::empty(target.firing.rows), true_positives: 0, predicted: 0 }
    }

    /// Adds a latent. Sets `newly` to the rows with the concept that were not covered before.
    pub fn add(&mut self, latent: usize, newly: &mut Vec<u32>) {
        newly.clear();
        self.target.firing.each_row(latent, |row| {
            if self.rows.contains(row) || self.target.known.is_some_and(|known| !known.contains(row)) {
                return;
            }
            self.rows.insert(row);
            self.predicted += 1;
            if self.target.yes.contains(row) {
                newly.push(row as u32);
            }
        });
        self.true_positives += newly.len();
    }

    pub fn f1(&self) -> f64 {
        f1(self.true_positives, self.target.positives, self.predicted)
    }
}

/// 2 TP / (positives + predicted), and 0 if both are 0.
pub(in crate::metrics) fn f1(true_positives: usize, positives: usize, predicted: usize) -> f64 {
    match positives + predicted {
        0 => 0.0,
        both => 2.0 * true_positives as f64 / both as f64,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::context::Context;
    use crate::metrics::testing::codes;

    #[test]
    fn unknown_rows_are_ignored() {
        // Latent 0 fires in all four rows; row 3 is unknown, rows 0 and 1 have the concept.
        let firing = Firing::new(&codes(&[1.0; 4], 1), 0.0, &Context::silent(1, 1 << 20).unwrap()).unwrap();
        let (yes, known) = (Bits::of(4, [0, 1]), Bits::of(4, [0, 1, 2]));
        let target = Target::new(&firing, &yes, &known);
        assert_eq!((target.positives, target.hits[0], target.fired[0]), (2, 2, 3));
        let mut cover = Cover::new(&target);
        cover.add(0, &mut Vec::new());
        // 2 · 2 / (2 + 3)
        assert_eq!(cover.f1(), 0.8);
    }
}
