//! Runs questions through the network, with and without clamped latents.

use etalon_kernel::neural::log_softmax;

use super::wording::{Sequence, Wording};
use crate::codes::Latent;
use crate::error::{Error, InputError, Key, Result};
use crate::network::{Batch, LanguageModel, LatentEdit, LatentPatch, State, Tap, TextRun, Untouched};
use crate::run::{ChoiceQuestion, DICTIONARY, Job, NETWORK};
use crate::sae::Dictionary;

/// Rows whose logits are computed at a time.
const ROWS: usize = 32;

/// A question with its choices in an order.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Task {
    /// The number of the question.
    pub question: usize,
    /// The choices in the order in which they are shown.
    pub order: Vec<usize>,
}

/// Latents that become −`multiplier` where they are positive.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Intervention {
    pub latents: Vec<u32>,
    pub multiplier: f32,
}

impl Intervention {
    /// The patch of an intervention. The first position is never changed.
    pub fn patch<'a>(&self, run: &TextRun, dictionary: &'a dyn Dictionary, job: &Job<'_>) -> Result<LatentPatch<'a>> {
        let edit = LatentEdit::SetPositive(-self.multiplier);
        let edits = self.latents.iter().map(|latent| (Latent(*latent), edit)).collect();
        Ok(LatentPatch::new(run.site, dictionary, edits, job.budget())?.starting_at(1))
    }
}

/// The network, the dictionary and how questions are put.
pub(super) struct Exam<'a> {
    job: &'a Job<'a>,
    run: &'a TextRun,
    network: &'a dyn LanguageModel,
    dictionary: &'a dyn Dictionary,
    pub wording: Wording<'a>,
    stage: usize,
}

