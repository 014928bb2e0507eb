//! The latents of every concept, by every strategy.

use super::Strategy;
use super::prepared::{Choice, PreparedCodes};
use super::row_order::RowOrder;
use crate::codes::Latent;
use crate::context::Reserved;
use crate::error::Result;
use crate::results::Profile;
use crate::run::{CODES, Job, LABELS, Lazy, Work};

/// What one strategy found for every concept.
#[derive(Clone, Debug, PartialEq)]
pub struct Matching {
    /// The strategy.
    pub strategy: Strategy,
    /// The chosen latents of each concept, in order of choice, at most k.
    pub coalitions: Vec<Vec<Latent>>,
    /// F1 after every choice; in profile `reference` padded with its last value, as the released program stores it.
    pub f1_by_step: Vec<Vec<f64>>,
    /// After how many choices of the whole run, not cut to k, F1 was best.
    best_step: Vec<usize>,
    /// How many latents there were to choose from.
    latents: usize,
}

/// Chooses latents for every concept of a job, by every strategy.
///
/// Reads the parameter `threshold`, and `reference_batch` if the card declares it.
pub fn match_concepts(job: &Job<'_>, work: &mut Work<'_>, strategies: &[Strategy]) -> Result<Reserved<Vec<Matching>>> {
    let (codes, concepts, order) = (job.get(&CODES)?, job.get(&LABELS)?.concepts(), RowOrder::of_job(job)?);
    let prepared = Lazy::new(|| PreparedCodes::new(job, codes, order.clone(), strategies));
    let choices = work.blocks_with(&prepared, "concepts", concepts, |prepared, concept| {
        prepared.choose(&prepared.rows_of(concept))
    })?;
    let matching = |(index, strategy): (usize, &Strategy), choices: &[Vec<Choice>]| {
        let mine = || choices.iter().map(|of_concept| &of_concept[index]);
        Matching {
            strategy: *strategy,
            coalitions: mine().map(|choice| choice.latents.iter().map(|&latent| Latent(latent)).collect()).collect(),
            f1_by_step: mine().map(|choice| choice.f1_by_step.clone()).collect(),
            best_step: mine().map(|choice| choice.best_step).collect(),
            latents: codes.latents(),
        }
    };
    Ok(choices.map(|choices| strategies.iter().enumerate().map(|one| matching(one, &choices)).collect()))
}

impl Matching {
    /// The latents that stand for each concept when images are compared.
    ///
    /// `paper`: the coalitions. `reference`: cut where the whole run was best, and never empty: the released program
    /// takes some latent, in practice the first, where nothing was chosen.
    pub fn matched_sets(&self, profile: Profile) -> Vec<Vec<Latent>> {
        let set = |(coalition, &best): (&Vec<Latent>, &usize)| match profile {
            Profile::Paper => coalition.clone(),
            Profile::Reference if coalition.is_empty() && self.latents > 0 => vec![Latent(0)],
            Profile::Reference => coalition.iter().take(best).copied().collect(),
        };
        self.coalitions.iter().zip(&self.best_step).map(set).collect()
    }
}
