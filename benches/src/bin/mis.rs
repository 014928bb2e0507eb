//! How long does the machine interpretability score take for 2,048 units on 50,000 images with embeddings of width 512? How
//! many units per second are scored after the selection of images, and how fast is the selection compared with reading
//! the activations once? Peer: the released procedure in NumPy, a sort per unit and all pairs of cosines.

use std::collections::BTreeMap;
use std::hint::black_box;

use etalon::error::{Error, Result};
use etalon::metrics::{evaluate, find, recipe, two_choice_tasks};
use etalon::results::Profile;
use etalon::run::{EMBEDDINGS, Inputs, SIMILARITY};
use etalon::store::ActivationStore;
use etalon_bench::{answer, best_seconds, context, embeddings};
use etalon_kernel::random::{stream, unit};
use rayon::prelude::*;
use serde_json::json;

const IMAGES: usize = 50_000;
const UNITS: usize = 2048;

/// Activations of neurons: sums of four uniform numbers.
fn activations() -> Vec<f32> {
    let mut values = vec![0.0; IMAGES * UNITS];
    values.par_chunks_mut(UNITS).enumerate().for_each(|(row, values)| {
        let mut random = stream(5, "bench units", row as u64);
        values.iter_mut().for_each(|value| *value = (0..4).map(|_| unit(&mut random)).sum::<f64>() as f32 - 2.0);
    });
    values
}

fn main() -> Result<()> {
    let context = context(2)?;
    let values = context.install(activations);
    // Two threads that read everything once: the largest speed that a scan can have.
    let reading = best_seconds(5, || {
        let largest = |chunk: &[f32]| chunk.iter().fold(0u32, |all, value| all | value.to_bits());
        context.install(|| black_box(values.par_chunks(1 << 20).map(largest).reduce(|| 0, |a, b| a | b)));
        Ok(())
    })?;
    let inputs = Inputs::default()
        .with(&EMBEDDINGS, ActivationStore::from_rows(values, UNITS)?)
        .with(&SIMILARITY, embeddings(IMAGES, 512)?);
    let metric = find("mis").ok_or_else(|| Error::Bug("no metric mis".into()))?;
    let recipe = recipe(metric, &inputs, &BTreeMap::new(), Profile::Paper, 0)?;
    let selection = best_seconds(5, || two_choice_tasks(&inputs, &recipe, &[], &context).map(|_| ()))?;
    let reserved = context.budget().peak() as f64 / UNITS as f64;
    let seconds = best_seconds(3, || evaluate(metric, &inputs, &recipe, &context).map(|_| ()))?;
    let (rate, share) = (UNITS as f64 / (seconds - selection), 100.0 * reading / selection);
    let gigabytes = (4 * IMAGES * UNITS) as f64 / 1e9;
    let how = format!(
        "selection {selection:.3} s, {:.1} GB/s, {share:.0} % of the {:.1} GB/s of reading, {:.1} kB reserved per unit; then {rate:.0} units/s",
        gigabytes / selection,
        gigabytes / reading,
        reserved / 1e3
    );
    let values = [
        ("units_per_second", json!(rate)),
        ("percent_of_bandwidth", json!(share)),
        ("reserved", json!(reserved)),
        ("how", json!(how)),
    ];
    answer(seconds, &values);
    Ok(())
}
