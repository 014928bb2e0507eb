//! The latents that represent each concept, for metrics on pairs of images.

use super::prepared::{Choice, PreparedCodes};
use super::row_order::RowOrder;
use super::strategy::Strategy;
use crate::codes::Latent;
use crate::context::Reserved;
use crate::error::Result;
use crate::run::{CODES, Job, LABELS, Lazy, Work};

/// The latents of every concept, by strategy.
pub(in crate::metrics) type MatchedSets = Vec<Vec<Vec<Latent>>>;

/// Selects the latents of every concept of a job, by strategy.
///
/// Reads the parameters `threshold` and `reference_batch`.
pub(in crate::metrics) fn matched_sets(
    job: &Job<'_>,
    work: &mut Work<'_>,
    strategies: &[Strategy],
) -> Result<Reserved<MatchedSets>> {
    let (codes, concepts, order) = (job.get(&CODES)?, job.get(&LABELS)?.concepts(), RowOrder::of_job(job)?);
    let prepared = Lazy::new(|| PreparedCodes::new(job, codes, order.clone(), strategies));
    let choices = work.blocks_with(&prepared, "concepts", concepts, |prepared, concept| {
        prepared.choose(&prepared.rows_of(concept))
    })?;
    let of_strategy = |choices: &[Vec<Choice>], strategy: usize| {
        choices.iter().map(|choices| choices[strategy].matched_set(job.profile, codes.latents())).collect()
    };
    Ok(choices.map(|choices| (0..strategies.len()).map(|strategy| of_strategy(&choices, strategy)).collect()))
}
