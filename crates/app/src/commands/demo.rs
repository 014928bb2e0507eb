//! `etalon demo`: the whole story on built-in data.

use std::process::ExitCode;
use std::sync::Arc;

use etalon::error::Result;
use etalon::labels::worlds::{self, World};
use etalon::results::Archive;
use etalon::run::{Inputs, Truth};
use etalon::store::Lock;
use etalon::study::{Grid, Outcome, Sanity, sanity_sets};
use serde_json::json;

use super::{conclude, profile};
use crate::cli;
use crate::session::Session;

/// Worlds and their settings, small enough for half a minute.
const WORLDS: [(&str, &[(&str, &str)]); 2] = [
    ("superposition", &[("rows", "6000"), ("width", "64"), ("features", "128"), ("pairs", "600")]),
    ("shapes", &[("rows", "4000"), ("pairs", "600")]),
];

/// Makes worlds, evaluates oracle, untrained and random codes with every metric, and writes the report.
pub fn run(args: &cli::Demo, session: &Session) -> Result<ExitCode> {
    let archive = Archive::open(&args.out)?;
    let _lock = Lock::take(&args.out)?;
    let engine = session.engine()?;
    let mut total = Outcome::default();
    for (name, settings) in WORLDS {
        session.say(format!("world `{name}`"));
        let settings = settings.iter().map(|(key, value)| (key.to_string(), value.to_string())).collect();
        let world = worlds::make(name, &settings, args.seed, &session.budget)?;
        let inputs = oracle(world);
        let options = Sanity { seed: args.seed, ..Sanity::default() };
        let mut sets =
            engine.install(|| sanity_sets("oracle", &inputs, &options, session.progress(), &session.cancel))?;
        for set in &mut sets {
            set.about.insert("data".into(), json!(name));
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
