//! `autointerp`: a judge explains latents from examples and predicts from its explanation where they are active.

mod answers;
mod card;
mod numbers;
mod positions;
mod questions;
mod replies;
mod select;
#[cfg(test)]
mod tests;
mod text;
mod token_list;

use etalon_kernel::random::unit;
use serde::{Deserialize, Serialize};

use self::answers::{Answers, ask, cost};
use self::positions::{LatentValues, Layout};
use self::questions::Questions;
use self::select::{Examples, Selection, Skipped};
use self::text::Shown;
use super::windows::latent_stream;
use super::{Card, Metric};
use crate::codes::Columns;
use crate::error::Result;
use crate::network::QuestionCost;
use crate::results::{Profile, Scores};
use crate::run::{CODES, JUDGES, Job, Lazy, PROMPTS, TOKENS, TokenTexts, Work};

/// The metric.
pub struct Autointerp;

impl Metric for Autointerp {
    fn card(&self) -> &'static Card {
        &card::CARD
    }

    fn run(&self, job: &Job<'_>, work: &mut Work<'_>) -> Result<Scores> {
        let codes = job.get(&CODES)?;
        let settings = Settings::new(job)?;
        let questions = Questions::new(job.find(&PROMPTS), job.whole("explanation_tokens")?)?;
        let tokens = job.get(&TOKENS)?.texts(codes.rows(), job.budget())?;
        let world = World { job, tokens: &tokens, layout: Layout::of(&tokens, settings.selection.buffer), settings };
        let columns = Lazy::new(|| codes.columns());
        let chosen = work.once("choice of latents", || world.choose(columns.get()?))?;
        let latents = &chosen.latents;
        let selected = work.blocks_with(&columns, "latents", latents.len(), |columns, block| {
            job.check()?;
            Ok(world.select(columns, latents[block] as usize))
        })?;
        let judges = job.all(&JUDGES);
        if !judges.is_empty() {
            let costs = work.blocks_with(&columns, "questions", latents.len(), |columns, block| {
                let Ok(selected) = &selected[block] else { return Ok((0, 0, 0)) };
                Ok(cost(&world.shown(columns, latents[block], selected), &questions))
            })?;
            let sum = |of: fn(&(u64, u64, u64)) -> u64| costs.iter().map(of).sum::<u64>();
            let cost = QuestionCost {
                questions: sum(|cost| cost.0),
                characters: sum(|cost| cost.1),
                answer_tokens: sum(|cost| cost.2),
            };
            judges.iter().try_for_each(|(_, judge)| judge.announce(&cost))?;
        }
        let mut answers: Vec<Vec<Option<Answers>>> = Vec::new();
        for (_, judge) in &judges {
            let answered = work.blocks_with(&columns, "judged latents", latents.len(), |columns, block| {
                job.check()?;
                let Ok(selected) = &selected[block] else { return Ok(None) };
                ask(&***judge, &world.shown(columns, latents[block], selected), &questions, job.context).map(Some)
            })?;
            answers.push(answered.into_parts().0);
        }
        let names: Vec<String> = judges.iter().map(|(_, judge)| judge.id()).collect();
        Ok(numbers::scores(job.seed, &world.settings, &chosen, &selected, (&names, &answers)))
    }
}

/// Parameters, as far as they are not of questions.
struct Settings {
    selection: Selection,
    latents: usize,
    dead: usize,
    /// Random windows count as inactive.
    assumed: bool,
    /// An answer that cannot be read counts as wrong.
    wrong: bool,
    rounded: bool,
    released: bool,
}

impl Settings {
    fn new(job: &Job<'_>) -> Result<Settings> {
        let released = job.profile == Profile::Reference;
        let selection = Selection {
            buffer: job.whole("buffer")?,
            overlap: job.word("overlap")? == "yes",
            top: (job.whole("top_explaining")?, job.whole("top_scored")?),
            weighted: (job.whole("weighted_explaining")?, job.whole("weighted_scored")?),
            random: job.whole("random_scored")?,
            marked: job.whole("fuzzed")?,
            power: job.whole("power")? as i32,
            share: job.number("activation_share")?,
            positive: !released,
        };
        Ok(Settings {
            selection,
            latents: job.whole("judged_latents")?,
            dead: job.whole("dead_latent_threshold")?,
            assumed: job.word("random_labels")? == "inactive",
            wrong: job.word("unparsed")? == "wrong",
            rounded: job.word("rounding")? == "bf16",
            released,
        })
    }
}

