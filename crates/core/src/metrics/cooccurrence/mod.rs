//! Co-occurrence: do generated images combine concepts as real ones do?

mod card;
mod counts;
mod matrix_row;
mod pairs;
mod partner_stats;
mod partners;
mod row_sweep;
mod sets;
mod spectrum;
mod summary;
#[cfg(test)]
mod tests;

use super::{Card, Metric};
use crate::error::Result;
use crate::results::Scores;
use crate::run::{Job, Lazy, Work};
use card::CARD;
pub use partners::{Partner, Together, partners};
use sets::{LazySets, Sets, SetsShape};
use summary::Findings;

/// Which latents fire together, in real rows and in generated ones.
pub struct Cooccurrence;

impl Metric for Cooccurrence {
    fn card(&self) -> &'static Card {
        &CARD
    }

    fn run(&self, job: &Job<'_>, work: &mut Work<'_>) -> Result<Scores> {
        let shape = SetsShape::of(job)?;
        pairs::check_latents(shape.latents)?;
        let sets: LazySets<'_> = Lazy::new(Box::new(|| Sets::new(&shape, job)));
        let threshold = counts::threshold_index(job.number("epsilon")?);
        let counts = row_sweep::counts(&sets, &shape, job, work)?;
        let sweep = row_sweep::sweep(&sets, &shape, &counts, threshold, job, work)?;
        let partners = partner_stats::partner_stats(&sets, &shape, &counts, &sweep.partners, job, work)?;
        let spectra = spectrum::spectra(&sets, &shape, job, work)?;
        let top = job.whole("top")?;
        let pairs = summary::pairs_of_spectra(shape.names.len());
        let alignments = work.blocks("alignments", pairs.len(), |pair| {
            let [one, other] = pairs[pair].map(|block| &spectra[block]);
            summary::align(one, other, top, shape.latents, job.context)
        })?;
        let found =
            Findings { threshold, sweep: &sweep, spectra: &spectra, alignments: &alignments, partners: &partners };
        Ok(summary::scores(&shape, &found))
    }
}
