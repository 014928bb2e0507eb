//! Continuations of prompts with shifted activations, and what the unchanged network makes of them.

use std::collections::BTreeSet;

use etalon_kernel::neural::{exp, log_softmax};
use etalon_kernel::product::dot;
use serde::{Deserialize, Serialize};

use super::concept::Steered;
use crate::codes::CodesBuilder;
use crate::error::{Error, InputError, Key, Result};
use crate::network::{
    Batch, Capture, Edit, Generation, LanguageModel, Layout, Patch, SentenceEncoder, SiteId, State, Tap, TextRun,
    Untouched,
};
use crate::run::{DICTIONARY, ENCODER, Job, NETWORK};
use crate::sae::Dictionary;
use crate::store::ActivationStore;

/// Rows whose logits are computed at a time.
const ROWS: usize = 32;

/// A continuation as the unchanged network, the dictionary and the encoder see it; `None` without tokens, triples or an encoder.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(super) struct Reading {
    /// Mean −ln p of its tokens.
    pub loss: Option<f64>,
    /// Share of distinct triples of tokens.
    pub distinct: Option<f64>,
    /// Mean code of the latent.
    pub read_back: Option<f64>,
    /// Share of tokens that the latent promotes most.
    pub echo: Option<f64>,
    /// How far its vector is in the direction of the concept.
    pub concept: Option<f64>,
    /// Cosine of its vector and that of the prompt.
    pub prompt: Option<f64>,
}

/// Adds a vector to every row but the first of a text that starts with a beginning-of-text token.
struct Shift {
    site: SiteId,
    by: Vec<f32>,
    keep_first: bool,
    /// Rows seen so far.
    seen: usize,
}

impl Tap for Shift {
    fn wants(&self, site: SiteId) -> bool {
        site == self.site
    }

    fn visit(&mut self, _: SiteId, layout: Layout, rows: &mut [f32]) -> Result<()> {
        if layout.width != self.by.len() {
            return Err(Error::Bug(format!("a shift of width {} at rows of width {}", self.by.len(), layout.width)));
        }
        for row in rows.chunks_exact_mut(layout.width) {
            if self.seen > 0 || !self.keep_first {
                row.iter_mut().zip(&self.by).for_each(|(value, by)| *value += by);
            }
            self.seen += 1;
        }
        Ok(())
    }
}

/// The network, the dictionary and the encoder.
pub(super) struct Steering<'a> {
    pub job: &'a Job<'a>,
    pub run: &'a TextRun,
    network: &'a dyn LanguageModel,
    pub dictionary: &'a dyn Dictionary,
    pub encoder: Option<&'a dyn SentenceEncoder>,
    stage: usize,
    tokens: usize,
}

