//! Trains what is exchanged, and scores it on other pairs.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use serde::{Deserialize, Serialize};

use super::answers::is_correct;
use super::pairs::{Asked, Pair, Plan};
use super::prompts::{Prompts, Tokens};
use super::settings::Settings;
use crate::context::{Reservation, Reserved};
use crate::error::{Error, InputError, Key, Result};
use crate::network::{
    AdamParameters, EncodedRow, Exchange, Gates, Generation, Interchange, LatentMask, ReplaceOnce, RotatedMask,
    Rotation, Tap, TextRun, Untouched,
};
use crate::run::{DICTIONARY, Job, NETWORK, Work};
use crate::sae::Dictionary;

/// Steps of a training that are one stage.
const STEPS: usize = 64;

/// Streams of bases may take a part of this many of the memory that is free at the start.
const KEPT_PARTS: u64 = 4;

/// First and last temperature of the gates.
const TEMPERATURES: (f64, f64) = (1.0, 1e-4);

/// What is trained.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Method {
    /// A mask over the latents of the dictionary.
    Latents,
    /// The skyline: a mask over an orthonormal basis.
    Basis,
}

/// A training so far.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct Trained {
    pub parameters: AdamParameters,
    /// The sum of the losses of every epoch.
    pub losses: Vec<f64>,
}

/// The residual stream of a text, with its memory.
struct Stream {
    values: Vec<f32>,
    _memory: Reservation,
}

/// The network, cut at its site, with the dictionary.
pub(super) struct Model<'a> {
    job: &'a Job<'a>,
    run: &'a TextRun,
    dictionary: &'a dyn Dictionary,
    interchange: Interchange<'a>,
    settings: &'a Settings,
    stop: Vec<u32>,
    /// Streams of bases, as far as memory allows: they are needed again in the next epoch.
    streams: Mutex<BTreeMap<usize, Arc<Stream>>>,
    /// Bytes that they may take.
    kept: u64,
}

/// Captured activations of prompts at the end of their entity.
pub(super) struct Captured {
    pub rows: Reserved<Vec<EncodedRow>>,
    /// The prompts, ascending.
    pub prompts: Vec<usize>,
}

impl Captured {
    fn get(&self, prompt: usize) -> Result<&EncodedRow> {
        let found = self.prompts.binary_search(&prompt).ok().and_then(|index| self.rows.get(index));
        found.ok_or_else(|| Error::Bug("a prompt of a pair was not captured".into()))
    }
}

