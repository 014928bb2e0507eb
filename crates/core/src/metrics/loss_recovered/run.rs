//! Runs the network on blocks of sequences, unchanged and changed.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};

use etalon_kernel::neural::{exp, log_softmax};
use rayon::prelude::*;
use serde::{Deserialize, Serialize};

use super::splice::Splice;
use super::{SEQUENCES, SPECIAL};
use crate::error::{Error, InputError, Key, Result};
use crate::network::{Batch, Capture, Edit, LanguageModel, Patch, Snapshot, State, Tap, TextRun, Untouched};
use crate::run::{Count, DICTIONARY, Job, NETWORK, Sum};
use crate::sae::Dictionary;
use crate::state;

/// Sequences per block.
const BLOCK: usize = 8;

/// Rows whose logits are computed at a time.
const ROWS: usize = 32;

/// Activations before the site may take a part of this many of the memory that is free at the start.
const KEPT_PARTS: u64 = 4;

/// Sums of a block over its counted positions.
#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize)]
pub(super) struct Totals {
    /// Positions with a next token.
    pub targets: f64,
    /// All positions.
    pub rows: f64,
    /// Cross-entropy: unchanged, reconstructed, zero, mean.
    pub losses: [f64; 4],
    /// Divergence from the unchanged prediction: reconstructed, zero, mean.
    pub divergences: [f64; 3],
}

impl Totals {
    fn add(mut self, other: Totals) -> Totals {
        self.targets += other.targets;
        self.rows += other.rows;
        self.losses.iter_mut().zip(other.losses).for_each(|(sum, value)| *sum += value);
        self.divergences.iter_mut().zip(other.divergences).for_each(|(sum, value)| *sum += value);
        self
    }
}

/// Sums of the activations at the site.
#[derive(Serialize, Deserialize)]
pub(super) struct Means {
    sums: Sum,
    rows: Count,
}

state!(Means { sums, rows });

impl Means {
    /// The mean row.
    pub fn mean(&self) -> Vec<f32> {
        let rows = self.rows[0].max(1) as f64;
        self.sums.iter().map(|sum| (sum / rows) as f32).collect()
    }
}

/// The network, its sequences and the dictionary.
pub(super) struct Spliced<'a> {
    job: &'a Job<'a>,
    run: &'a TextRun,
    network: &'a dyn LanguageModel,
    dictionary: &'a dyn Dictionary,
    sequences: usize,
    stage: usize,
    width: usize,
    replace_special: bool,
    /// The states before the site of blocks whose mean was taken, as far as memory allows: the network below the site is
    /// then run once.
    starts: Mutex<BTreeMap<usize, Snapshot>>,
    /// Blocks whose states may be kept, from the first.
    kept_blocks: usize,
}

