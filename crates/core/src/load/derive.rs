//! Inputs that are made from others: rows that are dropped, codes by a dictionary, one row per sample.

use std::sync::Arc;

use super::tokens::{Tokens, TokensOfSets};
use crate::context::Context;
use crate::error::{InFile, InputError, Result};
use crate::run::{
    CODES, DICTIONARY, DIRECTIONS, EMBEDDINGS, GENERATED, Generated, Inputs, LABELS, OTHERS, PAIR_CODES,
    PAIR_EMBEDDINGS, PAIRS, POOLING, SAE, SAMPLES, TRAINING,
};
use crate::sae::encode_store;
use crate::store::ActivationStore;

/// What a checkpoint turned out to be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Recognised {
    /// Such as "SAELens 6, jumprelu, 24 → 64".
    pub text: String,
    /// What the user should know.
    pub notes: Vec<String>,
}

/// Drops rows from everything that has rows under test, except the embeddings, which lost them already.
pub fn drop_rows(inputs: &mut Inputs, dropped: &[usize]) -> Result<()> {
    if dropped.is_empty() {
        return Ok(());
    }
    if inputs.has(&PAIRS) && !inputs.has(&PAIR_CODES) && !inputs.has(&PAIR_EMBEDDINGS) {
        return Err(InputError::new("rows cannot be dropped while pairs point at them")
            .expected("pairs with codes of their own (`pair-codes`), or embeddings without NaN and infinity")
            .found(format!("{} rows to drop", dropped.len()))
            .into());
    }
    let kept = |rows: usize| (0..rows).filter(|row| dropped.binary_search(row).is_err()).collect();
    inputs.keep_rows(kept, &EMBEDDINGS)
}

/// If a dictionary is given: encodes the embeddings, and those of the pairs, and takes its directions where none are
/// given. Without embeddings it can only be compared with others.
pub fn encode(inputs: &mut Inputs, context: &Context) -> Result<Option<Recognised>> {
    let Some(sae) = inputs.share(&SAE) else { return Ok(None) };
    let file = inputs.file(&SAE).map(std::path::Path::to_path_buf).unwrap_or_default();
    if inputs.has(&CODES) || inputs.has(&PAIR_CODES) {
        return Err(InputError::new("both codes and a dictionary that would make them are given")
            .expected("either `sae`, or `codes` and `pair-codes`")
            .file(&file)
            .into());
    }
    if !inputs.has(&EMBEDDINGS) && !inputs.has(&OTHERS) {
        return Err(InputError::new("the dictionary has nothing to encode")
            .expected("the activations of the rows, as `store` or `embeddings`")
            .needs(EMBEDDINGS.card().key)
            .file(&file)
            .into());
    }
    for (rows, codes) in [(&EMBEDDINGS, &CODES), (&PAIR_EMBEDDINGS, &PAIR_CODES)] {
        if let Some(store) = inputs.share(rows) {
            inputs.put(codes, encode_store(&*sae.dictionary, &store, context)?);
        }
    }
    if !inputs.has(&DIRECTIONS) {
        let directions = sae.dictionary.directions().to_vec();
        let width = sae.dictionary.card().output_width();
        inputs.put(&DIRECTIONS, ActivationStore::from_rows(directions, width).in_file(&file)?);
    }
    if let Some(record) = &sae.record {
        inputs.put(&TRAINING, record.clone());
    }
    inputs.put(&DICTIONARY, sae.dictionary.clone());
    inputs.remove(&SAE);
    Ok(Some(Recognised { text: sae.recognised.clone(), notes: sae.notes.clone() }))
}

/// If pooling is asked for: one row per sample of codes, nulls, generated rows and true codes; embeddings become their mean,
/// or the first. Gives the codes as they were before, if they are to be kept.
pub fn pool(inputs: &mut Inputs, keep: bool) -> Result<TokensOfSets> {
    let mut tokens = TokensOfSets::default();
    let given = inputs.share(&SAMPLES);
    let Some(pool) = inputs.find(&POOLING).copied() else {
        return match given {
            Some(_) => Err(InputError::new("samples are given without a way to pool them").needs("pool").into()),
            None => Ok(tokens),
        };
    };
    let of_store = inputs.find(&EMBEDDINGS).and_then(|store| store.samples().map(<[u32]>::to_vec));
    let samples = given.map(|samples| samples.0.clone()).or(of_store).ok_or_else(|| {
        InputError::new("nothing says which rows belong to one sample")
            .expected("a store or a three-dimensional array of embeddings, or `samples` with a number per row")
            .advice("leave out `pool` if every row is a sample")
    })?;
    let largest = samples.iter().max().map_or(0, |&sample| sample as usize + 1);
    // Labels are per sample and may speak of samples that have no row.
    let count = inputs.find(&LABELS).map_or(largest, |labels| labels.rows().max(largest));
    let samples: Arc<[u32]> = samples.into();
    let generated = inputs.share_all(&GENERATED);
    inputs.remove(&GENERATED);
    let real = inputs.share(&CODES).filter(|_| keep);
    inputs.pool(&samples, count, pool)?;
    tokens.real = real.map(|codes| Tokens { codes, samples: samples.clone() });
    // Pooled codes are codes of no row, so nothing can be decoded from them.
    inputs.remove(&DICTIONARY);
    for (name, made) in generated {
        // A generator may make more or fewer tokens of a sample; if it does not say so, they are as the real ones.
        let of_store = made.embeddings.as_ref().and_then(|store| store.samples().map(Arc::from));
        let mine: Arc<[u32]> = of_store.unwrap_or_else(|| samples.clone());
        if mine.len() != made.codes.rows() || mine.iter().any(|&sample| sample as usize >= count) {
            return Err(InputError::new(format!("the tokens of the generator `{name}` cannot be pooled"))
                .expected(format!(
                    "rows of {count} samples, {} rows in all or a store that names the samples",
                    samples.len()
                ))
                .found(format!("{} rows", made.codes.rows()))
                .into());
        }
        let pooled = |store: &Arc<ActivationStore>| store.pooled(&mine, count, pool == crate::codes::Pool::First);
        let embeddings = made.embeddings.as_ref().map(pooled).transpose()?.map(Arc::new);
        let codes = Arc::new(made.codes.pooled(&mine, count, pool)?);
        inputs.add(&GENERATED, &name, Generated { codes, embeddings });
        tokens.models.extend(keep.then(|| Tokens { codes: made.codes.clone(), samples: mine }));
    }
    Ok(tokens)
}
