//! Dictionaries: what the file is, and whether its directions can be used.

use std::path::Path;

use etalon::error::{Result, Size};
use etalon::network::Processing;
use etalon::sae::checkpoint::{self, Loaded};
use etalon_kernel::statistics::median;

use super::Inspection;

pub(super) fn inspect(path: &Path, loaded: &Loaded) -> Result<Inspection> {
    let (dictionary, card) = (&loaded.dictionary, loaded.dictionary.card());
    let mut found = Inspection::new("dictionary");
    found.fact("format", loaded.recognised.clone());
    found.fact("width", card.width);
    found.fact("latents", card.latents);
    if let Some(k) = card.k {
        found.fact("active_latents_per_row", k);
    }
    if let Some(site) = &card.site {
        found.fact("site", site.clone());
    }
    if let Some(output) = &card.output {
        found.fact("output", format!("width {}, {}", output.width, output.site.as_deref().unwrap_or("unknown site")));
    }
    found.fact("size", Size(loaded.bytes).to_string());
    let processing = Processing::of_dictionary(&checkpoint::settings(path)?).unwrap_or_default();
    if !processing.is_none() {
        found.fact(
            "processing",
            format!("{processing}: `--model` is processed like this unless `--processing` says otherwise"),
        );
    }
    let square = |direction: &[f32]| direction.iter().map(|value| f64::from(*value) * f64::from(*value)).sum::<f64>();
    let lengths: Vec<f64> =
        dictionary.directions().chunks_exact(card.output_width().max(1)).map(|row| square(row).sqrt()).collect();
    if let Some(middle) = median(&mut lengths.clone()) {
        let least = lengths.iter().copied().fold(f64::INFINITY, f64::min);
        let most = lengths.iter().copied().fold(0.0, f64::max);
        found.fact("lengths_of_directions", format!("median {middle:.4}, from {least:.4} to {most:.4}"));
    }
    found.fact("id", dictionary.id());
    let zero = lengths.iter().filter(|length| **length == 0.0).count();
    if zero > 0 {
        found.warn(format!("{zero} of {} directions are zero", lengths.len()));
    }
    loaded.notes.iter().for_each(|note| found.warn(note.clone()));
    Ok(found)
}
