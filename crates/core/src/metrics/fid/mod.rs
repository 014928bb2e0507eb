//! FID: the Fréchet distance between real and generated rows, on features, on reconstructions and on codes.

mod card;
mod frechet;
mod space;
#[cfg(test)]
mod tests;

use super::{Card, Metric};
use crate::error::{Error, Result};
use crate::results::{Interval, Scores, Table, student_quantile};
use crate::run::{DICTIONARY, GENERATED, Job, Work};
use card::CARD;
use etalon_kernel::eigen::values;
use etalon_kernel::product::try_rows_by_rows;
use etalon_kernel::statistics::mean;
use frechet::GROUPS;
use space::{ModelDistances, SpaceDistances};

/// The Fréchet distance in three spaces.
pub struct Fid;

impl Metric for Fid {
    fn card(&self) -> &'static Card {
        &CARD
    }

    fn run(&self, job: &Job<'_>, work: &mut Work<'_>) -> Result<Scores> {
        let mut scores = Scores::default();
        let features = space::features(job, work)?;
        if features.is_none() {
            scores
                .note("without embeddings of the real rows and of every model, the distance of features is undefined");
        }
        let reconstructions = space::reconstructions(job, work)?;
        if reconstructions.is_none() {
            scores.note("without the dictionary the distance of reconstructions is undefined");
        }
        let codes = Some(space::codes(job, work)?);
        // Space, model, and the columns of the table.
        let mut lines: Vec<(&str, &str, [Option<f64>; 4])> = Vec::new();
        let mut paired: Vec<(String, Vec<Option<f64>>)> = Vec::new();
        for (space, distances) in [("features", features), ("reconstructions", reconstructions), ("codes", codes)] {
            headlines(&mut scores, space, distances.as_ref());
            let with_interval = scores
                .headline
                .iter()
                .any(|headline| headline.interval.is_some() && headline.key == corrected_key(space));
            let without = distances.as_ref().and_then(|found| without_groups(&found.models, found.rows));
            paired.extend(
                without
                    .filter(|_| with_interval)
                    .map(|without| (corrected_key(space), without.into_iter().map(Some).collect())),
            );
            for (index, (name, _)) in job.all(&GENERATED).into_iter().enumerate() {
                let numbers = distances.as_ref().map_or([None; 4], |found| {
                    let model = &found.models[index];
                    let corrected = jackknife(std::slice::from_ref(model), found.rows).map(|(value, _)| value);
                    [model.whole, corrected, model.half, found.floor]
                });
                lines.push((space, name, numbers));
            }
        }
        let mut table = Table::new("model")
            .words("space", lines.iter().map(|line| line.0))
            .words("model", lines.iter().map(|line| line.1));
        for (column, name) in ["fid", "corrected", "half", "floor"].into_iter().enumerate() {
            table = table.numbers(name, lines.iter().map(|line| line.2[column]));
        }
        scores.tables.push(table);
        scores.put_jackknife(paired);
        if let Some([smallest, largest]) = singular_values(job, work)? {
            scores.tables.push(
                Table::new("decoder")
                    .numbers("smallest singular value", [Some(smallest)])
                    .numbers("largest singular value", [Some(largest)]),
            );
        }
        Ok(scores)
    }
}

/// The mean of a number over models, if all have it.
fn over(models: &[ModelDistances], pick: impl Fn(&ModelDistances) -> Option<f64>) -> Option<f64> {
    mean(&models.iter().map(pick).collect::<Option<Vec<f64>>>()?)
}

/// The mean over models without each group of rows. Groups have the same rows in every model.
fn without_groups(models: &[ModelDistances], rows: usize) -> Option<Vec<f64>> {
    if rows < 2 * GROUPS {
        return None;
    }
    (0..GROUPS).map(|group| over(models, |model| model.without[group])).collect()
}

/// The mean over models without its bias to first order, and its standard error.
fn jackknife(models: &[ModelDistances], rows: usize) -> Option<(f64, f64)> {
    let value = over(models, |model| model.whole)?;
    let without = without_groups(models, rows)?;
    let groups = GROUPS as f64;
    let centre = without.iter().sum::<f64>() / groups;
    let squares = without.iter().map(|value| (value - centre).powi(2)).sum::<f64>();
    Some((groups * value - (groups - 1.0) * centre, (squares * (groups - 1.0) / groups).sqrt()))
}

fn corrected_key(space: &str) -> String {
    format!("fid_{space}_corrected")
}

fn headlines(scores: &mut Scores, space: &str, distances: Option<&SpaceDistances>) {
    let (models, rows, floor) =
        distances.map_or((&[][..], 0, None), |found| (&found.models[..], found.rows, found.floor));
    let value = over(models, |model| model.whole);
    let (corrected, error) = jackknife(models, rows).unzip();
    // With fewer rows than dimensions the bias is not of first order.
    let enough = distances.is_some_and(|found| found.rows >= found.dimensions);
    let interval = |centre: f64| {
        let reach = student_quantile((GROUPS - 1) as f64)? * error?;
        enough.then_some(Interval { low: centre - reach, high: centre + reach })
    };
    scores.headline(&corrected_key(space), corrected, corrected.and_then(interval), rows);
    scores.headline(&format!("fid_{space}"), value, None, rows);
    scores.headline(&format!("fid_{space}_half"), over(models, |model| model.half), None, rows / 2);
    scores.headline(&format!("fid_{space}_floor"), floor, None, rows / 2);
    if corrected.is_some() && !enough {
        scores.note(format!("fewer rows than dimensions of {space}: the corrected distance has no interval"));
    }
    if distances.is_some() && [value, corrected, floor].iter().any(Option::is_none) {
        scores.note(format!("{rows} rows are too few for all numbers on {space}: undefined"));
    }
}

/// The smallest singular value of the decoder that is not 0, and the largest.
fn singular_values(job: &Job<'_>, work: &mut Work<'_>) -> Result<Option<[f64; 2]>> {
    let Some(dictionary) = job.find(&DICTIONARY) else { return Ok(None) };
    let (width, latents) = (dictionary.card().width, dictionary.card().latents);
    let (rows, size) = (dictionary.directions(), width.min(latents));
    if size == 0 {
        return Ok(None);
    }
    let found = work.once("singular values of the decoder", || {
        let bytes = (size as u64 * size as u64 + 2 * rows.len() as u64).saturating_mul(8);
        let _memory = job.budget().reserve(bytes, "the singular values of the decoder")?;
        let shorter: Vec<f64> = if latents <= width {
            rows.iter().map(|&value| f64::from(value)).collect()
        } else {
            (0..rows.len()).map(|index| f64::from(rows[index % latents * width + index / latents])).collect()
        };
        let mut gram = vec![0.0; size * size];
        try_rows_by_rows(&shorter, &shorter, width.max(latents), &mut gram, job.context)?;
        let squares = values(gram, size, job.context)?;
        let squares = squares.ok_or_else(|| Error::Bug("singular values do not converge".into()))?;
        let largest = squares[0].max(0.0);
        let smallest = squares.iter().rev().copied().find(|&square| square > 1e-12 * largest).unwrap_or(0.0);
        Ok([smallest.sqrt(), largest.sqrt()])
    })?;
    Ok(Some(found))
}
