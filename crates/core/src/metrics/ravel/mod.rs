//! `ravel`: can an attribute of an entity be exchanged through some latents, without the others?

mod answers;
mod card;
mod numbers;
mod pairs;
mod prompts;
mod settings;
#[cfg(test)]
mod tests;
mod train;

use std::collections::BTreeSet;

use self::numbers::{MethodResults, Outcome};
use self::prompts::Prompts;
use self::settings::Settings;
use self::train::{Captured, Method, Model};
use super::{Card, Metric};
use crate::error::Result;
use crate::results::Scores;
use crate::run::{ENTITIES, Job, Work};

/// The metric.
pub struct Ravel;

/// Bytes of a prompt besides its texts.
const PROMPT_BYTES: u64 = 256;

impl Metric for Ravel {
    fn card(&self) -> &'static Card {
        &card::CARD
    }

    fn run(&self, job: &Job<'_>, work: &mut Work<'_>) -> Result<Scores> {
        let settings = Settings::new(job)?;
        let model = Model::new(job, &settings)?;
        let prompts = Prompts::new(job.get(&ENTITIES)?, &settings, job.seed)?;
        let bytes = prompts.prompts.iter().map(|prompt| PROMPT_BYTES + 2 * prompt.text().len() as u64).sum();
        let _memory = job.budget().reserve(bytes, "prompts")?;
        let asked = work.blocks("completed prompts", prompts.prompts.len(), |index| model.ask(&prompts, index))?;
        let known = pairs::known(&prompts, &asked, &settings);
        let plans = pairs::plans(&prompts, &asked, &known, &settings, job.seed);
        let used: BTreeSet<usize> = plans
            .iter()
            .flat_map(|plan| plan.train.iter().chain(&plan.test))
            .flat_map(|pair| [pair.base, pair.source])
            .collect();
        let used: Vec<usize> = used.into_iter().collect();
        let rows = work.blocks("captured prompts", used.len(), |index| model.capture(&asked[used[index]]))?;
        let captured = Captured { rows, prompts: used };
        let mut train = |method: Method, epochs: usize| -> Result<MethodResults> {
            let (trained, results) =
                model.train_and_score(work, &prompts, (&asked, &captured), &plans, (method, epochs))?;
            Ok(MethodResults { trained, results })
        };
        let latents = train(Method::Latents, settings.epochs)?;
        let basis = settings.skyline.map(|epochs| train(Method::Basis, epochs)).transpose()?;
        let outcome = Outcome { prompts: &prompts, asked: &asked, known: &known, plans: &plans, latents, basis };
        numbers::scores(job, work, &settings, &outcome)
    }
}
