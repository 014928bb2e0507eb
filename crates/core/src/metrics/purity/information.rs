//! Mutual information of binned numbers and classes, with the influence of every row.

use std::collections::BTreeMap;

/// A number in nats and how much every row moves it.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Information {
    pub value: f64,
    /// The influence of every row; their squares add up to the variance.
    pub influence: Vec<f64>,
}

/// The bins of equal width between the smallest and the largest value, as NumPy's histogram has them; the largest value
/// is in the last bin.
pub(super) fn equal_width(values: &[f64], bins: usize) -> Vec<u32> {
    let (low, high) = values.iter().fold((f64::INFINITY, f64::NEG_INFINITY), |(l, h), &v| (l.min(v), h.max(v)));
    let spread = high > low;
    if !spread {
        return vec![0; values.len()];
    }
    let step = (high - low) / bins as f64;
    let edges: Vec<f64> = (0..bins).map(|bin| bin as f64 * step + low).collect();
    values.iter().map(|value| (edges.partition_point(|edge| edge <= value).max(1) - 1) as u32).collect()
}

/// The plug-in mutual information of two lists of classes, in nats.
pub(super) fn mutual_information(one: &[u32], other: &[u32]) -> Information {
    let rows = one.len() as f64;
    let mut joint = BTreeMap::<(u32, u32), f64>::new();
    let (mut ones, mut others) = (BTreeMap::<u32, f64>::new(), BTreeMap::<u32, f64>::new());
    for (&a, &b) in one.iter().zip(other) {
        *joint.entry((a, b)).or_default() += 1.0;
        *ones.entry(a).or_default() += 1.0;
        *others.entry(b).or_default() += 1.0;
    }
    let logs: BTreeMap<(u32, u32), f64> =
        joint.iter().map(|(&(a, b), &count)| ((a, b), libm::log(count * rows / (ones[&a] * others[&b])))).collect();
    let value: f64 = joint.iter().map(|(cell, count)| count / rows * logs[cell]).sum();
    let influence = one.iter().zip(other).map(|(&a, &b)| (logs[&(a, b)] - value) / rows).collect();
    Information { value, influence }
}

/// The entropy of a list of classes, in nats.
pub(super) fn entropy(classes: &[u32]) -> Information {
    mutual_information(classes, classes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn worked_example() {
        // Joint 2/4, 1/4, 0, 1/4: I = 1/2 ln(2·4/(3·2)) + 1/4 ln(1·4/(3·2)) + 1/4 ln(1·4/(1·2)).
        let found = mutual_information(&[0, 0, 0, 1], &[0, 0, 1, 1]);
        let expected = 0.5 * (8f64 / 6.0).ln() + 0.25 * (4f64 / 6.0).ln() + 0.25 * 2f64.ln();
        assert!((found.value - expected).abs() < 1e-12);
        assert!(found.influence.iter().sum::<f64>().abs() < 1e-12);
        assert!((entropy(&[0, 1, 0, 1]).value - 2f64.ln()).abs() < 1e-12);
    }

    #[test]
    fn bins_are_those_of_numpy() {
        assert_eq!(equal_width(&[0.0, 0.24, 0.25, 0.5, 1.0], 4), [0, 0, 1, 2, 3]);
        assert_eq!(equal_width(&[3.0; 2], 20), [0, 0]);
    }
}
