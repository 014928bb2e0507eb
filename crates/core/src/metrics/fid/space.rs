//! The spaces in which rows are compared.

use super::frechet::{Fill, GROUPS, Moments, Part, Products, by_covariances};
use crate::codes::Codes;
use crate::context::Reservation;
use crate::error::{InputError, Key, Result};
use crate::run::{CODES, Count, DICTIONARY, EMBEDDINGS, GENERATED, Job, Lazy, List, Over, Work};
use crate::sae::Dictionary;
use crate::store::ActivationStore;
use etalon_kernel::random::{permutation, stream};

/// The distances in one space.
pub(super) struct SpaceDistances {
    /// Number of rows of each set that are compared.
    pub rows: usize,
    /// Number of dimensions.
    pub dimensions: usize,
    /// Between two halves of the real rows.
    pub floor: Option<f64>,
    pub models: Vec<ModelDistances>,
}

/// The distances of one model in one space.
pub(super) struct ModelDistances {
    pub whole: Option<f64>,
    pub half: Option<f64>,
    /// Without each group of rows.
    pub without: Vec<Option<f64>>,
}

/// A part of the real rows, and a part of the rows of a model (`None`: of the real rows).
struct ComparedParts {
    real: Part,
    model: Option<usize>,
    generated: Part,
}

/// The comparisons of a model: all rows, both assignments of halves, and all rows without each group.
fn of_model(model: usize) -> impl Iterator<Item = ComparedParts> {
    let halves = [(Part::All, Part::All), (Part::Half(false), Part::Half(true)), (Part::Half(true), Part::Half(false))];
    let without = (0..GROUPS).map(|group| (Part::Without(group), Part::Without(group)));
    let comparison = move |(real, generated)| ComparedParts { real, model: Some(model), generated };
    halves.into_iter().chain(without).map(comparison)
}

/// All comparisons: the real halves, then those of every model.
fn comparisons(models: usize) -> Vec<ComparedParts> {
    let floor = ComparedParts { real: Part::Half(false), model: None, generated: Part::Half(true) };
    std::iter::once(floor).chain((0..models).flat_map(of_model)).collect()
}

impl SpaceDistances {
    /// From the distances of [`comparisons`].
    fn new(rows: usize, dimensions: usize, found: &[Option<f64>]) -> SpaceDistances {
        let estimate = |found: &[Option<f64>]| ModelDistances {
            whole: found[0],
            half: found[1].zip(found[2]).map(|(a, b)| 0.5 * (a + b)),
            without: found[3..].to_vec(),
        };
        let models = found[1..].chunks_exact(3 + GROUPS).map(estimate).collect();
        SpaceDistances { rows, dimensions, floor: found[0], models }
    }
}

/// The group of every row, at random.
struct Groups {
    of_row: Vec<u8>,
    _memory: Reservation,
}

impl Groups {
    fn new(job: &Job<'_>) -> Result<Groups> {
        let rows = job.get(&CODES)?.rows();
        let mut memory = job.budget().reserve(9 * rows as u64, "groups of rows")?;
        let mut of_row = vec![0u8; rows];
        for (position, row) in permutation(rows, &mut stream(job.seed, "fid/groups", 0)).into_iter().enumerate() {
            of_row[row] = (position % GROUPS) as u8;
        }
        memory.resize(rows as u64, "groups of rows")?;
        Ok(Groups { of_row, _memory: memory })
    }
}

