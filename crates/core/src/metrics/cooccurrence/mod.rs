//! Co-occurrence: do generated images combine concepts as real ones do?

mod card;
mod counts;
mod line;
mod lines;
mod numbers;
mod pairs;
mod partners;
mod spectrum;
mod summary;
#[cfg(test)]
mod tests;

use std::sync::Arc;

use super::{Card, Metric};
use crate::codes::{Codes, Pool};
use crate::error::{Error, Result};
use crate::kernel::random::{permutation, stream};
use crate::results::Profile;
use crate::run::{Job, Next};
use card::CARD;
use counts::GROUPS;
pub use partners::{Partner, Together, partners};

/// Which latents fire together, in real rows and in generated ones.
pub struct Cooccurrence;

impl Metric for Cooccurrence {
    fn card(&self) -> &'static Card {
        &CARD
    }

    fn start(&self, job: &Job<'_>) -> Result<Next> {
        let sets = Sets::new(job)?;
        let place = counts::place_of(job.number("epsilon")?);
        let lines = lines::Lines::new(sets, place, job.whole("partners")?)?;
        let bytes = (rayon::current_num_threads() as u64).saturating_mul(lines.bytes());
        job.budget.take(bytes, format!("the co-occurrences of {} latents", lines.latents()))?;
        Ok(Next::Blocks(Box::new(lines)))
    }
}

/// The rows that are compared.
#[derive(Clone)]
struct Sets {
    real: Arc<Codes>,
    models: Vec<(String, Arc<Codes>)>,
    /// The group of every row. All tokens of an image are in one, and a generated row in that of its real one.
    groups: Arc<Vec<u8>>,
    /// Are entries sums over rows, as in the released program, or means?
    sums: bool,
    /// Were rows pooled here?
    images: Option<usize>,
}

impl Sets {
    fn new(job: &Job<'_>) -> Result<Sets> {
        job.codes()?;
        let mut real = job.inputs.codes.clone().ok_or_else(|| Error::Bug("codes that are not there".into()))?;
        let mut models: Vec<(String, Arc<Codes>)> =
            job.models()?.iter().map(|model| (model.name.clone(), model.codes.clone())).collect();
        let mut samples = job.inputs.embeddings.as_deref().and_then(|store| store.samples()).map(<[u32]>::to_vec);
        let mut images = None;
        if let Some(of_row) = samples.take_if(|_| job.params.get("level").is_some_and(|level| level == "image")) {
            let count = of_row.iter().max().map_or(0, |&last| last as usize + 1);
            let pooled = |codes: &Codes| codes.pooled(&of_row, count, Pool::Sum).map(Arc::new);
            real = pooled(&real)?;
            models = models.into_iter().map(|(name, codes)| Ok((name, pooled(&codes)?))).collect::<Result<_>>()?;
            images = Some(count);
        }
        let sample = |row: usize| samples.as_ref().map_or(row, |samples| samples[row] as usize);
        let count = (0..real.rows()).map(|row| sample(row) + 1).max().unwrap_or(0);
        let mut group_of = vec![0u8; count];
        for (place, sample) in
            permutation(count, &mut stream(job.seed, "cooccurrence/groups", 0)).into_iter().enumerate()
        {
            group_of[sample] = (place % GROUPS) as u8;
        }
        let groups = (0..real.rows()).map(|row| group_of[sample(row)]).collect::<Vec<u8>>().into();
        Ok(Sets { real, models, groups, sums: job.profile == Profile::Reference, images })
    }

    /// The real rows, then those of every model.
    fn all(&self) -> impl Iterator<Item = &Arc<Codes>> {
        std::iter::once(&self.real).chain(self.models.iter().map(|model| &model.1))
    }

    fn is_second_half(&self, group: u8) -> bool {
        usize::from(group) >= GROUPS / 2
    }
}
