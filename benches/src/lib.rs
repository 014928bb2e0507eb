//! Shared parts of the benchmarks: synthetic data, evaluation, timing, and the line of JSON at the end.

pub mod coverage;

use std::collections::BTreeMap;
use std::io::{BufRead, Write};
use std::sync::Arc;
use std::time::Instant;

use etalon::codes::{Codes, CodesBuilder};
use etalon::context::{Budget, Context, Silent};
use etalon::error::{Error, Result};
use etalon::labels::{Annotations, Label};
use etalon::metrics::{evaluate, find, recipe};
use etalon::results::{Profile, ResultFile};
use etalon::run::Inputs;
use etalon::sae::arch::{self, Sparsity};
use etalon::sae::train::{Preset, Trainer, TrainingSettings};
use etalon::store::ActivationStore;
use etalon_kernel::aligned::Aligned;
use etalon_kernel::int8::Arithmetic;
use etalon_kernel::packed::{PANEL, Panels, TILE_ROWS, blocks_at_once, fill_block};
use etalon_kernel::random::{index, stream, unit};
use rayon::prelude::*;
use rustix::time::{ClockId, clock_gettime};
use serde_json::{Value, json};

/// Sparse codes with `active` latents per row; some latents are far more frequent than others.
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

/// Concepts that each follow three latents, with noise, so that a matching exists.
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

/// Rows of mutually exclusive classes: the class direction plus twenty of 2,048 background directions. With `property`,
/// half of the rows have one more property.
pub fn classes(
    rows: usize,
    width: usize,
    classes: usize,
    property: bool,
) -> Result<(Arc<ActivationStore>, Arc<Annotations>)> {
    let mut random = stream(4, "bench classes", 0);
    let directions: Vec<f32> =
        (0..2048 * width).map(|_| (unit(&mut random) as f32 - 0.5) * (12.0 / width as f32).sqrt()).collect();
    let concepts = classes + usize::from(property);
    let mut values = vec![0.0; rows * width];
    let mut has = vec![false; rows];
    for (number, row) in values.chunks_exact_mut(width).enumerate() {
        has[number] = property && unit(&mut random) < 0.5;
        let background: Vec<usize> = (0..20).map(|_| concepts + index(2048 - concepts, &mut random)).collect();
        let own = [Some(number % classes), has[number].then_some(classes)];
        for which in own.into_iter().flatten().chain(background) {
            let weight = 1.0 + unit(&mut random) as f32;
            row.iter_mut().zip(&directions[which * width..]).for_each(|(into, value)| *into += weight * value);
        }
    }
    let names =
        (0..concepts).map(|concept| if concept < classes { format!("set/{concept}") } else { "property".into() });
    let label = |row: usize, concept: usize| {
        let yes = if concept < classes { row % classes == concept } else { has[row] };
        if yes { Label::Yes } else { Label::No }
    };
    let labels = Annotations::new(names.collect(), rows, label)?;
    Ok((Arc::new(ActivationStore::from_rows(values, width)?), Arc::new(labels)))
}

/// A context with the default memory limit and no progress display.
pub fn context(threads: usize) -> Result<Context> {
    Context::new(threads, Budget::of_machine(), Silent)
}

/// Evaluates a metric on all cores, seed 0.
pub fn run(metric: &str, inputs: &Inputs, given: &[(&str, &str)], profile: Profile) -> Result<ResultFile> {
    run_seed(metric, inputs, given, profile, 0)
}

/// Evaluates a metric on all cores.
pub fn run_seed(
    metric: &str,
    inputs: &Inputs,
    given: &[(&str, &str)],
    profile: Profile,
    seed: u64,
) -> Result<ResultFile> {
    let metric = find(metric).ok_or_else(|| Error::Bug(format!("no metric {metric}")))?;
    let given: BTreeMap<String, String> =
        given.iter().map(|(name, value)| (name.to_string(), value.to_string())).collect();
    evaluate(metric, inputs, &recipe(metric, inputs, &given, profile, seed)?, &context(0)?)
}

/// The shortest of several runs, in seconds.
pub fn best_seconds(runs: usize, mut work: impl FnMut() -> Result<()>) -> Result<f64> {
    let mut best = f64::INFINITY;
    for _ in 0..runs {
        let began = Instant::now();
        work()?;
        best = best.min(began.elapsed().as_secs_f64());
    }
    Ok(best)
}

/// The peak resident memory of this process, in bytes.
pub fn peak_memory() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find(|line| line.starts_with("VmHWM:"));
    line.and_then(|line| line.split_whitespace().nth(1)?.parse::<u64>().ok()).unwrap_or(0) * 1024
}

/// Prints the line of JSON that `cargo xtask bench` reads.
#[expect(clippy::print_stdout, reason = "the result of a benchmark")]
pub fn answer(seconds: f64, extra: &[(&str, Value)]) {
    let mut line = json!({"seconds": seconds, "peak_memory": peak_memory()});
    for (name, value) in extra {
        line[*name] = value.clone();
    }
    println!("{line}");
}

/// Width of the training activations.
pub const WIDTH: usize = 768;

/// Rows per step.
pub const BATCH: usize = 1024;

