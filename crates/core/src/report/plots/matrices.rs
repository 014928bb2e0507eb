//! Matrices of all pairs of concepts: what a representation reveals, what the labels of its concept reveal, and the
//! difference.

use std::collections::BTreeSet;

use super::super::figure::{Figure, Heat, HeatCell, HeatPanel};
use super::super::gather::Gathered;
use super::super::words::{slug, tidy};
use crate::results::{Cells, Table};

/// Maximum number of figures, one per input set.
const SETS: usize = 4;

/// Maximum number of concepts in a matrix.
const CONCEPTS: usize = 30;

/// Columns of the table by entry with their headings, the value without colour, and the distance of the full colour.
const PANELS: [(&str, &str, f64, f64); 3] =
    [("purity", "Learned", 0.5, 0.5), ("oracle", "Oracle", 0.5, 0.5), ("impurity", "Difference", 0.0, 0.5)];

/// Draws the first run of a few input sets.
pub fn draw(gathered: &Gathered<'_>, measure: usize) -> Vec<Figure> {
    let about = &gathered.measures[measure];
    let figure = |set: usize| {
        let table = gathered.runs(measure, set).first()?.result.scores.table("entry")?;
        let label = &gathered.sets[set].label;
        let name = format!("{}-matrices-{}", about.slug, slug(label));
        matrices(table, name, format!("{}: matrices of {label}", about.title))
    };
    gathered.choose(super::shown(gathered, measure), SETS).into_iter().filter_map(figure).collect()
}

fn matrices(table: &Table, name: String, title: String) -> Option<Figure> {
    let (Cells::Text(rows), Cells::Text(columns)) = (table.column("representation_of")?, table.column("concept")?)
    else {
        return None;
    };
    let panels: Vec<&Cells> = PANELS.iter().map(|(column, ..)| table.column(column)).collect::<Option<_>>()?;
    let difference = panels.last()?;
    let mut names: Vec<&String> = Vec::new();
    for name in rows {
        if !names.contains(&name) {
            names.push(name);
        }
    }
    let all = names.len();
    if all > CONCEPTS {
        let kept = most_impure(rows, columns, difference);
        names.retain(|name| kept.contains(name));
    }
    let index = |name: &String| names.iter().position(|other| *other == name);
    let panel = |(cells, (_, heading, centre, reach)): (&&Cells, (&str, &str, f64, f64))| {
        let empty = HeatCell { value: None, n: None, is_weak: false };
        let mut matrix = vec![vec![empty; names.len()]; names.len()];
        for (entry, (row, column)) in rows.iter().zip(columns).enumerate() {
            if let (Some(row), Some(column)) = (index(row), index(column)) {
                matrix[row][column].value = cells.number(entry).filter(|value| value.is_finite());
            }
        }
        HeatPanel { heading: heading.into(), cells: matrix, centre, reach }
    };
    let part =
        if names.len() < all { format!(" The {} most impure of {all} concepts.", names.len()) } else { String::new() };
    let heat = Heat {
        name,
        title,
        description: format!(
            "Area under the ROC curve with which the representation of the concept of a row (learned), or its labels \
             (oracle), predicts the concept of a column, and the difference.{part}"
        ),
        names: names.iter().map(|name| tidy(name)).collect(),
        panels: panels.iter().zip(PANELS).map(panel).collect(),
    };
    (!heat.names.is_empty()).then(|| heat.draw())
}

/// The concepts of the entries with the largest differences.
fn most_impure<'a>(rows: &'a [String], columns: &'a [String], difference: &Cells) -> BTreeSet<&'a String> {
    let size = |entry: usize| difference.number(entry).filter(|value| value.is_finite()).map_or(-1.0, f64::abs);
    let mut order: Vec<usize> = (0..rows.len().min(columns.len())).collect();
    order.sort_by(|&a, &b| size(b).total_cmp(&size(a)).then(a.cmp(&b)));
    let mut kept = BTreeSet::new();
    for concept in order.into_iter().flat_map(|entry| [&rows[entry], &columns[entry]]) {
        if kept.len() < CONCEPTS {
            kept.insert(concept);
        }
    }
    kept
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entries(count: usize, impure: usize) -> Table {
        let name = |concept: usize| format!("concept {concept}");
        let all = || (0..count * count).map(|entry| (entry / count, entry % count));
        let purity = |(row, column): (usize, usize)| match () {
            () if row == column => 1.0,
            () if column == impure => 0.75,
            () => 0.5,
        };
        Table::new("entry")
            .words("representation_of", all().map(|(row, _)| name(row)))
            .words("concept", all().map(|(_, column)| name(column)))
            .numbers("purity", all().map(|entry| Some(purity(entry))))
            .numbers("oracle", all().map(|(row, column)| Some(if row == column { 1.0 } else { 0.5 })))
            .numbers("impurity", all().map(|entry @ (row, column)| (row != column).then(|| purity(entry) - 0.5)))
    }

    #[test]
    fn a_matrix_for_each_column() {
        let svg = matrices(&entries(3, 2), "a".into(), "A".into()).unwrap().inline();
        // Row 0 and row 1 reveal concept 2; the difference on the diagonal is undefined.
        assert_eq!(
            (svg.matches(">0.75<").count(), svg.matches(">0.25<").count(), svg.matches(">–<").count()),
            (2, 2, 3)
        );
        assert!(svg.contains("concept 0, concept 2: 0.75") && svg.contains(">Learned<") && svg.contains(">Oracle<"));
    }

    #[test]
    fn many_concepts_are_reduced_to_the_most_impure() {
        let figure = matrices(&entries(34, 33), "a".into(), "A".into()).unwrap();
        assert!(figure.description.ends_with("The 30 most impure of 34 concepts."), "{}", figure.description);
        assert!(figure.inline().contains("concept 0, concept 33: 0.75"));
    }

    #[test]
    fn tables_of_other_metrics_are_not_drawn() {
        let table = Table::new("entry").words("concept", ["a"]).words("other", ["b"]).numbers("icl", [Some(0.5)]);
        assert!(matrices(&table, "a".into(), "A".into()).is_none());
    }
}
