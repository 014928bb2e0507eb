//! Scores of one split with the part of every test row in them, and the interval that follows from these parts.
//!
//! With a fixed probe, a score is a mean over test rows, so its variance is the sum of the squared parts of the rows. Tasks
//! of a group share rows: the parts of a row in all tasks are added before they are squared. The variation of the
//! training rows is not included; it is small beside that of the test rows, which are fewer (see docs/coverage.md).

use std::collections::BTreeMap;

use etalon_kernel::statistics::{area_under_curve, ranks};
use serde::{Deserialize, Serialize};

use super::draw::DrawnRows;
use crate::probe::confusion::ConfusionMatrix;
use crate::results::{Interval, share_interval};

/// A score of a probe on test rows.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct TestScore {
    /// The score.
    pub value: f64,
    /// The part of every test row, if there is only one split.
    pub parts: Option<RowParts>,
}

/// By how much every test row moves a score.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct RowParts {
    rows: Vec<u32>,
    /// The parts of the rows of a class sum to 0.
    parts: Vec<f64>,
}

impl TestScore {
    /// The accuracy. A row is predicted positive above 0.
    pub fn accuracy(test: &DrawnRows, scores: &[f64], parts: bool) -> Option<TestScore> {
        let value = ConfusionMatrix::of(&test.positive, scores).accuracy()?;
        let right = |index: usize| f64::from(u8::from((scores[index] > 0.0) == test.positive[index]));
        let share = 1.0 / test.rows.len() as f64;
        Some(TestScore { value, parts: parts.then(|| RowParts::new(test, [share; 2], right)) })
    }

    /// The mean F1 of both classes, weighted by rows. Its parts are those of the first-order expansion.
    pub fn weighted_f1(test: &DrawnRows, scores: &[f64], parts: bool) -> Option<TestScore> {
        let matrix = ConfusionMatrix::of(&test.positive, scores);
        let value = matrix.weighted_f1()?;
        let (yes, no) =
            (matrix.true_positives + matrix.false_negatives, matrix.true_negatives + matrix.false_positives);
        let (yes, no) = (yes as f64, no as f64);
        let (hits, rest) = (matrix.true_positives as f64, matrix.true_negatives as f64);
        // F1 of a class of n rows with c correct ones, and w rows of the other class wrongly assigned to it, is
        // 2c / (n + c + w); the derivatives are by c and by w.
        let slopes = |n: f64, c: f64, w: f64| [2.0 * (n + w) / (n + c + w).powi(2), -2.0 * c / (n + c + w).powi(2)];
        let ([by_hits, by_false], [by_rest, by_missed]) = (slopes(yes, hits, no - rest), slopes(no, rest, yes - hits));
        // One more correct row of a class is one wrong row less of the other.
        let of_yes = (yes * by_hits - no * by_missed) / (yes + no);
        let of_no = (no * by_rest - yes * by_false) / (yes + no);
        let right = |index: usize| f64::from(u8::from((scores[index] > 0.0) == test.positive[index]));
        Some(TestScore { value, parts: parts.then(|| RowParts::new(test, [of_no, of_yes], right)) })
    }

    /// The area under the ROC curve. The part of a row is the share of rows of the other class on its right side (DeLong).
    pub fn auc(test: &DrawnRows, scores: &[f64], parts: bool) -> Option<TestScore> {
        let value = area_under_curve(&test.positive, scores)?;
        let of_parts = || {
            let all = ranks(scores);
            let mut fractions = vec![0.0; scores.len()];
            for class in [false, true] {
                let members: Vec<usize> = (0..scores.len()).filter(|&index| test.positive[index] == class).collect();
                let within = ranks(&members.iter().map(|&index| scores[index]).collect::<Vec<f64>>());
                let others = (scores.len() - members.len()) as f64;
                for (&index, within) in members.iter().zip(within) {
                    let below = (all[index] - within) / others;
                    fractions[index] = if class { below } else { 1.0 - below };
                }
            }
            let yes = test.positive.iter().filter(|yes| **yes).count() as f64;
            RowParts::new(test, [1.0 / (scores.len() as f64 - yes), 1.0 / yes], |index| fractions[index])
        };
        Some(TestScore { value, parts: parts.then(of_parts) })
    }
}

impl RowParts {
    /// The parts of a score that is a sum of row values, each times the weight of its class (negative, positive). Classes
    /// have a fixed number of rows, so values count from the mean of their class.
    fn new(test: &DrawnRows, weights: [f64; 2], value: impl Fn(usize) -> f64) -> RowParts {
        let mut sums = [(0.0, 0.0); 2];
        for (index, &yes) in test.positive.iter().enumerate() {
            let (sum, count) = &mut sums[usize::from(yes)];
            (*sum, *count) = (*sum + value(index), *count + 1.0);
        }
        let part = |(index, &yes): (usize, &bool)| {
            let (sum, count) = sums[usize::from(yes)];
            // One degree of freedom is the mean's.
            weights[usize::from(yes)] * (value(index) - sum / count) * (count / (count - 1.0f64).max(1.0)).sqrt()
        };
        let rows = test.rows.iter().map(|&row| row as u32).collect();
        RowParts { rows, parts: test.positive.iter().enumerate().map(part).collect() }
    }
}

