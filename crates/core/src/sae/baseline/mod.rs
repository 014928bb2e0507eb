//! Baselines: dictionaries without learned sparse features, which every score should be compared with. One file each.
//!
//! They implement [`Dictionary`]: they encode and decode rows, and can be saved.

mod identity;
mod kmeans;
mod pca;
mod random;
#[cfg(test)]
mod tests;
mod untrained;

pub use random::{RandomDictionary, random_codes, random_codes_within};
pub use untrained::untrained;

use rand_distr::{Distribution, StandardNormal};
use rayon::prelude::*;

use super::card::ArchCard;
use super::dictionary::Dictionary;
use super::linear::Linear;
use super::normalise::Normalisation;
use crate::codes::CodesBuilder;
use crate::context::{Context, Reservation};
use crate::error::{Command, InputError, Key, Result};
use crate::store::ActivationStore;
use etalon_kernel::random::stream;

/// The parameters of a baseline. A baseline refuses those that it does not have.
#[derive(Clone, Copy, Debug, Default)]
pub struct BaselineParams<'a> {
    /// Number of latents.
    pub latents: Option<usize>,
    /// Number of active latents per row.
    pub k: Option<usize>,
    /// Random seed.
    pub seed: u64,
    /// A dictionary whose size and sparsity to copy.
    pub like: Option<&'a dyn Dictionary>,
}

/// A dictionary that needs no training.
pub trait Baseline: Send + Sync {
    /// Documentation.
    fn card(&self) -> &'static ArchCard;
    /// Builds the dictionary for the rows of a store. Reports progress, and stops when the context is cancelled.
    fn make(
        &self,
        store: &ActivationStore,
        params: &BaselineParams<'_>,
        context: &Context,
    ) -> Result<Box<dyn Dictionary>>;
}

/// Every baseline.
pub const BASELINES: &[&dyn Baseline] =
    &[&untrained::Untrained, &random::Random, &identity::Identity, &pca::Pca, &kmeans::Kmeans];

/// The baseline of a name.
pub fn find(name: &str) -> Option<&'static dyn Baseline> {
    BASELINES.iter().copied().find(|baseline| baseline.card().name == name)
}

/// Maximum number of latents: larger numbers are typing errors that would exhaust the memory.
const MAX_LATENTS: usize = 1 << 24;

/// Default number of active latents per row.
const DEFAULT_K: usize = 32;

fn check_size(latents: usize, k: usize) -> Result<()> {
    if !(1..=MAX_LATENTS).contains(&latents) {
        return Err(InputError::new("the number of latents is out of range")
            .expected(format!("from 1 to {MAX_LATENTS} latents"))
            .found(latents)
            .into());
    }
    if !(1..=latents).contains(&k) {
        return Err(InputError::new("the number of active latents per row is out of range")
            .expected(format!("k from 1 to {latents}, the number of latents"))
            .found(k)
            .into());
    }
    Ok(())
}

impl BaselineParams<'_> {
    fn latents(&self, name: &str) -> Result<usize> {
        self.latents.ok_or_else(|| {
            InputError::new(format!("{} is required for `{name}`", Key("latents")))
                .expected("a number of latents")
                .into()
        })
    }

    /// Refuses the flagged parameters if they are given.
    fn refuse(&self, name: &str, latents: bool, k: bool, like: bool) -> Result<()> {
        let given = [
            ("latents", latents && self.latents.is_some()),
            ("k", k && self.k.is_some()),
            ("like", like && self.like.is_some()),
        ];
        match given.iter().find(|(_, given)| *given) {
            None => Ok(()),
            Some((option, _)) => Err(InputError::new(format!("{} has no effect on `{name}`", Key(option)))
                .advice(format!("leave it out; {} describes the options", Command(format!("archs {name}"))))
                .into()),
        }
    }
}

/// Reserves memory for a dictionary.
fn reserve(latents: usize, width: usize, context: &Context) -> Result<Reservation> {
    context.budget().reserve(Linear::bytes(latents, width), format!("a dictionary of {latents} latents"))
}

fn check_rows(store: &ActivationStore, name: &str) -> Result<()> {
    if store.rows() > 0 {
        return Ok(());
    }
    Err(InputError::new(format!("there are no rows to fit `{name}` to"))
        .expected("at least one row")
        .found("0 rows")
        .into())
}

/// Random unit directions, one row per latent.
fn directions(latents: usize, width: usize, seed: u64, purpose: &str) -> Vec<f32> {
    let mut directions = Vec::with_capacity(latents * width);
    let mut random = stream(seed, purpose, 0);
    for _ in 0..latents {
        let row: Vec<f64> = (0..width).map(|_| StandardNormal.sample(&mut random)).collect();
        let norm = row.iter().map(|v| v * v).sum::<f64>().sqrt().max(f64::MIN_POSITIVE);
        directions.extend(row.iter().map(|v| (v / norm) as f32));
    }
    directions
}

/// Maximum rows that are read together.
const CHUNK_ROWS: usize = 960;

/// The mean of the normalised rows.
fn mean_row(store: &ActivationStore, input: Normalisation) -> Result<Vec<f64>> {
    let mut sum = vec![0.0f64; store.width()];
    let mut normal = vec![0.0; store.width()];
    for rows in row_chunks(store.rows()) {
        let tile = store.tile(rows)?;
        for row in tile.values.chunks_exact(store.width()) {
            input.of(row).apply(row, &mut normal);
            sum.iter_mut().zip(&normal).for_each(|(sum, &value)| *sum += f64::from(value));
        }
    }
    Ok(sum.into_iter().map(|sum| sum / store.rows().max(1) as f64).collect())
}

fn row_chunks(rows: usize) -> Vec<std::ops::Range<usize>> {
    (0..rows).step_by(CHUNK_ROWS).map(|first| first..(first + CHUNK_ROWS).min(rows)).collect()
}

/// Folds the codes of every row of a store, on all threads: `fold` adds the codes of a row to a partial result, and
/// `merge` adds two partial results.
fn fold_codes<T: Send>(
    dictionary: &dyn Dictionary,
    store: &ActivationStore,
    zero: impl Fn() -> T + Sync + Send,
    fold: impl Fn(&mut T, &[f32]) + Sync + Send,
    merge: impl Fn(T, T) -> T + Sync + Send,
) -> Result<T> {
    // Fewer rows at a time for large dictionaries, where all latents may fire.
    let latents = dictionary.card().latents;
    let rows = ((4 << 20) / latents.max(1)).clamp(12, CHUNK_ROWS);
    let starts: Vec<usize> = (0..store.rows()).step_by(rows).collect();
    let fold_chunk = |mut total: T, first: &usize| -> Result<T> {
        let mut codes = CodesBuilder::new(latents);
        dictionary.encode(&store.tile(*first..(first + rows).min(store.rows()))?, &mut codes)?;
        let codes = codes.finish();
        codes.all()?.iter().for_each(|(_, _, values)| fold(&mut total, values));
        Ok(total)
    };
    starts.par_iter().try_fold(&zero, fold_chunk).try_reduce(&zero, |a, b| Ok(merge(a, b)))
}