impl<'a> Exam<'a> {
    /// Checks that the dictionary fits the site.
    pub fn new(job: &'a Job<'a>, wording: Wording<'a>) -> Result<Exam<'a>> {
        let run = job.get(&NETWORK)?;
        let dictionary: &dyn Dictionary = &**job.get(&DICTIONARY)?;
        let network = &*run.network;
        let site = network.sites().get(run.site.0 as usize);
        let site = site.ok_or_else(|| Error::Bug("the site of a text run".into()))?;
        let card = dictionary.card();
        if (card.width, card.output_width()) != (site.width, site.width) {
            return Err(InputError::new("the dictionary does not fit the site of the capture")
                .expected(format!("width {}, as `{}` has", site.width, site.name))
                .found(format!("width {} in and {} out", card.width, card.output_width()))
                .advice(format!("use the capture that {} was trained on", Key("sae")))
                .into());
        }
        Intervention { latents: Vec::new(), multiplier: 0.0 }.patch(run, dictionary, job)?;
        Ok(Exam { job, run, network, dictionary, wording, stage: site.stage })
    }

    /// Whether tasks are solved, by intervention and task; `None` for a task that is longer than the context of the network.
    pub fn run(
        &self,
        questions: &[&ChoiceQuestion],
        tasks: &[&Task],
        interventions: &[Option<&Intervention>],
    ) -> Result<Vec<Vec<Option<bool>>>> {
        let context = self.network.card().context;
        let mut sequences: Vec<Sequence> = Vec::new();
        // The sequences of every task, if they fit.
        let mut parts = Vec::with_capacity(tasks.len());
        for task in tasks {
            let question = questions.get(task.question).ok_or_else(|| Error::Bug("a question out of range".into()))?;
            let own = self.wording.sequences(question, &task.order)?;
            let fits = own.iter().all(|sequence| (1..=context).contains(&sequence.tokens.len()));
            parts.push(fits.then_some(sequences.len()..sequences.len() + own.len()));
            if fits {
                sequences.extend(own);
            }
        }
        if sequences.is_empty() {
            return Ok(vec![vec![None; tasks.len()]; interventions.len()]);
        }
        let length = sequences.iter().map(|sequence| sequence.tokens.len()).max().unwrap_or(1);
        let tokenizer = &*self.run.tokenizer;
        // What follows a sequence does not change what comes before it.
        let pad = tokenizer.pad().or(tokenizer.eos()).unwrap_or(0);
        let padded = |sequence: &Sequence| {
            let mut tokens = sequence.tokens.clone();
            tokens.resize(length, pad);
            tokens
        };
        let tokens: Vec<u32> = sequences.iter().flat_map(padded).collect();
        let mut start = self.network.begin(&Batch::Tokens { tokens: &tokens, length }, self.job.context)?;
        self.network.run(0..self.stage, &mut start, &mut Untouched, self.job.context)?;
        let mut all = Vec::with_capacity(interventions.len());
        for intervention in interventions {
            self.job.check()?;
            let mut state = start.fork(self.job.context)?;
            let patch = intervention.map(|i| i.patch(self.run, self.dictionary, self.job)).transpose()?;
            let stages = self.stage..self.network.stages();
            match patch {
                Some(mut patch) => self.finish(stages, &mut state, &mut patch)?,
                None => self.finish(stages, &mut state, &mut Untouched)?,
            }
            let mut solved = Vec::with_capacity(tasks.len());
            for (task, part) in tasks.iter().zip(&parts) {
                let Some(part) = part.clone() else {
                    solved.push(None);
                    continue;
                };
                let chosen = if self.wording.texts {
                    self.likeliest(&state, &sequences[part.clone()], part.start * length, length)?
                } else {
                    let last = part.start * length + sequences[part.start].tokens.len() - 1;
                    self.letter(&state, last, task.order.len())?
                };
                let answer = questions[task.question].answer;
                solved.push(Some(task.order.get(chosen) == Some(&answer)));
            }
            all.push(solved);
        }
        Ok(all)
    }

    fn finish(&self, stages: std::ops::Range<usize>, state: &mut State, tap: &mut dyn Tap) -> Result<()> {
        self.network.run(stages, state, tap, self.job.context)
    }

    /// The letter with the largest logit at a row, of equal ones the first.
    fn letter(&self, state: &State, row: usize, count: usize) -> Result<usize> {
        let vocabulary = self.network.card().vocabulary;
        let _memory = self.job.budget().reserve(4 * vocabulary as u64, "logits")?;
        let mut logits = vec![0.0f32; vocabulary];
        self.network.logits(state, row..row + 1, &mut logits)?;
        let value = |tokens: &Vec<u32>| {
            let of = tokens.iter().filter_map(|token| logits.get(*token as usize).copied());
            of.fold(f32::NEG_INFINITY, f32::max)
        };
        Ok(first_largest(self.wording.letters.iter().take(count).map(value).map(f64::from)))
    }

    /// The sequence whose scored tokens have the largest probability together, of equal ones the first.
    fn likeliest(&self, state: &State, sequences: &[Sequence], first_row: usize, length: usize) -> Result<usize> {
        let vocabulary = self.network.card().vocabulary;
        let _memory = self.job.budget().reserve(4 * (ROWS * vocabulary) as u64, "logits")?;
        let mut sums = Vec::with_capacity(sequences.len());
        let mut logits = vec![0.0f32; ROWS * vocabulary];
        for (index, sequence) in sequences.iter().enumerate() {
            let mut sum = 0.0;
            let scored: Vec<usize> = (sequence.scored..sequence.tokens.len()).collect();
            for part in scored.chunks(ROWS) {
                let (Some(first), Some(last)) = (part.first(), part.last()) else { continue };
                let start = first_row + index * length;
                let logits = &mut logits[..part.len() * vocabulary];
                self.network.logits(state, start + first - 1..start + last, logits)?;
                for (logits, at) in logits.chunks_exact_mut(vocabulary).zip(part) {
                    log_softmax(logits);
                    sum += logits.get(sequence.tokens[*at] as usize).map_or(0.0, |value| f64::from(*value));
                }
            }
            sums.push(sum);
        }
        Ok(first_largest(sums.into_iter()))
    }
}

/// The index of the largest value, of equal ones the first.
fn first_largest(values: impl Iterator<Item = f64>) -> usize {
    let mut best = (0, f64::NEG_INFINITY);
    for (index, value) in values.enumerate() {
        if value > best.1 {
            best = (index, value);
        }
    }
    best.0
}
