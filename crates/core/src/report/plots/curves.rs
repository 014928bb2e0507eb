//! Curves from tables whose rows are points: thresholds, layers, numbers of tasks, sizes of helper networks.

use super::super::figure::{Figure, Lines, Point, Series, Stroke};
use super::super::gather::Gathered;
use super::super::words::{slug, tidy};
use super::trends::distinct;
use crate::results::{Cells, Interval, Table};

/// Maximum number of figures of a table that has one per input set.
const SETS: usize = 4;

/// Maximum number of lines in a figure.
const LINES: usize = 8;

/// A table whose rows are points of curves.
struct CurveTable {
    table: &'static str,
    /// The column of the horizontal axis, numbers or names, and its title.
    across: (&'static str, &'static str),
    /// The columns of the vertical axis, each a figure, and their titles. An empty name is the main number.
    up: &'static [(&'static str, &'static str)],
    /// The columns of the band.
    band: Option<(&'static str, &'static str)>,
    lines: LinesBy,
}

/// What one line is.
enum LinesBy {
    /// An input set.
    Set,
    /// A value of a column, with the rows of all input sets: a network whose layers are input sets is one line.
    Value(&'static str),
    /// A value of a column, in a figure for each input set.
    ValueInSet(&'static str),
}

const PERCENTILES: Option<(&str, &str)> = Some(("p05", "p95"));

const CURVES: [CurveTable; 8] = [
    CurveTable {
        table: "threshold",
        across: ("beta", "threshold β"),
        up: &[("niche_impurity", "area outside the niche")],
        band: None,
        lines: LinesBy::Set,
    },
    CurveTable {
        table: "niche",
        across: ("beta", "threshold β"),
        up: &[("niche_impurity", "area outside the niche")],
        band: None,
        lines: LinesBy::ValueInSet("concept"),
    },
    CurveTable {
        table: "helper",
        across: ("hidden", "hidden units of the helper networks"),
        up: &[("", "score")],
        band: Some(("low", "high")),
        lines: LinesBy::Set,
    },
    CurveTable {
        table: "layer",
        across: ("layer", "layer"),
        up: &[("mis", "mean score of units")],
        band: PERCENTILES,
        lines: LinesBy::Value("model"),
    },
    CurveTable {
        table: "model",
        across: ("epoch", "epoch"),
        up: &[("mis", "mean score of units")],
        band: PERCENTILES,
        lines: LinesBy::Value("model"),
    },
    CurveTable {
        table: "depth",
        across: ("depth", "relative depth of the layer"),
        up: &[("mis", "mean score of units")],
        band: None,
        lines: LinesBy::Value("type"),
    },
    CurveTable {
        table: "width",
        across: ("width", "relative width of the layer"),
        up: &[("mis", "mean score of units")],
        band: None,
        lines: LinesBy::Value("type"),
    },
    CurveTable {
        table: "tasks",
        across: ("tasks", "tasks per unit"),
        up: &[
            ("prefix_difference", "difference of the first tasks"),
            ("rebuilt_difference", "difference of as many new tasks"),
        ],
        band: None,
        lines: LinesBy::Set,
    },
];

/// A line before it is drawn.
struct Curve {
    label: String,
    set: usize,
    points: Vec<Point>,
}

/// Draws the first run of every input set that has one of the tables.
pub fn draw(gathered: &Gathered<'_>, measure: usize) -> Vec<Figure> {
    let about = &gathered.measures[measure];
    let mut figures = Vec::new();
    for curves in &CURVES {
        let tables: Vec<(usize, &Table)> = super::shown(gathered, measure)
            .into_iter()
            .filter_map(|set| Some((set, gathered.runs(measure, set).first()?.result.scores.table(curves.table)?)))
            .collect();
        for &(column, up) in curves.up {
            let column = if column.is_empty() { about.keys.first().map_or("", String::as_str) } else { column };
            let name = match curves.up.len() {
                1 => format!("{}-by-{}", about.slug, curves.table),
                _ => format!("{}-by-{}-{}", about.slug, curves.table, slug(column)),
            };
            let title = match curves.up.len() {
                1 => format!("{} by {}", about.title, curves.table),
                _ => format!("{} by {}: {up}", about.title, curves.table),
            };
            if let LinesBy::ValueInSet(_) = curves.lines {
                for (set, table) in tables.iter().take(SETS) {
                    let label = &gathered.sets[*set].label;
                    let (name, title) = (format!("{name}-{}", slug(label)), format!("{title}, {label}"));
                    figures.extend(curves.figure(gathered, &[(*set, table)], column, up, (name, title)));
                }
            } else {
                figures.extend(curves.figure(gathered, &tables, column, up, (name, title)));
            }
        }
    }
    figures
}

impl CurveTable {
    fn figure(
        &self,
        gathered: &Gathered<'_>,
        tables: &[(usize, &Table)],
        column: &str,
        up: &str,
        (name, title): (String, String),
    ) -> Option<Figure> {
        let mut categories: Vec<String> = Vec::new();
        let mut curves: Vec<Curve> = Vec::new();
        for &(set, table) in tables {
            for (value, points) in self.points(table, column, &mut categories) {
                self.add(&mut curves, set, &gathered.sets[set].label, &value, points);
            }
        }
        curves.truncate(LINES);
        curves.iter_mut().for_each(|curve| curve.points.sort_by(|a, b| a.x.total_cmp(&b.x)));
        let colours = match self.lines {
            LinesBy::ValueInSet(_) => (0..curves.len()).collect(),
            _ => distinct(curves.iter().map(|curve| gathered.colour(curve.set))),
        };
        let stroke = |set: usize| match self.lines {
            LinesBy::Set => gathered.sets[set].stroke(),
            _ => Stroke::Solid,
        };
        let ends = |curve: &Curve| Some((curve.points.first()?.x, curve.points.last()?.x));
        let is_line = curves.iter().filter_map(ends).any(|(first, last)| first < last);
        let series = curves.into_iter().zip(colours).map(|(curve, colour)| Series {
            stroke: stroke(curve.set),
            label: curve.label,
            colour,
            points: curve.points,
        });
        let (series, width) = (series.collect(), if categories.len() > 6 { 880.0 } else { 430.0 });
        let across = self.across.1.into();
        is_line.then(|| {
            Lines { name, title, across, up: up.into(), categories, bands: true, series, marks: true, width }.draw()
        })
    }

    /// The points of a table by the value that names their line; the names of layers become categories.
    fn points(&self, table: &Table, column: &str, categories: &mut Vec<String>) -> Vec<(String, Vec<Point>)> {
        let (Some(across), Some(cells)) = (table.column(self.across.0), table.column(column)) else {
            return Vec::new();
        };
        let by = match self.lines {
            LinesBy::Set => None,
            LinesBy::Value(by) | LinesBy::ValueInSet(by) => table.column(by),
        };
        let finite = |name: &str, row: usize| table.column(name)?.number(row).filter(|value| value.is_finite());
        let mut lines: Vec<(String, Vec<Point>)> = Vec::new();
        for row in 0..table.rows() {
            let Some(y) = cells.number(row).filter(|value| value.is_finite()) else { continue };
            let x = match across {
                Cells::Text(names) => names.get(row).map(|name| category(categories, tidy(name))),
                _ => across.number(row).filter(|value| value.is_finite()),
            };
            let value = match by {
                Some(Cells::Text(names)) => names.get(row).map_or_else(String::new, |name| tidy(name)),
                _ => String::new(),
            };
            let interval =
                self.band.and_then(|(low, high)| Some(Interval { low: finite(low, row)?, high: finite(high, row)? }));
            let Some(point) = x.map(|x| Point { x, y, interval }) else { continue };
            match lines.iter_mut().find(|(other, _)| *other == value) {
                Some((_, points)) => points.push(point),
                None => lines.push((value, vec![point])),
            }
        }
        lines
    }

    /// Adds points to the line of their value, or as a line of their own if that has other points at the same positions.
    fn add(&self, curves: &mut Vec<Curve>, set: usize, label: &str, value: &str, points: Vec<Point>) {
        let named = if value.is_empty() { label } else { value };
        let has = |curve: &Curve, point: &Point| curve.points.iter().any(|other| other.x == point.x);
        let same = curves.iter_mut().find(|curve| curve.label == named);
        match same {
            Some(curve) if !points.iter().any(|point| has(curve, point)) => curve.points.extend(points),
            Some(_) => curves.push(Curve { label: format!("{named}, {label}"), set, points }),
            None => curves.push(Curve { label: named.into(), set, points }),
        }
    }
}

/// The index of a category, which is added if it is new.
fn category(categories: &mut Vec<String>, name: String) -> f64 {
    let index = categories.iter().position(|other| *other == name).unwrap_or_else(|| {
        categories.push(name);
        categories.len() - 1
    });
    index as f64
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::super::super::tests::stored;
    use super::*;
    use crate::results::{Scores, Stored};

    fn result(metric: &str, set: &str, tables: Vec<Table>) -> Stored {
        let mut scores = Scores::default();
        scores.headline(metric, Some(0.5), None, 4);
        scores.tables = tables;
        stored(metric, 0, json!({}), json!({"inputs": set}), scores)
    }

    fn layers(model: &str, layers: &[(&str, f64)]) -> Table {
        Table::new("layer")
            .words("model", layers.iter().map(|_| model))
            .words("layer", layers.iter().map(|(name, _)| *name))
            .numbers("mis", layers.iter().map(|(_, mis)| Some(*mis)))
            .numbers("p05", layers.iter().map(|(_, mis)| Some(mis - 0.1)))
            .numbers("p95", layers.iter().map(|(_, mis)| Some(mis + 0.1)))
    }

    fn names(results: &[Stored]) -> Vec<String> {
        draw(&Gathered::of(results), 0).into_iter().map(|figure| figure.name).collect()
    }

    #[test]
    fn layers_of_one_network_are_one_line_across_input_sets() {
        let results = [
            result("mis", "block 1", vec![layers("net", &[("block 1", 0.7)])]),
            result("mis", "block 2", vec![layers("net", &[("block 2", 0.8)])]),
            // The same layer again, as latents: a line of its own.
            result("mis", "latents", vec![layers("net", &[("block 2", 0.9)])]),
        ];
        let figures = draw(&Gathered::of(&results), 0);
        assert_eq!(figures.len(), 1);
        assert_eq!(figures[0].name, "mis-by-layer");
        let svg = figures[0].inline();
        assert!(figures[0].description.contains("net: from 0.70 to 0.80; net, latents: from 0.90 to 0.90"), "{svg}");
        // One band, and the percentiles of the single layer as a bar.
        assert_eq!(svg.matches("fill-opacity=\"0.16\"").count(), 1, "{svg}");
    }

    #[test]
    fn niches_have_a_line_per_set_and_one_per_concept() {
        let betas = [0.0, 0.5, 1.0];
        let threshold = Table::new("threshold")
            .numbers("beta", betas.map(Some))
            .numbers("niche_impurity", [Some(0.5), Some(0.6), None]);
        let niche = Table::new("niche")
            .words("concept", ["a", "a", "a", "b", "b", "b"])
            .numbers("beta", betas.into_iter().chain(betas).map(Some))
            .numbers("niche_impurity", [0.5, 0.6, 0.9, 0.4, 0.5, 0.6].map(Some));
        let results = [result("nis", "pure", vec![threshold, niche])];
        let figures = draw(&Gathered::of(&results), 0);
        let described: Vec<&str> = figures.iter().map(|figure| figure.description.as_str()).collect();
        assert_eq!(figures.len(), 2);
        assert!(described[0].contains("pure: from 0.50 to 0.60"), "{described:?}");
        assert!(described[1].contains("a: from 0.50 to 0.90; b: from 0.40 to 0.60"), "{described:?}");
        assert_eq!(names(&results), ["nis-by-threshold", "nis-by-niche-pure"]);
    }

    #[test]
    fn tables_without_two_positions_are_not_drawn() {
        let tasks = Table::new("tasks").counts("tasks", [1]).numbers("prefix_difference", [Some(0.0)]);
        let depth = Table::new("depth").words("type", ["conv"]).numbers("depth", [None]).numbers("mis", [Some(0.5)]);
        let width = Table::new("width")
            .words("type", ["conv"; 2])
            .numbers("width", [Some(1.0); 2])
            .numbers("mis", [0.5, 0.6].map(Some));
        assert!(names(&[result("mis", "a", vec![tasks, depth, width])]).is_empty());
        let helper = Table::new("helper").counts("hidden", [8, 32]).numbers("ois", [0.1, 0.2].map(Some));
        assert_eq!(names(&[result("ois", "a", vec![helper])]), ["ois-by-helper"]);
    }
}
