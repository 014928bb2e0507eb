//! What the metrics of this family share: concepts with any number of classes, representations of one or more
//! latents, random splits, and intervals from the influence of rows.

use std::borrow::Cow;

use etalon_kernel::random::{permutation, stream};
use etalon_kernel::statistics::{deviation, ranks};

use super::areas::area;
use crate::codes::{Codes, Columns, Latent};
use crate::context::Reservation;
use crate::error::{InputError, Key, Result};
use crate::labels::Factors;
use crate::metrics::{Kind, Param};
use crate::results::{Interval, Scores, student_quantile};
use crate::run::{FACTORS, Job, LABELS};

/// The parameter of multi-dimensional representations.
pub(super) const DIMENSIONS: Param =
    Param::new("dimensions", "Consecutive latents that together represent one concept", Kind::Whole(1, 1_000_000), "1");

/// The factors of a job, or its labels as factors of two classes, with the memory of the copy.
pub(super) fn concepts<'a>(job: &Job<'a>) -> Result<(Cow<'a, Factors>, Option<Reservation>)> {
    if let Some(factors) = job.find(&FACTORS) {
        return Ok((Cow::Borrowed(factors), None));
    }
    let labels = job.get(&LABELS)?;
    let memory = job.budget().reserve(4 * (labels.rows() * labels.concepts()) as u64, "the classes of the concepts")?;
    Ok((Cow::Owned(Factors::of(labels)), Some(memory)))
}

/// Notes classes that no row has.
pub(super) fn note_unused_classes(factors: &Factors, scores: &mut Scores) {
    for column in 0..factors.count() {
        let unused = factors.unused(column);
        if factors.classes(column) > 2 && !unused.is_empty() {
            let classes: Vec<String> = unused.iter().take(5).map(usize::to_string).collect();
            let more = if unused.len() > 5 { ", …" } else { "" };
            scores.note(format!(
                "no row has class {}{more} of `{}`: it does not count",
                classes.join(", "),
                factors.names()[column]
            ));
        }
    }
}

/// Representations: groups of consecutive latents.
pub(super) struct Sources<'a> {
    pub columns: &'a Columns,
    pub dimensions: usize,
}

/// The number of representations of some codes, each of `dimensions` latents.
pub(super) fn count_sources(codes: &Codes, dimensions: usize) -> Result<usize> {
    if !codes.latents().is_multiple_of(dimensions) {
        return Err(InputError::new(format!("the latents cannot be divided into groups of {}", Key("dimensions")))
            .expected(format!("a multiple of {dimensions} latents"))
            .found(format!("{} latents", codes.latents()))
            .advice("remove latents that represent no concept, or choose another number")
            .into());
    }
    Ok(codes.latents() / dimensions)
}

impl Sources<'_> {
    /// The values of a representation, row by row.
    pub fn values(&self, source: usize) -> Vec<f32> {
        let mut values = vec![0.0; self.columns.rows() * self.dimensions];
        for part in 0..self.dimensions {
            let (rows, entries) = self.columns.latent(Latent((source * self.dimensions + part) as u32));
            for (&row, &value) in rows.iter().zip(entries) {
                values[row as usize * self.dimensions + part] = value;
            }
        }
        values
    }

    /// The values of one latent as `f64`.
    pub fn latent(&self, latent: usize) -> Vec<f64> {
        let mut values = vec![0.0; self.columns.rows()];
        let (rows, entries) = self.columns.latent(Latent(latent as u32));
        rows.iter().zip(entries).for_each(|(&row, &value)| values[row as usize] = f64::from(value));
        values
    }
}

/// Replaces every column by its ranks, scaled to mean 0 and variance 1.
pub(super) fn rank_normalised(values: &mut [f32], width: usize) {
    let rows = values.len().checked_div(width).unwrap_or(0);
    let (centre, scale) = ((rows as f64 + 1.0) / 2.0, 12f64.sqrt() / (rows as f64).max(1.0));
    for part in 0..width {
        let column: Vec<f64> = (0..rows).map(|row| f64::from(values[row * width + part])).collect();
        for (row, rank) in ranks(&column).into_iter().enumerate() {
            values[row * width + part] = ((rank - centre) * scale) as f32;
        }
    }
}

/// A random split of rows.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Split {
    pub train: Vec<u32>,
    pub test: Vec<u32>,
}

impl Split {
    /// A fifth of the rows, rounded up, for the test, drawn at random.
    pub fn fifth(rows: usize, seed: u64, purpose: &str, number: u64) -> Split {
        Split::drawn(rows, rows.div_ceil(5), seed, purpose, number)
    }

