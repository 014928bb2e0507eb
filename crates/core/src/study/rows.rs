//! Rows that are left out, and rows that become one: whatever happens to the rows happens to all inputs alike.

use std::sync::Arc;

use super::tokens::{Tokens, TokensOfSets};
use crate::codes::{Codes, Pool};
use crate::error::{Complaint, Result};
use crate::run::{Inputs, Truth};
use crate::store::ActivationStore;

/// Leaves out rows of everything that is about the rows, except the embeddings, which lost them already.
pub fn leave_out(inputs: &mut Inputs, dropped: &[usize]) -> Result<()> {
    if dropped.is_empty() {
        return Ok(());
    }
    if inputs.pairs.is_some() && inputs.pair_codes.is_none() && inputs.pair_embeddings.is_none() {
        return Err(Complaint::new("rows cannot be left out while pairs point at them")
            .expected("pairs with codes of their own (`pair-codes`), or embeddings without NaN and infinity")
            .found(format!("{} rows to leave out", dropped.len()))
            .into());
    }
    let kept = |rows: usize| (0..rows).filter(|row| dropped.binary_search(row).is_err()).collect::<Vec<_>>();
    let select = |codes: &Arc<Codes>| codes.select(&kept(codes.rows())).map(Arc::new);
    inputs.codes = inputs.codes.as_ref().map(select).transpose()?;
    inputs.nulls = inputs.nulls.iter().map(select).collect::<Result<_>>()?;
    for model in &mut inputs.models {
        model.codes = select(&model.codes)?;
    }
    inputs.labels = inputs.labels.as_ref().map(|labels| Arc::new(labels.select(&kept(labels.rows()))));
    if let Some(truth) = &inputs.truth {
        let (codes, directions) = (select(&truth.codes)?, truth.directions.clone());
        inputs.truth = Some(Arc::new(Truth { codes, directions }));
    }
    Ok(())
}

/// Makes one row per sample of codes, nulls, models and true codes; embeddings become their mean, or the first. Gives the
/// codes as they were before, if they are to be kept: they are the larger part of the memory.
pub fn pool(inputs: &mut Inputs, pool: Pool, samples: Option<Vec<u32>>, keep: bool) -> Result<TokensOfSets> {
    let of_store = inputs.embeddings.as_ref().and_then(|store| store.samples().map(<[u32]>::to_vec));
    let samples = samples.or(of_store).ok_or_else(|| {
        Complaint::new("nothing says which rows belong to one sample")
            .expected("a store or a three-dimensional array of embeddings, or `samples` with a number per row")
            .advice("leave out `pool` if every row is a sample")
    })?;
    let largest = samples.iter().max().map_or(0, |&sample| sample as usize + 1);
    // Labels are per sample and may speak of samples that have no row.
    let count = inputs.labels.as_ref().map_or(largest, |labels| labels.rows().max(largest));
    let samples: Arc<[u32]> = samples.into();
    let pooled = |codes: &Arc<Codes>| codes.pooled(&samples, count, pool).map(Arc::new);
    let mut tokens = TokensOfSets::default();
    let real = inputs.codes.take();
    inputs.codes = real.as_ref().map(pooled).transpose()?;
    tokens.real = real.filter(|_| keep).map(|codes| Tokens { codes, samples: samples.clone() });
    // Pooled codes are codes of no row, so that nothing can be decoded from them.
    inputs.dictionary = None;
    inputs.nulls = inputs.nulls.iter().map(pooled).collect::<Result<_>>()?;
    inputs.pooling = Some(pool);
    for model in &mut inputs.models {
        // A generator may make more or fewer tokens of a sample; if it does not say so, they are as the real ones.
        let of_store = model.embeddings.as_ref().and_then(|store| store.samples().map(Arc::from));
        let mine: Arc<[u32]> = of_store.unwrap_or_else(|| samples.clone());
        if mine.len() != model.codes.rows() || mine.iter().any(|&sample| sample as usize >= count) {
            return Err(Complaint::new(format!("the tokens of the model `{}` cannot be pooled", model.name))
                .expected(format!(
                    "rows of {count} samples, {} rows in all or a store that names the samples",
                    samples.len()
                ))
                .found(format!("{} rows", model.codes.rows()))
                .into());
        }
        let pooled = Arc::new(model.codes.pooled(&mine, count, pool)?);
        if let Some(store) = &model.embeddings {
            model.embeddings = Some(Arc::new(one_row_each(store, &mine, count, pool)?));
        }
        let codes = std::mem::replace(&mut model.codes, pooled);
        tokens.models.extend(keep.then_some(Tokens { codes, samples: mine }));
    }
    if let Some(truth) = &inputs.truth {
        let (codes, directions) = (pooled(&truth.codes)?, truth.directions.clone());
        inputs.truth = Some(Arc::new(Truth { codes, directions }));
    }
    inputs.embeddings =
        inputs.embeddings.as_ref().map(|store| one_row_each(store, &samples, count, pool).map(Arc::new)).transpose()?;
    Ok(tokens)
}

