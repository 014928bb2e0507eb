//! The sanity check of paper 1 (Fig. 4): can a metric tell trained codes from untrained and random ones?

use std::sync::Arc;

use super::grid::Set;
use crate::codes::Codes;
use crate::context::Context;
use crate::error::{InputError, Key, Result};
use crate::run::{
    CODES, DICTIONARY, DIRECTIONS, EMBEDDINGS, GENERATED, Generated, Inputs, NULLS, OTHERS, PAIR_CODES,
    PAIR_EMBEDDINGS, PAIRS, TRAINING,
};
use crate::sae::{Dictionary, Linear, encode_store, random_codes_within, untrained};
use crate::store::ActivationStore;

/// How the baselines are made.
pub struct Sanity {
    /// Active latents per row; by default the mean of the codes under test, rounded.
    pub k: Option<usize>,
    /// Untrained dictionaries for the null of ΔMATCHScore.
    pub nulls: usize,
    /// The seed of the baselines.
    pub seed: u64,
}

/// All of them are held in memory at once.
const MOST_NULLS: usize = 100;

impl Default for Sanity {
    fn default() -> Sanity {
        Sanity { k: None, nulls: 3, seed: 0 }
    }
}

/// The codes under test beside an untrained dictionary and random codes of the same size and sparsity. Every set gets
/// the same nulls: untrained dictionaries with other seeds.
pub fn sanity_sets(name: &str, inputs: &Inputs, options: &Sanity, context: &Context) -> Result<Vec<Set>> {
    let codes = inputs.get(&CODES)?;
    let store = inputs.get(&EMBEDDINGS)?;
    if ["untrained", "random"].contains(&name) {
        return Err(InputError::new("the codes under test need another name than the baselines")
            .found(format!("`{name}`"))
            .advice(format!("choose one with {}", Key("name")))
            .into());
    }
    if options.nulls > MOST_NULLS {
        return Err(InputError::new(format!("{} must be at most {MOST_NULLS}", Key("nulls")))
            .found(options.nulls)
            .advice(format!("a few are enough: {} 3", Key("nulls")))
            .into());
    }
    inputs.check()?;
    let mean = codes.entries() as f64 / codes.rows().max(1) as f64;
    let k = options.k.unwrap_or((mean.round() as usize).max(1)).min(codes.latents());
    let encode = |dictionary: &dyn Dictionary, store: &ActivationStore| encode_store(dictionary, store, context);
    let untrained = |seed: u64| -> Result<Linear> {
        let memory =
            context.budget().reserve(Linear::bytes(codes.latents(), store.width()), "an untrained dictionary")?;
        Ok(untrained(store, codes.latents(), k, seed)?.holding(memory))
    };
    let mut trained = inputs.clone().without(&NULLS);
    for offset in 1..=options.nulls as u64 {
        let null = encode(&untrained(options.seed + offset)?, store)?;
        trained.add(&NULLS, "", null);
    }
    let dictionary: Arc<dyn Dictionary> = Arc::new(untrained(options.seed)?);
    let directions = ActivationStore::from_rows(dictionary.directions().to_vec(), dictionary.card().width)?;
    // Codes of generators belong to the dictionary that made them: each baseline brings its own.
    let bare = trained.clone().without(&OTHERS).without(&TRAINING).without(&DICTIONARY).without(&GENERATED);
    let mut plain = bare.clone().with(&CODES, encode(&*dictionary, store)?).with(&DIRECTIONS, directions);
    let random = |rows: usize, seed: u64| -> Result<Codes> {
        random_codes_within(rows, codes.latents(), k, seed, context.budget())
    };
    let mut shuffled = bare.without(&DIRECTIONS).with(&CODES, random(codes.rows(), options.seed)?);
    if let Some(pair_codes) = inputs.find(&PAIR_CODES) {
        shuffled.put(&PAIR_CODES, random(pair_codes.rows(), options.seed + 1)?);
        match inputs.find(&PAIR_EMBEDDINGS) {
            Some(store) => plain.put(&PAIR_CODES, encode(&*dictionary, store)?),
            // Without embeddings of the pairs nothing can be encoded, and the pairs must not fall back to other rows.
            None => plain = plain.without(&PAIR_CODES).without(&PAIRS),
        }
    }
    for (index, (name, made)) in trained.share_all(&GENERATED).into_iter().enumerate() {
        let embeddings = made.embeddings.clone();
        if let Some(store) = &made.embeddings {
            let codes = Arc::new(encode(&*dictionary, store)?);
            plain.add(&GENERATED, &name, Generated { codes, embeddings: embeddings.clone() });
        }
        let codes = Arc::new(random(made.codes.rows(), options.seed + 2 + index as u64)?);
        shuffled.add(&GENERATED, &name, Generated { codes, embeddings });
    }
    plain.put(&DICTIONARY, dictionary);
    Ok(vec![Set::new(name, trained), Set::new("untrained", plain), Set::new("random", shuffled)])
}
