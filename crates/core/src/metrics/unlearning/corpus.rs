//! How often latents fire on texts.

use etalon_kernel::random::{permutation, stream};
use serde::{Deserialize, Serialize};

use super::is_released;
use crate::codes::CodesBuilder;
use crate::error::{Error, InputError, Key, Result};
use crate::network::{Batch, Capture, TextRun};
use crate::run::{Count, DICTIONARY, Job, NETWORK, TextList, Work};
use crate::sae::Dictionary;
use crate::state;
use crate::store::ActivationStore;

/// Sequences of a block.
const BLOCK: usize = 8;

/// How often latents fire.
#[derive(Serialize, Deserialize)]
struct Fired {
    latents: Count,
    rows: Count,
}

state!(Fired { latents, rows });

/// Texts as sequences of a network.
pub(super) struct Corpus<'a> {
    run: &'a TextRun,
    dictionary: &'a dyn Dictionary,
    /// Tokens of a sequence.
    length: usize,
    /// Sequences at most.
    sequences: usize,
    /// The first token of a sequence of text is replaced by the beginning-of-text token, as the released program does.
    overwrite: bool,
    /// Frequencies have six decimals, as the files of the released program.
    rounded: bool,
}

impl<'a> Corpus<'a> {
    pub fn new(job: &Job<'a>) -> Result<Corpus<'a>> {
        let run = job.get(&NETWORK)?;
        let length = job.whole("sequence_length")?.min(run.network.card().context);
        let released = is_released(job);
        Ok(Corpus {
            run,
            dictionary: &**job.get(&DICTIONARY)?,
            length,
            sequences: job.whole("corpus_sequences")?,
            overwrite: released,
            rounded: released,
        })
    }

    /// The sequences of texts in random order, one after the other.
    fn tokens(&self, job: &Job<'_>, texts: &TextList, purpose: &str) -> Result<Vec<u32>> {
        let tokenizer = &*self.run.tokenizer;
        let bos = tokenizer.bos();
        let own = if self.overwrite || bos.is_none() { self.length } else { self.length - 1 };
        let wanted = own * self.sequences;
        let mut random = stream(job.seed, &format!("unlearning/{purpose}"), 0);
        let mut tokens: Vec<u32> = Vec::new();
        for index in permutation(texts.texts.len(), &mut random) {
            if tokens.len() >= wanted {
                break;
            }
            job.check()?;
            tokens.extend(tokenizer.encode(&texts.texts[index], false)?);
            tokens.extend(tokenizer.eos());
        }
        tokens.truncate(wanted);
        if tokens.len() < own {
            return Err(InputError::new("the texts have fewer tokens than a sequence")
                .expected(format!("at least {own} tokens"))
                .found(format!("{} tokens", tokens.len()))
                .advice(format!("give more texts, or a smaller {}", Key("sequence_length")))
                .into());
        }
        let mut rows = Vec::with_capacity(tokens.len() / own * self.length);
        for part in tokens.chunks_exact(own) {
            match bos {
                Some(bos) => rows.extend([bos].iter().chain(&part[usize::from(self.overwrite)..])),
                None => rows.extend(part),
            }
        }
        Ok(rows)
    }

    /// The share of tokens on which each latent is positive, special tokens left out. `names` are those of the two stages.
    pub fn frequencies(
        &self,
        job: &Job<'_>,
        work: &mut Work<'_>,
        names: [&str; 2],
        texts: &TextList,
    ) -> Result<Vec<f64>> {
        let tokens = work.once(names[0], || self.tokens(job, texts, names[0]))?;
        let (network, site, latents) = (&*self.run.network, self.run.site, self.dictionary.card().latents);
        let stage = network.sites().get(site.0 as usize).map_or(0, |site| site.stage);
        let empty = || Fired { latents: Count::new(latents), rows: Count::new(1) };
        let per_block = BLOCK * self.length;
        let fired = work.fold(names[1], tokens.len().div_ceil(per_block), empty, |fired, block| {
            let tokens = &tokens[block * per_block..((block + 1) * per_block).min(tokens.len())];
            let mut state = network.begin(&Batch::Tokens { tokens, length: self.length }, job.context)?;
            let mut capture = Capture::new(&[site]);
            network.run(0..stage + 1, &mut state, &mut capture, job.context)?;
            let (layout, rows) = capture.of(site).ok_or_else(|| Error::Bug("the site was not visited".into()))?;
            let store = ActivationStore::from_rows(rows.to_vec(), layout.width)?;
            let mut codes = CodesBuilder::within(latents, job.budget());
            self.dictionary.encode(&store.tile(0..store.rows())?, &mut codes)?;
            let codes = codes.finish();
            for ((_, latents, values), token) in codes.all()?.iter().zip(tokens) {
                if self.run.special.contains(token) {
                    continue;
                }
                let positive = latents.iter().zip(values).filter(|(_, value)| **value > 0.0);
                positive.for_each(|(latent, _)| fired.latents.add(*latent as usize, 1));
                fired.rows.add(0, 1);
            }
            Ok(())
        })?;
        let rows = fired.rows[0].max(1) as f64;
        let frequency = |count: &u64| {
            let share = *count as f64 / rows;
            if self.rounded { (share * 1e6).round() / 1e6 } else { share }
        };
        Ok(fired.latents.iter().map(frequency).collect())
    }
}
