//! The spaces in which rows are compared.

use rayon::prelude::*;

use super::check_widths;
use super::frechet::{Moments, Part, Products, Rows};
use crate::budget::Taken;
use crate::codes::Codes;
use crate::error::Result;
use crate::kernel::random::{permutation, stream};
use crate::run::Job;
use crate::sae::{Dictionary, Linear};
use crate::store::ActivationStore;

/// The real rows and those of every model in one space.
pub(super) struct Space {
    form: Form,
    _memory: Taken,
}

enum Form {
    /// By covariances of all rows.
    Short { real: Moments, models: Vec<Moments>, rows: usize },
    /// By products of a sample of rows.
    Long { groups: Vec<u8>, real: Vec<f64>, models: Vec<[Vec<f64>; 2]> },
}

impl Space {
    /// A space, or `None` with a note if what it needs is not there.
    pub fn new(name: &str, groups: &[u8], job: &Job<'_>, notes: &mut Vec<String>) -> Result<Option<Space>> {
        match name {
            "features" => features(groups, job, notes),
            "reconstructions" => reconstructions(groups, job, notes),
            _ => codes(groups, job).map(Some),
        }
    }

    /// How many rows of each set are compared.
    pub fn rows(&self) -> usize {
        match &self.form {
            Form::Short { rows, .. } => *rows,
            Form::Long { groups, .. } => groups.len(),
        }
    }

    /// The distance of a part of the real rows from a part of a model's (or of the real ones).
    pub fn distance(&self, mine: Part, model: Option<usize>, theirs: Part) -> Result<Option<f64>> {
        match &self.form {
            Form::Short { real, models, .. } => real.distance(mine, model.map_or(real, |model| &models[model]), theirs),
            Form::Long { groups, real, models } => {
                let [between, within] = model.map_or([real, real], |model| [&models[model][0], &models[model][1]]);
                let products = Products { groups: [groups, groups], between, within: [real, within] };
                products.distance([mine, theirs])
            }
        }
    }
}

type Fill<'a> = Box<dyn Fn(usize, &mut [f64]) -> Result<()> + Sync + 'a>;

/// By covariances; the first set is that of the real rows.
fn short(dimensions: usize, groups: &[u8], sets: &[Fill<'_>], what: &str, job: &Job<'_>) -> Result<Space> {
    let threads = rayon::current_num_threads().min(super::GROUPS) as u64;
    let square = (dimensions as u64).saturating_mul(dimensions as u64).saturating_mul(8);
    let each = (super::GROUPS as u64 * sets.len() as u64 + 6 * threads).saturating_mul(square);
    let _memory = job.budget.take(each, format!("covariances of {dimensions} dimensions of {what}"))?;
    // Centred on the first rows: any point near them does.
    let mut centre = vec![0.0; dimensions];
    let some = groups.len().min(256);
    for row in 0..some {
        let mut line = vec![0.0; dimensions];
        sets[0](row, &mut line)?;
        centre.iter_mut().zip(&line).for_each(|(sum, value)| *sum += value / some as f64);
    }
    let moments = |fill: &Fill<'_>| Moments::new(&Rows { dimensions, groups, fill: &**fill }, &centre);
    let real = moments(&sets[0])?;
    let models = sets[1..].iter().map(moments).collect::<Result<Vec<_>>>()?;
    Ok(Space { form: Form::Short { real, models, rows: groups.len() }, _memory })
}

fn embedding<'a>(store: &'a ActivationStore) -> Fill<'a> {
    Box::new(move |row, into| {
        let tile = store.tile(row..row + 1)?;
        into.iter_mut().zip(tile.row(0)).for_each(|(into, &value)| *into = f64::from(value));
        Ok(())
    })
}

fn features(groups: &[u8], job: &Job<'_>, notes: &mut Vec<String>) -> Result<Option<Space>> {
    let models = job.models()?;
    let real = job.inputs.embeddings.as_deref();
    let generated: Option<Vec<&ActivationStore>> = models.iter().map(|model| model.embeddings.as_deref()).collect();
    let Some((real, generated)) = real.zip(generated) else {
        notes.push("without embeddings of the real rows and of every model there is no distance of features".into());
        return Ok(None);
    };
    for (model, store) in models.iter().zip(&generated) {
        check_widths(real.width(), &model.name, store.width())?;
    }
    let sets: Vec<Fill<'_>> = std::iter::once(real).chain(generated).map(embedding).collect();
    short(real.width(), groups, &sets, "features", job).map(Some)
}

