//! Tests of groups by ranks: Kruskal and Wallis, Conover with Holm's adjustment, Mann and Whitney, Brunner and Munzel.

use etalon_kernel::statistics::{deviation, mean, ranks, two_sided};
use statrs::distribution::{ChiSquared, ContinuousCDF, StudentsT};

/// A statistic with its two-sided p value.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Test {
    pub statistic: f64,
    pub p: f64,
}

/// A test of two groups of several.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct PairTest {
    pub pair: [usize; 2],
    pub p: f64,
    /// Adjusted by Holm's method.
    pub holm: f64,
}

/// The ranks of all values together: their sums by group, and their variance, ties averaged.
struct Pooled {
    sums: Vec<f64>,
    variance: f64,
    /// Kruskal and Wallis' H, corrected for ties.
    statistic: f64,
}

impl Pooled {
    /// `None` for fewer than two groups, an empty group, or values that do not vary.
    fn new(groups: &[Vec<f64>]) -> Option<Pooled> {
        if groups.len() < 2 || groups.iter().any(Vec::is_empty) {
            return None;
        }
        let ranks = ranks(&groups.concat());
        let n = ranks.len() as f64;
        let correction = n * (n + 1.0) * (n + 1.0) / 4.0;
        let variance = (ranks.iter().map(|rank| rank * rank).sum::<f64>() - correction) / (n - 1.0);
        let mut rest = &ranks[..];
        let mut sum = |group: &Vec<f64>| {
            let (own, others) = rest.split_at(group.len());
            rest = others;
            own.iter().sum::<f64>()
        };
        let sums: Vec<f64> = groups.iter().map(&mut sum).collect();
        let between: f64 = sums.iter().zip(groups).map(|(sum, group)| sum * sum / group.len() as f64).sum();
        (variance > 0.0).then(|| Pooled { sums, variance, statistic: (between - correction) / variance })
    }
}

/// Kruskal and Wallis' test of all groups; `None` for fewer than two groups, an empty group, or values that do not vary.
pub(super) fn kruskal(groups: &[Vec<f64>]) -> Option<Test> {
    let statistic = Pooled::new(groups)?.statistic;
    let chi_squared = ChiSquared::new((groups.len() - 1) as f64).ok()?;
    Some(Test { statistic, p: chi_squared.sf(statistic.max(0.0)) })
}

/// Conover's test of every pair of groups after Kruskal and Wallis, on ranks of all values. Empty where that is undefined, and
/// if there are not more values than groups.
pub(super) fn conover(groups: &[Vec<f64>]) -> Vec<PairTest> {
    let (n, k) = (groups.iter().map(Vec::len).sum::<usize>() as f64, groups.len() as f64);
    let (Some(pooled), Ok(student)) = (Pooled::new(groups), StudentsT::new(0.0, 1.0, n - k)) else {
        return Vec::new();
    };
    let scale = pooled.variance * (n - 1.0 - pooled.statistic) / (n - k);
    let mut tests = Vec::new();
    for one in 0..groups.len() {
        for other in one + 1..groups.len() {
            let (a, b) = (groups[one].len() as f64, groups[other].len() as f64);
            let difference = (pooled.sums[one] / a - pooled.sums[other] / b).abs();
            let t = difference / (scale * (1.0 / a + 1.0 / b)).sqrt();
            // Groups that do not overlap at all can have no variance within.
            let p = if t.is_nan() { 1.0 } else { 2.0 * student.sf(t) };
            tests.push(PairTest { pair: [one, other], p, holm: p });
        }
    }
    adjust(&mut tests);
    tests
}

/// Holm's adjustment: the q-th smallest p times the number of tests from it on, not smaller than those before it.
pub(super) fn adjust(tests: &mut [PairTest]) {
    let mut order: Vec<usize> = (0..tests.len()).collect();
    order.sort_by(|&a, &b| tests[a].p.total_cmp(&tests[b].p).then(a.cmp(&b)));
    let mut largest = 0.0f64;
    for (rank, &index) in order.iter().enumerate() {
        largest = largest.max(tests[index].p * (order.len() - rank) as f64).min(1.0);
        tests[index].holm = largest;
    }
}

