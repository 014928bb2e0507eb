//! Metrics of latents on windows of text with an embedding judge: do the windows in which a latent is active look alike?

mod example_embedding;
mod intruder;
mod sampling;
#[cfg(test)]
mod tests;

pub use example_embedding::ExampleEmbedding;
pub use intruder::Intruder;

use etalon_kernel::statistics::mean;

use super::estimate::Estimate;
use super::mis::MEASURE;
use super::{Kind, Param};
use crate::results::{Scores, Table};
use sampling::Skipped;
pub(super) use sampling::{draw, latent_stream};

/// Parameters of both metrics.
const MIN_ACTIVE: Param =
    Param::new("min_active", "Skip latents that are active in fewer windows", Kind::Whole(2, u64::MAX), "200");
const QUANTILES: Param = Param::new("quantiles", "Groups of active windows by strength", Kind::Whole(1, 100), "10");
const TEST: Param = Param::new("test_windows", "Windows of a quantile that are asked about", Kind::Whole(1, 1000), "5");
const TRAIN: Param = Param::new("train_windows", "Windows of a quantile that explain", Kind::Whole(1, 1000), "4");

/// Fills headline, tables and notes from a score by latent and quantile. `keys` name the mean over quantiles and the
/// score of the strongest quantile.
fn summarise(keys: [&'static str; 2], seed: u64, latents: &[Result<Vec<Option<f64>>, Skipped>]) -> Scores {
    let mut scores = Scores::default();
    let defined = |values: &[Option<f64>]| values.iter().copied().flatten().collect::<Vec<f64>>();
    let of_latent = |latent: &Result<Vec<Option<f64>>, Skipped>| latent.as_ref().ok().and_then(|q| mean(&defined(q)));
    let means: Vec<Option<f64>> = latents.iter().map(of_latent).collect();
    let top = |latent: &Result<Vec<Option<f64>>, Skipped>| latent.as_ref().ok().and_then(|q| *q.first()?);
    let tops: Vec<Option<f64>> = latents.iter().map(top).collect();
    for (key, values) in keys.into_iter().zip([&means, &tops]) {
        Estimate::mean(&defined(values), seed, &format!("{key}/latents")).headline(key, &mut scores);
    }
    let skipped = |kind: Skipped| latents.iter().filter(|latent| latent.as_ref().err() == Some(&kind)).count();
    let (rare, dense) = (skipped(Skipped::Rare), skipped(Skipped::Dense));
    if rare > 0 {
        scores.note(format!("{rare} of {} latents are active in too few windows and have no score", latents.len()));
    }
    if dense > 0 {
        scores.note(format!("{dense} of {} latents are inactive in too few windows and have no score", latents.len()));
    }
    if scores.headline.iter().any(|headline| headline.value.is_none()) {
        scores.note("no latent has a score");
    }
    let quantiles = latents.iter().filter_map(|latent| latent.as_ref().ok().map(Vec::len)).max().unwrap_or(0);
    let column = |quantile: usize| {
        let values = latents.iter().filter_map(|latent| *latent.as_ref().ok()?.get(quantile)?).collect::<Vec<f64>>();
        (mean(&values), values.len())
    };
    let columns: Vec<(Option<f64>, usize)> = (0..quantiles).map(column).collect();
    let estimates = latents.iter().map(|latent| latent.as_ref().ok().cloned().unwrap_or_default());
    scores.tables.push(
        Table::new("latent")
            .numbers("score", means.iter().copied())
            .with("by_quantile", crate::results::Cells::NumberLists(estimates.collect())),
    );
    scores.tables.push(
        Table::new("quantile")
            .counts("quantile", 0..quantiles)
            .numbers("score", columns.iter().map(|column| column.0))
            .counts("latents", columns.iter().map(|column| column.1)),
    );
    scores
}