fn reconstructions(groups: &[u8], job: &Job<'_>, notes: &mut Vec<String>) -> Result<Option<Space>> {
    let Some(dictionary) = job.inputs.dictionary.as_deref() else {
        notes.push("without the dictionary there is no distance of reconstructions".into());
        return Ok(None);
    };
    let width = dictionary.card().width;
    let real = decoded(dictionary, job.codes()?, job.inputs.embeddings.as_deref());
    let models = job.models()?.iter().map(|model| decoded(dictionary, &model.codes, model.embeddings.as_deref()));
    let sets: Vec<Fill<'_>> = std::iter::once(real).chain(models).collect();
    short(width, groups, &sets, "reconstructions", job).map(Some)
}

fn decoded<'a>(dictionary: &'a Linear, codes: &'a Codes, source: Option<&'a ActivationStore>) -> Fill<'a> {
    Box::new(move |row, into| {
        let tile = source.map(|store| store.tile(row..row + 1)).transpose()?;
        let mut line = vec![0f32; into.len()];
        dictionary.decode(&codes.view(row..row + 1)?, tile.as_ref(), &mut line)?;
        into.iter_mut().zip(line).for_each(|(into, value)| *into = f64::from(value));
        Ok(())
    })
}

fn codes(groups: &[u8], job: &Job<'_>) -> Result<Space> {
    let sets: Vec<&Codes> =
        std::iter::once(job.codes()?).chain(job.models()?.iter().map(|model| &*model.codes)).collect();
    let mut place = vec![u32::MAX; sets[0].latents()];
    for codes in &sets {
        for (_, latents, _) in codes.all()?.iter() {
            latents.iter().for_each(|&latent| place[latent as usize] = 0);
        }
    }
    let alive: Vec<usize> = (0..place.len()).filter(|&latent| place[latent] == 0).collect();
    alive.iter().enumerate().for_each(|(at, &latent)| place[latent] = at as u32);
    let sample = job.whole("most_rows")?;
    if alive.len() > sample {
        return long(groups, &sets, sample, job);
    }
    let sets = sets.into_iter().map(|codes| active(codes, &place)).collect::<Result<Vec<_>>>()?;
    short(alive.len(), groups, &sets, "codes", job)
}

/// The latents that have a place, at that place.
fn active<'a>(codes: &'a Codes, place: &'a [u32]) -> Result<Fill<'a>> {
    let all = codes.all()?;
    Ok(Box::new(move |row, into| {
        let (latents, values) = all.row(row);
        for (&latent, &value) in latents.iter().zip(values) {
            into[place[latent as usize] as usize] = f64::from(value);
        }
        Ok(())
    }))
}

/// By products of a sample of rows, the same in every set.
fn long(groups: &[u8], sets: &[&Codes], sample: usize, job: &Job<'_>) -> Result<Space> {
    let rows = sample.min(groups.len());
    let threads = rayon::current_num_threads() as u64;
    let matrices = 2 * sets.len() as u64 + 3 * threads;
    let bytes = (rows as u64 * rows as u64).saturating_mul(8 * matrices);
    let _memory = job.budget.take(bytes, format!("products of {rows} rows of codes (--most-rows takes fewer)"))?;
    let mut picked = permutation(groups.len(), &mut stream(job.seed, "fid/sample", 0));
    picked.truncate(rows);
    picked.sort_unstable();
    let products = |a: &Codes, b: &Codes| -> Result<Vec<f64>> {
        let (first, second) = (a.all()?, b.all()?);
        let lines = picked.par_iter().map_init(
            || vec![0f64; a.latents()],
            |dense, &row| {
                let (latents, values) = first.row(row);
                latents.iter().zip(values).for_each(|(&latent, &value)| dense[latent as usize] = f64::from(value));
                let product = |&other: &usize| {
                    let (latents, values) = second.row(other);
                    latents.iter().zip(values).map(|(&l, &value)| dense[l as usize] * f64::from(value)).sum::<f64>()
                };
                let line: Vec<f64> = picked.iter().map(product).collect();
                latents.iter().for_each(|&latent| dense[latent as usize] = 0.0);
                line
            },
        );
        Ok(lines.flatten_iter().collect())
    };
    let real = products(sets[0], sets[0])?;
    let models = sets[1..]
        .iter()
        .map(|model| Ok([products(sets[0], model)?, products(model, model)?]))
        .collect::<Result<Vec<_>>>()?;
    let groups = picked.iter().map(|&row| groups[row]).collect();
    Ok(Space { form: Form::Long { groups, real, models }, _memory })
}
