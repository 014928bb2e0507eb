//! Generated rows that are suspiciously near to the real row of their prompt. They are candidates only: blank and templated
//! images look the same.

use serde::{Deserialize, Serialize};

use super::distance::{Distance, RowList};
use super::ranking::keep_first;
use crate::codes::{Codes, Columns, Latent};
use crate::context::{Reservation, Reserved};
use crate::error::{Error, Result};
use crate::run::{CODES, GENERATED, Job, Lazy, Work};
use etalon_kernel::statistics::quantile;

/// Nearest other real rows whose median distance is the typical distance.
const NEIGHBOURS: usize = 50;
/// How many of them are listed.
const LISTED: usize = 8;
/// A candidate is nearer to its own real row than this share of the typical distance.
const NEAR: f64 = 0.5;
/// Real rows shorter than this quantile are too empty to be candidates.
const SHORT: f64 = 0.1;

/// A generated row among the real ones.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct Memory {
    pub row: usize,
    /// The distance to its own real row, as a share of the typical distance.
    pub ratio: f64,
    /// The nearest other real rows.
    pub nearest: Vec<u32>,
    pub candidate: bool,
    /// For candidates: number of other prompts with nearly the same generated row.
    pub alike: usize,
}

/// Rows per block.
const BLOCK: usize = 4;

/// Examines some rows of every model. Rows without a typical distance are left out.
pub(super) fn examine(
    distances: &[RowList<Distance>],
    rows: &[&[usize]],
    job: &Job<'_>,
    work: &mut Work<'_>,
) -> Result<Reserved<Vec<Vec<Memory>>>> {
    let examined: Vec<(usize, usize)> =
        rows.iter().enumerate().flat_map(|(model, rows)| rows.iter().map(move |&row| (model, row))).collect();
    let blocks: Vec<&[(usize, usize)]> = examined.chunks(BLOCK).collect();
    let (rows, models) = (job.get(&CODES)?.rows() as u64, distances.len());
    let examiner = Lazy::new(|| Examiner::new(distances, job));
    let found = work.blocks_with(&examiner, "blocks of examined rows", blocks.len(), |examiner, block| {
        let _memory = job.budget().reserve(24 * rows, "the distances of a row to all others")?;
        let examine = |&(model, row): &(usize, usize)| job.check().and_then(|()| examiner.examine(model, row));
        blocks[block].iter().map(examine).collect::<Result<Vec<Option<Memory>>>>()
    })?;
    Ok(found.map(|found| {
        let mut by_model = vec![Vec::new(); models];
        for ((model, _), memory) in examined.iter().zip(found.into_iter().flatten()) {
            by_model[*model].extend(memory);
        }
        by_model
    }))
}

/// Compares rows of models with all real and all generated rows.
struct Examiner<'a> {
    real: &'a Codes,
    models: Vec<&'a Codes>,
    /// By model.
    distances: &'a [RowList<Distance>],
    /// Squared lengths of the real rows, and by model of the generated ones.
    real_squares: Vec<f64>,
    made_squares: Vec<Vec<f64>>,
    /// Candidates have a real row longer than this.
    shortest: f64,
    _memory: Reservation,
}

impl<'a> Examiner<'a> {
    fn new(distances: &'a [RowList<Distance>], job: &Job<'a>) -> Result<Examiner<'a>> {
        let rows = &distances.first().ok_or_else(|| Error::Bug("no model to examine".into()))?.0;
        let bytes = 8 * (2 + distances.len()) as u64 * rows.len() as u64;
        let memory = job.budget().reserve(bytes, "the lengths of all rows")?;
        let real = job.get(&CODES)?;
        let models: Vec<&Codes> = job.all(&GENERATED).into_iter().map(|(_, model)| &*model.codes).collect();
        // Builds all columns here, so that blocks do not wait for each other.
        for codes in std::iter::once(&real).chain(&models) {
            job.check()?;
            codes.columns()?;
        }
        let mut lengths: Vec<f64> = rows.iter().map(|distance| distance.real).collect();
        lengths.sort_by(f64::total_cmp);
        let squares = |list: &[Distance], length: fn(&Distance) -> f64| -> Vec<f64> {
            list.iter().map(|distance| length(distance) * length(distance)).collect()
        };
        Ok(Examiner {
            real,
            models,
            distances,
            real_squares: squares(rows, |distance| distance.real),
            made_squares: distances.iter().map(|list| squares(&list.0, |distance| distance.generated)).collect(),
            shortest: quantile(&lengths, SHORT).unwrap_or(0.0),
            _memory: memory,
        })
    }

    /// `None` where the typical distance is undefined or 0.
    fn examine(&self, model: usize, row: usize) -> Result<Option<Memory>> {
        let (made, made_squares) = (self.models[model], &self.made_squares[model]);
        let view = made.view(row..row + 1)?;
        let (entries, square, own) = (view.row(0), made_squares[row], &self.distances[model].0[row]);
        let mut near = to_all(entries, square, self.real.columns()?, &self.real_squares);
        near.swap_remove(row);
        keep_first(&mut near, NEIGHBOURS, |a, b| a.0.total_cmp(&b.0).then(a.1.cmp(&b.1)));
        let distances: Vec<f64> = near.iter().map(|(distance, _)| *distance).collect();
        let Some(typical) = quantile(&distances, 0.5).filter(|typical| *typical > 0.0) else { return Ok(None) };
        let ratio = own.length / typical;
        let candidate = ratio < NEAR && own.real > self.shortest;
        let alike = if candidate {
            let others = to_all(entries, square, made.columns()?, made_squares);
            others.iter().filter(|(distance, other)| *other as usize != row && *distance < NEAR * typical).count()
        } else {
            0
        };
        let nearest = near.iter().take(LISTED).map(|(_, other)| *other).collect();
        Ok(Some(Memory { row, ratio, nearest, candidate, alike }))
    }
}

/// The distance of a row to every row of a set of codes.
fn to_all((latents, values): (&[u32], &[f32]), square: f64, columns: &Columns, squares: &[f64]) -> Vec<(f64, u32)> {
    let mut products = vec![0.0f64; squares.len()];
    for (&latent, &value) in latents.iter().zip(values) {
        let (rows, others) = columns.latent(Latent(latent));
        for (&row, &other) in rows.iter().zip(others) {
            products[row as usize] += f64::from(value) * f64::from(other);
        }
    }
    let distance = |(row, product): (usize, f64)| ((square + squares[row] - 2.0 * product).max(0.0).sqrt(), row as u32);
    products.into_iter().enumerate().map(distance).collect()
}
