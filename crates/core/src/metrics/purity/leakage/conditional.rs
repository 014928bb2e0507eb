//! Information about the task given the concept, and what chance adds to it.

use std::collections::BTreeMap;

use crate::metrics::purity::information::{Information, mutual_information};

/// The conditional plug-in information I(bins; task | concept), and its expectation if the bins were shuffled within the
/// classes of the concept.
pub(super) struct Conditional {
    pub information: Information,
    pub null: f64,
}

impl Conditional {
    pub fn of(bins: &[u32], task: &[u32], concept: &[u32]) -> Conditional {
        let mut by_class = BTreeMap::<u32, Vec<usize>>::new();
        concept.iter().enumerate().for_each(|(row, &class)| by_class.entry(class).or_default().push(row));
        let rows = bins.len().max(1) as f64;
        let (mut value, mut null, mut terms) = (0.0, 0.0, vec![0.0; bins.len()]);
        for own in by_class.values() {
            let pick = |values: &[u32]| -> Vec<u32> { own.iter().map(|&row| values[row]).collect() };
            let (bins, task) = (pick(bins), pick(task));
            let (found, count) = (mutual_information(&bins, &task), own.len() as f64);
            // The term of a row is its logarithm: its influence in the class plus the mean of the class.
            for (&row, influence) in own.iter().zip(&found.influence) {
                terms[row] = influence * count + found.value;
            }
            value += found.value * count / rows;
            null += expected(&bins, &task) * count / rows;
        }
        let influence = terms.into_iter().map(|term| (term - value) / rows).collect();
        Conditional { information: Information { value, influence }, null }
    }
}

/// The expected plug-in information of two lists of classes if one of them is shuffled: the sum over all cells of the mean
/// under the hypergeometric distribution (Vinh, Epps and Bailey 2010).
fn expected(one: &[u32], other: &[u32]) -> f64 {
    let counts = |classes: &[u32]| -> Vec<f64> {
        let mut counts = BTreeMap::<u32, f64>::new();
        classes.iter().for_each(|&class| *counts.entry(class).or_default() += 1.0);
        counts.into_values().collect()
    };
    let (rows, ones, others) = (one.len() as f64, counts(one), counts(other));
    ones.iter().flat_map(|&a| others.iter().map(move |&b| cell(a, b, rows))).sum()
}

/// The mean of n/N · ln(N n / (a b)) over the number n of rows in both of two classes of a and b of N rows. Weights are
/// relative to that of the mode, from which both tails are followed until they no longer count.
fn cell(a: f64, b: f64, rows: f64) -> f64 {
    let (least, most) = ((a + b - rows).max(0.0), a.min(b));
    let term = |n: f64| if n > 0.0 { n / rows * libm::log(rows * n / (a * b)) } else { 0.0 };
    let ratio = |n: f64| (a - n) * (b - n) / ((n + 1.0) * (rows - a - b + n + 1.0));
    let mode = ((a + 1.0) * (b + 1.0) / (rows + 2.0)).floor().clamp(least, most);
    let (mut weights, mut sum) = (1.0, term(mode));
    let (mut n, mut weight) = (mode, 1.0);
    while n < most && weight > 1e-18 {
        weight *= ratio(n);
        n += 1.0;
        weights += weight;
        sum += weight * term(n);
    }
    (n, weight) = (mode, 1.0);
    while n > least && weight > 1e-18 {
        n -= 1.0;
        weight /= ratio(n);
        weights += weight;
        sum += weight * term(n);
    }
    sum / weights
}

#[cfg(test)]
mod tests {
    use super::*;
    use etalon_kernel::random::{permutation, stream};

    #[test]
    fn worked_example() {
        // Given the concept, the bin is the task.
        let (task, concept) = ([0, 1, 0, 1], [0, 0, 1, 1]);
        let found = Conditional::of(&task, &task, &concept);
        assert!((found.information.value - 2f64.ln()).abs() < 1e-12);
        // Two rows in any order: the bin is always the task.
        assert!((found.null - 2f64.ln()).abs() < 1e-12);
        assert!(found.information.influence.iter().all(|part| part.abs() < 1e-12));
        assert_eq!(Conditional::of(&concept, &task, &concept).information.value, 0.0);
        // Three rows, classes of 2 and 1 in both: the single ones meet with probability 1/3 (information H), otherwise
        // 1/3 ln(3/4) + 2 · 1/3 ln(3/2).
        let entropy = 2.0 / 3.0 * 1.5f64.ln() + 3f64.ln() / 3.0;
        let apart = 0.75f64.ln() / 3.0 + 2.0 * 1.5f64.ln() / 3.0;
        assert!((expected(&[0, 0, 1], &[0, 0, 1]) - (entropy / 3.0 + 2.0 * apart / 3.0)).abs() < 1e-12);
    }

    #[test]
    fn the_expectation_is_the_mean_over_shuffles() {
        let one: Vec<u32> = (0..60).map(|row| row * row % 5).collect();
        let other: Vec<u32> = (0..60).map(|row| u32::from(row % 7 < 3) + u32::from(row % 11 == 0)).collect();
        let shuffled = |number: u64| -> Vec<u32> {
            permutation(60, &mut stream(1, "conditional/test", number)).into_iter().map(|row| one[row]).collect()
        };
        let mean = (0..4000).map(|n| mutual_information(&shuffled(n), &other).value).sum::<f64>() / 4000.0;
        assert!((expected(&one, &other) - mean).abs() < 0.002, "{} {mean}", expected(&one, &other));
    }
}
