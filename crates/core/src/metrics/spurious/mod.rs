//! Taking latents away and looking at what dense probes still know: spurious correlation removal, and targeted probe
//! perturbation.
//!
//! A probe is linear and so is the decoder, so that a row without latent `j` scores `w·x + b − f_j (w·d_j)`: no row is
//! ever decoded again, and all numbers of latents, all probes and all repeats cost one look at the entries of the rows.

mod ablation;
mod quadrants;
mod scr;
mod scr_card;
mod tpp;

#[cfg(test)]
mod tests;

pub use scr::Scr;
pub use tpp::Tpp;

use super::probing::dense::{self, Training};
use super::{Kind, Param};
use crate::error::{Complaint, Result};
use crate::probe::adamw::AdamW;
use crate::probe::spectrum::Spectrum;
use crate::results::Profile;
use crate::run::Job;
use crate::store::ActivationStore;

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

/// The numbers of latents, ascending.
fn counts(job: &Job<'_>) -> Result<Vec<usize>> {
    let mut counts: Vec<usize> =
        job.several("ablated")?.iter().filter_map(serde_json::Value::as_u64).map(|count| count as usize).collect();
    counts.sort_unstable();
    counts.dedup();
    Ok(counts)
}

fn training(job: &Job<'_>) -> Result<Training> {
    Ok(match job.profile {
        Profile::Paper => Training::Converged { cs: vec![job.number("c")?] },
        Profile::Reference => Training::Released(RELEASED),
    })
}

fn spectrum(job: &Job<'_>) -> Result<Option<Spectrum>> {
    match job.profile {
        Profile::Paper => dense::spectrum(job.embeddings()?).map(Some),
        Profile::Reference => Ok(None),
    }
}

/// The directions, which must lie in the space of the embeddings.
fn directions<'a>(job: &Job<'a>) -> Result<&'a ActivationStore> {
    let embeddings = job.embeddings()?;
    let missing = || Complaint::new("this metric needs `--directions`").advice("add --directions FILE");
    let directions = job.inputs.directions.as_deref().ok_or_else(missing)?;
    if directions.width() != embeddings.width() {
        return Err(Complaint::new("directions and embeddings are of different widths")
            .expected(format!("{} channels, as the embeddings have", embeddings.width()))
            .found(directions.width())
            .advice("take the decoder of the dictionary that made the codes, one row per latent")
            .into());
    }
    Ok(directions)
}
