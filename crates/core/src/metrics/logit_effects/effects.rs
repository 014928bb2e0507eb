//! The effects of directions on the logits of all tokens.

use etalon_kernel::product::rows_by_rows;
use etalon_kernel::top_k::largest;
use serde::{Deserialize, Serialize};

use super::moments::Moments;
use super::vocabulary::is_unused;
use crate::error::{Error, InputError, Key, Result};
use crate::network::{Batch, LanguageModel, LastNorm, Site, SiteId, TextRun, Untouched, find_sites};
use crate::run::{Count, DICTIONARY, Job, NETWORK, Sum, Work};
use crate::state;

/// Directions of a block.
pub(super) const BLOCK: usize = 64;

/// Tokens whose rows of the head are copied at a time.
const TILE: usize = 1024;

/// Sequences of a block that the network runs on.
const SEQUENCES: usize = 8;

/// Tokens between two checks for cancellation.
const CHECK: u32 = 1024;

/// What a direction does.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct DirectionEffects {
    /// `None` if all effects are equal.
    pub moments: Option<Moments>,
    /// Tokens with the largest effects, largest first.
    pub top: Vec<(u32, f32)>,
    /// Tokens with the smallest effects, smallest first.
    pub bottom: Vec<(u32, f32)>,
}

/// Sizes of rows before the last norm.
#[derive(Serialize, Deserialize)]
struct Sizes {
    sum: Sum,
    rows: Count,
}

state!(Sizes { sum, rows });

/// The network, and what of it counts.
pub(super) struct Effects<'a> {
    job: &'a Job<'a>,
    pub run: &'a TextRun,
    network: &'a dyn LanguageModel,
    site: SiteId,
    /// The last norm, if it is part of the effect.
    folded: Option<LastNorm>,
    shown: usize,
}

