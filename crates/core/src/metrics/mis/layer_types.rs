//! How scores relate to the type, depth and width of layers, at the last checkpoint of every model.

use std::collections::BTreeMap;

use etalon_kernel::statistics::{mean, spearman};

use super::groups::{Group, by_layer, is_latest};
use crate::metrics::rank_tests::conover;
use crate::results::Table;
use crate::run::Unit;

/// Bins of depth by layer type, as in figure 9 of the paper.
const DEPTH_BINS: usize = 30;

/// Bins of width by layer type, as in figure 10 of the paper.
const WIDTH_BINS: usize = 5;

/// A layer with its mean score.
struct Layer<'a> {
    unit: &'a Unit,
    mis: f64,
    /// Its width relative to the widest layer of the type in its model.
    width: Option<f64>,
}

/// The tables that the columns of the units allow: `type`, `type_pair`, `depth`, `width`.
pub(super) fn type_tables(scores: &[Option<f64>], units: &[Unit]) -> Vec<Table> {
    let latest = is_latest(units);
    let counts = |(unit, latest): (&Unit, &bool)| *latest && !unit.kind.is_empty();
    let (units, scores): (Vec<Unit>, Vec<Option<f64>>) = units
        .iter()
        .zip(scores)
        .zip(&latest)
        .filter(|((unit, _), latest)| counts((unit, latest)))
        .map(|((unit, score), _)| (unit.clone(), *score))
        .unzip();
    if scores.iter().flatten().next().is_none() {
        return Vec::new();
    }
    let groups = by_layer(&scores, &units);
    let layers = layers(&groups);
    let mut types: BTreeMap<&str, Vec<&Layer<'_>>> = BTreeMap::new();
    layers.iter().for_each(|layer| types.entry(&layer.unit.kind).or_default().push(layer));
    let mut tables = means(&groups, &types);
    tables.extend(binned(&types, "depth", DEPTH_BINS, |layer| layer.unit.depth));
    tables.extend(binned(&types, "width", WIDTH_BINS, |layer| layer.width));
    tables
}

fn layers<'a>(groups: &[Group<'a>]) -> Vec<Layer<'a>> {
    let mut widest: BTreeMap<(&str, &str), u64> = BTreeMap::new();
    for group in groups {
        let entry = widest.entry((&group.unit.model, &group.unit.kind)).or_insert(1);
        *entry = (*entry).max(group.unit.width.unwrap_or(1));
    }
    let layer = |group: &Group<'a>| {
        let widest = widest.get(&(group.unit.model.as_str(), group.unit.kind.as_str()))?;
        let width = group.unit.width.map(|width| width as f64 / *widest as f64);
        Some(Layer { unit: group.unit, mis: group.mean()?, width })
    };
    groups.iter().filter_map(layer).collect()
}

