//! Agreement between measures: scatter plots and correlations over input sets.

use super::super::figure::{Figure, Heat, Scatter};
use super::super::gather::Gathered;
use etalon_kernel::statistics::pearson;

/// Number of scatter plots, besides those with the ground truth.
const PAIRS: usize = 6;

/// The metric that compares with the ground truth: the reference for all others.
const TRUTH: &str = "recovery";

/// Scatter plots of pairs of measures over input sets and, for at least three measures, the correlation matrix.
pub fn draw(gathered: &Gathered<'_>) -> Vec<Figure> {
    let measures: Vec<usize> =
        (0..gathered.measures.len()).filter(|&m| !gathered.measures[m].keys.is_empty()).collect();
    let value = |measure: usize, set: usize| gathered.main(measure, set).and_then(|cell| cell.value);
    let points = |a: usize, b: usize| -> Vec<(usize, f64, f64)> {
        let both = |set: usize| Some((set, value(a, set)?, value(b, set)?));
        (0..gathered.sets.len()).filter_map(both).collect()
    };
    let title = |measure: usize| gathered.measures[measure].title.as_str();
    let truth = |measure: usize| gathered.measures[measure].metric == TRUTH;
    let both = measures.iter().enumerate().flat_map(|(index, &a)| measures[index + 1..].iter().map(move |&b| (a, b)));
    // The ground truth is on the horizontal axis.
    let (with_truth, others): (Vec<_>, Vec<_>) = both
        .map(|(a, b)| if truth(b) { (b, a) } else { (a, b) })
        .filter(|&(a, b)| points(a, b).len() > 2)
        .partition(|&(a, b)| truth(a) && !truth(b));
    let pairs: Vec<(usize, usize)> = with_truth.into_iter().chain(others.into_iter().take(PAIRS)).collect();
    let mut figures: Vec<Figure> = pairs
        .iter()
        .map(|&(a, b)| {
            let name = |set: usize| gathered.sets[set].label.clone();
            let scatter = Scatter {
                name: format!("{}-and-{}", gathered.measures[a].slug, gathered.measures[b].slug),
                title: format!("{} against {}", title(b), title(a)),
                across: title(a).into(),
                up: title(b).into(),
                points: points(a, b).into_iter().map(|(set, x, y)| (name(set), gathered.colour(set), x, y)).collect(),
            };
            scatter.draw()
        })
        .collect();
    if measures.len() > 2 && !pairs.is_empty() {
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
