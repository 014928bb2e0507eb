//! `etalon demo`: the whole story on built-in data.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::ExitCode;
use std::sync::Arc;

use etalon::codes::Codes;
use etalon::error::Result;
use etalon::labels::worlds::{self, World};
use etalon::results::{Archive, Stored};
use etalon::run::{Engine, Inputs, Truth};
use etalon::sae::checkpoint::{self, Loaded};
use etalon::sae::train::{Line, Log, Preset, Record, Settings, TrainJob, TrainOptions, steps_of_epochs, train};
use etalon::sae::{Dictionary, Linear, arch, encode_store};
use etalon::store::{ActivationStore, Lock};
use etalon::study::{Grid, Outcome, Sanity, Set, sanity_sets};
use serde_json::{Value, json};

use super::{conclude_with, profile};
use crate::cli;
use crate::session::Session;

/// A world with its settings, and the dictionaries that are trained on it: small enough for a minute in all.
struct Chapter {
    world: &'static str,
    settings: &'static [(&'static str, &'static str)],
    /// Latents and active latents per row; every architecture of the first list is trained with each.
    sizes: &'static [(usize, usize)],
    archs: &'static [&'static str],
    /// More dictionaries: architecture, latents, active latents.
    more: &'static [(&'static str, usize, usize)],
}