/// The mean row of every sample, or its first if codes take that; a sample without rows is zero.
fn one_row_each(store: &ActivationStore, samples: &[u32], count: usize, pool: Pool) -> Result<ActivationStore> {
    if samples.len() != store.rows() {
        return Err(Complaint::new("sample numbers do not cover the embeddings")
            .expected(format!("{} numbers, one per row", store.rows()))
            .found(samples.len())
            .into());
    }
    let width = store.width();
    let (mut sums, mut rows) = (vec![0.0f64; count * width], vec![0usize; count]);
    for first in (0..store.rows()).step_by(4096) {
        let tile = store.tile(first..(first + 4096).min(store.rows()))?;
        for (place, row) in tile.values.chunks_exact(width).enumerate() {
            let sample = samples[first + place] as usize;
            if pool == Pool::First && rows[sample] > 0 {
                continue;
            }
            rows[sample] += 1;
            sums[sample * width..][..width].iter_mut().zip(row).for_each(|(sum, &value)| *sum += f64::from(value));
        }
    }
    let mean = |(place, sum): (usize, &f64)| (sum / rows[place / width].max(1) as f64) as f32;
    ActivationStore::from_rows(sums.iter().enumerate().map(mean).collect(), width)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::labels::{Annotations, Label};
    use crate::run::Model;

    fn inputs() -> Inputs {
        let labels = Annotations::new(vec!["a".into()], 3, |row, _| if row == 1 { Label::Yes } else { Label::No });
        Inputs {
            codes: Some(Codes::from_dense(&[1.0, 0.0, 2.0, 0.0, 0.0, 3.0], 2).unwrap().into()),
            embeddings: Some(ActivationStore::from_rows(vec![1.0, 3.0, 5.0], 1).unwrap().into()),
            models: vec![Model {
                name: "a".into(),
                codes: Codes::from_dense(&[0.0, 4.0, 5.0, 0.0, 6.0, 0.0], 2).unwrap().into(),
                embeddings: None,
            }],
            labels: Some(labels.unwrap().into()),
            ..Inputs::default()
        }
    }

    #[test]
    fn all_inputs_lose_the_same_rows() {
        let mut inputs = inputs();
        leave_out(&mut inputs, &[0]).unwrap();
        assert_eq!(inputs.codes.unwrap().all().unwrap().row(0), (&[0u32][..], &[2.0f32][..]));
        assert_eq!(inputs.models[0].codes.all().unwrap().row(0), (&[0u32][..], &[5.0f32][..]));
        assert_eq!(inputs.labels.unwrap().label(0, crate::labels::Concept(0)), Label::Yes);
    }

    #[test]
    fn tokens_become_samples() {
        // Rows 0 and 2 are sample 0; sample 1 is row 1; sample 2 has a label and no row.
        let mut inputs = inputs();
        let tokens = pool(&mut inputs, Pool::Max, Some(vec![0, 1, 0]), true).unwrap();
        let real = tokens.real.unwrap();
        assert_eq!((real.codes.rows(), &*real.samples, tokens.models.len()), (3, &[0u32, 1, 0][..], 1));
        let codes = inputs.codes.unwrap();
        assert_eq!(codes.rows(), 3);
        assert_eq!(codes.all().unwrap().row(0), (&[0u32, 1][..], &[1.0f32, 3.0][..]));
        assert_eq!(&*inputs.embeddings.unwrap().tile(0..3).unwrap().values, &[3.0, 3.0, 0.0]);
        assert!(pool(&mut self::inputs(), Pool::Max, None, true).is_err());
        assert_eq!(inputs.models[0].codes.all().unwrap().row(0), (&[0u32, 1][..], &[6.0f32, 4.0][..]));
        assert_eq!(inputs.pooling, Some(Pool::Max));
        let mut first = self::inputs();
        let none = pool(&mut first, Pool::First, Some(vec![0, 1, 0]), false).unwrap();
        assert!(none.real.is_none() && none.models.is_empty());
        assert_eq!(first.models[0].codes.all().unwrap().row(0), (&[1u32][..], &[4.0f32][..]));
        assert_eq!(&*first.embeddings.unwrap().tile(0..3).unwrap().values, &[1.0, 3.0, 0.0]);
        let mut short = self::inputs();
        short.models[0].codes = Codes::from_dense(&[1.0, 1.0], 2).unwrap().into();
        let error = pool(&mut short, Pool::Max, Some(vec![0, 1, 0]), true).unwrap_err().to_string();
        assert!(error.contains("tokens of the model `a`"), "{error}");
    }
}