    /// Some number of test rows, drawn at random.
    pub fn drawn(rows: usize, test: usize, seed: u64, purpose: &str, number: u64) -> Split {
        let order: Vec<u32> =
            permutation(rows, &mut stream(seed, purpose, number)).into_iter().map(|row| row as u32).collect();
        let (test, train) = order.split_at(test.min(rows));
        Split { train: train.to_vec(), test: test.to_vec() }
    }

    /// Whether both parts have two classes of a column.
    pub fn is_usable(&self, column: &[i32]) -> bool {
        let two = |rows: &[u32]| {
            let mut classes = rows.iter().map(|&row| column[row as usize]).filter(|&class| class >= 0);
            classes.next().is_some_and(|first| classes.any(|class| class != first))
        };
        two(&self.train) && two(&self.test)
    }
}

/// The fewest rows that a fifth can be held out of.
pub(super) const FEWEST_ROWS: usize = 5;

/// How far the area of a latent for a class is from 1/2, at most over the classes of a concept.
pub(super) fn separation(values: &[f64], factors: &Factors, concept: usize) -> f64 {
    let column = factors.column(concept);
    let known: Vec<usize> = (0..column.len()).filter(|&row| column[row] >= 0).collect();
    let scores: Vec<f64> = known.iter().map(|&row| values[row]).collect();
    let classes = factors.classes(concept) as i32;
    let of_class = |class: i32| {
        let positive: Vec<bool> = known.iter().map(|&row| column[row] == class).collect();
        area(&positive, &scores).map_or(0.0, |area| (area.value - 0.5).abs())
    };
    (if classes == 2 { 1..2 } else { 0..classes }).map(of_class).fold(0.0, f64::max)
}

/// The 95 % interval of a number from the influences of rows, whose squares add up to its variance: Student's t with one
/// degree of freedom less than there are rows with an influence. Cut at the bounds of the number.
pub(super) fn influence_interval(value: f64, influence: &[f64], bounds: (f64, f64)) -> Option<Interval> {
    let rows = influence.iter().filter(|&&part| part != 0.0).count();
    let error = influence.iter().map(|part| part * part).sum::<f64>().sqrt();
    around(value, student_quantile(rows as f64 - 1.0)? * error, bounds)
}

/// The 95 % interval of a mean over random splits of the same rows (Nadeau and Bengio 2003): the variance between splits
/// times 1 / splits + `ratio`, the number of test rows per training row, because splits share rows; Student's t with one
/// degree of freedom less than there are splits. `None` with fewer than two splits.
pub(super) fn split_interval(value: f64, splits: &[f64], ratio: f64, bounds: (f64, f64)) -> Option<Interval> {
    let count = splits.len() as f64;
    let error = deviation(splits)? * (1.0 / count + ratio).sqrt();
    around(value, student_quantile(count - 1.0)? * error, bounds)
}

fn around(value: f64, half: f64, bounds: (f64, f64)) -> Option<Interval> {
    let cut = |end: f64| end.clamp(bounds.0.min(value), bounds.1.max(value));
    half.is_finite().then(|| Interval { low: cut(value - half), high: cut(value + half) })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn intervals_match_worked_examples() {
        // Splits 1 2 3: deviation 1, variance of the mean 1/3 + 1/4 = 7/12; t with 2 degrees 4.302653.
        let found = split_interval(2.0, &[1.0, 2.0, 3.0], 0.25, (f64::NEG_INFINITY, f64::INFINITY)).unwrap();
        assert!((found.high - 2.0 - 4.302_652_7 * (7.0f64 / 12.0).sqrt()).abs() < 1e-6, "{found:?}");
        assert_eq!(split_interval(2.0, &[2.0], 0.25, (0.0, 1.0)), None);
        // Influences 0.3 and −0.4: error 0.5; t with 1 degree 12.706; cut at 0 and 1.
        let found = influence_interval(0.5, &[0.3, 0.0, -0.4], (0.0, 1.0)).unwrap();
        assert_eq!((found.low, found.high), (0.0, 1.0));
        let found = influence_interval(0.5, &[0.003, -0.004], (0.0, 1.0)).unwrap();
        assert!((found.high - 0.5 - 12.706_204_7 * 0.005).abs() < 1e-6);
    }

    #[test]
    fn ranks_have_mean_0_and_variance_1() {
        let mut values: Vec<f32> = (0..1000).flat_map(|row| [(row * row) as f32, (row % 2) as f32]).collect();
        rank_normalised(&mut values, 2);
        for part in 0..2 {
            let column: Vec<f64> = values.iter().skip(part).step_by(2).map(|&value| f64::from(value)).collect();
            let mean = column.iter().sum::<f64>() / 1000.0;
            assert!(mean.abs() < 1e-6, "{mean}");
            if part == 0 {
                assert!((deviation(&column).unwrap() - 1.0).abs() < 1e-2);
            }
        }
    }
}
