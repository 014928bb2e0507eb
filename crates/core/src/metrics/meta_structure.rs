//! `meta_structure`: whether a smaller dictionary explains the directions of a dictionary.

use etalon_kernel::product::dot;
use etalon_kernel::random::{index, stream};
use rand_distr::{Distribution, StandardNormal};
use rayon::prelude::*;
use serde::{Deserialize, Serialize};

use super::resamples::{Draws, resamples};
use super::{Better, Card, Kind, Metric, Output, Param};
use crate::context::Monitor;
use crate::error::Result;
use crate::results::{Interval, Scores, Table, percentile_interval};
use crate::run::leaves::BATCH_ROWS;
use crate::run::{DIRECTIONS, Job, Work};
use crate::sae::arch;
use crate::sae::train::{Preset, Trainer, TrainingSettings};
use crate::sae::{Dictionary, encode_store};
use crate::store::ActivationStore;

/// The metric.
pub struct MetaStructure;

const UP_TO_ONE: (f64, f64) = (f64::NEG_INFINITY, 1.0);

static CARD: Card = Card {
    name: "meta_structure",
    title: "Meta structure",
    summary: "Share of the variance of a dictionary's directions that a smaller dictionary of directions explains.",
    version: 1,
    measures: "If latents are atomic, their directions have nothing in common. If many are compounds, such as \"red square\" and \
        \"blue square\", a small dictionary trained on the directions finds the parts, and a few parts explain each direction well. \
        A low value suggests atomic latents; a value near that of random directions means no structure.",
    definition: "Directions are scaled to length 1; those of length 0 are left out. A BatchTopK dictionary of \
        ⌈`ratio` · latents⌉ latents is trained on them: `k_meta` active on average, `meta_steps` steps of `meta_batch` directions \
        drawn with replacement (at most as many as there are directions, with a note), Adam with rate 0.0005. `meta_explained` = 1 − Σ‖w − ŵ‖² / Σ‖w − mean‖², ŵ by the trained dictionary \
        in inference mode (a threshold instead of the top k of a batch); `meta_error` = mean ‖w − ŵ‖². `meta_null` is the same for \
        as many random directions of length 1. Undefined: fewer than 2 directions, or directions that are all equal.",
    cost: "Two trainings of `meta_steps` steps: 16,384 latents of width 768 take a few minutes.",
    source: "SAEBench's extra `meta_structure_decoder_variance`, after Leask et al., Sparse Autoencoders Do Not Find Canonical \
        Units of Analysis. There the test keeps the top k of a whole batch of 4,096 directions, the arithmetic is partly bf16, and \
        the null is not computed. Both profiles are the same.",
    interval: "Bootstrap over directions, 1000 resamples, with one training.",
    needs: &[&DIRECTIONS],
    uses: &[],
    headline: &[
        Output::new("meta_explained", "Explained share of the variance of directions.", UP_TO_ONE, Better::Lower),
        Output::new("meta_null", "The same for random directions.", UP_TO_ONE, Better::Neither),
        Output::new("meta_error", "Mean squared error per direction.", (0.0, f64::INFINITY), Better::Neither),
    ],
    params: &[
        Param::new("ratio", "Latents of the small dictionary per direction.", Kind::Number(0.001, 1.0), "0.25"),
        Param::new("k_meta", "Average number of active latents per direction.", Kind::Whole(1, 100_000), "4"),
        Param::new("meta_steps", "Number of training steps.", Kind::Whole(1, u64::MAX), "1500"),
        Param::new("meta_batch", "Directions per step.", Kind::Whole(1, 1_000_000), "1024"),
    ],
};

impl Metric for MetaStructure {
    fn card(&self) -> &'static Card {
        &CARD
    }

    fn run(&self, job: &Job<'_>, work: &mut Work<'_>) -> Result<Scores> {
        let store = job.get(&DIRECTIONS)?;
        let width = store.width();
        let bytes = (store.rows() as u64).saturating_mul(4 * width as u64);
        let what = format!("{} directions of length 1", store.rows());
        let result = work.once("training", || {
            let _memory = job.budget().reserve(bytes, what.clone())?;
            let (rows, kept) = unit_rows(&store.tile(0..store.rows())?.values, width);
            Ok(MetaResult { explained: explain(rows, width, job)?, kept })
        })?;
        let null = match &result.explained {
            None => None,
            Some(_) => work.once("training on random directions", || {
                let _memory = job.budget().reserve(2 * bytes, what.clone())?;
                Ok(explain(random_rows(result.kept.len(), width, job.seed), width, job)?.map(|null| null.share()))
            })?,
        };
        let interval = match &result.explained {
            None => None,
            Some(explained) => explained.interval(job, work)?,
        };
        let mut scores = result.scores(store.rows(), null, interval);
        let (batch, kept) = (job.whole("meta_batch")?, result.kept.len());
        if result.explained.is_some() && batch > kept {
            scores.note(format!("a step uses {kept} directions, because there are no more; `meta_batch` is {batch}"));
        }
        Ok(scores)
    }
}