impl<'a> Effects<'a> {
    /// Checks that directions of this width fit the site.
    pub fn new(job: &'a Job<'a>, width: usize) -> Result<Effects<'a>> {
        let run = job.get(&NETWORK)?;
        let network = &*run.network;
        let written = job.find(&DICTIONARY).and_then(|dictionary| dictionary.card().output.clone());
        let site = match written.and_then(|output| output.site) {
            Some(name) => one_site(network, &name)?,
            None => run.site,
        };
        let of_site = |id: SiteId| network.sites().get(id.0 as usize);
        let Site { name, width: expected, .. } =
            of_site(site).ok_or_else(|| Error::Bug("the site of a text run".into()))?;
        if width != *expected {
            return Err(InputError::new("the directions do not fit the site")
                .expected(format!("width {expected}, as `{name}` has"))
                .found(format!("width {width}"))
                .advice(format!("use the capture that {} was trained on", Key("sae")))
                .into());
        }
        let folded = (job.word("norm")? == "folded").then(|| network.last_norm());
        if network.written(site, &vec![0.0; width], folded.is_some())?.is_none() {
            return Err(InputError::new(format!("`{name}` is not in front of the residual stream"))
                .expected("a site of the stream, or the output of attention, of its heads or of a perceptron")
                .into());
        }
        Ok(Effects { job, run, network, site, folded, shown: job.whole("shown")? })
    }

    fn width(&self) -> usize {
        self.network.card().width
    }

    /// The tokens that count, ascending.
    pub fn tokens(&self) -> Result<Vec<u32>> {
        let mask = self.job.word("mask")? == "unused";
        let mut row = vec![0.0; self.width()];
        let mut kept = Vec::new();
        for token in 0..self.network.card().vocabulary as u32 {
            if token.is_multiple_of(CHECK) {
                self.job.check()?;
            }
            if mask {
                self.network.unembedding(token, &mut row)?;
                if is_unused(&*self.run.tokenizer, token) || row.iter().all(|value| *value == 0.0) {
                    continue;
                }
            }
            kept.push(token);
        }
        Ok(kept)
    }

    /// The mean size of the rows before the last norm, or 1 if effects are not divided by it.
    pub fn mean_size(&self, work: &mut Work<'_>) -> Result<f64> {
        if self.job.word("per_unit")? == "no" {
            return Ok(1.0);
        }
        let most = self.job.whole(crate::metrics::loss_recovered::SEQUENCES.name)?;
        let sequences = if most == 0 { self.run.sequences() } else { self.run.sequences().min(most) };
        let norm = self.network.last_norm();
        let empty = || Sizes { sum: Sum::new(1), rows: Count::new(1) };
        let sizes = work.fold("blocks of sequences", sequences.div_ceil(SEQUENCES), empty, |sizes, block| {
            let length = self.run.length;
            let tokens = block * SEQUENCES * length..((block + 1) * SEQUENCES).min(sequences) * length;
            let tokens = self.run.tokens.get(tokens).ok_or_else(|| Error::Bug("sequences out of range".into()))?;
            let mut state = self.network.begin(&Batch::Tokens { tokens, length }, self.job.context)?;
            let before = self.network.stages().saturating_sub(1);
            self.network.run(0..before, &mut state, &mut Untouched, self.job.context)?;
            for (row, token) in state.values.chunks_exact(self.width()).zip(tokens) {
                if !self.run.special.contains(token) {
                    sizes.sum.add(0, norm.size(row));
                    sizes.rows.add(0, 1);
                }
            }
            Ok(())
        })?;
        let mean = sizes.sum[0] / sizes.rows[0] as f64;
        if mean.is_finite() && mean > 0.0 {
            return Ok(mean);
        }
        Err(InputError::new(format!("{} needs sequences of the network", Key("per_unit")))
            .expected("a capture of texts with tokens that are not special")
            .found(format!("{} sequences", sequences))
            .into())
    }

    /// The effects of some directions of length 1; those of a row of zeros are undefined.
    pub fn of(&self, directions: &[f32], tokens: &[u32], size: f64) -> Result<Vec<DirectionEffects>> {
        let written = self.network.written(self.site, directions, self.folded.is_some())?;
        let mut vectors = written.ok_or_else(|| Error::Bug("the site is not in front of the stream".into()))?;
        if let Some(norm) = &self.folded {
            norm.apply(&mut vectors);
        }
        vectors.iter_mut().for_each(|value| *value = (f64::from(*value) / size) as f32);
        let (width, rows) = (self.width(), vectors.len() / self.width().max(1));
        let bytes = 4 * (rows * tokens.len() + TILE * (width + rows)) as u64;
        let _memory = self.job.budget().reserve(bytes, "effects on logits")?;
        let mut effects = vec![0.0; rows * tokens.len()];
        let (mut head, mut products) = (vec![0.0; TILE * width], vec![0.0; TILE * rows]);
        for (tile, part) in tokens.chunks(TILE).enumerate() {
            self.job.check()?;
            for (token, row) in part.iter().zip(head.chunks_exact_mut(width)) {
                self.network.unembedding(*token, row)?;
            }
            let products = &mut products[..rows * part.len()];
            rows_by_rows(&vectors, &head[..part.len() * width], width, products);
            for (row, products) in effects.chunks_exact_mut(tokens.len()).zip(products.chunks_exact(part.len())) {
                row[tile * TILE..][..part.len()].copy_from_slice(products);
            }
        }
        let mut found = Vec::with_capacity(rows);
        for row in 0..rows {
            found.push(self.describe(&mut effects[row * tokens.len()..(row + 1) * tokens.len()], tokens));
        }
        Ok(found)
    }

    fn describe(&self, effects: &mut [f32], tokens: &[u32]) -> DirectionEffects {
        let Some(moments) = Moments::of(effects) else {
            return DirectionEffects { moments: None, top: Vec::new(), bottom: Vec::new() };
        };
        let mut scratch = Vec::new();
        largest(effects, self.shown, &mut scratch);
        let named = |(value, index): &(f32, u32)| (tokens[*index as usize], *value);
        let top = scratch.iter().map(named).collect();
        effects.iter_mut().for_each(|value| *value = -*value);
        largest(effects, self.shown, &mut scratch);
        let bottom = scratch.iter().map(named).map(|(token, value)| (token, -value)).collect();
        DirectionEffects { moments: Some(moments), top, bottom }
    }
}

/// The site of a name.
fn one_site(network: &dyn LanguageModel, name: &str) -> Result<SiteId> {
    match find_sites(network.sites(), name)?[..] {
        [site] => Ok(site),
        ref sites => {
            Err(InputError::new("a dictionary writes one site").found(format!("{} sites", sites.len())).into())
        }
    }
}
