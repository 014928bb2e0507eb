//! How many tokens per second does one core compare? Real and generated codes of 32,000 latents with 5 active per token, one
//! row each, from disk: means, gaps, counts and the ten strongest rows of every latent on both sides (`blindspots`), and all
//! co-occurrences with the partners of every latent (`cooccurrence`, without spectra), on one thread, in processor time.
//! Tests of rare concepts, resamples and spectra do not grow with every token and are not included.
//!
//! The tokens of an image share its concepts. The worst case is measured too: tokens that share nothing, so that nearly
//! every pair of latents is met for the first time.

use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use etalon::codes::{Codes, CodesBuilder};
use etalon::context::{Budget, Context, Progress};
use etalon::error::{Error, Result};
use etalon::metrics::{evaluate, find, recipe};
use etalon::results::Profile;
use etalon::run::{CODES, GENERATED, Generated, Inputs};
use etalon_bench::{answer, processor_seconds};
use etalon_kernel::random::{index, stream, unit};
use serde_json::json;

const LATENTS: usize = 32_000;
const ACTIVE: usize = 5;
const ROWS: usize = 4_000_000;
const ROUNDS: usize = 3;

/// Tokens per image, and concepts per image.
const IMAGE: (usize, usize) = (256, 24);
const ALONE: (usize, usize) = (1, ACTIVE);

/// `count` distinct numbers, ascending.
fn draw(count: usize, mut one: impl FnMut() -> u32) -> Vec<u32> {
    let mut drawn = Vec::with_capacity(count);
    while drawn.len() < count {
        let number = one();
        if !drawn.contains(&number) {
            drawn.push(number);
        }
    }
    drawn.sort_unstable();
    drawn
}

/// Codes in which a tenth of the latents has half of the firings.
fn tokens((together, concepts): (usize, usize), seed: u64) -> Result<Codes> {
    let mut random = stream(seed, "bench tokens", 0);
    let mut builder = CodesBuilder::new(LATENTS);
    let mut image = Vec::new();
    for row in 0..ROWS {
        if row % together == 0 {
            image = draw(concepts, || {
                let below = if unit(&mut random) < 0.5 { LATENTS / 10 } else { LATENTS };
                index(below, &mut random) as u32
            });
        }
        let positions = draw(ACTIVE, || index(concepts, &mut random) as u32);
        let latents: Vec<u32> = positions.into_iter().map(|position| image[position as usize]).collect();
        let values: Vec<f32> = latents.iter().map(|_| 0.1 + unit(&mut random) as f32).collect();
        builder.push(&latents, &values)?;
    }
    Ok(builder.finish())
}

/// Processor seconds between the start of an evaluation and the event that stops it.
#[derive(Default)]
struct Clock {
    /// What is cancelled at the end. Removed then: the context owns the clock.
    context: Mutex<Option<Context>>,
    /// Unit of the stage at whose start the clock stops; without it, the clock stops at the end of the first stage.
    until: Option<&'static str>,
    stopped: OnceLock<f64>,
}

impl Clock {
    fn stop(&self) {
        self.stopped.get_or_init(processor_seconds);
        if let Some(context) = self.context.lock().unwrap_or_else(PoisonError::into_inner).take() {
            context.cancel();
        }
    }
}

impl Progress for Clock {
    fn start(&self, _: &str, _: u64, unit: &str) {
        if self.until == Some(unit) {
            self.stop();
        }
    }

    fn advance(&self, _: u64) {}

    fn finish(&self) {
        if self.until.is_none() {
            self.stop();
        }
    }
}

/// Processor seconds of the first stages of a metric on one thread.
fn seconds(metric: &str, inputs: &Inputs, until: Option<&'static str>) -> Result<f64> {
    let metric = find(metric).ok_or_else(|| Error::Bug("no metric".into()))?;
    let recipe = recipe(metric, inputs, &Default::default(), Profile::Paper, 0)?;
    let clock = Arc::new(Clock { until, ..Clock::default() });
    let context = Context::new(1, Budget::of_machine(), clock.clone())?;
    *clock.context.lock().unwrap_or_else(PoisonError::into_inner) = Some(context.clone());
    let before = processor_seconds();
    match evaluate(metric, inputs, &recipe, &context) {
        Ok(_) | Err(Error::Cancelled) => {}
        Err(error) => return Err(error),
    }
    clock.stopped.get().map(|after| after - before).ok_or_else(|| Error::Bug("no such stage".into()))
}

/// Tokens per second of sums, of co-occurrences and of both; and how many entries were seen.
fn measure(kind: (usize, usize)) -> Result<([f64; 3], f64)> {
    let directory = std::env::temp_dir().join(format!("etalon-bench-{}", std::process::id()));
    for (name, seed) in [("real", 1), ("made", 2)] {
        tokens(kind, seed)?.save(&directory.join(name))?;
    }
    let (mut best, mut entries) = ([f64::INFINITY; 2], 0);
    for _ in 0..ROUNDS {
        // Opened again, because codes cache their derived forms.
        let stored = |name: &str| Codes::open(&directory.join(name)).map(Arc::new);
        let (real, codes) = (stored("real")?, stored("made")?);
        entries = real.entries() + codes.entries();
        let inputs =
            Inputs::default().with(&CODES, real).and(&GENERATED, "model", Generated { codes, embeddings: None });
        best[0] = best[0].min(seconds("blindspots", &inputs, None)?);
        best[1] = best[1].min(seconds("cooccurrence", &inputs, Some("spectra"))?);
    }
    std::fs::remove_dir_all(&directory).map_err(Error::io("remove", &directory))?;
    // A token is one row of one side; both sides are read.
    Ok(([best[0], best[1], best[0] + best[1]].map(|seconds| 2.0 * ROWS as f64 / seconds), entries as f64))
}

fn main() -> Result<()> {
    let ([sums, together, both], seen) = measure(IMAGE)?;
    let ([alone_sums, alone_together, alone], _) = measure(ALONE)?;
    let millions = |rate: f64| format!("{:.2}", rate / 1e6);
    let how = format!(
        "million tokens/s: {} (sums {}, co-occurrences {}); tokens that share nothing: {} ({}, {})",
        millions(both),
        millions(sums),
        millions(together),
        millions(alone),
        millions(alone_sums),
        millions(alone_together)
    );
    answer(
        2.0 * ROWS as f64 / both,
        &[("tokens", json!(2 * ROWS)), ("rate", json!(both)), ("entries_seen", json!(seen)), ("how", json!(how))],
    );
    Ok(())
}
