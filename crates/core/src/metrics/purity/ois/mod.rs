//! The oracle impurity score: what representations of concepts say about other concepts, beyond what the labels say.

mod card;
pub(super) use card::REPEATS;
mod matrices;
mod report;

use crate::error::Result;
use crate::metrics::{Card, Metric};
use crate::results::Scores;
use crate::run::{CODES, Job, Work};

use super::concepts::{FEWEST_ROWS, concepts, count_sources};
use matrices::{Align, Measurement, OisSettings};

/// The metric `ois`.
pub struct Ois;

impl Metric for Ois {
    fn card(&self) -> &'static Card {
        &card::CARD
    }

    fn run(&self, job: &Job<'_>, work: &mut Work<'_>) -> Result<Scores> {
        let codes = job.get(&CODES)?;
        let (factors, _memory) = concepts(job)?;
        let sources = count_sources(codes, job.whole("dimensions")?)?;
        let settings = OisSettings::of_job(job, sources, factors.count())?;
        if codes.rows() < FEWEST_ROWS {
            return Ok(report::undefined(format!(
                "{} rows are too few to hold out a fifth: at least {FEWEST_ROWS} are needed",
                codes.rows()
            )));
        }
        let usable = settings.usable(job, &factors)?;
        if usable.is_empty() {
            return Ok(report::undefined(
                "no concept has two classes in the training and in the test rows of every split".into(),
            ));
        }
        let needed = if settings.align == Align::InOrder { factors.count() } else { usable.len() };
        if sources < needed {
            return Ok(report::undefined(format!(
                "{sources} representations cannot stand for {needed} concepts: at least as many are needed"
            )));
        }
        let mut measured = Vec::new();
        for hidden in job.several("hidden")? {
            let hidden = hidden.as_u64().unwrap_or(32) as usize;
            let measurement = Measurement { job, factors: &factors, settings: &settings, usable: &usable, hidden };
            measured.push((hidden, measurement.run(work, sources)?));
        }
        Ok(report::scores(job, &factors, &usable, &settings, &measured, sources))
    }
}

#[cfg(test)]
mod tests;