/// Rows that are sums of twenty of 2,048 directions plus noise.
pub fn batches(count: usize) -> Vec<Vec<f32>> {
    let mut random = stream(0, "bench train", 0);
    let directions: Vec<f32> =
        (0..2048 * WIDTH).map(|_| (unit(&mut random) as f32 - 0.5) * (12.0 / WIDTH as f32).sqrt()).collect();
    (0..count)
        .map(|_| {
            let mut rows = vec![0.0; BATCH * WIDTH];
            for row in rows.chunks_exact_mut(WIDTH) {
                for _ in 0..20 {
                    let (which, weight) = (index(2048, &mut random), 1.0 + unit(&mut random) as f32);
                    let direction = &directions[which * WIDTH..][..WIDTH];
                    row.iter_mut().zip(direction).for_each(|(into, value)| *into += weight * value);
                }
                row.iter_mut().for_each(|value| *value += 0.02 * (unit(&mut random) as f32 - 0.5));
            }
            rows
        })
        .collect()
}

/// A trainer with plain Adam at a constant rate.
pub fn trainer(name: &str, latents: usize, clip: Option<f64>) -> Result<Trainer> {
    let preset = arch::find(name)?.settings(Preset::Etalon, WIDTH, latents);
    Trainer::new(TrainingSettings { k: 32, batch: BATCH, rate: 1e-3, warmup: 0, clip, ..preset })
}

/// A trainer with default settings; L0 is 32, fixed or as a target.
pub fn default_trainer(name: &str, latents: usize) -> Result<Trainer> {
    let arch = arch::find(name)?;
    let mut settings = TrainingSettings { k: 32, batch: BATCH, ..arch.settings(Preset::Etalon, WIDTH, latents) };
    if let Sparsity::Target { .. } = arch.sparsity() {
        arch::aim_at(&mut settings, 32.0, &|_| false)?;
    }
    Trainer::new(settings)
}

/// Batches divided by the root mean squared norm of their rows.
pub fn unit_batches(count: usize) -> Vec<Vec<f32>> {
    let mut batches = batches(count);
    let squares: f64 = batches.iter().flatten().map(|&value| f64::from(value).powi(2)).sum();
    let unit = (squares / (count * BATCH) as f64).sqrt() as f32;
    batches.iter_mut().flatten().for_each(|value| *value /= unit);
    batches
}

/// Rows packed for a product.
pub fn packed(rows: &[f32], width: usize) -> Aligned {
    let size = TILE_ROWS * width;
    let mut packed = Aligned::zeros(rows.len().div_ceil(size) * size);
    for (rows, block) in rows.chunks(size).zip(packed.chunks_exact_mut(size)) {
        fill_block(rows, width, block);
    }
    packed
}

/// Computes every tile of a product in the order of an encoder, and discards it.
pub fn product(panels: &Panels, packed: &[f32], width: usize) -> Result<()> {
    let size = TILE_ROWS * width;
    let at_once = blocks_at_once(packed.len() / size, width, rayon::current_num_threads());
    packed.par_chunks(at_once * size).for_each(|blocks| {
        let mut tiles = Aligned::zeros(at_once * TILE_ROWS * PANEL);
        let (tiles, _) = tiles.as_chunks_mut::<{ TILE_ROWS * PANEL }>();
        for panel in 0..panels.panels() {
            panels.products(blocks, panel, &mut tiles[..blocks.len() / size]);
            std::hint::black_box(&*tiles);
        }
    });
    Ok(())
}

/// The command-line arguments as numbers.
pub fn sizes<const COUNT: usize>() -> Result<[usize; COUNT]> {
    let given: Vec<usize> = std::env::args().skip(1).filter_map(|text| text.parse().ok()).collect();
    given.try_into().map_err(|_| Error::Bug(format!("this benchmark takes {COUNT} numbers as arguments")))
}

/// The single command-line argument as a number.
pub fn size() -> Result<usize> {
    sizes().map(|[size]| size)
}

/// One repetition of a measurement.
pub type Measure<'a> = Box<dyn FnMut() -> Result<()> + Send + 'a>;

/// Processor seconds used by this process.
pub fn processor_seconds() -> f64 {
    let used = clock_gettime(ClockId::ProcessCPUTime);
    used.tv_sec as f64 + used.tv_nsec as f64 / 1e9
}

/// Serves interleaved measurements: reads the name of a measurement, runs it once on two threads, and prints its wall-clock
/// and processor seconds. `make` is called when a name first occurs. Prints the int8 instruction set for `arithmetic`.
#[expect(clippy::print_stdout, reason = "the result of a benchmark")]
pub fn turns<'a>(make: impl Fn(&str) -> Result<Measure<'a>>) -> Result<()> {
    let pool = context(2)?;
    let mut made: BTreeMap<String, Measure<'a>> = BTreeMap::new();
    for name in std::io::stdin().lock().lines().map_while(std::io::Result::ok) {
        if name == "arithmetic" {
            println!("{}", Arithmetic::fastest().name());
            continue;
        }
        if !made.contains_key(&name) {
            made.insert(name.clone(), make(&name)?);
        }
        let Some(measure) = made.get_mut(&name) else { continue };
        let (began, before) = (Instant::now(), processor_seconds());
        pool.install(measure)?;
        println!("{} {}", began.elapsed().as_secs_f64(), processor_seconds() - before);
        std::io::stdout().flush().map_err(Error::io("answer", std::path::Path::new("standard output")))?;
    }
    Ok(())
}
