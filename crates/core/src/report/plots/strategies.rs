//! How much the score depends on the strategy that matches latents with concepts.

use super::super::figure::{Figure, Lines, Point, Series};
use super::super::gather::Gathered;
use super::super::words::tidy;
use super::concepts::score_column;
use crate::results::{Cells, Table};

/// The column of a table that names its rows.
pub fn label_column(table: &Table) -> Option<&[String]> {
    let words = |cells: &'_ Cells| matches!(cells, Cells::Text(_));
    let named = ["name", table.axis.as_str()].iter().find_map(|name| table.column(name).filter(|cells| words(cells)));
    match named.or_else(|| table.columns.iter().map(|(_, cells)| cells).find(|cells| words(cells))) {
        Some(Cells::Text(names)) => Some(names),
        _ => None,
    }
}

/// Draws the first run of every input set that has a table by strategy.
pub fn draw(gathered: &Gathered<'_>, measure: usize) -> Option<Figure> {
    let mut places: Vec<String> = Vec::new();
    let mut series = Vec::new();
    let mut up = String::new();
    for set in super::shown(gathered, measure) {
        let table = gathered.runs(measure, set).first().and_then(|stored| stored.result.scores.table("strategy"));
        let Some((table, names)) = table.and_then(|table| Some((table, label_column(table)?))) else { continue };
        let named = table.column("match_score").map(|cells| ("match_score", cells));
        let Some((column, cells)) = named.or_else(|| score_column(table)) else { continue };
        up = column.into();
        let mut points = Vec::new();
        for (row, name) in names.iter().map(|name| tidy(name)).enumerate() {
            let place = places.iter().position(|other| *other == name).unwrap_or_else(|| {
                places.push(name);
                places.len() - 1
            });
            if let Some(y) = cells.number(row).filter(|value| value.is_finite()) {
                points.push(Point { x: place as f64, y, interval: None });
            }
        }
        points.sort_by(|a, b| a.x.total_cmp(&b.x));
        series.push(Series { label: gathered.sets[set].label.clone(), colour: set, points });
    }
    series.retain(|series| !series.points.is_empty());
    let about = &gathered.measures[measure];
    (!series.is_empty()).then(|| {
        Lines {
            name: format!("{}-strategies", about.slug),
            title: format!("{} by strategy", about.title),
            across: "strategy".into(),
            up,
            places,
            series,
            marks: true,
            width: 880.0,
        }
        .draw()
    })
}
