//! The sanity check of paper 1 (Fig. 4): can a metric tell trained codes from untrained and random ones?

use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use super::grid::Set;
use crate::codes::Codes;
use crate::error::{Complaint, Result};
use crate::progress::Progress;
use crate::run::{Inputs, Model};
use crate::sae::{Dictionary, Linear, encode_store, random_codes, untrained};
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
pub fn sanity_sets(
    name: &str,
    inputs: &Inputs,
    options: &Sanity,
    progress: &dyn Progress,
    cancel: &AtomicBool,
) -> Result<Vec<Set>> {
    let missing = |what: &str, option: &str| {
        Complaint::new(format!("the sanity check needs {what}")).advice(format!("add {option} FILE"))
    };
    let codes = inputs.codes.as_deref().ok_or_else(|| missing("the codes under test", "--codes"))?;
    let store = inputs
        .embeddings
        .as_deref()
        .ok_or_else(|| missing("the embeddings, to run untrained dictionaries on", "--embeddings"))?;
    if ["untrained", "random"].contains(&name) {
        return Err(Complaint::new("the codes under test need another name than the baselines")
            .found(format!("`{name}`"))
            .advice("choose one with --name")
            .into());
    }
    if options.nulls > MOST_NULLS {
        return Err(Complaint::new("so many untrained dictionaries tell nothing more")
            .expected(format!("at most {MOST_NULLS}"))
            .found(options.nulls)
            .advice("a few are enough: --nulls 3")
            .into());
    }
    inputs.check()?;
    let mean = codes.entries() as f64 / codes.rows().max(1) as f64;
    let k = options.k.unwrap_or((mean.round() as usize).max(1)).min(codes.latents());
    let encode =
        |dictionary: &Linear, store: &ActivationStore| encode_store(dictionary, store, progress, cancel).map(Arc::new);
    let nulls = (1..=options.nulls as u64)
        .map(|offset| encode(&untrained(store, codes.latents(), k, options.seed + offset)?, store))
        .collect::<Result<Vec<Arc<Codes>>>>()?;

    let mut trained = inputs.clone();
    trained.nulls = nulls;
    let dictionary = untrained(store, codes.latents(), k, options.seed)?;
    let mut plain = Inputs {
        codes: Some(encode(&dictionary, store)?),
        others: Vec::new(),
        directions: Some(Arc::new(ActivationStore::from_rows(
            dictionary.directions().to_vec(),
            dictionary.card().width,
        )?)),
        training: None,
        ..trained.clone()
    };
    let mut random = Inputs {
        codes: Some(Arc::new(random_codes(codes.rows(), codes.latents(), k, options.seed)?)),
        directions: None,
        training: None,
        dictionary: None,
        others: Vec::new(),
        ..trained.clone()
    };
    if inputs.pair_codes.is_some() {
        plain.pair_codes = inputs.pair_embeddings.as_deref().map(|store| encode(&dictionary, store)).transpose()?;
        let rows = inputs.pair_codes.as_ref().map_or(0, |codes| codes.rows());
        random.pair_codes = Some(Arc::new(random_codes(rows, codes.latents(), k, options.seed + 1)?));
        if plain.pair_codes.is_none() {
            // Without embeddings of the pairs nothing can be encoded, and the pairs must not fall back to other rows.
            plain.pairs = None;
        }
    }
    // Codes of models belong to the dictionary that made them: each baseline brings its own.
    plain.models = Vec::new();
    for (place, model) in random.models.iter_mut().enumerate() {
        if let Some(store) = model.embeddings.as_deref() {
            plain.models.push(Model { codes: encode(&dictionary, store)?, ..model.clone() });
        }
        let seed = options.seed + 2 + place as u64;
        model.codes = Arc::new(random_codes(model.codes.rows(), codes.latents(), k, seed)?);
    }
    plain.dictionary = Some(Arc::new(dictionary));
    Ok(vec![Set::new(name, trained), Set::new("untrained", plain), Set::new("random", random)])
}