impl<'a> Model<'a> {
    pub fn new(job: &'a Job<'a>, settings: &'a Settings) -> Result<Model<'a>> {
        let run = job.get(&NETWORK)?;
        let dictionary: &dyn Dictionary = &**job.get(&DICTIONARY)?;
        let interchange = Interchange::new(&*run.network, run.site, job.context)?;
        let card = dictionary.card();
        let site = &run.network.sites()[run.site.0 as usize];
        if (card.width, card.output_width(), card.output.is_some()) != (site.width, site.width, false) {
            return Err(InputError::new("the dictionary does not fit the site of the capture")
                .expected(format!("a dictionary that reconstructs width {}, as `{}` has", site.width, site.name))
                .found(format!("width {} in and {} out", card.width, card.output_width()))
                .advice(format!("use the capture that {} was trained on", Key("sae")))
                .into());
        }
        let stop = run.tokenizer.eos().into_iter().collect();
        let kept = job.budget().left() / KEPT_PARTS;
        Ok(Model { job, run, dictionary, interchange, settings, stop, streams: Mutex::default(), kept })
    }

    /// Completes a prompt.
    fn complete(&self, tokens: &[u32], tap: &mut dyn Tap) -> Result<Vec<u32>> {
        let generation =
            Generation { tokens: self.settings.answer_tokens, stop: self.stop.clone(), ..Generation::default() };
        self.run.network.generate(tokens, &generation, tap, self.job.context)
    }

    fn judge(&self, text: &str, label: &str, completion: &[u32]) -> Result<bool> {
        let completion = self.run.tokenizer.decode(completion)?;
        Ok(is_correct(self.settings.rule(), text, label, &completion))
    }

    /// Asks the network for the label of a prompt.
    pub fn ask(&self, prompts: &Prompts, index: usize) -> Result<Asked> {
        let prompt = &prompts.prompts[index];
        let tokens = Tokens::new(prompt, &*self.run.tokenizer, self.settings.released)?;
        let completion = self.complete(&tokens.tokens, &mut Untouched)?;
        let is_correct = self.judge(&prompt.text(), &prompt.label, &completion)?;
        Ok(Asked { tokens, first: completion.first().copied(), is_correct })
    }

    /// The activation of a prompt at the end of its entity.
    pub fn capture(&self, asked: &Asked) -> Result<EncodedRow> {
        let width = self.dictionary.card().width;
        let stream = self.interchange.stream(&asked.tokens.tokens)?;
        let row = stream.chunks_exact(width).nth(asked.tokens.position);
        let row = row.ok_or_else(|| Error::Bug("an entity ends outside of its prompt".into()))?;
        EncodedRow::new(row.to_vec(), self.dictionary, self.job.budget())
    }

    /// The stream of a base: kept, or computed again.
    fn stream(&self, prompt: usize, tokens: &[u32]) -> Result<Arc<Stream>> {
        let lock = || self.streams.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(kept) = lock().get(&prompt) {
            return Ok(kept.clone());
        }
        let values = self.interchange.stream(tokens)?;
        let bytes = 4 * values.len() as u64;
        let memory = self.job.budget().reserve(bytes, "activations of a prompt")?;
        let stream = Arc::new(Stream { values, _memory: memory });
        let mut streams = lock();
        if (streams.len() as u64 + 1) * bytes <= self.kept {
            streams.insert(prompt, stream.clone());
        }
        Ok(stream)
    }

    /// Forgets all streams.
    pub fn forget_streams(&self) {
        self.streams.lock().unwrap_or_else(PoisonError::into_inner).clear();
    }

    fn gates(&self, method: Method, parameters: AdamParameters) -> Box<dyn Gates + '_> {
        match method {
            Method::Latents => Box::new(LatentMask::new(self.dictionary, parameters, self.job.budget())),
            Method::Basis => {
                let rotation = if self.settings.released { Rotation::Lapack } else { Rotation::Continuous };
                Box::new(RotatedMask::new(self.dictionary.card().width, parameters, rotation))
            }
        }
    }

    fn start(&self, method: Method) -> Trained {
        let parameters = match method {
            Method::Latents => LatentMask::start(self.dictionary),
            Method::Basis => RotatedMask::start(self.dictionary.card().width),
        };
        Trained { parameters, losses: Vec::new() }
    }

    /// Bytes of a training: parameters twice, their gradient, and the factors of a matrix.
    fn memory(&self, method: Method) -> u64 {
        let width = self.dictionary.card().width;
        match method {
            Method::Latents => {
                2 * AdamParameters::bytes(self.dictionary.card().latents) + 8 * self.dictionary.card().latents as u64
            }
            Method::Basis => 2 * AdamParameters::bytes(width + width * width) + 24 * (width * width) as u64,
        }
    }

    /// Continues the training of a plan.
    fn continued(
        &self,
        (asked, captured): (&[Asked], &Captured),
        plan: &Plan,
        schedule: &Schedule,
        part: usize,
        (method, before): (Method, Option<&Trained>),
    ) -> Result<Trained> {
        let _memory = self.job.budget().reserve(self.memory(method), "the training of a mask")?;
        let start = before.cloned().unwrap_or_else(|| self.start(method));
        let mut gates = self.gates(method, start.parameters);
        let mut losses = start.losses;
        let per_epoch = plan.train.len().div_ceil(self.settings.batch);
        for step in schedule.steps(part) {
            self.job.check()?;
            let first = step % per_epoch * self.settings.batch;
            let batch = &plan.train[first..(first + self.settings.batch).min(plan.train.len())];
            let streams: Vec<Arc<Stream>> = batch
                .iter()
                .map(|pair| self.stream(pair.base, &asked[pair.base].tokens.tokens))
                .collect::<Result<_>>()?;
            let mut exchanges = Vec::with_capacity(batch.len());
            for (pair, stream) in batch.iter().zip(&streams) {
                let Tokens { tokens, position } = &asked[pair.base].tokens;
                let (base, source) = (captured.get(pair.base)?, captured.get(pair.source)?);
                let (position, target) = (*position, pair.target);
                exchanges.push(Exchange { tokens, stream: &stream.values, position, target, base, source });
            }
            let loss =
                self.interchange.step(&mut *gates, &exchanges, schedule.temperature(step), self.settings.rate)?;
            if step % per_epoch == 0 {
                losses.push(0.0);
            }
            if let Some(sum) = losses.last_mut() {
                *sum += loss;
            }
        }
        Ok(Trained { parameters: gates.trained().clone(), losses })
    }

