//! Leakage: what soft concept scores say about the task (CTL) and about each other (ICL), beyond what the true concepts say.

mod conditional;
mod ctl;
mod estimator;
mod icl;
mod neighbours;

pub use ctl::Ctl;
pub use icl::Icl;

use super::alignment::optimal;
use super::concepts::{Sources, separation};
use super::information::{Information, entropy};
use crate::error::Result;
use crate::labels::Factors;
use crate::metrics::{Kind, Param};
use crate::results::Scores;
use crate::run::{CODES, Job, Lazy, Work};
use estimator::Estimator;

const ESTIMATOR: Param = Param::new(
    "estimator",
    "How information of a latent is estimated: by neighbours, or by a bin of zeros and eight quantile bins",
    Kind::Word(&["neighbours", "binned"]),
    "neighbours",
);

/// Where every concept's latent is; `None` if there are too few.
fn aligned(job: &Job<'_>, work: &mut Work<'_>, factors: &Factors, usable: &[usize]) -> Result<Option<Vec<usize>>> {
    let codes = job.get(&CODES)?;
    if codes.latents() == factors.count() {
        return Ok(Some(usable.to_vec()));
    }
    if codes.latents() < usable.len() {
        return Ok(None);
    }
    let columns = Lazy::new(|| codes.columns());
    let separations = work.blocks_with(&columns, "alignment", codes.latents(), |columns, latent| {
        let values = Sources { columns, dimensions: 1 }.latent(latent);
        Ok(usable.iter().map(|&concept| separation(&values, factors, concept)).collect::<Vec<f64>>())
    })?;
    let scores: Vec<f64> = separations.iter().flatten().copied().collect();
    Ok(Some(optimal(&scores, usable.len(), job.context)?.into_iter().flatten().collect()))
}

/// Classes on some rows.
fn classes(column: &[i32], rows: &[usize]) -> Vec<u32> {
    rows.iter().map(|&row| column[row].max(0) as u32).collect()
}

/// Whether rows have two classes.
fn varies(classes: &[u32]) -> bool {
    entropy(classes).value > 0.0
}

/// A quotient of two numbers with the influence of every row.
fn quotient(one: &Information, other: &Information) -> Information {
    let value = one.value / other.value;
    let part = |(a, b): (&f64, &f64)| (a - value * b) / other.value;
    Information { value, influence: one.influence.iter().zip(&other.influence).map(part).collect() }
}

/// Notes which estimator was used, where it is not the one that was asked for or a poor one.
fn note_estimator(job: &Job<'_>, estimator: Estimator, scores: &mut Scores) -> Result<()> {
    let codes = job.get(&CODES)?;
    let zeros = 1.0 - codes.entries() as f64 / (codes.rows() * codes.latents()).max(1) as f64;
    match estimator {
        Estimator::PlugIn => scores.note("all values are whole numbers: plug-in information"),
        Estimator::Neighbours { .. } if zeros > 0.5 => scores.note(format!(
            "{:.0} % of the codes are zero, where neighbours say little: use the estimator `binned`",
            100.0 * zeros
        )),
        _ => {}
    }
    Ok(())
}

/// Notes concepts that are left out.
fn note_left_out(factors: &Factors, usable: &[usize], scores: &mut Scores) {
    if usable.len() < factors.count() {
        scores.note(format!(
            "{} of {} concepts have one class: undefined",
            factors.count() - usable.len(),
            factors.count()
        ));
    }
}
