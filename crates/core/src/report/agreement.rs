//! Agreement between measures: do they put the input sets in the same order, from worse to better?

use super::gather::Gathered;
use crate::metrics::Better;
use crate::results::RankAgreement;

/// The agreement of all pairs of measures with a better end.
pub struct Agreement {
    /// The measures of rows and columns.
    pub measures: Vec<usize>,
    /// Row by row.
    pub cells: Vec<Vec<RankAgreement>>,
    /// Measures that are left out, because neither end is better.
    pub undirected: Vec<usize>,
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
        let row = |(_, a): &(usize, Vec<Option<f64>>)| columns.iter().map(|(_, b)| RankAgreement::of(a, b)).collect();
        Agreement {
            cells: columns.iter().map(row).collect(),
            measures: columns.iter().map(|(measure, _)| *measure).collect(),
            undirected,
        }
    }

    /// The agreement of two measures, if both have a better end and enough sets.
    pub fn find(&self, first: usize, second: usize) -> Option<RankAgreement> {
        let index = |measure: usize| self.measures.iter().position(|other| *other == measure);
        self.cells.get(index(first)?)?.get(index(second)?).copied()
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::super::tests::stored;
    use super::*;
    use crate::results::{Scores, Stored};

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
        assert_eq!(found, RankAgreement { value: Some(1.0), n: 5, is_chance: Some(false) });
        assert_eq!(agreement.undirected, [measure("frequency")]);
    }
}