/// Mann and Whitney's test is exact, as in SciPy, if one group has at most this many values and there are no ties, and if both have
/// together at most this many, so that counts of orders are exact numbers.
const EXACT: [usize; 2] = [8, 60];

/// Mann and Whitney's U of the first group: exact for few values without ties, else by the normal approximation, corrected for
/// ties and continuity. `None` if a group is empty or nothing varies.
pub(super) fn mann_whitney(first: &[f64], second: &[f64]) -> Option<Test> {
    let (a, b) = (first.len(), second.len());
    let ranks = ranks(&[first, second].concat());
    if a == 0 || b == 0 {
        return None;
    }
    let statistic = ranks[..a].iter().sum::<f64>() - (a * (a + 1)) as f64 / 2.0;
    let larger = statistic.max((a * b) as f64 - statistic);
    let mut sorted = ranks;
    sorted.sort_by(f64::total_cmp);
    let ties: Vec<f64> = sorted.chunk_by(|x, y| x == y).map(|tied| tied.len() as f64).collect();
    if a.min(b) <= EXACT[0] && a + b <= EXACT[1] && ties.len() == a + b {
        return Some(Test { statistic, p: (2.0 * exact_upper(a, b, larger as usize)).min(1.0) });
    }
    let n = (a + b) as f64;
    let tied = ties.iter().map(|t| t * t * t - t).sum::<f64>() / (n * (n - 1.0));
    let deviation = ((a * b) as f64 / 12.0 * ((n + 1.0) - tied)).sqrt();
    (deviation > 0.0).then(|| {
        let z = (larger - (a * b) as f64 / 2.0 - 0.5) / deviation;
        Test { statistic, p: if z > 0.0 { two_sided(z) } else { 1.0 } }
    })
}

/// The probability that U is at least `least`, if all orders of the values are equally probable.
fn exact_upper(a: usize, b: usize, least: usize) -> f64 {
    // Coefficients of the Gaussian binomial: orders of a and b values, by U. The factor (1 − xⁱ⁺ᵇ) / (1 − xⁱ) for every i.
    let mut orders = vec![0.0; a * b + 1];
    orders[0] = 1.0;
    for i in 1..=a {
        for u in (i + b..=a * b).rev() {
            orders[u] -= orders[u - i - b];
        }
        for u in i..=a * b {
            orders[u] += orders[u - i];
        }
    }
    orders[least..].iter().sum::<f64>() / orders.iter().sum::<f64>()
}

/// Brunner and Munzel's test, which does not assume equal variances: with Student's t, or with the normal distribution.
/// `None` if a group has fewer than two values or the groups do not overlap.
pub(super) fn brunner_munzel(first: &[f64], second: &[f64], normal: bool) -> Option<Test> {
    let (a, b) = (first.len() as f64, second.len() as f64);
    let all = ranks(&[first, second].concat());
    let (all_first, all_second) = all.split_at(first.len());
    let spread = |all: &[f64], own: &[f64]| {
        let differences: Vec<f64> = all.iter().zip(own).map(|(all, own)| all - own).collect();
        deviation(&differences).map(|deviation| deviation * deviation)
    };
    let (s, t) = (spread(all_first, &ranks(first))?, spread(all_second, &ranks(second))?);
    let pooled = a * s + b * t;
    if pooled <= 0.0 {
        return None;
    }
    let statistic = a * b * (mean(all_second)? - mean(all_first)?) / ((a + b) * pooled.sqrt());
    let freedom = pooled * pooled / ((a * s).powi(2) / (a - 1.0) + (b * t).powi(2) / (b - 1.0));
    let p = match normal {
        true => two_sided(statistic),
        false => 2.0 * StudentsT::new(0.0, 1.0, freedom).ok()?.sf(statistic.abs()),
    };
    Some(Test { statistic, p })
}

