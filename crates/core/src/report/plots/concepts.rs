//! Scores by concept: one row per concept if they are few, curves over their rank if they are many.

use super::super::figure::{Dots, Figure, Lines, Point, Series};
use super::super::gather::Gathered;
use super::super::words::tidy;
use crate::results::{Cells, Table};

/// How many concepts are shown by name.
const NAMED: usize = 40;

/// The column of a table that is its score.
pub fn score_column(table: &Table) -> Option<(&str, &Cells)> {
    let known = ["f1", "delta", "score", "match_score"];
    let named = known.iter().find_map(|name| Some((*name, table.column(name)?)));
    let numeric = |(name, cells): &'_ &(String, Cells)| matches!(cells, Cells::Number(_)) && name != "name";
    named.or_else(|| table.columns.iter().find(numeric).map(|(name, cells)| (name.as_str(), cells)))
}

/// The names and scores of one result's concepts.
fn scores(table: &Table) -> Option<(String, Vec<(String, Option<f64>)>)> {
    let (column, cells) = score_column(table)?;
    let name = |row: usize| match table.column("name") {
        Some(Cells::Text(names)) => names.get(row).map_or(String::new(), |name| tidy(name)),
        _ => format!("concept {row}"),
    };
    let finite = |row: usize| cells.number(row).filter(|value| value.is_finite());
    Some((column.into(), (0..cells.len()).map(|row| (name(row), finite(row))).collect()))
}

/// Draws the first run of every input set that has a table by concept.
pub fn draw(gathered: &Gathered<'_>, measure: usize) -> Option<Figure> {
    let mut column = String::new();
    let mut series: Vec<(usize, Vec<(String, Option<f64>)>)> = Vec::new();
    for set in super::shown(gathered, measure) {
        let table = gathered.runs(measure, set).first().and_then(|stored| stored.result.scores.table("concept"));
        if let Some((name, scores)) = table.and_then(scores).filter(|(_, scores)| scores.iter().any(|s| s.1.is_some()))
        {
            column = name;
            series.push((set, scores));
        }
    }
    let concepts = series.iter().map(|(_, scores)| scores.len()).max().filter(|&concepts| concepts > 0)?;
    let about = &gathered.measures[measure];
    let name = format!("{}-concepts", about.slug);
    let title = format!("{} by concept", about.title);
    if concepts > NAMED {
        return Some(curves(gathered, &series, name, title, column));
    }
    let mut names: Vec<String> = Vec::new();
    for (concept, _) in series.iter().flat_map(|(_, scores)| scores) {
        if !names.contains(concept) {
            names.push(concept.clone());
        }
    }
    let of = |concept: &str| {
        let find = |(_, scores): &(usize, Vec<(String, Option<f64>)>)| scores.iter().find(|s| s.0 == concept)?.1;
        series.iter().map(find).collect::<Vec<Option<f64>>>()
    };
    let mut rows: Vec<(String, Vec<Option<f64>>)> = names.into_iter().map(|name| (name.clone(), of(&name))).collect();
    rows.retain(|(_, values)| values.iter().any(Option::is_some));
    let best = |values: &[Option<f64>]| values.iter().flatten().copied().fold(f64::NEG_INFINITY, f64::max);
    rows.sort_by(|a, b| best(&b.1).total_cmp(&best(&a.1)).then_with(|| a.0.cmp(&b.0)));
    let names = series.iter().map(|(set, _)| (gathered.sets[*set].label.clone(), *set)).collect();
    Some(Dots { name, title, across: column, series: names, rows }.draw())
}

fn curves(
    gathered: &Gathered<'_>,
    series: &[(usize, Vec<(String, Option<f64>)>)],
    name: String,
    title: String,
    column: String,
) -> Figure {
    let line = |(set, scores): &(usize, Vec<(String, Option<f64>)>)| {
        let mut values: Vec<f64> = scores.iter().filter_map(|(_, score)| *score).collect();
        values.sort_by(|a, b| b.total_cmp(a));
        let point = |(rank, y): (usize, f64)| Point { x: rank as f64, y, interval: None };
        let points = values.into_iter().enumerate().map(point).collect();
        Series { label: gathered.sets[*set].label.clone(), colour: *set, points }
    };
    Lines {
        name,
        title,
        across: "concepts, from the best to the worst of each input set".into(),
        up: column,
        places: Vec::new(),
        series: series.iter().map(line).collect(),
        marks: false,
        width: 880.0,
    }
    .draw()
}
