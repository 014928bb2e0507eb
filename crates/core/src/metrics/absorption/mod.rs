//! `absorption`: whether narrow latents replace the latents of a class on some rows.

mod card;
mod class;
mod fraction;
mod parts;
mod report;
mod select;

#[cfg(test)]
mod tests;

use super::{Card, Metric};
use crate::error::{Error, Result};
use crate::labels::Concept;
use crate::probe::design::Design;
use crate::probe::logistic::{Logistic, Probe, Target};
use crate::probe::preconditioner::Preconditioner;
use crate::results::Scores;
use crate::run::{Job, LABELS, Lazy, Work};
use class::ClassResult;
use parts::Parts;

pub(super) struct Absorption;

/// Classes whose probes are fitted together. Fixed, because rounding depends on the group.
const TOGETHER: usize = 8;

impl Metric for Absorption {
    fn card(&self) -> &'static Card {
        &card::CARD
    }

    fn run(&self, job: &Job<'_>, work: &mut Work<'_>) -> Result<Scores> {
        let labels = job.get(&LABELS)?;
        let classes = labels.concepts();
        let parts = Lazy::new(|| Parts::copy(job));
        let preconditioner = work.blocks_with(&parts, "preconditioner", usize::from(classes > 0), |parts, _| {
            let design = design(parts);
            let bytes = 1024 * design.rows() as u64 + 4096 * design.width() as u64;
            let _memory = job.budget().reserve(bytes, "the preconditioner of the activations")?;
            Ok(Preconditioner::monitored(&design, job.context)?)
        })?;
        let probes = work.blocks_with(&parts, "probes", classes.div_ceil(TOGETHER), |parts, block| {
            let preconditioner =
                preconditioner.first().ok_or_else(|| Error::Bug("there is no preconditioner".into()))?;
            fit(job, parts, preconditioner, block * TOGETHER..((block + 1) * TOGETHER).min(classes))
        })?;
        let probes: Vec<Option<&Probe>> = probes.iter().flatten().map(Option::as_ref).collect();
        let results = work.blocks_with(&parts, "classes", classes, |parts, class| {
            ClassResult::of(job, parts, class, probes[class])
        })?;
        let (floor, fewest) = (job.number("probe_floor")?, job.whole("fewest_classes")?);
        Ok(report::report(&results, labels.names(), floor, fewest))
    }
}

/// The activations of the training rows.
fn design(parts: &Parts) -> Design<'_> {
    Design::Dense { values: &parts.train.activations, width: parts.width }
}

/// Fits the probes of some classes on the activations; `None` where a class is missing.
fn fit(
    job: &Job<'_>,
    parts: &Parts,
    preconditioner: &Preconditioner,
    classes: std::ops::Range<usize>,
) -> Result<Vec<Option<Probe>>> {
    let (design, labels) = (design(parts), &parts.train.labels);
    let (rows, width) = (design.rows() as u64, design.width() as u64);
    let bytes = 96 * classes.len() as u64 * (rows + width) + 4096 * width;
    let _memory = job.budget().reserve(bytes, "the fit of probes on the activations")?;
    let target = |class: usize| {
        let concept = Concept(class as u32);
        Target { yes: labels.yes(concept), known: labels.known(concept) }
    };
    let targets: Vec<Target<'_>> = classes.map(target).collect();
    let logistic = Logistic { balanced: true, ..Logistic::default() };
    Ok(logistic.fit_monitored(&design, preconditioner, &targets, job.context)?)
}
