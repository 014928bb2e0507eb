//! The codes that are compared.

use std::sync::Arc;

use super::counts::GROUPS;
use crate::codes::{Codes, CodesBuilder, Pool};
use crate::context::Reservation;
use crate::error::{Error, Result};
use crate::results::Profile;
use crate::run::{CODES, EMBEDDINGS, GENERATED, Job, Lazy};
use etalon_kernel::random::{permutation, stream};

/// The shape of the sets, known before they are read.
#[derive(Clone)]
pub(super) struct SetsShape<'a> {
    /// Rows per set: images, if tokens are summed.
    pub rows: usize,
    pub latents: usize,
    /// The names of the models.
    pub names: Vec<&'a str>,
    /// The image of every token.
    samples: Option<&'a [u32]>,
    /// Whether the tokens of an image are summed.
    pub is_pooled: bool,
}

impl<'a> SetsShape<'a> {
    fn of(job: &Job<'a>) -> Result<SetsShape<'a>> {
        let codes = job.get(&CODES)?;
        let samples = job.find(&EMBEDDINGS).and_then(|store| store.samples());
        let images = samples.map(|samples| samples.iter().max().map_or(0, |&last| last as usize + 1));
        let images = images.filter(|_| job.params.get("level").is_some_and(|level| level == "image"));
        Ok(SetsShape {
            rows: images.unwrap_or(codes.rows()),
            latents: codes.latents(),
            names: job.all(&GENERATED).into_iter().map(|(name, _)| name).collect(),
            samples,
            is_pooled: images.is_some(),
        })
    }

    /// Number of sets: the real rows and those of every model.
    pub fn sets(&self) -> usize {
        1 + self.names.len()
    }
}

/// The sets of a job.
pub(super) struct CodeSets<'a> {
    pub job: &'a Job<'a>,
    pub shape: SetsShape<'a>,
    /// Read when the first block needs them.
    pub lazy: Lazy<Sets, Box<dyn Fn() -> Result<Sets> + Send + Sync + 'a>>,
}

impl<'a> CodeSets<'a> {
    pub fn new(job: &'a Job<'a>) -> Result<CodeSets<'a>> {
        let shape = SetsShape::of(job)?;
        let copy = shape.clone();
        Ok(CodeSets { job, shape, lazy: Lazy::new(Box::new(move || Sets::new(&copy, job))) })
    }
}

/// Codes and groups of rows.
pub(super) struct Sets {
    /// The real rows, then those of every model.
    pub codes: Vec<Arc<Codes>>,
    /// The group of every row. All tokens of an image are in one group, and a generated row is in that of its real row.
    pub groups: Vec<u8>,
    /// Number of rows per group.
    pub group_rows: [usize; GROUPS],
    /// Whether entries are sums over rows, as in the released code, or means.
    sums: bool,
    _memory: Reservation,
}

impl Sets {
    fn new(shape: &SetsShape<'_>, job: &Job<'_>) -> Result<Sets> {
        let real = job.inputs.share(&CODES).ok_or_else(|| Error::Bug("the codes are missing".into()))?;
        let models = job.all(&GENERATED).into_iter().map(|(_, model)| model.codes.clone());
        let mut codes: Vec<Arc<Codes>> = std::iter::once(real).chain(models).collect();
        let mut samples = shape.samples;
        if let Some(of_row) = samples.take_if(|_| shape.is_pooled) {
            for codes in &mut codes {
                *codes = Arc::new(images(codes, of_row, shape.rows, job)?);
            }
        }
        let sample = |row: usize| samples.map_or(row, |samples| samples[row] as usize);
        let count = (0..shape.rows).map(|row| sample(row) + 1).max().unwrap_or(0);
        let memory = job.budget().reserve((shape.rows + 9 * count) as u64, "groups of rows")?;
        let mut group_of = vec![0u8; count];
        let order = permutation(count, &mut stream(job.seed, "cooccurrence/groups", 0));
        for (position, sample) in order.into_iter().enumerate() {
            group_of[sample] = (position % GROUPS) as u8;
        }
        let groups: Vec<u8> = (0..shape.rows).map(|row| group_of[sample(row)]).collect();
        let mut group_rows = [0; GROUPS];
        groups.iter().for_each(|&group| group_rows[usize::from(group)] += 1);
        Ok(Sets { codes, groups, group_rows, sums: job.profile == Profile::Reference, _memory: memory })
    }

    /// The factor from a sum over `rows` rows to an entry.
    pub fn scale(&self, rows: usize) -> f64 {
        if self.sums { 1.0 } else { 1.0 / (rows as f64).max(1.0) }
    }

    pub fn is_second_half(&self, row: usize) -> bool {
        usize::from(self.groups[row]) >= GROUPS / 2
    }
}

/// Images between two checks for cancellation.
const BATCH: usize = 1024;

/// The sum of the rows of every image.
fn images(codes: &Codes, image_of_row: &[u32], count: usize, job: &Job<'_>) -> Result<Codes> {
    let bytes = 24 * count as u64 + 8 * image_of_row.len() as u64;
    let _memory = job.budget().reserve(bytes, "the rows of every image")?;
    let mut rows: Vec<Vec<usize>> = vec![Vec::new(); count];
    image_of_row.iter().enumerate().for_each(|(row, &image)| rows[image as usize].push(row));
    let mut builder = CodesBuilder::within(codes.latents(), job.budget());
    for rows in rows.chunks(BATCH) {
        job.check()?;
        let images: Vec<u32> = (0..).zip(rows).flat_map(|(image, rows)| rows.iter().map(move |_| image)).collect();
        let pooled = codes.select(&rows.concat())?.pooled(&images, rows.len(), Pool::Sum)?;
        pooled.all()?.iter().try_for_each(|(_, latents, values)| builder.push(latents, values))?;
    }
    Ok(builder.finish())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::context::Context;
    use crate::metrics::cooccurrence::Cooccurrence;
    use crate::metrics::testing::with_work;
    use crate::run::Inputs;
    use etalon_kernel::random::{index, unit};

    #[test]
    fn sums_of_images_do_not_depend_on_batches() {
        // Tokens of an image are not adjacent, and some images have none.
        let (rows, count, mut random) = (6000, 2 * BATCH + 100, stream(1, "images test", 0));
        let values: Vec<f32> = (0..rows * 5).map(|_| (unit(&mut random) as f32 - 0.4).max(0.0)).collect();
        let image_of_row: Vec<u32> = (0..rows).map(|_| index(count, &mut random) as u32).collect();
        let codes = Codes::from_dense(&values, 5).unwrap();
        let context = Context::silent(1, 1 << 20).unwrap();
        let summed =
            with_work(&Cooccurrence, &Inputs::default(), &context, |job, _| images(&codes, &image_of_row, count, job));
        let expected = codes.pooled(&image_of_row, count, Pool::Sum).unwrap();
        assert_eq!(summed.unwrap().id().unwrap(), expected.id().unwrap());
        assert_eq!(context.budget().left(), 1 << 20);
    }
}
