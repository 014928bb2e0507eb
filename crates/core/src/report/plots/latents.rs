//! How the scores of latents are spread.

use super::super::figure::{Figure, Histogram};
use super::super::gather::Gathered;

/// Draws the first run of every input set that has a column `score` by latent.
pub fn draw(gathered: &Gathered<'_>, measure: usize) -> Option<Figure> {
    let mut series = Vec::new();
    for set in super::shown(gathered, measure) {
        let table = gathered.runs(measure, set).first().and_then(|stored| stored.result.scores.table("latent"));
        let Some(cells) = table.and_then(|table| table.column("score")) else { continue };
        let values: Vec<f64> = (0..cells.len()).filter_map(|row| cells.number(row)).filter(|v| v.is_finite()).collect();
        if !values.is_empty() {
            series.push((gathered.sets[set].label.clone(), set, values));
        }
    }
    let about = &gathered.measures[measure];
    let (name, title) = (format!("{}-latents", about.slug), format!("{} by latent", about.title));
    (!series.is_empty()).then(|| Histogram { name, title, across: "score of a latent".into(), series }.draw())
}
