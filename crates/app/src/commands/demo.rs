//! `etalon demo`: the whole story on built-in data.

use std::path::Path;
use std::process::ExitCode;
use std::sync::Arc;

use etalon::error::Result;
use etalon::labels::worlds::{self, World};
use etalon::results::Archive;
use etalon::run::{Engine, Inputs, Truth};
use etalon::sae::train::{Line, Log, Preset, TrainJob, TrainOptions, steps_of_epochs, train};
use etalon::sae::{Dictionary, Linear, arch, encode_store};
use etalon::store::{ActivationStore, Lock};
use etalon::study::{Grid, Outcome, Sanity, Set, sanity_sets};
use serde_json::json;

use super::{conclude, profile};
use crate::cli;
use crate::session::Session;

/// A world with its settings, and the dictionary that is trained on it: small enough for half a minute in all.
struct Chapter {
    world: &'static str,
    settings: &'static [(&'static str, &'static str)],
    latents: usize,
    k: usize,
}

const CHAPTERS: [Chapter; 2] = [
    Chapter {
        world: "superposition",
        settings: &[("rows", "6000"), ("width", "64"), ("features", "128"), ("pairs", "600")],
        latents: 256,
        k: 8,
    },
    Chapter { world: "shapes", settings: &[("rows", "4000"), ("pairs", "600")], latents: 128, k: 8 },
];

const BATCH: usize = 256;
const EPOCHS: f64 = 60.0;

/// Makes worlds, trains a dictionary on each, evaluates true features, trained, untrained and random codes with every
/// metric, and writes the report.
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
        let inputs = trained(chapter, &truth, args.seed, &out, &engine, session)?;
        let options = Sanity { k: Some(chapter.k), seed: args.seed, ..Sanity::default() };
        let mut sets =
            engine.install(|| sanity_sets("trained", &inputs, &options, session.progress(), &session.cancel))?;
        sets.push(Set::new("oracle", truth));
        for set in &mut sets {
            set.about.insert("data".into(), json!(chapter.world));
        }
        let grid = Grid {
            metrics: Grid::all_metrics(),
            seeds: vec![args.seed],
            profile: profile("paper"),
            archive: &archive,
            engine: &engine,
        };
        total.add(grid.run(&sets)?);
    }
    conclude(&archive, "Etalon demo", &total, session)
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

/// The same inputs with the codes and directions of a dictionary that is trained now, or was before.
fn trained(
    chapter: &Chapter,
    truth: &Inputs,
    seed: u64,
    out: &Path,
    engine: &Engine<'_>,
    session: &Session,
) -> Result<Inputs> {
    let Some(store) = truth.embeddings.as_deref() else { return Ok(truth.clone()) };
    let mut settings = arch::find("topk")?.settings(Preset::Etalon, store.width(), chapter.latents);
    (settings.k, settings.seed, settings.batch) = (chapter.k, seed, BATCH);
    settings.steps = steps_of_epochs(store.rows(), BATCH, EPOCHS);
    settings.rate = 1e-3;
    settings.warmup = settings.steps / 20;
    let job = TrainJob { settings, initial: None, out: out.to_path_buf() };
    let options = TrainOptions { seed, save_every: 0, ..TrainOptions::default() };
    let (budget, progress, cancel) = (&session.budget, session.progress(), &session.cancel);
    let finished = engine.install(|| train(store, &[job], &options, budget, progress, &mut Quiet, cancel))?;
    let Some(dictionary) = finished.into_iter().next().map(|trained| trained.dictionary) else {
        return Ok(truth.clone());
    };
    let encode = |store: &ActivationStore| encode_store(&dictionary, store, progress, cancel).map(Arc::new);
    Ok(Inputs {
        codes: Some(engine.install(|| encode(store))?),
        pair_codes: truth.pair_embeddings.as_deref().map(|store| engine.install(|| encode(store))).transpose()?,
        directions: Some(Arc::new(directions(&dictionary)?)),
        dictionary: Some(Arc::new(dictionary)),
        ..truth.clone()
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
