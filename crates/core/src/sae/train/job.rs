//! The inputs and results of [`train`](super::train).

use std::path::PathBuf;
use std::time::Duration;

use serde_json::{Value, json};

use super::aside::{Aside, ThresholdRows};
use super::order::Order;
use super::settings::TrainingSettings;
use crate::context::Budget;
use crate::error::{InputError, Key, Result};
use crate::input::Tensors;
use crate::sae::checkpoint;
use crate::sae::dictionary::Dictionary;
use crate::sae::precision::Precision;
use crate::store::ActivationStore;

/// One dictionary to train.
#[derive(Debug)]
pub struct TrainJob {
    /// Settings.
    pub settings: TrainingSettings,
    /// Initial weights.
    pub initial: Option<Tensors>,
    /// Output directory.
    pub out: PathBuf,
}

/// Early stopping by the error on held-out rows.
#[derive(Debug)]
pub struct Early<'a> {
    /// Held-out rows.
    pub held_out: &'a ActivationStore,
    /// Steps between evaluations.
    pub every: u64,
    /// Consecutive evaluations without a smaller error after which training stops; the best weights are kept.
    pub patience: u32,
}

/// Options that all dictionaries of one pass share.
#[derive(Debug)]
pub struct TrainOptions<'a> {
    /// The order of rows.
    pub order: Order,
    /// Rows per shuffle window.
    pub window: usize,
    /// Seed of the order.
    pub seed: u64,
    /// Time between saved states; a killed training loses at most this much. The saved bytes do not affect the result.
    pub save_every: Duration,
    /// Steps between log lines.
    pub log_every: u64,
    /// Steps after which a copy of each dictionary is written, to study training dynamics.
    pub snapshots: Vec<u64>,
    /// Early stopping.
    pub early: Option<Early<'a>>,
    /// Stop after this many steps; schedules still depend on the total number.
    pub stop_after: Option<u64>,
    /// Arithmetic of the encoder product. No result depends on it, so it is not part of the recipe.
    pub precision: Precision,
}

impl Default for TrainOptions<'_> {
    fn default() -> Self {
        TrainOptions {
            order: Order::default(),
            window: 1 << 18,
            seed: 0,
            save_every: Duration::from_secs(60),
            log_every: 100,
            snapshots: Vec::new(),
            early: None,
            stop_after: None,
            precision: Precision::default(),
        }
    }
}

/// A finished training.
#[derive(Debug)]
pub struct Trained {
    /// The dictionary, as written to disk.
    pub dictionary: Box<dyn Dictionary>,
    /// The divisor of inputs during training.
    pub unit: f32,
    /// The step of the weights.
    pub steps: u64,
    /// Arithmetic of the encoder product, as text.
    pub precision: String,
    /// The rows that set the threshold, if the architecture selects over a batch.
    pub threshold: Option<ThresholdRows>,
    /// Whether an earlier run finished it.
    pub kept: bool,
}

/// Whether rows are set aside for the threshold of a job.
pub(super) fn sets_aside(job: &TrainJob, options: &TrainOptions<'_>) -> bool {
    job.settings.set_aside && options.early.is_none()
}

/// The number of steps of a number of epochs, rounded up.
pub fn steps_of_epochs(rows: usize, batch: usize, epochs: f64) -> u64 {
    (rows as f64 * epochs / batch.max(1) as f64).ceil() as u64
}

/// Refuses jobs that cannot be trained together on rows of a width.
pub(super) fn check(width: usize, jobs: &[TrainJob]) -> Result<()> {
    for job in jobs {
        if job.settings.width != width || job.settings.batch != jobs[0].settings.batch {
            return Err(InputError::new(
                "dictionaries trained together must have the width of the activations and the same batch size",
            )
            .expected(format!("width {width} and batch {}", jobs[0].settings.batch))
            .found(format!("width {} and batch {}", job.settings.width, job.settings.batch))
            .into());
        }
    }
    Ok(())
}