/// The result of the training on the directions.
#[derive(Serialize, Deserialize)]
struct MetaResult {
    /// The indices of directions with a length above 0.
    kept: Vec<usize>,
    /// `None` if no two directions differ.
    explained: Option<Explained>,
}

impl MetaResult {
    fn scores(&self, directions: usize, null: Option<f64>, interval: Option<Interval>) -> Scores {
        let (kept, explained) = (self.kept.len(), self.explained.as_ref());
        let mut scores = Scores::default();
        if kept < directions {
            scores.note(format!("{} directions have no length and are left out", directions - kept));
        }
        if explained.is_none() {
            scores.note("everything is undefined: there are no two different directions");
        }
        scores.headline("meta_explained", explained.map(Explained::share), interval, kept);
        scores.headline("meta_null", null, None, kept);
        let errors = explained.map_or(&[][..], |explained| &explained.errors);
        let error = explained.map(|_| errors.iter().sum::<f64>() / errors.len() as f64);
        scores.headline("meta_error", error, None, kept);
        let mut by_latent = vec![None; directions];
        self.kept.iter().zip(errors).for_each(|(&latent, &error)| by_latent[latent] = Some(error));
        scores.tables.push(Table::new("latent").counts("index", 0..directions).numbers("meta_error", by_latent));
        scores
    }
}

/// The rows with a length above 0, scaled to length 1, and their indices.
fn unit_rows(values: &[f32], width: usize) -> (Vec<f32>, Vec<usize>) {
    let (mut rows, mut kept) = (Vec::with_capacity(values.len()), Vec::new());
    for (index, row) in values.chunks_exact(width).enumerate() {
        let length = dot(row, row).sqrt();
        if length > 0.0 {
            rows.extend(row.iter().map(|value| (f64::from(*value) / length) as f32));
            kept.push(index);
        }
    }
    (rows, kept)
}

fn random_rows(count: usize, width: usize, seed: u64) -> Vec<f32> {
    let mut random = stream(seed, "meta_structure/null", 0);
    let draws: Vec<f32> = (0..count * width).map(|_| StandardNormal.sample(&mut random)).collect();
    unit_rows(&draws, width).0
}

/// The reconstruction of every direction.
#[derive(Serialize, Deserialize)]
struct Explained {
    /// Squared errors.
    errors: Vec<f64>,
    /// Squared distances to the mean.
    distances: Vec<f64>,
}

/// Trains a small dictionary on some rows and reconstructs them; `None` if no two rows differ.
fn explain(rows: Vec<f32>, width: usize, job: &Job<'_>) -> Result<Option<Explained>> {
    let count = rows.len() / width.max(1);
    let distances = distances(&rows, width);
    if count < 2 || distances.iter().sum::<f64>() <= 1e-12 * count as f64 {
        return Ok(None);
    }
    let latents = ((job.number("ratio")? * count as f64).ceil() as usize).max(1);
    let batch = job.whole("meta_batch")?.min(count);
    let settings = TrainingSettings {
        k: job.whole("k_meta")?.min(latents),
        steps: job.whole("meta_steps")? as u64,
        batch,
        rate: 5e-4,
        warmup: 0,
        seed: job.seed,
        ..arch::find("batch_topk")?.settings(Preset::Saelens, width, latents)
    };
    let bytes = Trainer::memory(&settings) + 4 * (batch * width) as u64;
    let _memory = job.budget().reserve(bytes, "the training of a small dictionary")?;
    let steps = settings.steps;
    let mut trainer = Trainer::new(settings)?;
    let mut drawn = vec![0.0; batch * width];
    job.context.start(CARD.title, steps, "steps");
    for step in 0..steps {
        job.check()?;
        let mut random = stream(job.seed, "meta_structure/batch", step);
        for into in drawn.chunks_exact_mut(width) {
            into.copy_from_slice(&rows[index(count, &mut random) * width..][..width]);
        }
        trainer.step(&drawn)?;
        job.context.advance(1);
    }
    job.context.finish();
    let dictionary = trainer.finish(1.0)?;
    let store = ActivationStore::from_rows(rows, width)?;
    let codes = encode_store(&dictionary, &store, job.context)?;
    let blocks: Vec<usize> = (0..count).step_by(BATCH_ROWS).collect();
    let errors = blocks.par_iter().map(|&first| -> Result<Vec<f64>> {
        job.check()?;
        let range = first..(first + BATCH_ROWS).min(count);
        let (view, tile) = (codes.view(range.clone())?, store.tile(range)?);
        let mut decoded = vec![0.0; view.rows() * width];
        dictionary.decode(&view, Some(&tile), &mut decoded)?;
        let error = |(row, decoded): (&[f32], &[f32])| {
            row.iter().zip(decoded).map(|(a, b)| f64::from(a - b) * f64::from(a - b)).sum::<f64>()
        };
        Ok(tile.values.chunks_exact(width).zip(decoded.chunks_exact(width)).map(error).collect())
    });
    let errors = errors.collect::<Result<Vec<Vec<f64>>>>()?.concat();
    Ok(Some(Explained { errors, distances }))
}

