//! Dictionaries that learn nothing, or nothing sparse: the floor that every score is compared with. One file each.
//!
//! They are dictionaries like any other: they can be saved, and encode and decode rows.

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
use crate::error::{InputError, Key, Result};
use crate::store::ActivationStore;
use etalon_kernel::random::stream;

/// What a baseline should be like. A baseline refuses what it cannot be.
#[derive(Clone, Copy, Debug, Default)]
pub struct BaselineParams<'a> {
    /// How many latents.
    pub latents: Option<usize>,
    /// How many of them are active in a row.
    pub k: Option<usize>,
    /// The seed of everything random.
    pub seed: u64,
    /// A dictionary to be like in size and sparsity.
    pub like: Option<&'a dyn Dictionary>,
}

/// A dictionary that is made, not trained.
pub trait Baseline: Send + Sync {
    /// What it is, for people.
    fn card(&self) -> &'static ArchCard;
    /// Makes one for the rows of a store; what takes long says how far it is, and stops when told to.
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

/// Finds a baseline by its name.
pub fn find(name: &str) -> Option<&'static dyn Baseline> {
    BASELINES.iter().copied().find(|baseline| baseline.card().name == name)
}

/// More latents than any dictionary has; beyond that a slip of the hand would fill the memory.
const MOST_LATENTS: usize = 1 << 24;

/// Active latents where nothing is said.
const ACTIVE: usize = 32;

fn check_size(latents: usize, k: usize) -> Result<()> {
    if !(1..=MOST_LATENTS).contains(&latents) {
        return Err(InputError::new("a baseline cannot have that many latents")
            .expected(format!("from 1 to {MOST_LATENTS} latents"))
            .found(latents)
            .into());
    }
    if !(1..=latents).contains(&k) {
        return Err(InputError::new("a baseline cannot have that many active latents per row")
            .expected(format!("k from 1 to {latents}, the number of latents"))
            .found(k)
            .into());
    }
    Ok(())
}

impl BaselineParams<'_> {
    fn latents(&self, name: &str) -> Result<usize> {
        self.latents.ok_or_else(|| {
            let missing = InputError::new(format!("nothing says how many latents `{name}` should have"));
            missing.expected("a number of latents").advice(format!("add {} L", Key("latents"))).into()
        })
    }

    /// Complains if something was asked for that means nothing here.
    fn refuse(&self, name: &str, latents: bool, k: bool, like: bool) -> Result<()> {
        let given = [
            ("latents", latents && self.latents.is_some()),
            ("k", k && self.k.is_some()),
            ("like", like && self.like.is_some()),
        ];
        match given.iter().find(|(_, given)| *given) {
            None => Ok(()),
            Some((option, _)) => Err(InputError::new(format!("{} has no effect on `{name}`", Key(option)))
                .advice(format!("leave it out; `etalon archs {name}` describes the options"))
                .into()),
        }
    }
}

/// Memory for a dictionary.
fn reserve(latents: usize, width: usize, context: &Context) -> Result<Reservation> {
    context.budget().reserve(Linear::bytes(latents, width), format!("a dictionary of {latents} latents"))
}

fn check_rows(store: &ActivationStore, name: &str) -> Result<()> {
    if store.rows() > 0 {
        return Ok(());
    }
    let complaint = InputError::new(format!("there are no rows to make `{name}` from"));
    Err(complaint.expected("at least one row").found("0 rows").into())
}

/// Random directions of length 1, one after the other.
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

/// Rows that are looked at together.
const PIECE: usize = 960;

/// The mean row, each normalised first.
fn mean_row(store: &ActivationStore, input: Normalisation) -> Result<Vec<f64>> {
    let mut sum = vec![0.0f64; store.width()];
    let mut normal = vec![0.0; store.width()];
    for rows in pieces(store.rows()) {
        let tile = store.tile(rows)?;
        for row in tile.values.chunks_exact(store.width()) {
            input.of(row).apply(row, &mut normal);
            sum.iter_mut().zip(&normal).for_each(|(sum, &value)| *sum += f64::from(value));
        }
    }
    Ok(sum.into_iter().map(|sum| sum / store.rows().max(1) as f64).collect())
}

fn pieces(rows: usize) -> Vec<std::ops::Range<usize>> {
    (0..rows).step_by(PIECE).map(|first| first..(first + PIECE).min(rows)).collect()
}

/// Asks something about the codes of every piece of a store, on all threads, and adds the answers.
fn count_codes<T: Send>(
    dictionary: &dyn Dictionary,
    store: &ActivationStore,
    nothing: impl Fn() -> T + Sync + Send,
    look: impl Fn(&mut T, &[f32]) + Sync + Send,
    add: impl Fn(T, T) -> T + Sync + Send,
) -> Result<T> {
    // Few rows at a time where all latents may fire.
    let latents = dictionary.card().latents;
    let rows = ((4 << 20) / latents.max(1)).clamp(12, PIECE);
    let starts: Vec<usize> = (0..store.rows()).step_by(rows).collect();
    let one = |mut total: T, first: &usize| -> Result<T> {
        let mut codes = CodesBuilder::new(latents);
        dictionary.encode(&store.tile(*first..(first + rows).min(store.rows()))?, &mut codes)?;
        let codes = codes.finish();
        codes.all()?.iter().for_each(|(_, _, values)| look(&mut total, values));
        Ok(total)
    };
    starts.par_iter().try_fold(&nothing, one).try_reduce(&nothing, |a, b| Ok(add(a, b)))
}
