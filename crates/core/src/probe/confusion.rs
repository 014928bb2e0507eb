//! How good the scores of a probe are: a row is called positive where its score is above zero.

/// Right and wrong answers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Verdict {
    /// Positive rows that were called positive.
    pub true_positives: usize,
    /// Negative rows that were called positive.
    pub false_positives: usize,
    /// Positive rows that were called negative.
    pub false_negatives: usize,
    /// Negative rows that were called negative.
    pub true_negatives: usize,
}

impl Verdict {
    /// Counts answers.
    pub fn of(positive: &[bool], scores: &[f64]) -> Verdict {
        let mut verdict = Verdict::default();
        for (&yes, &score) in positive.iter().zip(scores) {
            let count = match (yes, score > 0.0) {
                (true, true) => &mut verdict.true_positives,
                (false, true) => &mut verdict.false_positives,
                (true, false) => &mut verdict.false_negatives,
                (false, false) => &mut verdict.true_negatives,
            };
            *count += 1;
        }
        verdict
    }

    /// How many rows there are.
    pub fn rows(&self) -> usize {
        self.true_positives + self.false_positives + self.false_negatives + self.true_negatives
    }

    /// The share of right answers; `None` without rows.
    pub fn accuracy(&self) -> Option<f64> {
        (self.rows() > 0).then(|| (self.true_positives + self.true_negatives) as f64 / self.rows() as f64)
    }

    /// The harmonic mean of precision and recall; 0 where nothing is right.
    pub fn f1(&self) -> f64 {
        one_sided(self.true_positives, self.false_positives + self.false_negatives)
    }

    /// The F1 of either class, weighed by its rows; `None` without rows.
    pub fn weighted_f1(&self) -> Option<f64> {
        let wrong = self.false_positives + self.false_negatives;
        let (yes, no) = (self.true_positives + self.false_negatives, self.true_negatives + self.false_positives);
        let sum = yes as f64 * self.f1() + no as f64 * one_sided(self.true_negatives, wrong);
        (self.rows() > 0).then(|| sum / self.rows() as f64)
    }
}

fn one_sided(right: usize, wrong: usize) -> f64 {
    if right == 0 { 0.0 } else { 2.0 * right as f64 / (2 * right + wrong) as f64 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn by_hand() {
        // Five rows: + called +, + called -, - called +, - called - twice (a score of zero is no).
        let verdict = Verdict::of(&[true, true, false, false, false], &[1.0, -1.0, 2.0, -3.0, 0.0]);
        assert_eq!(verdict.accuracy(), Some(0.6));
        // F1 of yes 2/(2 + 2) = 0.5, of no 4/(4 + 2) = 2/3; weighed (2·0.5 + 3·2/3)/5 = 0.6.
        assert_eq!(verdict.f1(), 0.5);
        assert!((verdict.weighted_f1().unwrap() - 0.6).abs() < 1e-15);
        assert_eq!((Verdict::default().accuracy(), Verdict::default().weighted_f1()), (None, None));
        assert_eq!(Verdict::of(&[true], &[-1.0]).f1(), 0.0);
    }
}
