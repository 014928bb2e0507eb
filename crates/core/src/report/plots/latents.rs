//! Histograms of scores by latent.

use super::super::figure::{Figure, Histogram};
use super::super::gather::Gathered;

/// The columns, and the names of their axes.
const COLUMNS: [(&str, &str); 3] = [
    ("score", "score of a latent"),
    ("mis", "score of a unit"),
    ("log10_density", "log10 of the fraction of rows in which a latent fires"),
];

/// Draws the first run of every input set that has a score, or else a density, by latent.
pub fn draw(gathered: &Gathered<'_>, measure: usize) -> Option<Figure> {
    let (mut series, mut across) = (Vec::new(), COLUMNS[0].1);
    for set in super::shown(gathered, measure) {
        let table = gathered.runs(measure, set).first().and_then(|stored| stored.result.scores.table("latent"));
        let column = |&(name, axis): &(&str, &'static str)| Some((table?.column(name)?, axis));
        let Some((cells, axis)) = COLUMNS.iter().find_map(column) else { continue };
        across = axis;
        let values: Vec<f64> = (0..cells.len()).filter_map(|row| cells.number(row)).filter(|v| v.is_finite()).collect();
        if !values.is_empty() {
            series.push((gathered.sets[set].label.clone(), gathered.colour(set), values));
        }
    }
    let about = &gathered.measures[measure];
    let (name, title) = (format!("{}-latents", about.slug), format!("{} by latent", about.title));
    (!series.is_empty()).then(|| Histogram { name, title, across: across.into(), series }.draw())
}
