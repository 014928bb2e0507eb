//! The confusion matrix of a binary probe. A row is predicted positive where its score is above zero.

/// A confusion matrix of two classes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ConfusionMatrix {
    /// Positive rows that are predicted positive.
    pub true_positives: usize,
    /// Negative rows that are predicted positive.
    pub false_positives: usize,
    /// Positive rows that are predicted negative.
    pub false_negatives: usize,
    /// Negative rows that are predicted negative.
    pub true_negatives: usize,
}

impl ConfusionMatrix {
    /// Counts the predictions of some scores.
    pub fn of(positive: &[bool], scores: &[f64]) -> ConfusionMatrix {
        let mut matrix = ConfusionMatrix::default();
        for (&yes, &score) in positive.iter().zip(scores) {
            let count = match (yes, score > 0.0) {
                (true, true) => &mut matrix.true_positives,
                (false, true) => &mut matrix.false_positives,
                (true, false) => &mut matrix.false_negatives,
                (false, false) => &mut matrix.true_negatives,
            };
            *count += 1;
        }
        matrix
    }

    /// The number of rows.
    pub fn rows(&self) -> usize {
        self.true_positives + self.false_positives + self.false_negatives + self.true_negatives
    }

    /// The share of correct predictions; `None` without rows.
    pub fn accuracy(&self) -> Option<f64> {
        (self.rows() > 0).then(|| (self.true_positives + self.true_negatives) as f64 / self.rows() as f64)
    }

    /// The harmonic mean of precision and recall; 0 without a true positive.
    pub fn f1(&self) -> f64 {
        f1_of(self.true_positives, self.false_positives + self.false_negatives)
    }

    /// The mean F1 of both classes, weighted by their rows; `None` without rows.
    pub fn weighted_f1(&self) -> Option<f64> {
        let wrong = self.false_positives + self.false_negatives;
        let (yes, no) = (self.true_positives + self.false_negatives, self.true_negatives + self.false_positives);
        let sum = yes as f64 * self.f1() + no as f64 * f1_of(self.true_negatives, wrong);
        (self.rows() > 0).then(|| sum / self.rows() as f64)
    }
}

fn f1_of(correct: usize, wrong: usize) -> f64 {
    if correct == 0 { 0.0 } else { 2.0 * correct as f64 / (2 * correct + wrong) as f64 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn worked_example() {
        // Five rows: + predicted +, + predicted -, - predicted +, - predicted - twice (a score of zero is negative).
        let matrix = ConfusionMatrix::of(&[true, true, false, false, false], &[1.0, -1.0, 2.0, -3.0, 0.0]);
        assert_eq!(matrix.accuracy(), Some(0.6));
        // F1 of yes 2/(2 + 2) = 0.5, of no 4/(4 + 2) = 2/3; weighted (2·0.5 + 3·2/3)/5 = 0.6.
        assert_eq!(matrix.f1(), 0.5);
        assert!((matrix.weighted_f1().unwrap() - 0.6).abs() < 1e-15);
        assert_eq!((ConfusionMatrix::default().accuracy(), ConfusionMatrix::default().weighted_f1()), (None, None));
        assert_eq!(ConfusionMatrix::of(&[true], &[-1.0]).f1(), 0.0);
    }
}