impl<'a> Steering<'a> {
    /// Checks that the dictionary fits the site.
    pub fn new(job: &'a Job<'a>) -> Result<Steering<'a>> {
        let run = job.get(&NETWORK)?;
        let dictionary: &dyn Dictionary = &**job.get(&DICTIONARY)?;
        let network = &*run.network;
        let site = network.sites().get(run.site.0 as usize);
        let site = site.ok_or_else(|| Error::Bug("the site of a text run".into()))?;
        let card = dictionary.card();
        if (card.width, card.output_width()) != (site.width, site.width) || card.output.is_some() {
            return Err(InputError::new("the dictionary does not fit the site of the capture")
                .expected(format!("a dictionary that reconstructs width {}, as `{}` has", site.width, site.name))
                .found(format!("width {} in and {} out", card.width, card.output_width()))
                .advice(format!("use the capture that {} was trained on", Key("sae")))
                .into());
        }
        let encoder = job.find(&ENCODER).map(|encoder| &**encoder);
        let tokens = job.whole("generated_tokens")?;
        Ok(Steering { job, run, network, dictionary, encoder, stage: site.stage, tokens })
    }

    /// The tokens of a prompt.
    pub fn prompt(&self, text: &str) -> Result<Vec<u32>> {
        let tokens = self.run.tokenizer.encode(text, true)?;
        let most = self.network.card().context;
        if tokens.is_empty() || tokens.len() >= most {
            return Err(InputError::new("a prompt cannot be continued")
                .expected(format!("1 to {} tokens", most.saturating_sub(1)))
                .found(format!("{} tokens: {text}", tokens.len()))
                .into());
        }
        Ok(tokens)
    }

    /// Continues a prompt. All continuations of a prompt use the same random numbers.
    pub fn continued(&self, prompt: &[u32], number: usize, shift: Option<Vec<f32>>) -> Result<Vec<u32>> {
        let settings = Generation {
            tokens: self.tokens.min(self.network.card().context.saturating_sub(prompt.len())),
            temperature: 1.0,
            stop: self.run.tokenizer.eos().into_iter().collect(),
            seed: self.job.seed.wrapping_mul(1_000_003).wrapping_add(number as u64),
            ..Generation::default()
        };
        match shift {
            None => self.network.generate(prompt, &settings, &mut Untouched, self.job.context),
            Some(by) => {
                let keep_first = self.run.tokenizer.bos().is_some_and(|bos| prompt.first() == Some(&bos));
                let mut tap = Shift { site: self.run.site, by, keep_first, seen: 0 };
                self.network.generate(prompt, &settings, &mut tap, self.job.context)
            }
        }
    }

    /// Reads a continuation with the unchanged network.
    pub fn read(&self, (text, prompt): (&str, &[u32]), continuation: &[u32], steered: &Steered) -> Result<Reading> {
        if continuation.is_empty() {
            return Ok(Reading::default());
        }
        let tokens = [prompt, continuation].concat();
        let length = tokens.len();
        let mut state = self.network.begin(&Batch::Tokens { tokens: &tokens, length }, self.job.context)?;
        let mut capture = Capture::new(&[self.run.site]);
        self.network.run(0..self.network.stages(), &mut state, &mut capture, self.job.context)?;
        let (layout, rows) = capture.of(self.run.site).ok_or_else(|| Error::Bug("the site was not visited".into()))?;
        let read_back = self.mean_code(&rows[prompt.len() * layout.width..], layout.width, steered.latent)?;
        let loss = self.loss(&state, &tokens, prompt.len())?;
        let triples: BTreeSet<&[u32]> = continuation.windows(3).collect();
        let all = continuation.len().saturating_sub(2);
        let promoted = continuation.iter().filter(|token| steered.promoted.binary_search(token).is_ok()).count();
        let mut reading = Reading {
            loss: Some(loss),
            distinct: (all > 0).then(|| triples.len() as f64 / all as f64),
            read_back: Some(read_back),
            echo: (!steered.promoted.is_empty()).then(|| promoted as f64 / continuation.len() as f64),
            ..Reading::default()
        };
        if let Some(encoder) = self.encoder {
            let vector = encoder.embed(&self.run.tokenizer.decode(continuation)?, self.job.context)?;
            reading.concept = steered.concept.as_ref().map(|concept| dot(&vector, concept));
            reading.prompt = Some(dot(&vector, &encoder.embed(text, self.job.context)?));
        }
        Ok(reading)
    }

    fn mean_code(&self, rows: &[f32], width: usize, latent: u32) -> Result<f64> {
        let store = ActivationStore::from_rows(rows.to_vec(), width)?;
        let mut codes = CodesBuilder::within(self.dictionary.card().latents, self.job.budget());
        self.dictionary.encode(&store.tile(0..store.rows())?, &mut codes)?;
        let codes = codes.finish();
        let mut sum = 0.0;
        for (_, latents, values) in codes.all()?.iter() {
            let at = latents.binary_search(&latent).ok();
            sum += at.and_then(|at| values.get(at)).map_or(0.0, |value| f64::from(*value));
        }
        Ok(sum / store.rows().max(1) as f64)
    }

    /// Mean −ln p of the tokens from an index on.
    fn loss(&self, state: &State, tokens: &[u32], from: usize) -> Result<f64> {
        let vocabulary = self.network.card().vocabulary;
        let _memory = self.job.budget().reserve(4 * (ROWS * vocabulary) as u64, "logits")?;
        let mut logits = vec![0.0f32; ROWS * vocabulary];
        let mut sum = 0.0;
        let indices: Vec<usize> = (from..tokens.len()).collect();
        for part in indices.chunks(ROWS) {
            let (Some(first), Some(last)) = (part.first(), part.last()) else { continue };
            let logits = &mut logits[..part.len() * vocabulary];
            self.network.logits(state, first - 1..*last, logits)?;
            for (logits, index) in logits.chunks_exact_mut(vocabulary).zip(part) {
                log_softmax(logits);
                sum -= logits.get(tokens[*index] as usize).map_or(0.0, |value| f64::from(*value));
            }
        }
        Ok(sum / indices.len().max(1) as f64)
    }

    /// Mean divergence of the predictions on a sequence with shifted activations, for some shifts; and the number of rows.
    pub fn divergences(&self, sequence: usize, shifts: &[Vec<f32>]) -> Result<(Vec<f64>, usize)> {
        let length = self.run.length;
        let tokens = self.run.tokens.get(sequence * length..(sequence + 1) * length);
        let tokens = tokens.ok_or_else(|| Error::Bug("a sequence out of range".into()))?;
        let mut start = self.network.begin(&Batch::Tokens { tokens, length }, self.job.context)?;
        self.network.run(0..self.stage, &mut start, &mut Untouched, self.job.context)?;
        let finished = |tap: &mut dyn Tap| -> Result<State> {
            let mut state = start.fork(self.job.context)?;
            self.network.run(self.stage..self.network.stages(), &mut state, tap, self.job.context)?;
            Ok(state)
        };
        let clean = finished(&mut Untouched)?;
        let rows: Vec<usize> = (1..length).filter(|row| !self.run.special.contains(&tokens[*row])).collect();
        let vocabulary = self.network.card().vocabulary;
        let _memory = self.job.budget().reserve(8 * vocabulary as u64, "logits")?;
        let logs = |state: &State, row: usize| -> Result<Vec<f32>> {
            let mut logits = vec![0.0f32; vocabulary];
            self.network.logits(state, row..row + 1, &mut logits)?;
            log_softmax(&mut logits);
            Ok(logits)
        };
        let mut sums = Vec::with_capacity(shifts.len());
        for shift in shifts {
            self.job.check()?;
            let mut patch = Patch::new(self.run.site, Edit::Add(shift.clone())).at((1..length).collect());
            let shifted = finished(&mut patch)?;
            let mut sum = 0.0;
            for row in &rows {
                let (p, q) = (logs(&clean, *row)?, logs(&shifted, *row)?);
                sum += p.iter().zip(&q).map(|(p, q)| f64::from(exp(*p)) * f64::from(p - q)).sum::<f64>();
            }
            sums.push(sum);
        }
        Ok((sums, rows.len()))
    }
}
