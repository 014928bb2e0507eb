//! Agreement between measures: do they put the input sets in the same order, from worse to better?

use super::gather::Gathered;
use crate::metrics::Better;
use crate::results::student_quantile;
use etalon_kernel::statistics::{ranks, spearman};

/// The agreement of all pairs of measures with a better end.
pub struct Agreement {
    /// The measures of rows and columns.
    pub measures: Vec<usize>,
    /// Row by row.
    pub cells: Vec<Vec<Agreed>>,
    /// Measures that are left out, because neither end is better.
    pub undirected: Vec<usize>,
}

/// The agreement of two measures.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Agreed {
    /// Spearman's correlation of the values, with those negated of which lower is better; `None` below three sets or if
    /// one is constant.
    pub value: Option<f64>,
    /// Number of input sets that have both.
    pub n: usize,
    /// Whether independent measures agree or disagree as much in more than 5 % of all cases.
    pub is_chance: Option<bool>,
}

impl Agreement {
    /// Over the input sets under test. Baselines are left out: with them, all measures would agree.
    pub fn of(gathered: &Gathered<'_>) -> Agreement {
        let tested: Vec<usize> =
            (0..gathered.sets.len()).filter(|&set| gathered.sets[set].baseline().is_none()).collect();
        let (mut columns, mut undirected) = (Vec::new(), Vec::new());
        for (measure, about) in gathered.measures.iter().enumerate() {
            let values: Vec<Option<f64>> =
                tested.iter().map(|&set| gathered.main(measure, set).and_then(|cell| cell.value)).collect();
            let Some(key) = about.keys.first().filter(|_| values.iter().flatten().count() >= 3) else { continue };
            let sign = match about.better(key) {
                Better::Higher => 1.0,
                Better::Lower => -1.0,
                Better::Neither => {
                    undirected.push(measure);
                    continue;
                }
            };
            let directed = values.into_iter().map(|value| value.map(|value| sign * value));
            columns.push((measure, directed.collect::<Vec<Option<f64>>>()));
        }
        let row = |(_, a): &(usize, Vec<Option<f64>>)| columns.iter().map(|(_, b)| agreed(a, b)).collect();
        Agreement {
            cells: columns.iter().map(row).collect(),
            measures: columns.iter().map(|(measure, _)| *measure).collect(),
            undirected,
        }
    }

    /// The agreement of two measures, if both have a better end and enough sets.
    pub fn find(&self, first: usize, second: usize) -> Option<Agreed> {
        let index = |measure: usize| self.measures.iter().position(|other| *other == measure);
        self.cells.get(index(first)?)?.get(index(second)?).copied()
    }
}

fn agreed(a: &[Option<f64>], b: &[Option<f64>]) -> Agreed {
    let (x, y): (Vec<f64>, Vec<f64>) = a.iter().zip(b).filter_map(|(a, b)| (*a).zip(*b)).unzip();
    let value = if x.len() < 3 { None } else { spearman(&x, &y) };
    Agreed { value, n: x.len(), is_chance: value.map(|value| is_chance(&x, &y, value)) }
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
    use serde_json::json;

    use super::super::tests::stored;
    use super::*;
    use crate::results::{Scores, Stored};

    fn list(values: &[f64]) -> Vec<Option<f64>> {
        values.iter().copied().map(Some).collect()
    }

    #[test]
    fn few_sets_agree_by_chance() {
        // Two of the 24 orders of four sets are perfect: 8 %. Of five, two of 120: 2 %.
        let found = agreed(&list(&[1.0, 2.0, 3.0, 4.0]), &list(&[2.0, 4.0, 6.0, 9.0]));
        assert_eq!(found, Agreed { value: Some(1.0), n: 4, is_chance: Some(true) });
        let found = agreed(&list(&[1.0, 2.0, 3.0, 4.0, 5.0]), &list(&[9.0, 6.0, 4.0, 2.0, 1.0]));
        assert_eq!(found, Agreed { value: Some(-1.0), n: 5, is_chance: Some(false) });
        // Ten sets with ρ = 0.6: t = 0.6 · √(8 / 0.64) = 2.12, below 2.306. With ρ = 0.73: 3.02.
        assert!(is_chance(&[0.0; 10], &[0.0; 10], 0.6) && !is_chance(&[0.0; 10], &[0.0; 10], 0.73));
        assert_eq!(agreed(&list(&[1.0, 2.0]), &list(&[1.0, 2.0])), Agreed { value: None, n: 2, is_chance: None });
    }

    #[test]
    fn measures_are_oriented_by_their_better_end() {
        // Higher `match_score` and lower `mdl` are better: sets in the same order of quality have opposite values.
        let mut results: Vec<Stored> = Vec::new();
        let mut add = |metric: &str, key: &str, values: [f64; 5]| {
            for (set, value) in values.into_iter().enumerate() {
                let mut scores = Scores::default();
                scores.headline(key, Some(value), None, 4);
                results.push(stored(metric, 0, json!({}), json!({"inputs": format!("set {set}")}), scores));
            }
        };
        add("match", "match_score", [0.1, 0.2, 0.3, 0.4, 0.5]);
        add("divergence", "divergence", [9.0, 8.0, 7.0, 6.0, 5.0]);
        add("frequency", "frequency_gap", [0.0, 0.1, 0.2, 0.3, 0.4]);
        let gathered = Gathered::of(&results);
        let agreement = Agreement::of(&gathered);
        let measure = |metric: &str| gathered.measures.iter().position(|one| one.metric == metric).unwrap();
        let found = agreement.find(measure("match"), measure("divergence")).unwrap();
        assert_eq!(found, Agreed { value: Some(1.0), n: 5, is_chance: Some(false) });
        assert_eq!(agreement.undirected, [measure("frequency")]);
    }
}
