//! Scores by concept: a dot plot for few concepts, sorted curves for many.

use super::super::figure::{Dots, Figure, Lines, Point, Series};
use super::super::gather::Gathered;
use super::columns::{concept_table, label, score_column};
use crate::results::main_rows;

/// Maximum number of concepts in a dot plot.
const NAMED: usize = 40;

/// The concepts of one input set.
struct Concepts {
    set: usize,
    scores: Vec<(String, Option<f64>)>,
}

/// Draws the first run of every input set that has a table by concept.
pub fn draw(gathered: &Gathered<'_>, measure: usize) -> Option<Figure> {
    let about = &gathered.measures[measure];
    let mut column = String::new();
    let mut sets: Vec<Concepts> = Vec::new();
    for set in super::shown(gathered, measure) {
        let Some(table) = gathered.runs(measure, set).first().and_then(|stored| concept_table(stored)) else {
            continue;
        };
        let Some((name, cells)) = score_column(table, &about.keys) else { continue };
        let score = |row: usize| (label(table, row), cells.number(row).filter(|value| value.is_finite()));
        let scores: Vec<_> = main_rows(table).into_iter().map(score).collect();
        if scores.iter().any(|(_, score)| score.is_some()) {
            column = name.into();
            sets.push(Concepts { set, scores });
        }
    }
    let concepts = sets.iter().map(|concepts| concepts.scores.len()).max()?;
    let name = format!("{}-concepts", about.slug);
    let title = format!("{} by concept", about.title);
    if concepts > NAMED {
        return Some(curves(gathered, &sets, name, title, column));
    }
    let mut names: Vec<&String> = Vec::new();
    for (concept, _) in sets.iter().flat_map(|concepts| &concepts.scores) {
        if !names.contains(&concept) {
            names.push(concept);
        }
    }
    let of = |concept: &String| {
        let find = |concepts: &Concepts| concepts.scores.iter().find(|(name, _)| name == concept)?.1;
        sets.iter().map(find).collect::<Vec<Option<f64>>>()
    };
    let mut rows: Vec<(String, Vec<Option<f64>>)> = names.into_iter().map(|name| (name.clone(), of(name))).collect();
    rows.retain(|(_, values)| values.iter().any(Option::is_some));
    let highest = |values: &[Option<f64>]| values.iter().flatten().copied().fold(f64::NEG_INFINITY, f64::max);
    rows.sort_by(|a, b| highest(&b.1).total_cmp(&highest(&a.1)).then_with(|| a.0.cmp(&b.0)));
    let series = sets
        .iter()
        .map(|concepts| (gathered.sets[concepts.set].label.clone(), gathered.colour(concepts.set)))
        .collect();
    Some(Dots { name, title, across: column, series, rows }.draw())
}

fn curves(gathered: &Gathered<'_>, sets: &[Concepts], name: String, title: String, column: String) -> Figure {
    let line = |concepts: &Concepts| {
        let mut values: Vec<f64> = concepts.scores.iter().filter_map(|(_, score)| *score).collect();
        values.sort_by(|a, b| b.total_cmp(a));
        let point = |(rank, y): (usize, f64)| Point { x: rank as f64, y, interval: None };
        let points = values.into_iter().enumerate().map(point).collect();
        Series {
            label: gathered.sets[concepts.set].label.clone(),
            colour: gathered.colour(concepts.set),
            stroke: gathered.sets[concepts.set].stroke(),
            points,
        }
    };
    Lines {
        name,
        title,
        across: "rank of the concept by score, in each input set".into(),
        up: column,
        categories: Vec::new(),
        bands: true,
        series: sets.iter().map(line).collect(),
        marks: false,
        width: 880.0,
    }
    .draw()
}