    /// Whether the answer to a base is the expected one after the exchange.
    fn score(
        &self,
        prompts: &Prompts,
        (asked, captured): (&[Asked], &Captured),
        pair: &Pair,
        gates: &dyn Gates,
    ) -> Result<bool> {
        let row = gates.mix(captured.get(pair.base)?, captured.get(pair.source)?, None)?;
        let tokens = &asked[pair.base].tokens;
        let mut replace = ReplaceOnce::new(self.run.site, tokens.position, row);
        let completion = self.complete(&tokens.tokens, &mut replace)?;
        let expected = if pair.is_cause { pair.source } else { pair.base };
        self.judge(&prompts.prompts[pair.base].text(), &prompts.prompts[expected].label, &completion)
    }

    /// Trains a method for every plan, and scores its test pairs: plan by plan, pair by pair.
    pub fn train_and_score(
        &self,
        work: &mut Work<'_>,
        prompts: &Prompts,
        (asked, captured): (&[Asked], &Captured),
        plans: &[Plan],
        (method, epochs): (Method, usize),
    ) -> Result<(Vec<Trained>, Vec<Vec<bool>>)> {
        let schedules: Vec<Schedule> = plans
            .iter()
            .map(|plan| Schedule { total: epochs * plan.train.len().div_ceil(self.settings.batch) })
            .collect();
        let parts = schedules.iter().map(Schedule::parts).max().unwrap_or(0).max(1);
        let mut trained: Option<Reserved<Vec<Trained>>> = None;
        for part in 0..parts {
            let before = trained.as_ref();
            let next = work.blocks("trained attributes", plans.len(), |plan| {
                let before = before.and_then(|before| before.get(plan));
                self.continued((asked, captured), &plans[plan], &schedules[plan], part, (method, before))
            })?;
            trained = Some(next);
        }
        let (trained, _memory) = trained.ok_or_else(|| Error::Bug("a training without a stage".into()))?.into_parts();
        self.forget_streams();
        let all: Vec<(usize, &Pair)> = plans
            .iter()
            .enumerate()
            .flat_map(|(index, plan)| plan.test.iter().map(move |pair| (index, pair)))
            .collect();
        let bytes = self.memory(method).saturating_mul(plans.len() as u64);
        let _memory = self.job.budget().reserve(bytes, "trained masks")?;
        let gates: Vec<Box<dyn Gates + '_>> =
            trained.iter().map(|trained| self.gates(method, trained.parameters.clone())).collect();
        let scored = work.blocks("test pairs", all.len(), |index| {
            let (plan, pair) = all[index];
            self.score(prompts, (asked, captured), pair, &*gates[plan])
        })?;
        let mut results = vec![Vec::new(); plans.len()];
        for ((plan, _), is_correct) in all.iter().zip(scored.iter()) {
            results[*plan].push(*is_correct);
        }
        Ok((trained, results))
    }
}

/// The steps of a training.
pub(super) struct Schedule {
    pub total: usize,
}

impl Schedule {
    fn parts(&self) -> usize {
        self.total.div_ceil(STEPS)
    }

    fn steps(&self, part: usize) -> std::ops::Range<usize> {
        (part * STEPS).min(self.total)..((part + 1) * STEPS).min(self.total)
    }

    /// The temperature of a step: equal steps of its logarithm, in single precision.
    pub fn temperature(&self, step: usize) -> f64 {
        let (first, last) = TEMPERATURES;
        let share = step as f64 / self.total.saturating_sub(1).max(1) as f64;
        f64::from((first * (last / first).powf(share)) as f32)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn temperatures_are_those_of_the_released_program() {
        let schedule = Schedule { total: 6 };
        let golden = [
            1.0,
            0.15848931670188904,
            0.025118865072727203,
            0.003981071524322033,
            0.000630957365501672,
            9.999999747378752e-05,
        ];
        for (step, expected) in golden.into_iter().enumerate() {
            let found = schedule.temperature(step);
            assert!((found - expected).abs() <= 1e-7 * expected, "{step}: {found} {expected}");
        }
        assert_eq!(Schedule { total: 1 }.temperature(0), 1.0);
        let long = Schedule { total: 130 };
        assert_eq!((long.parts(), long.steps(0), long.steps(2), long.steps(3)), (3, 0..64, 128..130, 130..130));
    }
}
