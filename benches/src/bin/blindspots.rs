//! How many tokens per second does one core compare? Real and generated codes of 32,000 latents with 5 active per token, one
//! row each, from disk: means, gaps, counts and the ten strongest rows of every latent on both sides (`blindspots`), and all
//! co-occurrences with the partners of every latent (`cooccurrence`, without spectra), on one thread, by the time that the
//! processor worked. Tests of rare concepts, resamples and spectra do not grow with every token and are not part of it.
//!
//! The tokens of an image share its concepts. The worst case is measured too: tokens that share nothing, so that nearly
//! every pair of latents is met for the first time.

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
const ROWS: usize = 4_000_000;
const ROUNDS: usize = 3;

/// Tokens of an image, and the concepts they have.
const IMAGE: (usize, usize) = (256, 24);
const ALONE: (usize, usize) = (1, ACTIVE);

/// So many different numbers, ascending.
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

/// Codes in which a tenth of the latents has half of the firing.
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
        let places = draw(ACTIVE, || index(concepts, &mut random) as u32);
        let latents: Vec<u32> = places.into_iter().map(|place| image[place as usize]).collect();
        let values: Vec<f32> = latents.iter().map(|_| 0.1 + unit(&mut random) as f32).collect();
        builder.push(&latents, &values)?;
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

/// The processor seconds of a pass over all rows, and how many entries it saw.
fn sums(inputs: &Inputs, budget: &Budget) -> Result<(f64, f64)> {
    let metric = find("blindspots").ok_or_else(|| Error::Bug("no metric".into()))?;
    let recipe = recipe(metric, inputs, &Default::default(), Profile::Paper, 0)?;
    let job = Job { inputs, params: &recipe.params, profile: Profile::Paper, seed: 0, budget };
    let before = processor_seconds();
    let Next::Pass(work) = metric.start(&job)? else { return Err(Error::Bug("no pass".into())) };
    let codes = inputs.codes.as_deref().ok_or_else(|| Error::Bug("no codes".into()))?;
    let tally = pass(work.as_ref(), codes)?;
    let seconds = processor_seconds() - before;
    let Some(Column::Sum(sums)) = tally.columns.get(3) else { return Err(Error::Bug("no sums".into())) };
    Ok((seconds, sums.iter().step_by(3).sum()))
}

/// The processor seconds of all lines of co-occurrence and of the numbers of partners; not of spectra.
fn lines(inputs: &Inputs, budget: &Budget) -> Result<f64> {
    let metric = find("cooccurrence").ok_or_else(|| Error::Bug("no metric".into()))?;
    let recipe = recipe(metric, inputs, &Default::default(), Profile::Paper, 0)?;
    let job = Job { inputs, params: &recipe.params, profile: Profile::Paper, seed: 0, budget };
    let before = processor_seconds();
    let Next::Blocks(mut blocks) = metric.start(&job)? else { return Err(Error::Bug("no blocks".into())) };
    while blocks.unit() != "spectra" {
        let mut tally = Tally::default();
        for block in 0..blocks.count() {
            let found = blocks.run(block, &job)?;
            if block == 0 { tally = found } else { tally.merge(found)? }
        }
        let Next::Blocks(next) = blocks.finish(tally, &job)? else { return Err(Error::Bug("no spectra".into())) };
        blocks = next;
    }
    Ok(processor_seconds() - before)
}

/// Tokens per second of sums, of co-occurrences and of both; and how many entries were seen.
fn measure(kind: (usize, usize)) -> Result<([f64; 3], f64)> {
    let directory = std::env::temp_dir().join(format!("etalon-bench-{}", std::process::id()));
    for (name, seed) in [("real", 1), ("made", 2)] {
        tokens(kind, seed)?.save(&directory.join(name))?;
    }
    let budget = Budget::of_machine();
    let (mut best, mut fired) = ([f64::INFINITY; 2], 0.0);
    for _ in 0..ROUNDS {
        // Opened anew: codes remember what they were turned into.
        let stored = |name: &str| Codes::open(&directory.join(name)).map(Arc::new);
        let models = vec![Model { name: "model".into(), codes: stored("made")?, embeddings: None }];
        let inputs = Inputs { codes: Some(stored("real")?), models, ..Inputs::default() };
        let (seconds, seen) = sums(&inputs, &budget)?;
        (best[0], fired) = (best[0].min(seconds), seen);
        best[1] = best[1].min(lines(&inputs, &budget)?);
    }
    std::fs::remove_dir_all(&directory).map_err(Error::io("remove", &directory))?;
    // A token is one row of one side; both sides are read.
    Ok(([best[0], best[1], best[0] + best[1]].map(|seconds| 2.0 * ROWS as f64 / seconds), fired))
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
