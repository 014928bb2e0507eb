//! What is trained, on what, and what comes out.

use std::path::PathBuf;

use serde_json::{Value, json};

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
    /// How.
    pub settings: TrainingSettings,
    /// Weights to start from.
    pub initial: Option<Tensors>,
    /// The directory of the finished dictionary.
    pub out: PathBuf,
}

/// When to stop before the last step.
#[derive(Debug)]
pub struct Early<'a> {
    /// Rows that are not trained on.
    pub held_out: &'a ActivationStore,
    /// Steps between two looks.
    pub every: u64,
    /// Looks in a row without a smaller error after which training stops; the best weights are kept.
    pub patience: u32,
}

/// What all dictionaries of one pass share.
#[derive(Debug)]
pub struct TrainOptions<'a> {
    /// The order of rows.
    pub order: Order,
    /// Rows that are shuffled together.
    pub window: usize,
    /// The seed of the order.
    pub seed: u64,
    /// Steps between two states on disk; 0 for none but the last.
    pub save_every: u64,
    /// Steps between two lines of the log.
    pub log_every: u64,
    /// Steps after which a copy of the dictionary is kept, for the dynamics of training.
    pub snapshots: Vec<u64>,
    /// When to stop before the last step.
    pub early: Option<Early<'a>>,
    /// Stop after so many steps; schedules still refer to the last.
    pub stop_after: Option<u64>,
    /// How the encoder product is searched: no result depends on it, so that it is no part of the recipe.
    pub precision: Precision,
}

impl Default for TrainOptions<'_> {
    fn default() -> Self {
        TrainOptions {
            order: Order::default(),
            window: 1 << 18,
            seed: 0,
            save_every: 1000,
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
    /// The dictionary, as it was written.
    pub dictionary: Box<dyn Dictionary>,
    /// What inputs were divided by during training.
    pub unit: f32,
    /// The step whose weights they are.
    pub steps: u64,
    /// How the encoder product was searched, in words.
    pub precision: String,
    /// An earlier run had finished it.
    pub kept: bool,
}

/// The steps of a number of epochs.
pub fn steps_of_epochs(rows: usize, batch: usize, epochs: f64) -> u64 {
    (rows as f64 * epochs / batch.max(1) as f64).ceil() as u64
}

/// Refuses jobs that cannot be trained together.
pub(super) fn check(store: &ActivationStore, jobs: &[TrainJob]) -> Result<()> {
    if store.rows() == 0 {
        return Err(InputError::new("there are no rows to train on").into());
    }
    for job in jobs {
        if job.settings.width != store.width() || job.settings.batch != jobs[0].settings.batch {
            return Err(InputError::new(
                "dictionaries that are trained together must fit the activations and each other",
            )
            .expected(format!("width {} and batch {}", store.width(), jobs[0].settings.batch))
            .found(format!("width {} and batch {}", job.settings.width, job.settings.batch))
            .into());
        }
    }
    Ok(())
}

/// The name of what is trained on what.
pub(super) fn recipe(store: &ActivationStore, jobs: &[TrainJob], options: &TrainOptions<'_>) -> Result<String> {
    let mut hash = blake3::Hasher::new_derive_key("etalon training v1");
    for job in jobs {
        hash.update(json!(job.settings).to_string().as_bytes());
        for (name, tensor) in job.initial.iter().flatten() {
            hash.update(name.as_bytes()).update(bytemuck::cast_slice(&tensor.values));
        }
    }
    let early = match &options.early {
        Some(early) => json!([early.held_out.id()?, early.every, early.patience]),
        None => Value::Null,
    };
    let rest = json!([store.id()?, options.order, options.window, options.seed, early, options.stop_after]);
    hash.update(rest.to_string().as_bytes());
    Ok(format!("blake3:{}", hash.finalize().to_hex()))
}

/// The dictionaries, if an earlier run has finished all of them.
pub(super) fn finished(jobs: &[TrainJob], recipe: &str, budget: &Budget) -> Result<Option<Vec<Trained>>> {
    if !jobs.iter().all(|job| job.out.join("sae.json").is_file()) {
        return Ok(None);
    }
    let mut finished = Vec::new();
    for job in jobs {
        let loaded = checkpoint::load(&job.out, budget)?;
        if loaded.about.get("recipe").and_then(Value::as_str) != Some(recipe) {
            return Err(InputError::new("the output directory holds another dictionary")
                .expected("a new directory, or the result of the same training")
                .advice(format!("choose another {}", Key("out")))
                .file(&job.out)
                .into());
        }
        let number = |name: &str| loaded.about.get(name).and_then(Value::as_f64);
        let (unit, steps) = (number("unit").unwrap_or(1.0) as f32, number("steps").unwrap_or(0.0) as u64);
        let precision = loaded.about.get("precision").and_then(Value::as_str).unwrap_or("f32").to_string();
        finished.push(Trained { dictionary: loaded.dictionary, unit, steps, precision, kept: true });
    }
    Ok(Some(finished))
}
