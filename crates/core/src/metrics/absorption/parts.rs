//! A copy of all rows, split into training and test rows.

use etalon_kernel::random::{permutation, stream};

use crate::codes::Codes;
use crate::context::{Budget, Reservation, Reserved};
use crate::error::Result;
use crate::labels::{Annotations, Concept};
use crate::metrics::unit_rows::{direction_lengths, scale_to_unit};
use crate::run::{CODES, DIRECTIONS, EMBEDDINGS, Job, LABELS};

/// The inputs of all classes.
pub(super) struct Parts {
    pub train: Part,
    pub test: Part,
    /// Of length 1; codes are multiplied by the lengths they had.
    pub directions: Vec<f32>,
    pub width: usize,
    _memory: Reservation,
}

/// The training or the test rows.
pub(super) struct Part {
    pub codes: Codes,
    pub labels: Annotations,
    pub activations: Vec<f32>,
}

/// Rows copied between two checks for cancellation.
const TOGETHER: usize = 1024;

impl Parts {
    /// Splits the rows at random.
    pub fn copy(job: &Job<'_>) -> Result<Parts> {
        let (codes, width, concepts) =
            (job.get(&CODES)?, job.get(&EMBEDDINGS)?.width() as u64, job.get(&LABELS)?.concepts() as u64);
        let (rows, latents, entries) = (codes.rows() as u64, codes.latents() as u64, codes.entries() as u64);
        // Codes are stored by row and by latent.
        let bytes = 4 * width * (rows + latents) + rows * (24 + concepts / 4) + 16 * entries + 16 * latents;
        let memory = job.budget().reserve(bytes, "activations, codes and directions of all rows")?;
        let mut test = permutation(codes.rows(), &mut stream(job.seed, "absorption/split", 0));
        let tested = (job.number("test_share")? * rows as f64).round() as usize;
        let mut train = test.split_off(tested.min(codes.rows()));
        test.sort_unstable();
        train.sort_unstable();
        let lengths = direction_lengths(job)?;
        let lengths = lengths.as_ref().map_or(&[][..], |lengths| lengths);
        let directions = job.get(&DIRECTIONS)?;
        let mut unit = directions.tile(0..codes.latents())?.values.into_owned();
        scale_to_unit(job, &mut unit, directions.width())?;
        Ok(Parts {
            train: Part::copy(job, &train, lengths)?,
            test: Part::copy(job, &test, lengths)?,
            directions: unit,
            width: directions.width(),
            _memory: memory,
        })
    }
}

impl Part {
    fn copy(job: &Job<'_>, rows: &[usize], lengths: &[f32]) -> Result<Part> {
        let store = job.get(&EMBEDDINGS)?;
        let codes = job.get(&CODES)?.select_scaled(rows, lengths)?;
        let mut activations = Vec::with_capacity(rows.len() * store.width());
        for some in rows.chunks(TOGETHER) {
            job.check()?;
            for &row in some {
                activations.extend_from_slice(&store.tile(row..row + 1)?.values);
            }
        }
        codes.columns()?;
        Ok(Part { codes, labels: job.get(&LABELS)?.select(rows), activations })
    }

    /// The rows with a known label of a class, and whether they are positive.
    pub fn known(&self, class: usize) -> (Vec<usize>, Vec<bool>) {
        let concept = Concept(class as u32);
        let rows: Vec<usize> = self.labels.known(concept).rows().collect();
        let positive = rows.iter().map(|&row| self.labels.yes(concept).contains(row)).collect();
        (rows, positive)
    }

    /// The codes of some rows, ascending; `None` if these are all rows.
    pub fn select(&self, rows: &[usize], budget: &Budget) -> Result<Option<Reserved<Codes>>> {
        if rows.len() == self.codes.rows() {
            return Ok(None);
        }
        let bytes = 8 * (rows.len() + self.codes.latents()) as u64 + 16 * self.codes.entries() as u64;
        let memory = budget.reserve(bytes, "the codes of the labelled rows of a class")?;
        Ok(Some(Reserved::new(self.codes.select(rows)?, memory)))
    }
}