/// Which latents are judged.
#[derive(Serialize, Deserialize)]
struct Chosen {
    /// Their numbers, ascending.
    latents: Vec<u32>,
    /// Latents that are alive.
    alive: usize,
    /// All latents.
    all: usize,
}

/// The examples of a latent and what follows from them without a judge.
#[derive(Clone, Serialize, Deserialize)]
struct Selected {
    examples: Examples,
    /// Whether the latent is active in each tested window.
    truth: Vec<bool>,
    /// Random windows in which it is active.
    active_random: usize,
    /// The list of tokens.
    list: Vec<String>,
    /// What the list predicts.
    listed: Vec<bool>,
}

/// What judges see of a latent.
struct LatentTexts {
    explaining: Vec<String>,
    scored: Vec<String>,
    sample: Vec<usize>,
    marked: Vec<String>,
}

struct World<'a> {
    job: &'a Job<'a>,
    tokens: &'a TokenTexts,
    layout: Layout,
    settings: Settings,
}

impl World<'_> {
    fn values(&self, columns: &Columns, latent: usize) -> LatentValues {
        LatentValues::of(columns, latent, self.tokens, self.settings.rounded)
    }

    /// Draws latents from those that are alive. The draw of a latent depends on its codes, not on its number.
    fn choose(&self, columns: &Columns) -> Result<Chosen> {
        let evaluated = (0..self.tokens.rows()).filter(|row| self.tokens.position_of(*row).is_some()).count();
        // The released program multiplies the frequency in tokens that are not special by the number of all tokens.
        let scale = if self.settings.released { self.tokens.positions() as f64 / evaluated.max(1) as f64 } else { 1.0 };
        let mut alive: Vec<(f64, u32)> = Vec::new();
        for latent in 0..columns.latents() {
            self.job.check()?;
            if self.values(columns, latent).len() as f64 * scale > self.settings.dead as f64 {
                let mut random = latent_stream(self.job.seed, "autointerp/latents", columns, latent);
                alive.push((unit(&mut random), latent as u32));
            }
        }
        let count = alive.len();
        alive.sort_unstable_by(|a, b| a.0.total_cmp(&b.0).then(a.1.cmp(&b.1)));
        let mut latents: Vec<u32> = alive.into_iter().take(self.settings.latents).map(|(_, latent)| latent).collect();
        latents.sort_unstable();
        Ok(Chosen { latents, alive: count, all: columns.latents() })
    }

    fn select(&self, columns: &Columns, latent: usize) -> Result<Selected, Skipped> {
        let selection = &self.settings.selection;
        let mut random = latent_stream(self.job.seed, "autointerp", columns, latent);
        let values = self.values(columns, latent);
        let examples = selection.select(&self.layout, &values, &mut random)?;
        let shown = Shown { tokens: self.tokens, buffer: selection.buffer };
        let window = |centre: u32| self.layout.window(centre, selection.buffer);
        let list = token_list::best_tokens(self.tokens, &examples, &values, window);
        Ok(Selected {
            truth: shown.truth(&examples, &values, self.settings.assumed),
            active_random: shown.active_random(&examples, &values),
            listed: token_list::predict(self.tokens, &list, &examples, window),
            list: list.iter().map(|token| self.tokens.text_of(*token).trim().to_string()).collect(),
            examples,
        })
    }

    fn shown(&self, columns: &Columns, latent: u32, selected: &Selected) -> LatentTexts {
        let values = self.values(columns, latent as usize);
        let shown = Shown { tokens: self.tokens, buffer: self.settings.selection.buffer };
        LatentTexts {
            explaining: shown.explaining(&selected.examples, &values),
            scored: shown.scored(&selected.examples),
            sample: selected.examples.sample.clone(),
            marked: shown.marked(&selected.examples),
        }
    }
}
