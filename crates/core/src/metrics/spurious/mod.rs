//! Taking latents away and looking at what dense probes still know: spurious correlation removal, and targeted probe
//! perturbation.
//!
//! A probe is linear and so is the decoder, so that a row without latent `j` scores `w·x + b − f_j (w·d_j)`: no row is
//! ever decoded again, and all numbers of latents, all probes and all repeats cost one look at the entries of the rows.

mod ablation;
mod quadrants;
mod scr;
mod scr_card;
mod scr_report;
mod tpp;
mod tpp_card;
mod tpp_report;

#[cfg(test)]
mod tests;

pub use scr::Scr;
pub use tpp::Tpp;

use etalon_kernel::random::stream;

use super::probing::ascending;
use super::probing::dense::{self, Training};
use super::probing::draw::{Drawn, Shares};
use super::probing::space::Space;
use super::{Kind, Param};
use crate::context::Reserved;
use crate::error::Result;
use crate::probe::logistic::Probe;
use crate::probe::preconditioner::Spectrum;
use crate::probe::saebench_probe::AdamW;
use crate::results::Profile;
use crate::run::{EMBEDDINGS, Job, Work};

/// How many latents are taken away.
const ABLATED: Param = Param {
    name: "ablated",
    doc: "How many latents are taken away.",
    kind: Kind::Whole(1, 100_000),
    several: true,
    default: "2,5,10,20,50,100,500",
    reference: None,
};

/// The probe of the released program.
const RELEASED: AdamW =
    AdamW { learning_rate: 0.001, decay: 0.01, absolute: 0.001, batch: 16, epochs: 20, patience: 20 };

/// What is done in either metric.
struct Protocol {
    /// How many latents are taken away, ascending.
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

    /// The most latents that are taken away.
    fn most(&self) -> usize {
        self.counts.last().copied().unwrap_or(0)
    }

    /// How the channels spread, for the probes that converge.
    fn spectrum(&self, job: &Job<'_>, work: &mut Work<'_>) -> Result<Reserved<Vec<Spectrum>>> {
        dense::spectrum(job, work, matches!(self.training, Training::Converged { .. }))
    }

    /// A probe on the embeddings; `None` where a class is missing. `purpose` and `block` name its random numbers.
    fn probe(
        &self,
        job: &Job<'_>,
        (train, test): (&Drawn, &Drawn),
        spectrum: Option<&Spectrum>,
        (purpose, block): (&str, u64),
    ) -> Result<Option<Probe>> {
        let mut random = stream(job.seed, purpose, block);
        let space = Space::Embeddings(job.get(&EMBEDDINGS)?);
        self.training.fit(space, train, test, spectrum, &mut random, job.context)
    }
}
