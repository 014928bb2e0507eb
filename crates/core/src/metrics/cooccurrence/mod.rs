//! Co-occurrence: do generated images combine concepts as real ones do?

mod alignment;
mod card;
mod counts;
mod matrix_row;
mod pairs;
mod partner_stats;
mod row_sweep;
mod sets;
mod spectrum;
mod summary;
#[cfg(test)]
mod tests;

use super::{Card, Metric};
use crate::error::Result;
use crate::results::Scores;
use crate::run::{Job, Work};
use card::CARD;
use sets::CodeSets;
use summary::Findings;

/// Which latents fire together, in real rows and in generated ones.
pub struct Cooccurrence;

impl Metric for Cooccurrence {
    fn card(&self) -> &'static Card {
        &CARD
    }

    fn run(&self, job: &Job<'_>, work: &mut Work<'_>) -> Result<Scores> {
        let sets = CodeSets::new(job)?;
        pairs::check_latents(sets.shape.latents)?;
        let threshold = counts::threshold_index(job.number("epsilon")?);
        let counts = row_sweep::counts(&sets, work)?;
        let sweep = row_sweep::sweep(&sets, &counts, threshold, work)?;
        let partners = partner_stats::partner_stats(&sets, &counts, &sweep.partners, work)?;
        let spectra = spectrum::spectra(&sets, work)?;
        let alignments = alignment::alignments(&sets, &counts, &spectra, work)?;
        let found =
            Findings { threshold, sweep: &sweep, spectra: &spectra, alignments: &alignments, partners: &partners };
        let mut scores = summary::scores(&sets.shape, &found);
        let (top, most) = (job.whole("top")?, alignment::most_vectors(&counts));
        if most < top {
            scores.note(format!(
                "{most} instead of `top` = {top} eigenvectors are compared, half as many as latents that fire: larger spans \
                 share directions by their dimension alone"
            ));
        }
        Ok(scores)
    }
}
