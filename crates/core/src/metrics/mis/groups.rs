//! Scores of the units that share a layer or a model, during training, and against the accuracy of models.

use std::collections::BTreeMap;

use etalon_kernel::statistics::{mean, pearson, quantile, spearman};

use crate::results::Table;
use crate::run::Unit;

/// The scores of units that share something.
pub(super) struct Group<'a> {
    /// The first of the units.
    pub unit: &'a Unit,
    /// Ascending.
    pub scores: Vec<f64>,
    /// Units without a score.
    pub constant: usize,
}

impl Group<'_> {
    pub fn mean(&self) -> Option<f64> {
        mean(&self.scores)
    }
}

/// Groups units by a key, in the order of their first unit.
pub(super) fn group<'a, K: Ord + Clone>(
    scores: &[Option<f64>],
    units: &'a [Unit],
    key: impl Fn(&'a Unit) -> K,
) -> Vec<Group<'a>> {
    let mut numbers: BTreeMap<K, usize> = BTreeMap::new();
    let mut groups: Vec<Group<'a>> = Vec::new();
    for (unit, score) in units.iter().zip(scores) {
        let number = *numbers.entry(key(unit)).or_insert_with(|| {
            groups.push(Group { unit, scores: Vec::new(), constant: 0 });
            groups.len() - 1
        });
        match score {
            Some(score) => groups[number].scores.push(*score),
            None => groups[number].constant += 1,
        }
    }
    groups.iter_mut().for_each(|group| group.scores.sort_by(f64::total_cmp));
    groups
}

/// A checkpoint, as a key.
fn checkpoint(unit: &Unit) -> Option<u64> {
    unit.epoch.map(f64::to_bits)
}

/// The layers, or models, of every checkpoint.
pub(super) fn by_layer<'a>(scores: &[Option<f64>], units: &'a [Unit]) -> Vec<Group<'a>> {
    group(scores, units, |unit| (&unit.model, checkpoint(unit), &unit.layer, &unit.kind))
}

fn by_model<'a>(scores: &[Option<f64>], units: &'a [Unit]) -> Vec<Group<'a>> {
    group(scores, units, |unit| (&unit.model, checkpoint(unit)))
}

/// Whether a unit is of the last checkpoint of its model.
pub(super) fn is_latest(units: &[Unit]) -> Vec<bool> {
    let mut last: BTreeMap<&str, f64> = BTreeMap::new();
    for unit in units {
        let epoch = unit.epoch.unwrap_or(f64::NEG_INFINITY);
        last.entry(&unit.model).and_modify(|last| *last = last.max(epoch)).or_insert(epoch);
    }
    units.iter().map(|unit| last.get(&*unit.model) == Some(&unit.epoch.unwrap_or(f64::NEG_INFINITY))).collect()
}

/// The tables `layer`, `model` and `accuracy`.
pub(super) fn group_tables(scores: &[Option<f64>], units: &[Unit]) -> Vec<Table> {
    let trained = units.iter().any(|unit| unit.epoch.is_some());
    let (layers, models) = (by_layer(scores, units), by_model(scores, units));
    let table = |axis: &str, groups: &[Group<'_>]| {
        let mut table = Table::new(axis).words("model", groups.iter().map(|group| group.unit.model.clone()));
        if axis == "layer" {
            table = table
                .words("layer", groups.iter().map(|group| group.unit.layer.clone()))
                .words("type", groups.iter().map(|group| group.unit.kind.clone()));
        }
        if trained {
            table = table.numbers("epoch", groups.iter().map(|group| group.unit.epoch));
        }
        table
            .numbers("mis", groups.iter().map(Group::mean))
            .numbers("p05", groups.iter().map(|group| quantile(&group.scores, 0.05)))
            .numbers("p95", groups.iter().map(|group| quantile(&group.scores, 0.95)))
            .counts("units", groups.iter().map(|group| group.scores.len()))
            .counts("constant", groups.iter().map(|group| group.constant))
    };
    let mut layer = table("layer", &layers);
    if trained {
        layer = layer.numbers("change", changes(&layers));
    }
    let mut model = table("model", &models);
    if units.iter().any(|unit| unit.accuracy.is_some()) {
        model = model.numbers("accuracy", models.iter().map(|group| group.unit.accuracy));
    }
    [layer, model].into_iter().chain(accuracy(&models)).collect()
}

/// The mean of a layer minus that of the same layer at the checkpoint before.
fn changes(layers: &[Group<'_>]) -> Vec<Option<f64>> {
    let before = |one: &Group<'_>| {
        let same =
            layers.iter().filter(|other| (&other.unit.model, &other.unit.layer) == (&one.unit.model, &one.unit.layer));
        let earlier = same.filter(|other| other.unit.epoch < one.unit.epoch && other.unit.epoch.is_some());
        earlier.max_by(|a, b| a.unit.epoch.unwrap_or(0.0).total_cmp(&b.unit.epoch.unwrap_or(0.0)))
    };
    layers.iter().map(|one| Some(one.mean()? - before(one)?.mean()?)).collect()
}

