//! Scores by the strategy that matches latents to concepts.

use super::super::figure::{Figure, Lines, Point, Series};
use super::super::gather::Gathered;
use super::super::words::tidy;
use super::columns::{label_column, row_interval, score_column};

/// Draws the first run of every input set that has a table of at least two strategies.
pub fn draw(gathered: &Gathered<'_>, measure: usize) -> Option<Figure> {
    let about = &gathered.measures[measure];
    let mut categories: Vec<String> = Vec::new();
    let mut series = Vec::new();
    let mut up = String::new();
    for set in super::shown(gathered, measure) {
        let table = gathered.runs(measure, set).first().and_then(|stored| stored.result.scores.table("strategy"));
        let Some((table, names)) = table.and_then(|table| Some((table, label_column(table)?))) else { continue };
        let Some((column, cells)) = score_column(table, &about.keys) else { continue };
        up = column.into();
        let mut points = Vec::new();
        for (row, name) in names.iter().map(|name| tidy(name)).enumerate() {
            let category = categories.iter().position(|other| *other == name).unwrap_or_else(|| {
                categories.push(name);
                categories.len() - 1
            });
            if let Some(y) = cells.number(row).filter(|value| value.is_finite()) {
                points.push(Point { x: category as f64, y, interval: row_interval(table, row) });
            }
        }
        points.sort_by(|a, b| a.x.total_cmp(&b.x));
        series.push(Series {
            label: gathered.sets[set].label.clone(),
            colour: gathered.colour(set),
            stroke: gathered.sets[set].stroke(),
            points,
        });
    }
    series.retain(|series| !series.points.is_empty());
    (!series.is_empty() && categories.len() > 1).then(|| {
        Lines {
            name: format!("{}-strategies", about.slug),
            title: format!("{} by strategy", about.title),
            across: "strategy".into(),
            up,
            categories,
            bands: false,
            series,
            marks: true,
            width: 880.0,
        }
        .draw()
    })
}
