//! Agreement between measures: scatter plots and rank correlations over input sets.

use super::super::agreement::Agreement;
use super::super::figure::{Figure, Heat, HeatCell, HeatPanel, Scatter};
use super::super::gather::Gathered;
use super::super::words::{arrow, brief};
use crate::results::RankAgreement;

/// Number of scatter plots, besides those with the ground truth.
const PAIRS: usize = 6;

/// The metric that compares with the ground truth: the reference for all others.
const TRUTH: &str = "recovery";

/// Scatter plots of pairs of measures over input sets and, for at least three measures, the matrix of rank
/// correlations.
pub fn draw(gathered: &Gathered<'_>) -> Vec<Figure> {
    let measures: Vec<usize> =
        (0..gathered.measures.len()).filter(|&m| !gathered.measures[m].keys.is_empty()).collect();
    let value = |measure: usize, set: usize| gathered.main(measure, set).and_then(|cell| cell.value);
    let points = |a: usize, b: usize| -> Vec<(usize, f64, f64)> {
        let both = |set: usize| Some((set, value(a, set)?, value(b, set)?));
        (0..gathered.sets.len()).filter_map(both).collect()
    };
    let title = |measure: usize| gathered.measures[measure].title.as_str();
    let directed = |measure: usize| {
        let about = &gathered.measures[measure];
        format!("{}{}", about.title, about.keys.first().map_or("", |key| arrow(about.better(key))))
    };
    let agreement = Agreement::of(gathered);
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
                across: directed(a),
                up: directed(b),
                note: agreement.find(a, b).map_or_else(String::new, note),
                points: points(a, b).into_iter().map(|(set, x, y)| (name(set), gathered.colour(set), x, y)).collect(),
            };
            scatter.draw()
        })
        .collect();
    if agreement.measures.len() > 2 {
        let cell = |row: usize, column: usize, of: &RankAgreement| {
            let is_weak = of.is_chance == Some(true) && row != column;
            HeatCell { value: of.value, n: Some(of.n), is_weak }
        };
        let cells = |(row, cells): (usize, &Vec<RankAgreement>)| {
            cells.iter().enumerate().map(|(column, of)| cell(row, column, of)).collect()
        };
        let heat = Heat {
            name: "correlations".into(),
            title: "Agreement of measures over input sets".into(),
            description: format!(
                "Rank correlation between {} measures over input sets, each oriented so that higher is better.",
                agreement.measures.len()
            ),
            names: agreement.measures.iter().map(|&m| title(m).to_string()).collect(),
            panels: vec![HeatPanel {
                heading: String::new(),
                cells: agreement.cells.iter().enumerate().map(cells).collect(),
                centre: 0.0,
                reach: 1.0,
            }],
        };
        figures.insert(0, heat.draw());
    }
    figures
}

/// The agreement of two measures in words.
fn note(of: RankAgreement) -> String {
    match of.value {
        Some(value) => {
            let chance = if of.is_chance == Some(true) { ", within chance" } else { "" };
            format!("agreement ρ = {}, n = {}{chance}", brief(value), of.n)
        }
        None => String::new(),
    }
}