/// Means by type, and Conover's test of every pair of types on the means of (model, type).
fn means(groups: &[Group<'_>], types: &BTreeMap<&str, Vec<&Layer<'_>>>) -> Vec<Table> {
    let mut models: BTreeMap<&str, BTreeMap<&str, Vec<f64>>> = BTreeMap::new();
    for group in groups.iter().filter(|group| !group.scores.is_empty()) {
        models.entry(&group.unit.kind).or_default().entry(&group.unit.model).or_default().extend(&group.scores);
    }
    let names: Vec<&str> = models.keys().copied().collect();
    let all: Vec<Vec<f64>> = models.values().map(|models| models.values().flatten().copied().collect()).collect();
    let by_model: Vec<Vec<f64>> =
        models.values().map(|models| models.values().filter_map(|values| mean(values)).collect()).collect();
    let correlation = |number: fn(&Layer<'_>) -> Option<f64>| {
        names.iter().map(move |name| {
            let layers = types.get(name).map_or(&[][..], Vec::as_slice);
            let (numbers, scores): (Vec<f64>, Vec<f64>) =
                layers.iter().filter_map(|layer| Some((number(layer)?, layer.mis))).unzip();
            if numbers.len() < 3 { None } else { spearman(&numbers, &scores) }
        })
    };
    let mut tables = vec![
        Table::new("type")
            .words("type", names.iter().copied())
            .numbers("mis", all.iter().map(|values| mean(values)))
            .counts("units", all.iter().map(Vec::len))
            .counts("layers", names.iter().map(|name| types.get(name).map_or(0, Vec::len)))
            .counts("models", by_model.iter().map(Vec::len))
            .numbers("depth_spearman", correlation(|layer| layer.unit.depth))
            .numbers("width_spearman", correlation(|layer| layer.width)),
    ];
    let tests = conover(&by_model);
    if !tests.is_empty() {
        tables.push(
            Table::new("type_pair")
                .words("type", tests.iter().map(|test| names[test.pair[0]]))
                .words("other", tests.iter().map(|test| names[test.pair[1]]))
                .numbers("p", tests.iter().map(|test| Some(test.p)))
                .numbers("p_holm", tests.iter().map(|test| Some(test.holm))),
        );
    }
    tables
}

/// Bins of layers of equal count by type, over a number of a layer.
fn binned(
    types: &BTreeMap<&str, Vec<&Layer<'_>>>,
    name: &str,
    bins: usize,
    number: impl Fn(&Layer<'_>) -> Option<f64>,
) -> Option<Table> {
    let mut lines: Vec<(&str, f64, f64, usize)> = Vec::new();
    for (kind, layers) in types {
        let (numbers, scores): (Vec<f64>, Vec<f64>) =
            layers.iter().filter_map(|layer| Some((number(layer)?, layer.mis))).unzip();
        for bin in equal_count_bins(&numbers, bins) {
            let of = |values: &[f64]| mean(&bin.iter().map(|&index| values[index]).collect::<Vec<_>>());
            if let Some((number, mis)) = of(&numbers).zip(of(&scores)) {
                lines.push((kind, number, mis, bin.len()));
            }
        }
    }
    (!lines.is_empty()).then(|| {
        Table::new(name)
            .words("type", lines.iter().map(|line| line.0))
            .numbers(name, lines.iter().map(|line| Some(line.1)))
            .numbers("mis", lines.iter().map(|line| Some(line.2)))
            .counts("layers", lines.iter().map(|line| line.3))
    })
}

/// Indices in bins of equal count, ascending by value, then index; the first bins get one more if the count does not
/// divide evenly. Empty bins are left out.
pub(in crate::metrics) fn equal_count_bins(values: &[f64], bins: usize) -> Vec<Vec<usize>> {
    let mut order: Vec<usize> = (0..values.len()).collect();
    order.sort_by(|&a, &b| values[a].total_cmp(&values[b]).then(a.cmp(&b)));
    let (each, more) = (values.len() / bins.max(1), values.len() % bins.max(1));
    let mut rest = order.into_iter();
    let bin = |index: usize| rest.by_ref().take(each + usize::from(index < more)).collect::<Vec<_>>();
    (0..bins).map(bin).filter(|bin| !bin.is_empty()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bins_are_those_of_numpy() {
        assert_eq!(equal_count_bins(&[3.0, 1.0, 1.0, 9.0, 2.0], 2), [vec![1, 2, 4], vec![0, 3]]);
        assert_eq!(equal_count_bins(&[1.0], 3), [vec![0]]);
    }

    #[test]
    fn relations_follow_the_columns_that_there_are() {
        let unit = |model: &str, layer: &str, kind: &str, depth: f64, width: u64| Unit {
            model: model.into(),
            layer: layer.into(),
            kind: kind.into(),
            depth: Some(depth),
            width: Some(width),
            ..Unit::default()
        };
        let units = [
            unit("a", "1", "conv", 0.0, 10),
            unit("a", "1", "conv", 0.0, 10),
            unit("a", "2", "linear", 1.0, 20),
            unit("b", "1", "conv", 0.5, 5),
            unit("b", "2", "linear", 0.5, 40),
            unit("b", "3", "conv", 0.7, 10),
            unit("c", "1", "conv", 0.2, 5),
            Unit { kind: String::new(), ..unit("c", "2", "", 0.2, 5) },
        ];
        let scores = [Some(0.6), Some(0.8), Some(0.9), Some(0.5), Some(0.8), Some(0.9), None, Some(0.1)];
        let tables = type_tables(&scores, &units);
        let table = |name: &str| tables.iter().find(|table| table.axis == name).unwrap();
        let cell = |name: &str, column: &str, row: usize| table(name).column(column).unwrap().number(row).unwrap();
        // Units of the type conv: 0.6, 0.8, 0.5, 0.9. Layers: 0.7 at depth 0, 0.5 at 0.5, 0.9 at 0.7.
        assert!((cell("type", "mis", 0) - 0.7).abs() < 1e-12 && (cell("type", "mis", 1) - 0.85).abs() < 1e-12);
        assert_eq!(
            (cell("type", "layers", 0), cell("type", "models", 0), cell("type", "depth_spearman", 0)),
            (3.0, 2.0, 0.5)
        );
        assert!(cell("type_pair", "p", 0) < 1.0);
        // Three layers in three bins, and two of linear. Relative widths of conv: 1, 0.5, 1; ties in the order of layers.
        assert_eq!((table("depth").rows(), cell("depth", "depth", 1), cell("depth", "mis", 0)), (5, 0.5, 0.7));
        assert_eq!((cell("width", "width", 0), cell("width", "mis", 0), cell("width", "width", 1)), (0.5, 0.5, 1.0));
        assert!(type_tables(&[None, Some(0.3)], &[units[0].clone(), units[7].clone()]).is_empty());
    }
}