/// The squared distance of every row to the mean row.
fn distances(rows: &[f32], width: usize) -> Vec<f64> {
    let count = (rows.len() / width.max(1)).max(1) as f64;
    let mut mean = vec![0.0f64; width];
    for row in rows.chunks_exact(width) {
        mean.iter_mut().zip(row).for_each(|(mean, &value)| *mean += f64::from(value) / count);
    }
    let distance = |row: &[f32]| row.iter().zip(&mean).map(|(&value, mean)| (f64::from(value) - mean).powi(2)).sum();
    rows.chunks_exact(width).map(distance).collect()
}

impl Explained {
    fn share(&self) -> f64 {
        1.0 - self.errors.iter().sum::<f64>() / self.distances.iter().sum::<f64>()
    }

    fn interval(&self, job: &Job<'_>, work: &mut Work<'_>) -> Result<Option<Interval>> {
        let share = |draws: Draws<'_>| {
            let (mut errors, mut distances) = (0.0, 0.0);
            for row in draws {
                errors += self.errors[row];
                distances += self.distances[row];
            }
            1.0 - errors / distances
        };
        Ok(percentile_interval(resamples(job, work, "meta_structure/interval", self.errors.len(), share)?))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::metrics::testing;
    use crate::results::Profile;
    use crate::run::Inputs;

    fn run(directions: Vec<f32>, width: usize, given: &[(&str, &str)]) -> Scores {
        let directions = ActivationStore::from_rows(directions, width).unwrap();
        let inputs = Inputs::default().with(&DIRECTIONS, directions);
        testing::scores(&MetaStructure, &inputs, given, Profile::Paper, 2).unwrap()
    }

    #[test]
    fn compounds_are_explained_and_random_directions_are_not() {
        // Every direction is the sum of two of twelve parts.
        let width = 32;
        let parts = random_rows(12, width, 5);
        let mut directions = Vec::new();
        for (a, b) in (0..12).flat_map(|a| (0..a).map(move |b| (a, b))) {
            directions.extend((0..width).map(|d| parts[a * width + d] + parts[b * width + d]));
        }
        directions.extend(vec![0.0; width]);
        let scores = run(directions, width, &[("meta_steps", "600"), ("meta_batch", "64"), ("k_meta", "2")]);
        let value = |index: usize| scores.headline[index].value.unwrap();
        assert!(value(0) > value(1) + 0.2, "{scores:?}");
        let interval = scores.headline[0].interval.unwrap();
        assert!(interval.low <= value(0) && value(0) <= interval.high);
        assert!(scores.notes[0].contains("1 directions have no length"));
        assert_eq!(scores.notes.len(), 1);
        assert_eq!(scores.table("latent").unwrap().column("meta_error").unwrap().number(66), None);
    }

    #[test]
    fn the_explained_share_matches_the_worked_example() {
        // Around their mean (0.5, 0.5) both rows have distance 0.5; errors 0.1 and 0.3: 1 − 0.4 / 1.
        let explained = Explained { errors: vec![0.1, 0.3], distances: distances(&[1.0, 0.0, 0.0, 1.0], 2) };
        assert_eq!(explained.distances, [0.5, 0.5]);
        assert!((explained.share() - 0.6).abs() < 1e-12);
    }

    #[test]
    fn a_batch_larger_than_the_directions_is_noted() {
        let scores = run(vec![1.0, 0.0, 0.0, 1.0, 1.0, 1.0], 2, &[("meta_steps", "1")]);
        assert_eq!(scores.notes, ["a step uses 3 directions, because there are no more; `meta_batch` is 1024"]);
    }

    #[test]
    fn one_direction_or_equal_directions_are_undefined() {
        for directions in [vec![1.0, 2.0], vec![1.0, 2.0, 2.0, 4.0], vec![0.0, 0.0]] {
            let scores = run(directions, 2, &[("meta_steps", "1")]);
            assert!(scores.headline.iter().all(|headline| headline.value.is_none()), "{scores:?}");
            assert!(!scores.notes.is_empty());
        }
    }
}