impl<'a> Spliced<'a> {
    pub fn new(job: &'a Job<'a>) -> Result<Spliced<'a>> {
        let run = job.get(&NETWORK)?;
        let dictionary: &dyn Dictionary = &**job.get(&DICTIONARY)?;
        let network = &*run.network;
        let site =
            network.sites().get(run.site.0 as usize).ok_or_else(|| Error::Bug("the site of a text run".into()))?;
        let card = dictionary.card();
        if (card.width, card.output_width()) != (site.width, site.width) {
            return Err(InputError::new("the dictionary does not fit the site of the capture")
                .expected(format!("width {}, as `{}` has", site.width, site.name))
                .found(format!("width {} in and {} out", card.width, card.output_width()))
                .advice(format!("use the capture that {} was trained on", Key("sae")))
                .into());
        }
        let most = job.whole(SEQUENCES.name)?;
        let sequences = if most == 0 { run.sequences() } else { run.sequences().min(most) };
        let replace_special = job.word(SPECIAL.name)? == "replace";
        let starts = Mutex::default();
        let (stage, width) = (site.stage, site.width);
        let bytes = (4 * BLOCK * run.length * network.card().width) as u64;
        let kept_blocks = (job.budget().left() / KEPT_PARTS).checked_div(bytes).unwrap_or(0) as usize;
        Ok(Spliced { job, run, network, dictionary, sequences, stage, width, replace_special, starts, kept_blocks })
    }

    /// The number of blocks.
    pub fn blocks(&self) -> usize {
        self.sequences.div_ceil(BLOCK)
    }

    fn tokens(&self, block: usize) -> &'a [u32] {
        let (first, last) = (block * BLOCK, ((block + 1) * BLOCK).min(self.sequences));
        &self.run.tokens[first * self.run.length..last * self.run.length]
    }

    fn is_special(&self, token: u32) -> bool {
        self.run.special.contains(&token)
    }

    /// Keeps the state before the site of a block, if there is memory.
    fn keep(&self, block: usize, state: &State) -> Result<()> {
        if block < self.kept_blocks {
            let snapshot = state.snapshot(self.job.context)?;
            self.starts.lock().unwrap_or_else(PoisonError::into_inner).insert(block, snapshot);
        }
        Ok(())
    }

    /// The state before the site of a block: kept, or computed again.
    fn start(&self, block: usize) -> Result<State> {
        let (tokens, length) = (self.tokens(block), self.run.length);
        let kept = self.starts.lock().unwrap_or_else(PoisonError::into_inner).remove(&block);
        let Some(kept) = kept else { return self.prefix(tokens, length) };
        let mut state = self.network.begin(&Batch::Tokens { tokens, length }, self.job.context)?;
        state.restore(kept);
        Ok(state)
    }

    /// The state before the stage of the site.
    fn prefix(&self, tokens: &[u32], length: usize) -> Result<State> {
        let mut state = self.network.begin(&Batch::Tokens { tokens, length }, self.job.context)?;
        self.network.run(0..self.stage, &mut state, &mut Untouched, self.job.context)?;
        Ok(state)
    }

    pub fn no_mean(&self) -> Means {
        Means { sums: Sum::new(self.width), rows: Count::new(1) }
    }

    /// Adds the activations of a block.
    pub fn add_means(&self, means: &mut Means, block: usize) -> Result<()> {
        let tokens = self.tokens(block);
        let mut state = self.prefix(tokens, self.run.length)?;
        self.keep(block, &state)?;
        let mut capture = Capture::new(&[self.run.site]);
        self.network.run(self.stage..self.stage + 1, &mut state, &mut capture, self.job.context)?;
        let (_, rows) = capture.of(self.run.site).ok_or_else(|| Error::Bug("the site was not visited".into()))?;
        for (row, token) in rows.chunks_exact(self.width).zip(tokens) {
            if !self.is_special(*token) {
                row.iter().enumerate().for_each(|(index, value)| means.sums.add(index, f64::from(*value)));
                means.rows.add(0, 1);
            }
        }
        Ok(())
    }

    /// The prediction at every position after zero ablation, where it does not depend on the input: a residual stream that
    /// is 0 at every position stays the same at every position.
    pub fn zero(&self) -> Result<Option<Vec<f32>>> {
        let site = &self.network.sites()[self.run.site.0 as usize];
        let Some(token) = self.run.tokens.first().filter(|_| site.name.contains(".hook_resid_")) else {
            return Ok(None);
        };
        let state = self.finished(&self.prefix(&[*token], 1)?, &mut self.ablation(0.0))?;
        let mut logits = vec![0.0; self.network.card().vocabulary];
        self.network.logits(&state, 0..1, &mut logits)?;
        log_softmax(&mut logits);
        Ok(Some(logits))
    }

    fn ablation(&self, value: f32) -> Patch {
        Patch::new(self.run.site, Edit::Set(vec![value; self.width]))
    }

    /// Runs the rest of the network.
    fn finished(&self, start: &State, tap: &mut dyn Tap) -> Result<State> {
        let mut state = start.fork(self.job.context)?;
        self.network.run(self.stage..self.network.stages(), &mut state, tap, self.job.context)?;
        Ok(state)
    }

    /// The sums of a block.
    pub fn totals(&self, block: usize, mean: &[f32], zero: Option<&[f32]>) -> Result<Totals> {
        let (tokens, length) = (self.tokens(block), self.run.length);
        let special: Vec<bool> = tokens.iter().map(|token| self.is_special(*token)).collect();
        let kept: Vec<bool> = special.iter().map(|special| *special && !self.replace_special).collect();
        let start = self.start(block)?;
        let clean = self.finished(&start, &mut Untouched)?;
        let mut splice =
            Splice { site: self.run.site, dictionary: self.dictionary, kept: &kept, context: self.job.context };
        let spliced = self.finished(&start, &mut splice)?;
        let at_mean = self.finished(&start, &mut Patch::new(self.run.site, Edit::Set(mean.to_vec())))?;
        let at_zero = if zero.is_none() { Some(self.finished(&start, &mut self.ablation(0.0))?) } else { None };
        let vocabulary = self.network.card().vocabulary;
        let threads = rayon::current_num_threads().max(1) as u64;
        let _memory = self.job.budget().reserve(4 * (4 * ROWS * vocabulary) as u64 * threads, "logits")?;
        let chunks: Result<Vec<Totals>> = (0..tokens.len().div_ceil(ROWS))
            .into_par_iter()
            .map(|chunk| {
                self.job.check()?;
                let rows = chunk * ROWS..((chunk + 1) * ROWS).min(tokens.len());
                let logs = |state: &State| -> Result<Vec<f32>> {
                    let mut logits = vec![0.0; rows.len() * vocabulary];
                    self.network.logits(state, rows.clone(), &mut logits)?;
                    logits.chunks_exact_mut(vocabulary).for_each(log_softmax);
                    Ok(logits)
                };
                let (clean, spliced, at_mean) = (logs(&clean)?, logs(&spliced)?, logs(&at_mean)?);
                let at_zero = at_zero.as_ref().map(logs).transpose()?;
                let mut totals = Totals::default();
                for (index, row) in rows.clone().enumerate().filter(|(_, row)| !special[*row]) {
                    let columns = index * vocabulary..(index + 1) * vocabulary;
                    let zero = at_zero.as_ref().map_or(zero.unwrap_or_default(), |logs| &logs[columns.clone()]);
                    let all = [&clean[columns.clone()], &spliced[columns.clone()], zero, &at_mean[columns]];
                    let next = (row % length + 1 < length).then(|| tokens[row + 1] as usize);
                    totals = totals.add(of_row(all, next));
                }
                Ok(totals)
            })
            .collect();
        Ok(chunks?.into_iter().fold(Totals::default(), Totals::add))
    }
}

/// The numbers of one position, from the logarithms of four predictions.
fn of_row(logs: [&[f32]; 4], next: Option<usize>) -> Totals {
    let divergence =
        |other: &[f32]| -> f64 { logs[0].iter().zip(other).map(|(p, q)| f64::from(exp(*p)) * f64::from(p - q)).sum() };
    Totals {
        targets: f64::from(u8::from(next.is_some())),
        rows: 1.0,
        losses: next.map_or([0.0; 4], |next| logs.map(|logs| -f64::from(logs[next]))),
        divergences: [divergence(logs[1]), divergence(logs[2]), divergence(logs[3])],
    }
}
