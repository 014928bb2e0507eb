//! FID: the Fréchet distance between real and generated rows, on features, on reconstructions and on codes.

mod card;
mod frechet;
mod space;
#[cfg(test)]
mod tests;

use serde::{Deserialize, Serialize};

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
            scores.note("without embeddings of the real rows and of every model there is no distance of features");
        }
        let reconstructions = space::reconstructions(job, work)?;
        if reconstructions.is_none() {
            scores.note("without the dictionary there is no distance of reconstructions");
        }
        let codes = Some(space::codes(job, work)?);
        let names: Vec<&str> = job.all(&GENERATED).into_iter().map(|(name, _)| name).collect();
        let mut lines = Vec::new();
        for (space, distances) in [("features", features), ("reconstructions", reconstructions), ("codes", codes)] {
            headlines(&mut scores, space, distances.as_ref());
            for (model, name) in names.iter().enumerate() {
                let estimate = distances.as_ref().map(|found| (&found.models[model], found));
                lines.push(ModelLine {
                    space,
                    model: name,
                    whole: estimate.and_then(|(estimate, _)| estimate.whole),
                    corrected: estimate
                        .and_then(|(estimate, found)| jackknife_of(&[estimate], found.rows))
                        .map(|j| j.0),
                    half: estimate.and_then(|(estimate, _)| estimate.half),
                    floor: estimate.and_then(|(_, found)| found.floor),
                });
            }
        }
        scores.tables.push(
            Table::new("model")
                .words("space", lines.iter().map(|line| line.space))
                .words("model", lines.iter().map(|line| line.model))
                .numbers("fid", lines.iter().map(|line| line.whole))
                .numbers("corrected", lines.iter().map(|line| line.corrected))
                .numbers("half", lines.iter().map(|line| line.half))
                .numbers("floor", lines.iter().map(|line| line.floor)),
        );
        if let Some(decoder) = singular_values(job, work)? {
            scores.tables.push(
                Table::new("decoder")
                    .numbers("smallest singular value", [Some(decoder.smallest)])
                    .numbers("largest singular value", [Some(decoder.largest)]),
            );
        }
        Ok(scores)
    }
}

/// A line of the table of models.
struct ModelLine<'a> {
    space: &'a str,
    model: &'a str,
    whole: Option<f64>,
    corrected: Option<f64>,
    half: Option<f64>,
    floor: Option<f64>,
}

/// The mean of a number over models, if all have it.
fn over(models: &[&ModelDistances], pick: impl Fn(&ModelDistances) -> Option<f64>) -> Option<f64> {
    mean(&models.iter().map(|model| pick(model)).collect::<Option<Vec<f64>>>()?)
}

/// The mean over models without its bias to first order, and its standard error. Groups are the same rows in every model.
fn jackknife_of(models: &[&ModelDistances], rows: usize) -> Option<(f64, f64)> {
    let without: Option<Vec<f64>> = (0..GROUPS).map(|group| over(models, |model| model.without[group])).collect();
    over(models, |model| model.whole).zip(without).filter(|_| rows >= 2 * GROUPS).map(|(v, list)| jackknife(v, &list))
}

fn headlines(scores: &mut Scores, space: &str, distances: Option<&SpaceDistances>) {
    let (models, rows, floor) = match distances {
        Some(found) => (found.models.iter().collect::<Vec<_>>(), found.rows, found.floor),
        None => (Vec::new(), 0, None),
    };
    let value = over(&models, |model| model.whole);
    let spread = jackknife_of(&models, rows);
    let interval = |centre: Option<f64>| {
        let error = student_quantile((GROUPS - 1) as f64)? * spread?.1;
        centre.map(|centre| Interval { low: centre - error, high: centre + error })
    };
    let corrected = spread.map(|found| found.0);
    let floored = interval(value).map(|i| Interval { low: i.low.max(0.0), high: i.high });
    scores.headline(&format!("fid_{space}"), value, floored, rows);
    scores.headline(&format!("fid_{space}_corrected"), corrected, interval(corrected), rows);
    scores.headline(&format!("fid_{space}_half"), over(&models, |model| model.half), None, rows / 2);
    scores.headline(&format!("fid_{space}_floor"), floor, None, rows / 2);
    if distances.is_some() && [value, corrected, floor].iter().any(Option::is_none) {
        scores.note(format!("{rows} rows are too few for all numbers on {space}: undefined"));
    }
}

/// The value without its bias to first order, and its standard error.
fn jackknife(value: f64, without: &[f64]) -> (f64, f64) {
    let groups = without.len() as f64;
    let centre = without.iter().sum::<f64>() / groups;
    let squares = without.iter().map(|value| (value - centre).powi(2)).sum::<f64>();
    (groups * value - (groups - 1.0) * centre, (squares * (groups - 1.0) / groups).sqrt())
}

/// Singular values of the decoder.
#[derive(Serialize, Deserialize)]
struct SingularValues {
    /// Of those that are not 0.
    smallest: f64,
    largest: f64,
}

fn singular_values(job: &Job<'_>, work: &mut Work<'_>) -> Result<Option<SingularValues>> {
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
            (0..rows.len()).map(|at| f64::from(rows[at % latents * width + at / latents])).collect()
        };
        let mut gram = vec![0.0; size * size];
        try_rows_by_rows(&shorter, &shorter, width.max(latents), &mut gram, job.context)?;
        let squares = values(gram, size, job.context)?;
        let squares = squares.ok_or_else(|| Error::Bug("singular values do not settle".into()))?;
        let most = squares[0].max(0.0);
        let least = squares.iter().rev().copied().find(|&square| square > 1e-12 * most).unwrap_or(0.0);
        Ok(SingularValues { smallest: least.sqrt(), largest: most.sqrt() })
    })?;
    Ok(Some(found))
}
