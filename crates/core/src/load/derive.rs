//! Derived inputs: inputs without dropped rows, codes from a dictionary, one row per sample.

use std::path::Path;
use std::sync::Arc;

use super::sample_numbers::SampleNumbers;
use super::tokens::{Tokens, TokensOfSets};
use crate::codes::Pool;
use crate::context::Context;
use crate::error::{InFile, InputError, Key, Result};
use crate::run::{
    AnyRole, CODES, DICTIONARY, DIRECTIONS, EMBEDDINGS, GENERATED, Generated, Inputs, LABELS, PAIR_CODES,
    PAIR_EMBEDDINGS, PAIRS, POOLING, SAE, SAMPLES, TRAINING,
};
use crate::sae::encode_store;
use crate::store::ActivationStore;

/// The detected format of a checkpoint.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Recognised {
    /// Such as "SAELens 6, jumprelu, 24 → 64".
    pub text: String,
    /// Warnings for the user.
    pub notes: Vec<String>,
}

/// Drops rows from all inputs with rows under test, except from the embeddings, whose reader has dropped them already.
pub fn drop_rows(inputs: &mut Inputs, dropped: &[usize]) -> Result<()> {
    if dropped.is_empty() {
        return Ok(());
    }
    if inputs.has(&PAIRS) && !inputs.has(&PAIR_CODES) && !inputs.has(&PAIR_EMBEDDINGS) {
        return Err(InputError::new("rows cannot be dropped while pairs point at them")
            .expected(format!(
                "separate codes of the pairs ({}), or embeddings without NaN and infinity",
                Key("pair-codes")
            ))
            .found(format!("{} rows to drop", dropped.len()))
            .into());
    }
    let kept = |rows: usize| (0..rows).filter(|row| dropped.binary_search(row).is_err()).collect();
    inputs.keep_rows(kept, &EMBEDDINGS)
}

/// Encodes the embeddings and the pair embeddings with the dictionary, if there is one, and fills the roles that follow
/// from it: its directions (unless given), the dictionary and its training record. Without embeddings there are no codes:
/// enough for metrics of directions and of the training.
pub fn encode(inputs: &mut Inputs, context: &Context) -> Result<Option<Recognised>> {
    let Some(sae) = inputs.share(&SAE) else { return Ok(None) };
    let file = inputs.file(&SAE).map(Path::to_path_buf).unwrap_or_default();
    if inputs.has(&CODES) || inputs.has(&PAIR_CODES) {
        return Err(InputError::new("both codes and a dictionary to encode them are given")
            .expected(format!("either {}, or {} and {}", Key("sae"), Key("codes"), Key("pair-codes")))
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

/// Adds the file of a role to an error, if the role was read from one.
pub(super) fn in_file_of<T>(inputs: &Inputs, role: &'static dyn AnyRole, result: Result<T>) -> Result<T> {
    match inputs.file(role) {
        Some(file) => result.in_file(file),
        None => result,
    }
}

/// Pools tokens to one row per sample, if a pooling method is given: codes, nulls, generated rows and true codes by
/// that method; embeddings by their mean, or their first row. Labels are aligned with the samples. With `keep`, returns
/// the codes before pooling.
pub fn pool(inputs: &mut Inputs, keep: bool, notes: &mut Vec<String>) -> Result<TokensOfSets> {
    let mut tokens = TokensOfSets::default();
    let given = inputs.share(&SAMPLES);
    let Some(pool) = inputs.find(&POOLING).copied() else {
        return match given {
            Some(_) => {
                Err(InputError::new(format!("{} requires {}", Key("samples"), Key("pool"))).needs("pool").into())
            }
            None => Ok(tokens),
        };
    };
    let of_store = inputs.find(&EMBEDDINGS).and_then(|store| store.samples().map(<[u32]>::to_vec));
    let samples = given.map(|samples| samples.0.clone()).or(of_store).ok_or_else(|| {
        InputError::new("the sample of each row is unknown")
            .expected(format!(
                "a store or a three-dimensional array of embeddings, or {} with a number per row",
                Key("samples")
            ))
            .advice(format!("leave out {} if every row is a sample", Key("pool")))
    })?;
    let numbers = SampleNumbers::of(&samples);
    if let Some(labels) = inputs.share(&LABELS) {
        let rows = numbers.label_rows(&samples, &labels);
        if let Some(rows) = in_file_of(inputs, &LABELS, rows)? {
            if labels.rows() > rows.len() {
                let extra = labels.rows() - rows.len();
                notes.push(format!(
                    "{extra} of {} rows of the labels belong to no sample and were dropped",
                    labels.rows()
                ));
            }
            inputs.replace(&LABELS, labels.aligned(&rows));
        }
    }
    let count = numbers.count();
    let samples: Arc<[u32]> = numbers.indices(&samples)?.into();
    let generated = inputs.share_all(&GENERATED);
    inputs.remove(&GENERATED);
    let real = inputs.share(&CODES).filter(|_| keep);
    inputs.pool(&samples, count, pool)?;
    tokens.real = real.map(|codes| Tokens { codes, samples: samples.clone() });
    if inputs.has(&DICTIONARY) {
        notes
            .push("pooled codes cannot be decoded: numbers of the reconstruction need the rows without pooling".into());
        inputs.remove(&DICTIONARY);
    }
    for (name, output) in generated {
        // A generator may produce more or fewer tokens per sample. Without sample numbers, its tokens match the real
        // ones.
        let of_store = output.embeddings.as_ref().and_then(|store| store.samples());
        let own_samples: Arc<[u32]> = match of_store {
            Some(own) if SampleNumbers::of(own) == numbers => numbers.indices(own)?.into(),
            Some(own) => return Err(numbers.different(own, &name).into()),
            None => samples.clone(),
        };
        if own_samples.len() != output.codes.rows() {
            return Err(InputError::new(format!("cannot pool the tokens of the generator `{name}`"))
                .expected(format!("rows of {count} samples: {} rows, or a store with sample numbers", samples.len()))
                .found(format!("{} rows", output.codes.rows()))
                .into());
        }
        let pooled = |store: &Arc<ActivationStore>| store.pooled(&own_samples, count, pool == Pool::First);
        let embeddings = output.embeddings.as_ref().map(pooled).transpose()?.map(Arc::new);
        let codes = Arc::new(output.codes.pooled(&own_samples, count, pool)?);
        inputs.add(&GENERATED, &name, Generated { codes, embeddings });
        tokens.models.extend(keep.then(|| Tokens { codes: output.codes.clone(), samples: own_samples }));
    }
    Ok(tokens)
}
