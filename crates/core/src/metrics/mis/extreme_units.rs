//! The easiest and the hardest units of every model, which a study with people would ask about first.

use std::collections::BTreeMap;

use super::groups::is_latest;
use crate::run::Unit;

/// An easiest or hardest unit.
#[derive(Clone, Debug, PartialEq)]
pub(in crate::metrics) struct ExtremeUnit {
    /// `easiest` or `hardest`.
    pub kind: &'static str,
    pub model: String,
    pub unit: usize,
    pub mis: f64,
}

/// The `count` units with the highest and with the lowest score of every model, at its last checkpoint; at most half of its
/// units each. Ties are ordered by unit.
pub(in crate::metrics) fn extreme_units(
    scores: &[Option<f64>],
    units: Option<&[Unit]>,
    count: usize,
) -> Vec<ExtremeUnit> {
    let latest = units.map(is_latest);
    let mut models: BTreeMap<&str, Vec<(f64, usize)>> = BTreeMap::new();
    for (unit, score) in scores.iter().enumerate() {
        let counts = latest.as_ref().is_none_or(|latest| latest[unit]);
        let model = units.map_or("", |units| &units[unit].model);
        if let Some(score) = score.filter(|_| counts) {
            models.entry(model).or_default().push((score, unit));
        }
    }
    let mut found = Vec::new();
    for (model, mut order) in models {
        order.sort_by(|a, b| b.0.total_cmp(&a.0).then(a.1.cmp(&b.1)));
        let count = count.min(order.len() / 2);
        let of = |kind: &'static str| {
            move |&(mis, unit): &(f64, usize)| ExtremeUnit { kind, model: model.into(), unit, mis }
        };
        found.extend(order.iter().take(count).map(of("easiest")));
        found.extend(order.iter().rev().take(count).map(of("hardest")));
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_model_has_its_own_extreme_units() {
        let unit = |model: &str, epoch| Unit { model: model.into(), epoch, ..Unit::default() };
        let units =
            [unit("b", None), unit("a", Some(1.0)), unit("a", Some(2.0)), unit("a", Some(2.0)), unit("b", None)];
        let scores = [Some(0.3), Some(0.9), Some(0.5), Some(0.7), Some(0.6)];
        let found: Vec<_> =
            extreme_units(&scores, Some(&units), 5).iter().map(|one| (one.kind, one.model.clone(), one.unit)).collect();
        let expected = [("easiest", "a", 3), ("hardest", "a", 2), ("easiest", "b", 4), ("hardest", "b", 0)];
        assert_eq!(found, expected.map(|(kind, model, unit)| (kind, model.to_string(), unit)));
        let numbers = |count| extreme_units(&scores, None, count).iter().map(|one| one.unit).collect::<Vec<_>>();
        assert_eq!(numbers(2), [1, 3, 0, 2]);
        assert!(numbers(0).is_empty() && extreme_units(&[None, Some(0.1)], None, 3).is_empty());
    }
}
