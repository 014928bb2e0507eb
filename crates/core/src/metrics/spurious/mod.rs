//! Ablation of latents and its effect on dense probes: spurious correlation removal (SCR) and targeted probe perturbation
//! (TPP).
//!
//! Probes and decoder are linear, so a row without latent `j` scores `w·x + b − f_j (w·d_j)`. No row is decoded, and one
//! visit of the entries of the rows serves all numbers of latents.

mod ablation;
mod perturbation;
mod quadrants;
mod removal;
mod scr;
mod scr_report;
mod tpp;
mod tpp_report;

#[cfg(test)]
mod tests;

pub use scr::Scr;
pub use tpp::Tpp;

use etalon_kernel::random::stream;

use super::probing::ascending;
use super::probing::dense::{self, Training};
use super::probing::draw::{DrawnRows, Shares};
use super::probing::space::Space;
use super::probing::summary::{Average, Grid};
use super::{Kind, Param};
use crate::context::Reserved;
use crate::error::Result;
use crate::probe::logistic::Probe;
use crate::probe::preconditioner::Preconditioner;
use crate::probe::saebench_probe::AdamW;
use crate::results::{Profile, Repeats, Scores};
use crate::run::{EMBEDDINGS, Job, Work};

/// Numbers of ablated latents.
const ABLATED: Param =
    Param::new("ablated", "Numbers of latents to ablate.", Kind::Whole(1, 100_000), "2,5,10,20,50,100,500").several();

/// The probe of the released code.
const RELEASED: AdamW =
    AdamW { learning_rate: 0.001, decay: 0.01, absolute: 0.001, batch: 16, epochs: 20, patience: 20 };

/// The parameters of both metrics.
struct Protocol {
    /// Numbers of ablated latents, ascending.
    counts: Vec<usize>,
    repeats: usize,
    shares: Shares,
    training: Training,
}

impl Protocol {
    fn of(job: &Job<'_>) -> Result<Protocol> {
        let training = match job.profile {
            Profile::Paper => Training::Converged { cs: vec![job.number("c")?] },
            Profile::Reference => Training::Released(RELEASED),
        };
        let shares = Shares { test: job.number("test_share")?, validation: 0.0, most: job.whole("most_positives")? };
        Ok(Protocol { counts: ascending(job, "ablated")?, repeats: job.whole("repeats")?, shares, training })
    }

    /// The largest number of ablated latents.
    fn most(&self) -> usize {
        self.counts.last().copied().unwrap_or(0)
    }

    /// The index of a number of ablated latents.
    fn at(&self, count: usize) -> Option<usize> {
        self.counts.iter().position(|&other| other == count)
    }

    /// The preconditioner of the channels, for converged probes.
    fn preconditioner(&self, job: &Job<'_>, work: &mut Work<'_>) -> Result<Reserved<Vec<Preconditioner>>> {
        dense::preconditioner(job, work, matches!(self.training, Training::Converged { .. }))
    }

    /// Fits a probe on the embeddings; `None` where a class is missing. `purpose` and `block` select the random stream.
    fn probe(
        &self,
        job: &Job<'_>,
        (train, test): (&DrawnRows, &DrawnRows),
        preconditioner: Option<&Preconditioner>,
        (purpose, block): (&str, u64),
    ) -> Result<Option<Probe>> {
        let mut random = stream(job.seed, purpose, block);
        let space = Space::Embeddings(job.get(&EMBEDDINGS)?);
        self.training.fit(space, train, test, preconditioner, &mut random, job.context)
    }

    /// Adds the headline numbers `noise` and `detectable` of the average at 20 ablated latents, and notes.
    fn add_noise(&self, scores: &mut Scores, prefix: &str, average: &Average<'_>, twenty: Option<&Grid>) {
        let repeats = twenty.map(|grid| average.repeats(grid));
        let defined = twenty.map_or(0, Grid::defined);
        let (noise, detectable) = (format!("{prefix}_noise"), format!("{prefix}_detectable"));
        scores.headline(&noise, repeats.as_ref().and_then(Repeats::noise), None, defined);
        scores.headline(&detectable, repeats.as_ref().and_then(Repeats::detectable), None, defined);
        if self.at(10).is_none() || self.at(20).is_none() {
            scores.note("some headline numbers are undefined: 10 or 20 is not among `ablated`");
        }
        if self.repeats < 2 {
            scores.note(format!("`{noise}` and `{detectable}` are undefined: they need two repeats"));
        }
    }
}
