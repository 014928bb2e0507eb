//! How many tokens per second does one core compare? Real and generated codes of 32,000 latents with 5 active per token, one
//! row each, from disk: means, gaps, δ, counts and the ten strongest rows of every latent on both sides, on one thread, by
//! the time that the processor worked. Tests
//! of rare concepts and resamples are done once, whatever the number of tokens, and are not part of it.

use std::sync::Arc;

use etalon::budget::Budget;
use etalon::codes::{Codes, CodesBuilder};
use etalon::error::{Error, Result};
use etalon::kernel::random::{index, stream, unit};
use etalon::metrics::{find, recipe};
use etalon::results::Profile;
use etalon::run::{Column, Inputs, Job, Model, Next, Pass, Plan, Rows, Tally};
use etalon_bench::{answer, processor_seconds};
use serde_json::json;

const LATENTS: usize = 32_000;
const ACTIVE: usize = 5;
const ROUNDS: usize = 3;

/// Codes in which a tenth of the latents has half of the firing.
fn tokens(rows: usize, seed: u64) -> Result<Codes> {
    let mut random = stream(seed, "bench tokens", 0);
    let mut builder = CodesBuilder::new(LATENTS);
    for _ in 0..rows {
        let mut row: Vec<u32> = Vec::with_capacity(ACTIVE);
        while row.len() < ACTIVE {
            let below = if unit(&mut random) < 0.5 { LATENTS / 10 } else { LATENTS };
            let latent = index(below, &mut random) as u32;
            if !row.contains(&latent) {
                row.push(latent);
            }
        }
        row.sort_unstable();
        let values: Vec<f32> = row.iter().map(|_| 0.1 + unit(&mut random) as f32).collect();
        builder.push(&row, &values)?;
    }
    Ok(builder.finish())
}

/// What the engine does with one thread: unit by unit, tile by tile, merged as a tree.
fn pass(pass: &dyn Pass, codes: &Codes) -> Result<Tally> {
    let plan = Plan::of_rows(codes.rows());
    let mut waiting: Vec<(usize, Tally)> = Vec::new();
    for unit in 0..plan.units() {
        let mut tally = pass.empty();
        for tile in plan.tiles(unit) {
            pass.absorb(&mut tally, &Rows { codes: Some(codes.view(tile)?), embeddings: None })?;
        }
        let mut level = 0;
        while waiting.last().is_some_and(|(other, _)| *other == level) {
            let Some((_, mut earlier)) = waiting.pop() else { break };
            earlier.merge(tally)?;
            (tally, level) = (earlier, level + 1);
        }
        waiting.push((level, tally));
    }
    let mut all = pass.empty();
    while let Some((_, mut earlier)) = waiting.pop() {
        std::mem::swap(&mut all, &mut earlier);
        all.merge(earlier)?;
    }
    Ok(all)
}

fn main() -> Result<()> {
    let rows = 2_000_000;
    let directory = std::env::temp_dir().join(format!("etalon-bench-{}", std::process::id()));
    let stored = |name: &str, seed: u64| -> Result<Arc<Codes>> {
        tokens(rows, seed)?.save(&directory.join(name))?;
        Ok(Arc::new(Codes::open(&directory.join(name))?))
    };
    let (real, made) = (stored("real", 1)?, stored("made", 2)?);
    let models = vec![Model { name: "model".into(), codes: made, embeddings: None }];
    let inputs = Inputs { codes: Some(real.clone()), models, ..Inputs::default() };
    let metric = find("blindspots").ok_or_else(|| Error::Bug("no metric".into()))?;
    let recipe = recipe(metric, &inputs, &Default::default(), Profile::Paper, 0)?;
    let budget = Budget::of_machine();
    let job = Job { inputs: &inputs, params: &recipe.params, profile: Profile::Paper, seed: 0, budget: &budget };
    let mut best = f64::INFINITY;
    let mut fired = 0.0;
    for _ in 0..ROUNDS {
        let before = processor_seconds();
        let Next::Pass(work) = metric.start(&job)? else { return Err(Error::Bug("no pass".into())) };
        let tally = pass(work.as_ref(), &real)?;
        best = best.min(processor_seconds() - before);
        fired = match tally.columns.get(3) {
            Some(Column::Sum(sums)) => sums.iter().step_by(6).sum(),
            _ => 0.0,
        };
    }
    std::fs::remove_dir_all(&directory).map_err(Error::io("remove", &directory))?;
    answer(
        best,
        &[
            ("question", json!("blindspots")),
            ("latents", json!(LATENTS)),
            ("tokens", json!(rows)),
            // A token is one row of one side; both sides are read.
            ("pairs_per_second_per_core", json!(rows as f64 / best)),
            ("tokens_per_second_per_core", json!(2.0 * rows as f64 / best)),
            ("entries_seen", json!(fired)),
        ],
    );
    Ok(())
}