/// The distances by covariances; the first set has the real rows.
fn few_dimensions(
    space: &str,
    dimensions: usize,
    sets: &[Box<Fill<'_>>],
    job: &Job<'_>,
    work: &mut Work<'_>,
) -> Result<SpaceDistances> {
    let rows = job.get(&CODES)?.rows();
    let bytes = (dimensions as u64).saturating_pow(2).saturating_mul(8 * (GROUPS * sets.len()) as u64);
    drop(job.budget().reserve(bytes, format!("covariances of {dimensions} dimensions of {space}"))?);
    // Centred on the mean of the first rows: any point near the rows will do.
    let mut centre = vec![0.0; dimensions];
    let first_rows = rows.min(256);
    for row in 0..first_rows {
        let mut values = vec![0.0; dimensions];
        sets[0](row, &mut values)?;
        centre.iter_mut().zip(&values).for_each(|(sum, value)| *sum += value / first_rows as f64);
    }
    let groups = Lazy::new(|| Groups::new(job));
    let moments = work.blocks_with(&groups, "groups of rows", sets.len() * GROUPS, |groups, block| {
        let (set, group) = (block / GROUPS, block % GROUPS);
        let rows: Vec<usize> = (0..rows).filter(|&row| usize::from(groups.of_row[row]) == group).collect();
        Moments::of(&rows, &sets[set], &centre, job)
    })?;
    let of_set = |set: usize| &moments[set * GROUPS..(set + 1) * GROUPS];
    let comparisons = comparisons(sets.len() - 1);
    let found = work.blocks("distances", comparisons.len(), |block| {
        let ComparedParts { real, model, generated } = comparisons[block];
        by_covariances((of_set(0), real), (of_set(model.map_or(0, |model| model + 1)), generated), job)
    })?;
    Ok(SpaceDistances::new(rows, dimensions, &found))
}

fn embedding(store: &ActivationStore) -> Box<Fill<'_>> {
    Box::new(move |row, into| {
        let tile = store.tile(row..row + 1)?;
        into.iter_mut().zip(tile.row(0)).for_each(|(into, &value)| *into = f64::from(value));
        Ok(())
    })
}

/// On features; `None` without embeddings of all sets.
pub(super) fn features(job: &Job<'_>, work: &mut Work<'_>) -> Result<Option<SpaceDistances>> {
    let models = job.all(&GENERATED);
    let real = job.find(&EMBEDDINGS);
    let generated: Option<Vec<&ActivationStore>> =
        models.iter().map(|(_, model)| model.embeddings.as_deref()).collect();
    let Some((real, generated)) = real.zip(generated) else { return Ok(None) };
    for ((name, _), store) in models.iter().zip(&generated) {
        check_widths(real.width(), name, store.width())?;
    }
    let sets: Vec<Box<Fill<'_>>> = std::iter::once(real).chain(generated).map(embedding).collect();
    few_dimensions("features", real.width(), &sets, job, work).map(Some)
}

/// Refuses generated rows whose width differs from that of the real rows.
fn check_widths(real: usize, model: &str, theirs: usize) -> Result<()> {
    if real == theirs {
        return Ok(());
    }
    Err(InputError::new(format!("the embeddings of `{model}` differ in width from the real ones"))
        .expected(format!("{real} values per row"))
        .found(format!("{theirs} values per row"))
        .advice("embed real and generated images with the same encoder")
        .into())
}

/// On reconstructions; `None` without a dictionary.
pub(super) fn reconstructions(job: &Job<'_>, work: &mut Work<'_>) -> Result<Option<SpaceDistances>> {
    let Some(dictionary) = job.find(&DICTIONARY) else { return Ok(None) };
    let real = decoded(&**dictionary, job.get(&CODES)?, job.find(&EMBEDDINGS));
    let models = job.all(&GENERATED);
    let models = models.iter().map(|(_, model)| decoded(&**dictionary, &model.codes, model.embeddings.as_deref()));
    let sets: Vec<Box<Fill<'_>>> = std::iter::once(real).chain(models).collect();
    few_dimensions("reconstructions", dictionary.card().width, &sets, job, work).map(Some)
}

fn decoded<'a>(dictionary: &'a dyn Dictionary, codes: &'a Codes, source: Option<&'a ActivationStore>) -> Box<Fill<'a>> {
    Box::new(move |row, into| {
        let tile = source.map(|store| store.tile(row..row + 1)).transpose()?;
        let mut values = vec![0f32; into.len()];
        dictionary.decode(&codes.view(row..row + 1)?, tile.as_ref(), &mut values)?;
        into.iter_mut().zip(values).for_each(|(into, value)| *into = f64::from(value));
        Ok(())
    })
}

/// On the codes.
pub(super) fn codes(job: &Job<'_>, work: &mut Work<'_>) -> Result<SpaceDistances> {
    let models = job.all(&GENERATED);
    let sets: Vec<&Codes> =
        std::iter::once(job.get(&CODES)?).chain(models.iter().map(|(_, model)| &*model.codes)).collect();
    let latents = sets[0].latents();
    let fired = work.pass(
        "active latents",
        Over::ROWS,
        || Count::new(latents),
        |fired, rows| {
            for codes in &sets {
                codes.view(rows.range.clone())?.latents().iter().for_each(|&latent| fired[latent as usize] += 1);
            }
            Ok(())
        },
    )?;
    let alive: Vec<usize> = (0..latents).filter(|&latent| fired[latent] > 0).collect();
    let most_rows = job.whole("most_rows")?;
    if alive.len() > most_rows {
        return many_dimensions(&sets, alive.len(), most_rows, job, work);
    }
    let mut dimension_of = vec![0; latents];
    alive.iter().enumerate().for_each(|(dimension, &latent)| dimension_of[latent] = dimension);
    let sets = sets.into_iter().map(|codes| active(codes, &dimension_of)).collect::<Result<Vec<_>>>()?;
    few_dimensions("codes", alive.len(), &sets, job, work)
}

