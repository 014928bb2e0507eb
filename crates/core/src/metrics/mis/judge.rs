//! What a simulated person sees: how much more alike a query is to one side of a task than to the other.

use std::borrow::Cow;

use etalon_kernel::contrast::contrast;
use etalon_kernel::product::dot;
use rayon::prelude::*;

use super::tasks::{Task, TaskSide};
use crate::context::Reserved;
use crate::error::{Error, InputError, Key, Result};
use crate::run::{DistanceMatrix, IMAGE_SIMILARITY, ImageSimilarity, Job, UNIT_ACTIVATIONS, VISUALISATIONS};
use crate::store::ActivationStore;

/// How vectors are compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::metrics) enum Measure {
    /// Cosine similarity.
    Cosine,
    /// Minus the squared Euclidean distance, which is LPIPS for the vectors that the command `similarity` writes.
    SquaredDistance,
}

impl Measure {
    /// The measure that a job asks for.
    pub fn of(job: &Job<'_>) -> Result<Measure> {
        match job.word("measure")? {
            "cosine" => Ok(Measure::Cosine),
            "squared" => Ok(Measure::SquaredDistance),
            other => Err(Error::Bug(format!("unknown measure {other}"))),
        }
    }
}

/// Vectors, with a number for each: one over its length for cosines, its squared length for distances.
struct Vectors<'a> {
    rows: VectorRows<'a>,
    width: usize,
    numbers: Reserved<Vec<f64>>,
}

enum VectorRows<'a> {
    /// In one slice.
    Slice(&'a [f32]),
    /// Copied from shards or half precision.
    Copied(Reserved<Vec<f32>>),
    /// Read when they are needed, because a copy does not fit into memory.
    Read(&'a ActivationStore),
}

/// Rows that are read together.
const TOGETHER: usize = 256;

impl<'a> Vectors<'a> {
    fn new(job: &Job<'_>, store: &'a ActivationStore, measure: Measure) -> Result<Vectors<'a>> {
        let memory = job.budget().reserve(8 * store.rows() as u64, "the lengths of vectors")?;
        let starts: Vec<usize> = (0..store.rows()).step_by(TOGETHER).collect();
        let number = |row: &[f32]| match (measure, dot(row, row)) {
            (Measure::SquaredDistance, square) => square,
            (Measure::Cosine, square) if square > 0.0 => 1.0 / square.sqrt(),
            (Measure::Cosine, _) => 0.0,
        };
        let numbers = starts.par_iter().map(|&first| {
            job.check()?;
            let tile = store.tile(first..(first + TOGETHER).min(store.rows()))?;
            Ok((0..tile.rows()).map(|index| number(tile.row(index))).collect::<Vec<_>>())
        });
        let numbers = numbers.collect::<Result<Vec<_>>>()?.concat();
        Ok(Vectors { rows: VectorRows::of(job, store)?, width: store.width(), numbers: Reserved::new(numbers, memory) })
    }

    fn row(&self, row: usize) -> Result<Cow<'_, [f32]>> {
        let range = row * self.width..(row + 1) * self.width;
        Ok(match &self.rows {
            VectorRows::Slice(values) => Cow::Borrowed(&values[range]),
            VectorRows::Copied(values) => Cow::Borrowed(&values[range]),
            VectorRows::Read(store) => Cow::Owned(store.tile(row..row + 1)?.row(0).to_vec()),
        })
    }
}

impl<'a> VectorRows<'a> {
    fn of(job: &Job<'_>, store: &'a ActivationStore) -> Result<VectorRows<'a>> {
        if let Some(values) = store.contiguous()? {
            return Ok(VectorRows::Slice(values));
        }
        let length = store.rows() * store.width();
        let Ok(memory) = job.budget().reserve(4 * length as u64, "the vectors of images") else {
            return Ok(VectorRows::Read(store));
        };
        let mut values = Vec::with_capacity(length);
        for first in (0..store.rows()).step_by(TOGETHER) {
            job.check()?;
            values.extend_from_slice(&store.tile(first..(first + TOGETHER).min(store.rows()))?.values);
        }
        Ok(VectorRows::Copied(Reserved::new(values, memory)))
    }
}

/// Checks that there is one vector, or row of distances, per image.
pub(in crate::metrics) fn check_rows(job: &Job<'_>) -> Result<()> {
    let (activations, seen) = (job.get(&UNIT_ACTIVATIONS)?, job.get(&IMAGE_SIMILARITY)?);
    if activations.rows() == seen.rows() {
        return Ok(());
    }
    Err(InputError::new("activations and similarity differ in rows")
        .expected(format!("{} rows, one per row of the activations", activations.rows()))
        .found(seen.rows())
        .advice("take both from the same images or texts, in the same order")
        .into())
}

/// Compares images.
pub(in crate::metrics) enum Judge<'a> {
    /// By vectors, with vectors of visualisations where they are the explanations.
    Vectors(Box<VectorJudge<'a>>),
    /// By a matrix of distances.
    Distances(&'a DistanceMatrix),
}

/// Compares vectors.
pub(in crate::metrics) struct VectorJudge<'a> {
    images: Vectors<'a>,
    visualisations: Option<Vectors<'a>>,
    measure: Measure,
}

