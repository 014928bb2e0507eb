//! `etalon demo`: the complete workflow on built-in data.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use etalon::codes::Codes;
use etalon::error::Result;
use etalon::labels::worlds::{self, World};
use etalon::results::{Archive, Stored};
use etalon::run::{
    CODES, DICTIONARY, DIRECTIONS, EMBEDDINGS, Inputs, LABELS, NULLS, OTHERS, PAIR_CODES, PAIR_EMBEDDINGS, PAIR_LABELS,
    PAIRS, TRAINING, TRUTH, Truth,
};
use etalon::sae::arch::params::{BANDWIDTH, PENALTY, SPARSITY_WARMUP, TARGET_L0};
use etalon::sae::checkpoint::{self, Loaded};
use etalon::sae::train::{Line, Log, Preset, Record, TrainJob, TrainOptions, TrainingSettings, steps_of_epochs, train};
use etalon::sae::{Dictionary, arch, encode_store};
use etalon::store::{ActivationStore, Lock};
use etalon::study::{Grid, GridOutcome, Sanity, Set, sanity_sets};
use serde_json::{Value, json};

use super::{conclude_with, profile};
use crate::cli;
use crate::console::Console;

/// A world with its settings and the dictionaries trained on it: small enough to finish in about a minute.
struct DemoWorld {
    world: &'static str,
    settings: &'static [(&'static str, &'static str)],
    /// Latents and active latents per row; each of `archs` is trained at every size.
    sizes: &'static [(usize, usize)],
    archs: &'static [&'static str],
    /// More dictionaries: architecture, latents, active latents.
    more: &'static [(&'static str, usize, usize)],
}

const DEMO_WORLDS: [DemoWorld; 2] = [
    DemoWorld {
        world: "superposition",
        settings: &[("rows", "4000"), ("width", "64"), ("features", "128"), ("pairs", "600")],
        sizes: &[(64, 8), (128, 8), (256, 8)],
        archs: &["topk"],
        more: &[
            ("topk", 128, 4),
            ("topk", 128, 16),
            ("batch_topk", 128, 8),
            ("matryoshka", 128, 8),
            ("jumprelu", 128, 8),
            ("ra_topk", 128, 8),
            ("mp", 128, 8),
        ],
    },
    DemoWorld {
        world: "shapes",
        settings: &[("rows", "3000"), ("pairs", "600")],
        sizes: &[(64, 8), (128, 8)],
        archs: &["topk"],
        more: &[("batch_topk", 128, 8)],
    },
];

/// The latents and active latents whose results are printed.
const SHOWN: (usize, usize) = (128, 8);

const BATCH: usize = 256;
const EPOCHS: f64 = 60.0;

/// One dictionary of a world.
#[derive(Clone, Copy, PartialEq)]
struct DemoPlan {
    arch: &'static str,
    latents: usize,
    k: usize,
    /// Added to the seed of the demo.
    seed: u64,
}

impl DemoWorld {
    /// All dictionaries. The last repeats the first printed one with another seed, to measure stability.
    fn plans(&self) -> Vec<DemoPlan> {
        let plan = |arch, latents, k| DemoPlan { arch, latents, k, seed: 0 };
        let all =
            self.archs.iter().flat_map(|arch| self.sizes.iter().map(move |&(latents, k)| plan(*arch, latents, k)));
        let more = self.more.iter().map(|&(arch, latents, k)| plan(arch, latents, k));
        let twin = DemoPlan { seed: 1, ..plan(self.archs[0], SHOWN.0, SHOWN.1) };
        all.chain(more).chain([twin]).collect()
    }
}

/// Generates worlds, trains dictionaries on each, evaluates true features, trained, untrained and random codes with every
/// quick metric, and writes the report.
pub fn run(args: &cli::Demo, console: &Console) -> Result<ExitCode> {
    let archive = Archive::open(&args.out)?;
    let _lock = Lock::take(&args.out)?;
    let mut total = GridOutcome::default();
    for demo_world in &DEMO_WORLDS {
        console.status(format!("world `{}`", demo_world.world));
        let settings = demo_world.settings.iter().map(|(key, value)| (key.to_string(), value.to_string())).collect();
        let truth = oracle(worlds::make(demo_world.world, &settings, args.seed, &console.context)?);
        let out = args.out.join("dictionaries").join(demo_world.world);
        let trained = trained(demo_world, &truth, args.seed, &out, console)?;
        let mut sets = vec![Set::new("oracle", truth)];
        sets.extend(with_baselines(trained, args.seed, console)?);
        for set in &mut sets {
            set.about.insert("data".into(), json!(demo_world.world));
        }
        let grid = Grid {
            metrics: Grid::quick_metrics(),
            seeds: vec![args.seed],
            profile: profile("paper"),
            archive: &archive,
            units: None,
            context: &console.context,
        };
        total.add(grid.run(&sets)?);
    }
    // Print one size and sparsity; the report has all of them.
    let shown = |stored: &Stored| {
        let number = |name: &str| stored.about.get(name).and_then(Value::as_u64);
        number("k").is_none_or(|k| (number("latents"), k) == (Some(SHOWN.0 as u64), SHOWN.1 as u64))
    };
    conclude_with(&archive, "Etalon demo", &total, shown, console)
}