/// Rows of the latents that fire in some set.
fn active<'a>(codes: &'a Codes, dimension_of: &'a [usize]) -> Result<Box<Fill<'a>>> {
    let all = codes.all()?;
    Ok(Box::new(move |row, into| {
        let (latents, values) = all.row(row);
        for (&latent, &value) in latents.iter().zip(values) {
            into[dimension_of[latent as usize]] = f64::from(value);
        }
        Ok(())
    }))
}

/// The rows that are compared, the same in every set, and their groups.
struct Sample {
    rows: Vec<usize>,
    groups: Vec<u8>,
}

impl Sample {
    fn new(rows: usize, job: &Job<'_>) -> Result<Sample> {
        let groups = Groups::new(job)?;
        let mut picked = permutation(groups.of_row.len(), &mut stream(job.seed, "fid/sample", 0));
        picked.truncate(rows);
        picked.sort_unstable();
        Ok(Sample { groups: picked.iter().map(|&row| groups.of_row[row]).collect(), rows: picked })
    }
}

/// Rows of products per block.
const BLOCK: usize = 32;

/// The distances by products of a sample of rows.
fn many_dimensions(
    sets: &[&Codes],
    dimensions: usize,
    most_rows: usize,
    job: &Job<'_>,
    work: &mut Work<'_>,
) -> Result<SpaceDistances> {
    let rows = most_rows.min(sets[0].rows());
    let sample = Lazy::new(|| Sample::new(rows, job));
    // Real × real, then for every model real × model and model × model.
    let pairs: Vec<[usize; 2]> =
        std::iter::once([0, 0]).chain((1..sets.len()).flat_map(|model| [[0, model], [model, model]])).collect();
    let blocks = rows.div_ceil(BLOCK);
    let bytes = (rows as u64 * rows as u64).saturating_mul(8 * pairs.len() as u64);
    drop(job.budget().reserve(bytes, format!("products of {rows} rows of codes ({} takes fewer)", Key("most_rows")))?);
    let products = work.fold_with(
        &sample,
        "blocks of products",
        pairs.len() * blocks,
        || List::<Vec<f64>>(Vec::new()),
        |sample, into, block| {
            let [a, b] = pairs[block / blocks].map(|set| sets[set]);
            let first = block % blocks * BLOCK;
            let (a_rows, b_rows) = (a.all()?, b.all()?);
            let bytes = 8 * (a.latents() + BLOCK * rows) as u64;
            let _memory = job.budget().reserve(bytes, "products of some rows of codes")?;
            let mut dense = vec![0f64; a.latents()];
            for &row in &sample.rows[first..(first + BLOCK).min(rows)] {
                job.check()?;
                let (latents, values) = a_rows.row(row);
                latents.iter().zip(values).for_each(|(&latent, &value)| dense[latent as usize] = f64::from(value));
                let product = |&other: &usize| {
                    let (latents, values) = b_rows.row(other);
                    latents.iter().zip(values).map(|(&l, &value)| dense[l as usize] * f64::from(value)).sum::<f64>()
                };
                into.0.push(sample.rows.iter().map(product).collect());
                latents.iter().for_each(|&latent| dense[latent as usize] = 0.0);
            }
            Ok(())
        },
    )?;
    let matrix = |pair: usize| &products.0[pair * rows..(pair + 1) * rows];
    let comparisons = comparisons(sets.len() - 1);
    let found = work.blocks_with(&sample, "distances", comparisons.len(), |sample, block| {
        let ComparedParts { real, model, generated } = comparisons[block];
        let [between, within] = model.map_or([0, 0], |model| [1 + 2 * model, 2 + 2 * model]);
        let products =
            Products { groups: &sample.groups, between: matrix(between), within: [matrix(0), matrix(within)] };
        products.distance([real, generated], job)
    })?;
    Ok(SpaceDistances::new(rows, dimensions, &found))
}