impl<'a> Judge<'a> {
    /// The judge of a job with some units and explanations on a side.
    pub fn new(job: &Job<'a>, units: usize, explanations: usize) -> Result<Judge<'a>> {
        Judge::with(job, job.find(&VISUALISATIONS), units, explanations)
    }

    /// A judge that compares images only.
    pub fn of_images(job: &Job<'a>) -> Result<Judge<'a>> {
        check_rows(job)?;
        Judge::with(job, None, 0, 0)
    }

    fn with(
        job: &Job<'a>,
        visualisations: Option<&'a ActivationStore>,
        units: usize,
        explanations: usize,
    ) -> Result<Judge<'a>> {
        let store = match job.get(&IMAGE_SIMILARITY)? {
            ImageSimilarity::Vectors(store) => store,
            ImageSimilarity::Distances(_) if visualisations.is_some() => {
                return Err(InputError::new("feature visualisations are vectors and cannot be compared by distances")
                    .expected(format!("vectors of the images, as {}", Key("similarity")))
                    .found(Key("distances"))
                    .into());
            }
            ImageSimilarity::Distances(matrix) => return Ok(Judge::Distances(matrix)),
        };
        let measure = Measure::of(job)?;
        if let Some(shown) = visualisations {
            let (rows, width) = (units * 2 * explanations, store.width());
            if (shown.rows(), shown.width()) != (rows, width) {
                return Err(InputError::new("there is not one feature visualisation per unit and explanation")
                    .expected(format!(
                        "{rows} × {width}: {units} units, 2 · {explanations} vectors of {width} values each"
                    ))
                    .found(format!("{} × {}", shown.rows(), shown.width()))
                    .advice(format!("set {} to the number of visualisations on a side", Key("explanations")))
                    .into());
            }
        }
        Ok(Judge::Vectors(Box::new(VectorJudge {
            images: Vectors::new(job, store, measure)?,
            visualisations: visualisations.map(|shown| Vectors::new(job, shown, measure)).transpose()?,
            measure,
        })))
    }

    /// How much two images are alike; only differences have a meaning.
    pub fn alike(&self, one: u32, other: u32) -> Result<f64> {
        let (one, other) = (one as usize, other as usize);
        match self {
            Judge::Distances(matrix) => matrix.with_row(one, |row| -f64::from(row[other])),
            Judge::Vectors(judge) => {
                let (numbers, product) =
                    (&judge.images.numbers, dot(&judge.images.row(one)?, &judge.images.row(other)?));
                Ok(match judge.measure {
                    Measure::Cosine => product * numbers[one] * numbers[other],
                    Measure::SquaredDistance => 2.0 * product - numbers[one] - numbers[other],
                })
            }
        }
    }

    /// By how much the query of the highest side, and that of the lowest side, is more alike to the highest explanations than to
    /// the lowest ones: D⁺ and D⁻. `scratch` is reused between calls.
    pub fn differences(&self, unit: usize, task: &Task, scratch: &mut Vec<f64>) -> Result<[f64; 2]> {
        match self {
            Judge::Vectors(judge) => judge.differences(unit, task, scratch),
            Judge::Distances(matrix) => {
                let [low, high] = task;
                let of = |query: u32| matrix.with_row(query as usize, |row| far(row, low) - far(row, high));
                Ok([of(high.query)?, of(low.query)?])
            }
        }
    }
}

/// The mean distance to the explanations of a side.
fn far(distances: &[f32], side: &TaskSide) -> f64 {
    let sum: f64 = side.explanations.iter().map(|&image| f64::from(distances[image as usize])).sum();
    sum / side.explanations.len() as f64
}

impl VectorJudge<'_> {
    fn differences(&self, unit: usize, [low, high]: &Task, scratch: &mut Vec<f64>) -> Result<[f64; 2]> {
        let (count, others) = (high.explanations.len(), low.explanations.len());
        let (vectors, ids): (&Vectors<'_>, Vec<usize>) = match &self.visualisations {
            // The visualisations of a unit: lowest side first.
            Some(shown) => {
                (shown, (0..2 * count).map(|index| 2 * count * unit + (index + count) % (2 * count)).collect())
            }
            None => (&self.images, high.explanations.iter().chain(&low.explanations).map(|&id| id as usize).collect()),
        };
        let rows = ids.iter().map(|&id| vectors.row(id)).collect::<Result<Vec<_>>>()?;
        let rows: Vec<&[f32]> = rows.iter().map(|row| &**row).collect();
        let sign = |index: usize| if index < count { 1.0 / count as f64 } else { -1.0 / others as f64 };
        let weight = |(index, &id): (usize, &usize)| match self.measure {
            Measure::Cosine => sign(index) * vectors.numbers[id],
            Measure::SquaredDistance => sign(index),
        };
        let weights: Vec<f64> = ids.iter().enumerate().map(weight).collect();
        scratch.resize(vectors.width, 0.0);
        let [plus, minus] = [high.query as usize, low.query as usize];
        let (plus_row, minus_row) = (self.images.row(plus)?, self.images.row(minus)?);
        let products = contrast(&rows, &weights, [&plus_row, &minus_row], scratch);
        Ok(match self.measure {
            Measure::Cosine => [products[0] * self.images.numbers[plus], products[1] * self.images.numbers[minus]],
            Measure::SquaredDistance => {
                // −|q − e|² = 2 q·e − |e|² − |q|²; the last term cancels.
                let squares: f64 = ids.iter().enumerate().map(|(index, &id)| sign(index) * vectors.numbers[id]).sum();
                products.map(|product| 2.0 * product - squares)
            }
        })
    }
}