/// One set per dictionary, and one untrained dictionary and random codes per size and sparsity.
fn with_baselines(trained: Vec<(DemoPlan, Inputs)>, seed: u64, console: &Console) -> Result<Vec<Set>> {
    let mut sets: Vec<Set> = Vec::new();
    let mut nulls: BTreeMap<(usize, usize), Vec<Arc<Codes>>> = BTreeMap::new();
    for (plan, inputs) in trained {
        let size = (plan.latents, plan.k);
        let mut made = match nulls.get(&size) {
            Some(nulls) => {
                let with_null = |inputs: Inputs, null: &Arc<Codes>| inputs.and(&NULLS, "", null.clone());
                vec![Set::new(plan.arch, nulls.iter().fold(inputs, with_null))]
            }
            None => {
                let options = Sanity { k: Some(plan.k), seed, ..Sanity::default() };
                sanity_sets(plan.arch, &inputs, &options, &console.context)?
            }
        };
        made.iter_mut().for_each(|set| drop(set.about.insert("k".into(), json!(plan.k))));
        let shared = || made[0].inputs.share_all(&NULLS).into_iter().map(|(_, null)| null).collect();
        nulls.entry(size).or_insert_with(shared);
        sets.append(&mut made);
    }
    Ok(sets)
}

/// Inputs whose codes are the true features: an upper bound for any dictionary.
fn oracle(world: World) -> Inputs {
    let (codes, directions) = (Arc::new(world.codes), world.directions.map(Arc::new));
    let truth = Truth { codes: codes.clone(), directions: directions.clone() };
    let mut inputs = Inputs::default()
        .with(&CODES, codes)
        .with(&EMBEDDINGS, world.activations)
        .with(&LABELS, world.labels)
        .with(&TRUTH, truth);
    if let Some(pairs) = world.pairs {
        inputs.put(&PAIRS, pairs);
    }
    if let Some(codes) = world.pair_codes {
        inputs.put(&PAIR_CODES, codes);
    }
    if let Some(activations) = world.pair_activations {
        inputs.put(&PAIR_EMBEDDINGS, activations);
    }
    if let Some(labels) = world.pair_labels {
        inputs.put(&PAIR_LABELS, labels);
    }
    if let Some(directions) = directions {
        inputs.put(&DIRECTIONS, directions);
    }
    inputs
}

/// Trains all dictionaries in one pass, unless they exist, and returns the inputs with their codes and directions.
fn trained(
    demo_world: &DemoWorld,
    truth: &Inputs,
    seed: u64,
    out: &Path,
    console: &Console,
) -> Result<Vec<(DemoPlan, Inputs)>> {
    let (store, context) = (truth.get(&EMBEDDINGS)?, &console.context);
    let plans = demo_world.plans();
    let job = |plan: &DemoPlan| -> Result<TrainJob> {
        let steps = steps_of_epochs(store.rows(), BATCH, EPOCHS);
        let settings = TrainingSettings {
            k: plan.k,
            seed: seed + plan.seed,
            batch: BATCH,
            steps,
            rate: 1e-3,
            warmup: steps / 20,
            ..arch::find(plan.arch)?.settings(Preset::Etalon, store.width(), plan.latents)
        };
        // A short training needs a large penalty to reach the target.
        let settings = settings.with(&TARGET_L0, plan.k as f64).with(&PENALTY, 50.0).with(&BANDWIDTH, 0.05);
        let settings = settings.with(&SPARSITY_WARMUP, steps / 10);
        let out = out.join(format!("{}-{}-k{}-seed{}", plan.arch, plan.latents, plan.k, seed + plan.seed));
        Ok(TrainJob { settings, initial: None, out })
    };
    let jobs = plans.iter().map(job).collect::<Result<Vec<_>>>()?;
    let options = TrainOptions { seed, save_every: Duration::MAX, ..TrainOptions::default() };
    context.install(|| train(store, &jobs, &options, &mut Quiet, context))?;
    let loaded = plans.iter().zip(&jobs).map(|(plan, job)| {
        let Loaded { dictionary, about, .. } = checkpoint::load(&job.out, context.budget())?;
        let dictionary: Arc<dyn Dictionary> = dictionary.into();
        let directions = ActivationStore::from_rows(dictionary.directions().to_vec(), dictionary.card().width)?;
        let mut inputs = truth.clone().with(&CODES, encode_store(&*dictionary, store, context)?);
        inputs.remove(&PAIR_CODES);
        if let Some(store) = truth.find(&PAIR_EMBEDDINGS) {
            inputs.put(&PAIR_CODES, encode_store(&*dictionary, store, context)?);
        }
        if let Some(record) = Record::of(&about) {
            inputs.put(&TRAINING, record);
        }
        inputs.put(&DIRECTIONS, directions);
        inputs.put(&DICTIONARY, dictionary);
        Ok((*plan, inputs))
    });
    let mut loaded = loaded.collect::<Result<Vec<(DemoPlan, Inputs)>>>()?;
    if let Some((twin, other)) = loaded.pop() {
        let original = loaded.iter_mut().find(|(plan, _)| DemoPlan { seed: twin.seed, ..*plan } == twin);
        if let (Some((_, inputs)), Some(directions)) = (original, other.share(&DIRECTIONS)) {
            inputs.add(&OTHERS, "", directions);
        }
    }
    Ok(loaded)
}

/// Logs nothing: the progress bar suffices.
struct Quiet;

impl Log for Quiet {
    fn begin(&mut self, _: u64) -> Result<()> {
        Ok(())
    }

    fn line(&mut self, _: &Line) -> Result<()> {
        Ok(())
    }
}