/// The correlation of mean score and accuracy: over the last checkpoints of all models, and over the checkpoints of
/// every model with three or more, with and without the first, which is often untrained.
fn accuracy(models: &[Group<'_>]) -> Option<Table> {
    type Points = Vec<(f64, f64)>;
    type Timed = Vec<(f64, (f64, f64))>;
    let mut checkpoints: BTreeMap<&str, Timed> = BTreeMap::new();
    for group in models {
        if let Some(point) = group.unit.accuracy.zip(group.mean()) {
            checkpoints.entry(&group.unit.model).or_default().push((group.unit.epoch.unwrap_or(0.0), point));
        }
    }
    checkpoints.values_mut().for_each(|points| points.sort_by(|a, b| a.0.total_cmp(&b.0)));
    let last: Points = checkpoints.values().filter_map(|points| Some(points.last()?.1)).collect();
    let mut lines: Vec<(String, Points)> = vec![("models".into(), last)];
    for (model, points) in &checkpoints {
        let points: Points = points.iter().map(|(_, point)| *point).collect();
        lines.push((format!("checkpoints of {model} without the first"), points.get(1..).unwrap_or_default().to_vec()));
        lines.push((format!("checkpoints of {model}"), points));
    }
    lines.retain(|(_, points)| points.len() > 2);
    let of = |correlation: fn(&[f64], &[f64]) -> Option<f64>| {
        lines.iter().map(move |(_, points)| {
            let (accuracies, scores): (Vec<f64>, Vec<f64>) = points.iter().copied().unzip();
            correlation(&accuracies, &scores)
        })
    };
    (!lines.is_empty()).then(|| {
        Table::new("accuracy")
            .words("over", lines.iter().map(|(over, _)| over.clone()))
            .counts("points", lines.iter().map(|(_, points)| points.len()))
            .numbers("pearson", of(pearson))
            .numbers("spearman", of(spearman))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn unit(model: &str, layer: &str, epoch: Option<f64>, accuracy: f64) -> Unit {
        Unit { model: model.into(), layer: layer.into(), epoch, accuracy: Some(accuracy), ..Unit::default() }
    }

    fn numbers(table: &Table, column: &str) -> Vec<Option<f64>> {
        (0..table.rows()).map(|row| table.column(column).unwrap().number(row)).collect()
    }

    #[test]
    fn checkpoints_are_separate_groups() {
        let mut units = Vec::new();
        let mut scores = Vec::new();
        for (epoch, [conv, linear], accuracy) in
            [(0.0, [0.5, 0.6], 0.1), (2.0, [0.9, 0.8], 0.5), (1.0, [0.7, 0.9], 0.4), (3.0, [0.8, 0.8], 0.7)]
        {
            units.extend([unit("a", "conv", Some(epoch), accuracy), unit("a", "linear", Some(epoch), accuracy)]);
            scores.extend([Some(conv), Some(linear)]);
        }
        // A model without epochs, with a constant unit.
        units.extend([unit("b", "conv", None, 0.6), unit("b", "conv", None, 0.6)]);
        scores.extend([Some(0.4), None]);
        let [layer, model, accuracy] = &group_tables(&scores, &units)[..] else { panic!("not three tables") };
        assert_eq!(layer.rows(), 9);
        let changes = numbers(layer, "change");
        assert_eq!((changes[0], changes[1], changes[8]), (None, None, None));
        // Epoch 2 after epoch 1: 0.9 − 0.7 and 0.8 − 0.9; epoch 1 after epoch 0: 0.7 − 0.5.
        for (row, expected) in [(2, 0.2), (3, -0.1), (4, 0.2)] {
            assert!((changes[row].unwrap() - expected).abs() < 1e-12, "{row}");
        }
        assert_eq!(numbers(model, "epoch"), [Some(0.0), Some(2.0), Some(1.0), Some(3.0), None]);
        assert_eq!(numbers(model, "constant"), [0.0, 0.0, 0.0, 0.0, 1.0].map(Some));
        // Two models are too few; the checkpoints of a without the first have means 0.8, 0.85, 0.8 and accuracies 0.4, 0.5, 0.7.
        assert_eq!(numbers(accuracy, "points"), [Some(3.0), Some(4.0)]);
        let expected = pearson(&[0.4, 0.5, 0.7], &[0.8, 0.85, 0.8]).unwrap();
        assert!((numbers(accuracy, "pearson")[0].unwrap() - expected).abs() < 1e-9);
        let latest = is_latest(&units);
        assert_eq!(latest.iter().filter(|latest| **latest).count(), 4);
        assert!(latest[6] && latest[7] && latest[8] && !latest[2]);
    }
}
