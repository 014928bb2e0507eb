//! Curves by step, such as training curves.

use super::super::figure::{Figure, Lines, Point, Series};
use super::super::gather::Gathered;
use super::super::words::{slug, tidy};
use crate::results::Table;

/// One figure per column of the table by step, with the first run of every input set.
pub fn draw(gathered: &Gathered<'_>, measure: usize) -> Vec<Figure> {
    let about = &gathered.measures[measure];
    let tables: Vec<(usize, &Table)> = super::shown(gathered, measure)
        .into_iter()
        .filter_map(|set| Some((set, gathered.runs(measure, set).first()?.result.scores.table("step")?)))
        .filter(|(_, table)| table.rows() > 1)
        .collect();
    let mut columns: Vec<&str> = Vec::new();
    for (name, _) in tables.iter().flat_map(|(_, table)| &table.columns) {
        if name != "step" && !columns.contains(&name.as_str()) {
            columns.push(name);
        }
    }
    let line = |column: &str, (set, table): &(usize, &Table)| {
        let (steps, cells) = (table.column("step")?, table.column(column)?);
        let point = |row: usize| Some(Point { x: steps.number(row)?, y: cells.number(row)?, interval: None });
        let points: Vec<Point> = (0..table.rows()).filter_map(point).filter(|point| point.y.is_finite()).collect();
        (points.len() > 1).then(|| Series {
            label: gathered.sets[*set].label.clone(),
            colour: gathered.colour(*set),
            stroke: gathered.sets[*set].stroke(),
            points,
        })
    };
    let figure = |column: &str| {
        let series: Vec<Series> = tables.iter().filter_map(|table| line(column, table)).collect();
        (!series.is_empty()).then(|| {
            Lines {
                name: format!("{}-by-step-{}", about.slug, slug(column)),
                title: format!("{}: {} by step", about.title, tidy(column).replace('_', " ")),
                across: "step".into(),
                up: tidy(column).replace('_', " "),
                categories: Vec::new(),
                bands: true,
                series,
                marks: false,
                width: 430.0,
            }
            .draw()
        })
    };
    columns.into_iter().filter_map(figure).collect()
}