/// The hash of settings, options and data.
pub(super) fn recipe(
    store: &ActivationStore,
    aside: &Aside,
    jobs: &[TrainJob],
    options: &TrainOptions<'_>,
) -> Result<String> {
    let mut hash = of_jobs(jobs);
    let early = match &options.early {
        Some(early) => json!([early.held_out.id()?, early.every, early.patience]),
        None => Value::Null,
    };
    let rest = json!([store.id()?, options.order, options.window, options.seed, early, options.stop_after]);
    hash.update(rest.to_string().as_bytes());
    // Trainings without such rows keep the hashes of version 0.1.0.
    if jobs.iter().any(|job| sets_aside(job, options)) {
        hash.update(json!({ "aside": aside.rows().len() }).to_string().as_bytes());
    }
    Ok(format!("blake3:{}", hash.finalize().to_hex()))
}

/// The hash of settings, options and a stream.
pub(super) fn stream_recipe(id: &str, buffer: usize, jobs: &[TrainJob], options: &TrainOptions<'_>) -> String {
    let mut hash = of_jobs(jobs);
    let rest = json!({"stream": id, "buffer": buffer, "seed": options.seed, "stop_after": options.stop_after});
    hash.update(rest.to_string().as_bytes());
    format!("blake3:{}", hash.finalize().to_hex())
}

/// The beginning of a recipe: settings and initial weights.
fn of_jobs(jobs: &[TrainJob]) -> blake3::Hasher {
    let mut hash = blake3::Hasher::new_derive_key("etalon training v1");
    for job in jobs {
        hash.update(json!(job.settings).to_string().as_bytes());
        for (name, tensor) in job.initial.iter().flatten() {
            hash.update(name.as_bytes()).update(bytemuck::cast_slice(&tensor.values));
        }
    }
    hash
}

/// Refuses outputs that contain anything but dictionaries of this training, before it begins.
pub(super) fn check_outputs(jobs: &[TrainJob], recipe: &str, budget: &Budget) -> Result<()> {
    for job in jobs {
        if !checkpoint::is_etalon(&job.out) {
            checkpoint::check_vacant(&job.out)?;
        } else if recipe_of(&checkpoint::load(&job.out, budget)?) != Some(recipe) {
            return Err(other_dictionary(job).into());
        }
    }
    Ok(())
}

fn recipe_of(loaded: &checkpoint::Loaded) -> Option<&str> {
    loaded.about.get("recipe").and_then(Value::as_str)
}

fn other_dictionary(job: &TrainJob) -> InputError {
    InputError::new("the output directory contains another dictionary")
        .expected("a new directory, or the result of the same training")
        .advice(format!("choose another {}", Key("out")))
        .file(&job.out)
}

/// The dictionaries, if an earlier run has finished all of them.
pub(super) fn finished(jobs: &[TrainJob], recipe: &str, budget: &Budget) -> Result<Option<Vec<Trained>>> {
    if !jobs.iter().all(|job| job.out.join("sae.json").is_file()) {
        return Ok(None);
    }
    let mut finished = Vec::new();
    for job in jobs {
        let loaded = checkpoint::load(&job.out, budget)?;
        if recipe_of(&loaded) != Some(recipe) {
            return Err(other_dictionary(job).into());
        }
        let number = |name: &str| loaded.about.get(name).and_then(Value::as_f64);
        let (unit, steps) = (number("unit").unwrap_or(1.0) as f32, number("steps").unwrap_or(0.0) as u64);
        let precision = loaded.about.get("precision").and_then(Value::as_str).unwrap_or("f32").to_string();
        let threshold = loaded.about.get("threshold").and_then(|rows| serde_json::from_value(rows.clone()).ok());
        finished.push(Trained { dictionary: loaded.dictionary, unit, steps, precision, threshold, kept: true });
    }
    Ok(Some(finished))
}