const CHAPTERS: [Chapter; 2] = [
    Chapter {
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
    Chapter {
        world: "shapes",
        settings: &[("rows", "3000"), ("pairs", "600")],
        sizes: &[(64, 8), (128, 8)],
        archs: &["topk"],
        more: &[("batch_topk", 128, 8)],
    },
];

/// The latents and active latents of which the terminal shows the numbers.
const SHOWN: (usize, usize) = (128, 8);

const BATCH: usize = 256;
const EPOCHS: f64 = 60.0;

/// One dictionary of a chapter.
#[derive(Clone, Copy, PartialEq)]
struct Plan {
    arch: &'static str,
    latents: usize,
    k: usize,
    /// Added to the seed of the demo.
    seed: u64,
}

impl Chapter {
    /// Every dictionary; the last is the twin of the first one that the terminal shows, with another seed.
    fn plans(&self) -> Vec<Plan> {
        let plan = |arch, latents, k| Plan { arch, latents, k, seed: 0 };
        let all =
            self.archs.iter().flat_map(|arch| self.sizes.iter().map(move |&(latents, k)| plan(*arch, latents, k)));
        let more = self.more.iter().map(|&(arch, latents, k)| plan(arch, latents, k));
        let twin = Plan { seed: 1, ..plan(self.archs[0], SHOWN.0, SHOWN.1) };
        all.chain(more).chain([twin]).collect()
    }
}

/// Makes worlds, trains dictionaries on each, evaluates true features, trained, untrained and random codes with every
/// quick metric, and writes the report.
pub fn run(args: &cli::Demo, session: &Session) -> Result<ExitCode> {
    let archive = Archive::open(&args.out)?;
    let _lock = Lock::take(&args.out)?;
    let engine = session.engine()?;
    let mut total = Outcome::default();
    for chapter in &CHAPTERS {
        session.say(format!("world `{}`", chapter.world));
        let settings = chapter.settings.iter().map(|(key, value)| (key.to_string(), value.to_string())).collect();
        let truth = oracle(worlds::make(chapter.world, &settings, args.seed, &session.budget)?);
        let out = args.out.join("dictionaries").join(chapter.world);
        let trained = trained(chapter, &truth, args.seed, &out, &engine, session)?;
        let mut sets = vec![Set::new("oracle", truth)];
        sets.extend(compared(trained, args.seed, &engine, session)?);
        for set in &mut sets {
            set.about.insert("data".into(), json!(chapter.world));
        }
        let grid = Grid {
            metrics: Grid::quick_metrics(),
            seeds: vec![args.seed],
            profile: profile("paper"),
            archive: &archive,
            engine: &engine,
        };
        total.add(grid.run(&sets)?);
    }
    // One size and sparsity in the terminal, all of them in the report.
    let shown = |stored: &Stored| {
        let number = |name: &str| stored.about.get(name).and_then(Value::as_u64);
        number("k").is_none_or(|k| (number("latents"), k) == (Some(SHOWN.0 as u64), SHOWN.1 as u64))
    };
    conclude_with(&archive, "Etalon demo", &total, shown, session)
}

/// Every dictionary as a set, and for every size and sparsity an untrained one and random codes.
fn compared(trained: Vec<(Plan, Inputs)>, seed: u64, engine: &Engine<'_>, session: &Session) -> Result<Vec<Set>> {
    let mut sets: Vec<Set> = Vec::new();
    let mut nulls: BTreeMap<(usize, usize), Vec<Arc<Codes>>> = BTreeMap::new();
    for (plan, inputs) in trained {
        let size = (plan.latents, plan.k);
        let mut made = match nulls.get(&size) {
            Some(nulls) => vec![Set::new(plan.arch, Inputs { nulls: nulls.clone(), ..inputs })],
            None => {
                let options = Sanity { k: Some(plan.k), seed, ..Sanity::default() };
                engine.install(|| sanity_sets(plan.arch, &inputs, &options, session.progress(), &session.cancel))?
            }
        };
        made.iter_mut().for_each(|set| drop(set.about.insert("k".into(), json!(plan.k))));
        nulls.entry(size).or_insert_with(|| made[0].inputs.nulls.clone());
        sets.append(&mut made);
    }
    Ok(sets)
}

/// Codes that are the true features: the best that any dictionary could do.
fn oracle(world: World) -> Inputs {
    let (codes, directions) = (Arc::new(world.codes), world.directions.map(Arc::new));
    let truth = Truth { codes: codes.clone(), directions: directions.clone() };
    Inputs {
        codes: Some(codes),
        embeddings: Some(Arc::new(world.activations)),
        labels: Some(Arc::new(world.labels)),
        pairs: world.pairs.map(Arc::new),
        pair_codes: world.pair_codes.map(Arc::new),
        pair_embeddings: world.pair_activations.map(Arc::new),
        pair_labels: world.pair_labels.map(Arc::new),
        directions,
        truth: Some(Arc::new(truth)),
        ..Inputs::default()
    }
}

/// The same inputs with the codes and directions of dictionaries that are trained now, all in one pass, or were before.
fn trained(
    chapter: &Chapter,
    truth: &Inputs,
    seed: u64,
    out: &Path,
    engine: &Engine<'_>,
    session: &Session,
) -> Result<Vec<(Plan, Inputs)>> {
    let Some(store) = truth.embeddings.as_deref() else { return Ok(Vec::new()) };
    let plans = chapter.plans();
    let job = |plan: &Plan| -> Result<TrainJob> {
        let steps = steps_of_epochs(store.rows(), BATCH, EPOCHS);
        let settings = Settings {
            k: plan.k,
            target_l0: plan.k as f64,
            // So few steps need a firm hand to reach that.
            penalty: 50.0,
            bandwidth: 0.05,
            seed: seed + plan.seed,
            batch: BATCH,
            steps,
            rate: 1e-3,
            warmup: steps / 20,
            sparsity_warmup: steps / 10,
            ..arch::find(plan.arch)?.settings(Preset::Etalon, store.width(), plan.latents)
        };
        let out = out.join(format!("{}-{}-k{}-seed{}", plan.arch, plan.latents, plan.k, seed + plan.seed));
        Ok(TrainJob { settings, initial: None, out })
    };
    let jobs = plans.iter().map(job).collect::<Result<Vec<_>>>()?;
    let options = TrainOptions { seed, save_every: 0, ..TrainOptions::default() };
    let (budget, progress, cancel) = (&session.budget, session.progress(), &session.cancel);
    engine.install(|| {
        train(store, &jobs, &options, budget, progress, &mut Quiet, cancel)?;
        let loaded = plans.iter().zip(&jobs).map(|(plan, job)| {
            let Loaded { dictionary, about, .. } = checkpoint::load(&job.out, budget)?;
            let encode = |store: &ActivationStore| encode_store(&dictionary, store, progress, cancel).map(Arc::new);
            let inputs = Inputs {
                codes: Some(encode(store)?),
                pair_codes: truth.pair_embeddings.as_deref().map(encode).transpose()?,
                directions: Some(Arc::new(directions(&dictionary)?)),
                dictionary: Some(Arc::new(dictionary)),
                training: Record::of(&about).map(Arc::new),
                ..truth.clone()
            };
            Ok((*plan, inputs))
        });
        let mut loaded = loaded.collect::<Result<Vec<(Plan, Inputs)>>>()?;
        if let Some((twin, other)) = loaded.pop() {
            let alike = loaded.iter_mut().find(|(plan, _)| Plan { seed: twin.seed, ..*plan } == twin);
            alike.into_iter().for_each(|(_, inputs)| inputs.others.extend(other.directions.clone()));
        }
        Ok(loaded)
    })
}

fn directions(dictionary: &Linear) -> Result<ActivationStore> {
    ActivationStore::from_rows(dictionary.directions().to_vec(), dictionary.card().width)
}

/// The progress bar says enough.
struct Quiet;

impl Log for Quiet {
    fn begin(&mut self, _: u64) -> Result<()> {
        Ok(())
    }

    fn line(&mut self, _: &Line) -> Result<()> {
        Ok(())
    }
}