/// The 95 % interval of an average of scores with their weights, from 0 to 1.
pub fn interval(average: f64, scores: &[(f64, &RowParts)]) -> Option<Interval> {
    // By row: its part of the average, and its share of the test rows.
    let mut by_row: BTreeMap<u32, (f64, f64)> = BTreeMap::new();
    for (weight, of_task) in scores {
        let share = weight / of_task.rows.len() as f64;
        for (&row, part) in of_task.rows.iter().zip(&of_task.parts) {
            let sums = by_row.entry(row).or_default();
            *sums = (sums.0 + weight * part, sums.1 + share);
        }
    }
    let variance = by_row.values().map(|(part, _)| part * part).sum();
    let rows = 1.0 / by_row.values().map(|(_, share)| share * share).sum::<f64>();
    share_interval(average, variance, rows, by_row.len() as f64 - 1.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn drawn(positive: &[bool]) -> DrawnRows {
        DrawnRows { rows: (10..10 + positive.len()).collect(), positive: positive.to_vec() }
    }

    fn near(found: &[f64], expected: &[f64]) -> bool {
        found.len() == expected.len() && found.iter().zip(expected).all(|(a, b)| (a - b).abs() < 1e-12)
    }

    #[test]
    fn parts_match_the_worked_example() {
        // Positives score 3, 1, −1, negatives 2, −2: three of five are right. AUC: 3 beats both, 1 and −1 beat one each: 4/6.
        let (test, scores) = (drawn(&[true, true, true, false, false]), [3.0, 1.0, -1.0, 2.0, -2.0]);
        let accuracy = TestScore::accuracy(&test, &scores, true).unwrap();
        assert_eq!((accuracy.value, accuracy.parts.as_ref().unwrap().rows.clone()), (0.6, (10..15).collect()));
        // Positives are right in 1, 1, 0 (mean 2/3), negatives in 0, 1 (mean 1/2); √(3/2) and √2 for the lost degree of
        // freedom; a fifth each.
        let (a, b) = (1.5f64.sqrt() / 5.0, 2f64.sqrt() / 5.0);
        let expected = [a / 3.0, a / 3.0, -2.0 * a / 3.0, -b / 2.0, b / 2.0];
        assert!(near(&accuracy.parts.unwrap().parts, &expected));
        // Shares of the other class: 1, 1/2, 1/2 (mean 2/3) for the positives; 1/3 and 1 for the negatives.
        let auc = TestScore::auc(&test, &scores, true).unwrap();
        let (a, b) = (1.5f64.sqrt() / 3.0, 2f64.sqrt() / 2.0);
        let expected = [a / 3.0, -a / 6.0, -a / 6.0, -b / 3.0, b / 3.0];
        assert!((auc.value - 2.0 / 3.0).abs() < 1e-12 && near(&auc.parts.unwrap().parts, &expected));
        assert_eq!(TestScore::accuracy(&test, &scores, false).unwrap().parts, None);
    }

    #[test]
    fn the_parts_of_f1_are_its_derivatives() {
        // 60 positives of which 40 are found, 80 negatives of which 30 are taken for positives; then one more of each.
        let f1 = |hits: usize, wrong: usize| {
            let test = drawn(&(0..140).map(|row| row < 60).collect::<Vec<bool>>());
            let score = |row: usize| if row < hits || (60..60 + wrong).contains(&row) { 1.0 } else { -1.0 };
            TestScore::weighted_f1(&test, &(0..140).map(score).collect::<Vec<f64>>(), true).unwrap()
        };
        let (value, parts) = (f1(40, 30).value, f1(40, 30).parts.unwrap().parts);
        // A hit differs from a miss by the derivative; so does a wrong negative from a right one.
        let by_hit = (parts[0] - parts[59]) / (60.0f64 / 59.0).sqrt();
        let by_wrong = (parts[60] - parts[139]) / (80.0f64 / 79.0).sqrt();
        assert!((by_hit - (f1(41, 30).value - f1(39, 30).value) / 2.0).abs() < 1e-5, "{by_hit}");
        assert!((by_wrong - (f1(40, 31).value - f1(40, 29).value) / 2.0).abs() < 1e-5, "{by_wrong} {value}");
    }

    #[test]
    fn rows_of_several_tasks_count_once() {
        // Four rows, half of them right in either class: variance Σ (½·√2/4)² = 4/32 = 1/8 of one task. The same rows in
        // a second task do not make it smaller; other rows halve it.
        let scores = [1.0, -1.0, 1.0, -1.0];
        let test = drawn(&[true, true, false, false]);
        let one = TestScore::accuracy(&test, &scores, true).unwrap().parts.unwrap();
        let other = RowParts { rows: vec![90, 91, 92, 93], ..one.clone() };
        let alone = interval(0.5, &[(1.0, &one)]).unwrap();
        assert_eq!(interval(0.5, &[(0.5, &one), (0.5, &one)]), Some(alone));
        let both = interval(0.5, &[(0.5, &one), (0.5, &other)]).unwrap();
        assert!(alone.low < both.low && both.high < alone.high);
        // All right: no variance, but a finite number of rows.
        let right = TestScore::accuracy(&test, &[1.0, 1.0, -1.0, -1.0], true).unwrap();
        let certain = interval(right.value, &[(1.0, &right.parts.unwrap())]).unwrap();
        assert!(certain.high == 1.0 && certain.low > 0.2 && certain.low < 0.5, "{certain:?}");
    }
}
