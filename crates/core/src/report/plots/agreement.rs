//! Do the measures agree about which input set is better?

use super::super::figure::{Figure, Heat, Scatter};
use super::super::gather::Gathered;
use crate::kernel::statistics::pearson;

/// How many pairs of measures get a figure of their own.
const PAIRS: usize = 6;

/// Scatter plots of pairs of measures over input sets, and all correlations when there are at least three measures.
pub fn draw(gathered: &Gathered<'_>) -> Vec<Figure> {
    let measures: Vec<usize> =
        (0..gathered.measures.len()).filter(|&m| !gathered.measures[m].keys.is_empty()).collect();
    let value = |measure: usize, set: usize| gathered.main(measure, set).and_then(|cell| cell.value);
    let points = |a: usize, b: usize| -> Vec<(usize, f64, f64)> {
        let both = |set: usize| Some((set, value(a, set)?, value(b, set)?));
        (0..gathered.sets.len()).filter_map(both).collect()
    };
    let title = |measure: usize| gathered.measures[measure].title.as_str();
    let mut figures = Vec::new();
    let mut pairs = 0;
    for (place, &a) in measures.iter().enumerate() {
        for &b in &measures[place + 1..] {
            let points = points(a, b);
            if points.len() < 3 || pairs == PAIRS {
                continue;
            }
            pairs += 1;
            let name = |set: usize| gathered.sets[set].label.clone();
            let scatter = Scatter {
                name: format!("{}-and-{}", gathered.measures[a].slug, gathered.measures[b].slug),
                title: format!("{} against {}", title(b), title(a)),
                across: title(a).into(),
                up: title(b).into(),
                points: points.into_iter().map(|(set, x, y)| (name(set), set, x, y)).collect(),
            };
            figures.push(scatter.draw());
        }
    }
    if measures.len() > 2 && pairs > 0 {
        let correlation = |a: usize, b: usize| {
            let (x, y): (Vec<f64>, Vec<f64>) = points(a, b).into_iter().map(|(_, x, y)| (x, y)).unzip();
            if x.len() < 3 { None } else { pearson(&x, &y) }
        };
        let heat = Heat {
            name: "correlations".into(),
            title: "Correlations between measures over input sets".into(),
            names: measures.iter().map(|&m| title(m).to_string()).collect(),
            cells: measures.iter().map(|&a| measures.iter().map(|&b| correlation(a, b)).collect()).collect(),
        };
        figures.insert(0, heat.draw());
    }
    figures
}
