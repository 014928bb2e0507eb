//! The sanity check of paper 1 (Fig. 4): does a metric separate trained codes from untrained and random ones?

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

/// Options of the baselines.
pub struct Sanity {
    /// Active latents per row; by default the mean of the codes under test, rounded.
    pub k: Option<usize>,
    /// Number of untrained dictionaries, the nulls of ΔMATCHScore.
    pub nulls: usize,
    /// The seed of the baselines.
    pub seed: u64,
}

/// All nulls are in memory at the same time.
const MAX_NULLS: usize = 100;

impl Default for Sanity {
    fn default() -> Sanity {
        Sanity { k: None, nulls: 3, seed: 0 }
    }
}

/// Three sets: the codes under test, an untrained dictionary, and random codes, the last two of the same size and
/// sparsity as the first. All have the same nulls: untrained dictionaries with other seeds.
pub fn sanity_sets(name: &str, inputs: &Inputs, options: &Sanity, context: &Context) -> Result<Vec<Set>> {
    let codes = inputs.get(&CODES)?;
    let store = inputs.get(&EMBEDDINGS)?;
    if ["untrained", "random"].contains(&name) {
        return Err(InputError::new("the name of the codes under test is that of a baseline")
            .found(format!("`{name}`"))
            .advice(format!("choose another one with {}", Key("name")))
            .into());
    }
    if options.nulls > MAX_NULLS {
        return Err(InputError::new(format!("{} must be at most {MAX_NULLS}", Key("nulls")))
            .found(options.nulls)
            .advice(format!("a few suffice: {}", Key("nulls 3")))
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
    let mut tested = inputs.clone().without(&NULLS);
    for offset in 1..=options.nulls as u64 {
        let null = encode(&untrained(options.seed + offset)?, store)?;
        tested.add(&NULLS, "", null);
    }
    let dictionary: Arc<dyn Dictionary> = Arc::new(untrained(options.seed)?);
    let directions = ActivationStore::from_rows(dictionary.directions().to_vec(), dictionary.card().width)?;
    // Codes of generators depend on the dictionary: each baseline adds its own.
    let bare = tested.clone().without(&OTHERS).without(&TRAINING).without(&DICTIONARY).without(&GENERATED);
    let mut untrained_set = bare.clone().with(&CODES, encode(&*dictionary, store)?).with(&DIRECTIONS, directions);
    let random = |rows: usize, seed: u64| -> Result<Codes> {
        random_codes_within(rows, codes.latents(), k, seed, context.budget())
    };
    let mut random_set = bare.without(&DIRECTIONS).with(&CODES, random(codes.rows(), options.seed)?);
    if let Some(pair_codes) = inputs.find(&PAIR_CODES) {
        random_set.put(&PAIR_CODES, random(pair_codes.rows(), options.seed + 1)?);
        match inputs.find(&PAIR_EMBEDDINGS) {
            Some(store) => untrained_set.put(&PAIR_CODES, encode(&*dictionary, store)?),
            // Without pair embeddings there is nothing to encode; pairs without pair codes would refer to other rows.
            None => untrained_set = untrained_set.without(&PAIR_CODES).without(&PAIRS),
        }
    }
    for (index, (name, output)) in tested.share_all(&GENERATED).into_iter().enumerate() {
        let embeddings = output.embeddings.clone();
        if let Some(store) = &output.embeddings {
            let codes = Arc::new(encode(&*dictionary, store)?);
            untrained_set.add(&GENERATED, &name, Generated { codes, embeddings: embeddings.clone() });
        }
        let codes = Arc::new(random(output.codes.rows(), options.seed + 2 + index as u64)?);
        random_set.add(&GENERATED, &name, Generated { codes, embeddings });
    }
    untrained_set.put(&DICTIONARY, dictionary);
    Ok(vec![Set::new(name, tested), Set::new("untrained", untrained_set), Set::new("random", random_set)])
}
