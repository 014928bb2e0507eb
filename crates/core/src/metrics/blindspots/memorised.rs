//! Generated rows that are suspiciously near to the real row of their prompt. Candidates, never a verdict: blank and
//! templated images look the same.

use serde::{Deserialize, Serialize};

use super::distance::{Distance, Distances};
use super::ranking::keep_first;
use crate::codes::{Codes, Columns, Latent};
use crate::context::{Reservation, Reserved};
use crate::error::{Error, Result};
use crate::run::{CODES, GENERATED, Job, Lazy, Work};
use etalon_kernel::statistics::quantile;

/// Other real rows that say how near rows usually are.
const AROUND: usize = 50;
/// How many of them are named.
const NAMED: usize = 8;
/// A candidate is nearer to its own real row than this share of what is usual.
const NEAR: f64 = 0.5;
/// Rows shorter than this quantile are too empty to have been memorised.
const SHORT: f64 = 0.1;

/// A generated row among the real ones.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct Memory {
    pub row: usize,
    /// The distance to its own real row, as a share of the median distance to the nearest others.
    pub ratio: f64,
    /// The nearest other real rows.
    pub nearest: Vec<u32>,
    pub candidate: bool,
    /// For candidates: other prompts that got nearly the same row.
    pub alike: usize,
}

/// Rows of a block.
const TOGETHER: usize = 4;

/// Looks at some rows of every model.
pub(super) fn examine(
    distances: &[Distances],
    rows: &[&[usize]],
    job: &Job<'_>,
    work: &mut Work<'_>,
) -> Result<Reserved<Vec<Vec<Memory>>>> {
    let blocks: Vec<(usize, &[usize])> = rows
        .iter()
        .enumerate()
        .flat_map(|(model, rows)| rows.chunks(TOGETHER).map(move |part| (model, part)))
        .collect();
    let (real, models) = (job.get(&CODES)?, job.all(&GENERATED));
    let lengths = Lazy::new(|| RowLengths::new(distances, job));
    let found = work.blocks_with(&lengths, "blocks of examined rows", blocks.len(), |lengths, block| {
        let (model, rows) = blocks[block];
        let bytes = 24 * real.rows() as u64;
        let _memory = job.budget().reserve(bytes, "the distances of a row to all others")?;
        let around = RowExaminer {
            real: real.columns()?,
            made: &models[model].1.codes,
            made_columns: models[model].1.codes.columns()?,
            real_squares: &lengths.real_squares,
            made_squares: &lengths.made_squares[model],
            shortest: lengths.shortest,
            all: &distances[model].0,
        };
        let one = |&row: &usize| job.check().and_then(|()| around.examine(row));
        rows.iter().map(one).collect::<Result<Vec<Option<Memory>>>>()
    })?;
    Ok(found.map(|found| {
        let mut by_model = vec![Vec::new(); models.len()];
        for ((model, _), found) in blocks.iter().zip(found) {
            by_model[*model].extend(found.into_iter().flatten());
        }
        by_model
    }))
}

/// RowLengths of all rows.
struct RowLengths {
    real_squares: Vec<f64>,
    /// By model.
    made_squares: Vec<Vec<f64>>,
    /// The length of the shortest real rows that are looked at.
    shortest: f64,
    _memory: Reservation,
}

impl RowLengths {
    fn new(distances: &[Distances], job: &Job<'_>) -> Result<RowLengths> {
        let real = &distances.first().ok_or_else(|| Error::Bug("no model to examine".into()))?.0;
        let bytes = 8 * (2 + distances.len()) as u64 * real.len() as u64;
        let memory = job.budget().reserve(bytes, "the lengths of all rows")?;
        // By latent, before blocks ask for it.
        job.get(&CODES)?.columns()?;
        for (_, model) in job.all(&GENERATED) {
            job.check()?;
            model.codes.columns()?;
        }
        let mut lengths: Vec<f64> = real.iter().map(|distance| distance.real).collect();
        lengths.sort_by(f64::total_cmp);
        let squares = |all: &[Distance], length: fn(&Distance) -> f64| -> Vec<f64> {
            all.iter().map(|one| length(one) * length(one)).collect()
        };
        Ok(RowLengths {
            real_squares: squares(real, |one| one.real),
            made_squares: distances.iter().map(|all| squares(&all.0, |one| one.generated)).collect(),
            shortest: quantile(&lengths, SHORT).unwrap_or(0.0),
            _memory: memory,
        })
    }
}

/// What a row of a model is compared with.
struct RowExaminer<'a> {
    real: &'a Columns,
    made: &'a Codes,
    made_columns: &'a Columns,
    real_squares: &'a [f64],
    made_squares: &'a [f64],
    shortest: f64,
    all: &'a [Distance],
}

impl RowExaminer<'_> {
    /// `None` where nothing says how near rows usually are.
    fn examine(&self, row: usize) -> Result<Option<Memory>> {
        let view = self.made.view(row..row + 1)?;
        let (entries, square) = (view.row(0), self.made_squares[row]);
        let mut near = to_all(entries, square, self.real, self.real_squares);
        near.swap_remove(row);
        keep_first(&mut near, AROUND, |a, b| a.0.total_cmp(&b.0).then(a.1.cmp(&b.1)));
        let distances: Vec<f64> = near.iter().map(|(distance, _)| *distance).collect();
        let Some(usual) = quantile(&distances, 0.5).filter(|usual| *usual > 0.0) else { return Ok(None) };
        let ratio = self.all[row].length / usual;
        let candidate = ratio < NEAR && self.all[row].real > self.shortest;
        let alike = if candidate {
            let others = to_all(entries, square, self.made_columns, self.made_squares);
            others.iter().filter(|(distance, other)| *other as usize != row && *distance < NEAR * usual).count()
        } else {
            0
        };
        let nearest = near.iter().take(NAMED).map(|(_, other)| *other).collect();
        Ok(Some(Memory { row, ratio, nearest, candidate, alike }))
    }
}

/// The distance of a row to every row of some codes.
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
