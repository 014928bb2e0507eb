//! Whether two lists of numbers have the same order: Spearman's correlation, and whether it may be chance.

use super::distributions::student_quantile;
use etalon_kernel::statistics::{ranks, spearman};

/// The agreement of two measures on the same input sets.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct RankAgreement {
    /// Spearman's correlation of the values; `None` below three sets or if one measure is constant.
    pub value: Option<f64>,
    /// Number of input sets that have both.
    pub n: usize,
    /// Whether independent measures agree or disagree as much in more than 5 % of all cases.
    pub is_chance: Option<bool>,
}

impl RankAgreement {
    /// The agreement over the sets that have both values.
    pub fn of(a: &[Option<f64>], b: &[Option<f64>]) -> RankAgreement {
        let (x, y): (Vec<f64>, Vec<f64>) = a.iter().zip(b).filter_map(|(a, b)| (*a).zip(*b)).unzip();
        let value = if x.len() < 3 { None } else { spearman(&x, &y) };
        RankAgreement { value, n: x.len(), is_chance: value.map(|value| is_chance(&x, &y, value)) }
    }
}

/// Up to this many sets all orders are tried.
const EXACT: usize = 7;

/// Whether a correlation is within the 95 % that independent values give: by all orders for few sets, by Student's t for
/// many.
fn is_chance(x: &[f64], y: &[f64], correlation: f64) -> bool {
    let count = x.len() as f64;
    if x.len() > EXACT {
        let t = correlation * ((count - 2.0) / (1.0 - correlation * correlation).max(1e-300)).sqrt();
        return student_quantile(count - 2.0).is_none_or(|limit| t.abs() < limit);
    }
    let (x, mut y) = (ranks(x), ranks(y));
    let mean = x.iter().sum::<f64>() / count;
    let product = |y: &[f64]| x.iter().zip(y).map(|(x, y)| (x - mean) * y).sum::<f64>().abs();
    let observed = product(&y) - 1e-9;
    let (mut extreme, mut all) = (0usize, 0usize);
    each_order(&mut y, 0, &mut |order| {
        all += 1;
        extreme += usize::from(product(order) >= observed);
    });
    extreme as f64 > 0.05 * all as f64
}

/// Calls a function with every order of the values from `first` on.
fn each_order(values: &mut [f64], first: usize, each: &mut impl FnMut(&[f64])) {
    if first + 1 >= values.len() {
        return each(values);
    }
    for other in first..values.len() {
        values.swap(first, other);
        each_order(values, first + 1, each);
        values.swap(first, other);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn list(values: &[f64]) -> Vec<Option<f64>> {
        values.iter().copied().map(Some).collect()
    }

    #[test]
    fn few_sets_agree_by_chance() {
        // Two of the 24 orders of four sets are perfect: 8 %. Of five, two of 120: 2 %.
        let found = RankAgreement::of(&list(&[1.0, 2.0, 3.0, 4.0]), &list(&[2.0, 4.0, 6.0, 9.0]));
        assert_eq!(found, RankAgreement { value: Some(1.0), n: 4, is_chance: Some(true) });
        let found = RankAgreement::of(&list(&[1.0, 2.0, 3.0, 4.0, 5.0]), &list(&[9.0, 6.0, 4.0, 2.0, 1.0]));
        assert_eq!(found, RankAgreement { value: Some(-1.0), n: 5, is_chance: Some(false) });
        // Ten sets with ρ = 0.6: t = 0.6 · √(8 / 0.64) = 2.12, below 2.306. With ρ = 0.73: 3.02.
        assert!(is_chance(&[0.0; 10], &[0.0; 10], 0.6) && !is_chance(&[0.0; 10], &[0.0; 10], 0.73));
        assert_eq!(
            RankAgreement::of(&list(&[1.0, 2.0]), &list(&[1.0, 2.0])),
            RankAgreement { value: None, n: 2, is_chance: None }
        );
    }
}
