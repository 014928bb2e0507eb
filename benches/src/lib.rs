//! What the benches share: data of a given shape, an evaluation, a clock, and one line of JSON at the end.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Instant;

use etalon::budget::Budget;
use etalon::codes::{Codes, CodesBuilder};
use etalon::error::{Error, Result};
use etalon::kernel::random::{index, stream, unit};
use etalon::labels::{Annotations, Label};
use etalon::metrics::{evaluate, find, recipe};
use etalon::progress::Silent;
use etalon::results::{Profile, ResultFile};
use etalon::run::{Engine, Inputs};
use etalon::store::ActivationStore;
use serde_json::{Value, json};

/// Sparse codes with `active` latents in every row, some latents far more frequent than others.
pub fn codes(rows: usize, latents: usize, active: usize) -> Result<Arc<Codes>> {
    let mut random = stream(1, "bench codes", 0);
    let mut builder = CodesBuilder::new(latents);
    for _ in 0..rows {
        let mut row: Vec<u32> = Vec::with_capacity(active);
        while row.len() < active {
            let skewed = unit(&mut random).powi(2);
            let latent = ((skewed * latents as f64) as u32).min(latents as u32 - 1);
            if !row.contains(&latent) {
                row.push(latent);
            }
        }
        row.sort_unstable();
        let values: Vec<f32> = row.iter().map(|_| 0.1 + unit(&mut random) as f32).collect();
        builder.push(&row, &values)?;
    }
    Ok(Arc::new(builder.finish()))
}

/// Concepts that follow a few latents each, with noise: a matching has something to find.
pub fn labels(codes: &Codes, concepts: usize) -> Result<Arc<Annotations>> {
    let mut random = stream(2, "bench labels", 0);
    let mut yes = vec![Vec::with_capacity(codes.rows()); concepts];
    for yes in &mut yes {
        let followed: Vec<u32> = (0..3).map(|_| index(codes.latents(), &mut random) as u32).collect();
        for (_, latents, _) in codes.all()?.iter() {
            let fires = followed.iter().any(|latent| latents.binary_search(latent).is_ok());
            yes.push(unit(&mut random) < if fires { 0.8 } else { 0.08 });
        }
    }
    let names = (0..concepts).map(|concept| format!("concept {concept}")).collect();
    let label = |row: usize, concept: usize| if yes[concept][row] { Label::Yes } else { Label::No };
    Ok(Arc::new(Annotations::new(names, codes.rows(), label)?))
}

/// Random embeddings.
pub fn embeddings(rows: usize, width: usize) -> Result<Arc<ActivationStore>> {
    let mut random = stream(3, "bench embeddings", 0);
    let values = (0..rows * width).map(|_| unit(&mut random) as f32 - 0.4).collect();
    Ok(Arc::new(ActivationStore::from_rows(values, width)?))
}

/// Evaluates a metric on all cores.
pub fn run(metric: &str, inputs: &Inputs, given: &[(&str, &str)], profile: Profile) -> Result<ResultFile> {
    let metric = find(metric).ok_or_else(|| Error::Bug(format!("no metric {metric}")))?;
    let given: BTreeMap<String, String> =
        given.iter().map(|(name, value)| (name.to_string(), value.to_string())).collect();
    let cancel = AtomicBool::new(false);
    let engine = Engine::new(0, Budget::of_machine(), &Silent, &cancel)?;
    evaluate(metric, inputs, recipe(metric, inputs, &given, profile, 0)?, &engine)
}

/// The best of some runs, in seconds.
pub fn best_seconds(runs: usize, mut work: impl FnMut() -> Result<()>) -> Result<f64> {
    let mut best = f64::INFINITY;
    for _ in 0..runs {
        let began = Instant::now();
        work()?;
        best = best.min(began.elapsed().as_secs_f64());
    }
    Ok(best)
}

/// The most memory this process has held, in bytes.
pub fn peak_memory() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find(|line| line.starts_with("VmHWM:"));
    line.and_then(|line| line.split_whitespace().nth(1)?.parse::<u64>().ok()).unwrap_or(0) * 1024
}

/// Prints the one line that `cargo xtask bench` reads.
#[expect(clippy::print_stdout, reason = "the answer of a bench")]
pub fn answer(seconds: f64, extra: &[(&str, Value)]) {
    let mut line = json!({"seconds": seconds, "peak_memory": peak_memory()});
    for (name, value) in extra {
        line[*name] = value.clone();
    }
    println!("{line}");
}