/// The two-sided p value of a correlation of `pairs` pairs, if there is none; `None` below three pairs.
pub(super) fn correlation_p(correlation: f64, pairs: usize) -> Option<f64> {
    let freedom = pairs.checked_sub(2).filter(|freedom| *freedom > 0)? as f64;
    let t = correlation.abs() * (freedom / (1.0 - correlation * correlation)).sqrt();
    let student = StudentsT::new(0.0, 1.0, freedom).ok()?;
    Some(if t.is_finite() { 2.0 * student.sf(t) } else { 0.0 })
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::Value;

    fn golden() -> (Value, Vec<Vec<f64>>) {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/golden/mis/humans/statistics.json");
        let expected: Value = serde_json::from_slice(&std::fs::read(path).unwrap()).unwrap();
        let groups = serde_json::from_value(expected["groups"].clone()).unwrap();
        (expected, groups)
    }

    fn assert_test(found: Option<Test>, expected: &Value) {
        let found = found.unwrap();
        let (statistic, p) = (expected[0].as_f64().unwrap(), expected[1].as_f64().unwrap());
        assert!((found.statistic - statistic).abs() < 1e-9, "{found:?}, expected {expected}");
        assert!((found.p - p).abs() < 1e-8, "{found:?}, expected {expected}");
    }

    #[test]
    fn tests_agree_with_scipy() {
        let (expected, groups) = golden();
        assert_test(kruskal(&groups), &expected["kruskal"]);
        assert_test(mann_whitney(&groups[0], &groups[1]), &expected["mannwhitney_0_1"]);
        assert_test(brunner_munzel(&groups[0], &groups[1], false), &expected["brunnermunzel_0_1_t"]);
        let normal = brunner_munzel(&groups[0], &groups[1], true);
        assert_test(normal, &expected["brunnermunzel_0_1_normal"]);
        // So small a p value is compared relatively, too.
        let p = expected["brunnermunzel_0_1_normal"][1].as_f64().unwrap();
        assert!((normal.unwrap().p / p - 1.0).abs() < 1e-6, "{normal:?}");
    }

    #[test]
    fn conover_agrees_with_scikit_posthocs() {
        let (expected, groups) = golden();
        let tests = conover(&groups);
        assert_eq!(tests.len(), groups.len() * (groups.len() - 1) / 2);
        for PairTest { pair: [one, other], p, holm } in tests {
            for [one, other] in [[one, other], [other, one]] {
                assert!((p - expected["conover_raw"][one][other].as_f64().unwrap()).abs() < 1e-8);
                assert!((holm - expected["conover_holm"][one][other].as_f64().unwrap()).abs() < 1e-8);
            }
        }
    }

    #[test]
    fn conover_of_a_published_example() {
        let groups = [vec![1.0, 2.0, 3.0, 5.0, 1.0], vec![12.0, 31.0, 54.0], vec![10.0, 12.0, 6.0, 74.0, 11.0]];
        let found: Vec<f64> = conover(&groups).iter().map(|test| test.holm).collect();
        for (found, expected) in found.iter().zip([0.00119517, 0.00278329, 0.18672227]) {
            assert!((found - expected).abs() < 1e-8, "{found}");
        }
        assert!(conover(&groups[..1]).is_empty() && conover(&[vec![1.0], vec![1.0]]).is_empty());
        assert!(kruskal(&[vec![2.0; 3], vec![2.0; 2]]).is_none() && kruskal(&[vec![1.0], Vec::new()]).is_none());
    }

    #[test]
    fn worked_examples() {
        // First group 4 5 6, second 1 2 3 7: U = 9 of 12; of the 35 orders, those with U ≥ 9: 1 + 1 + 2 + 3 = 7. p = 14/35.
        let found = mann_whitney(&[4.0, 5.0, 6.0], &[1.0, 2.0, 3.0, 7.0]).unwrap();
        assert!((found.statistic - 9.0).abs() < 1e-12 && (found.p - 0.4).abs() < 1e-12, "{found:?}");
        // All equal: nothing varies. Separate groups: no variance within.
        assert!(mann_whitney(&[1.0; 3], &[1.0; 4]).is_none() && mann_whitney(&[], &[1.0]).is_none());
        assert!(brunner_munzel(&[1.0, 2.0], &[3.0, 4.0], false).is_none());
        assert!(brunner_munzel(&[1.0], &[3.0, 4.0], false).is_none());
        // r = 0.5 of 10 pairs: t = 0.5 · √(8 / 0.75) = 1.632993, p = 0.141113.
        assert!((correlation_p(0.5, 10).unwrap() - 0.141113).abs() < 1e-6);
        assert_eq!((correlation_p(1.0, 5), correlation_p(0.3, 2)), (Some(0.0), None));
    }
}
