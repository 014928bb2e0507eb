//! The baselines of `etalon train`: made at once, without steps.

use std::path::PathBuf;

use etalon::error::{Complaint, Result};
use etalon::sae::baseline::{self, Wish};
use etalon::sae::{Dictionary, checkpoint};
use etalon::store::ActivationStore;
use serde_json::{Map, Value, json};

use crate::cli;
use crate::session::Session;

/// A baseline to be made.
pub struct Wanted {
    name: String,
    latents: Option<usize>,
    k: Option<usize>,
    seed: u64,
    /// Where it goes.
    pub out: PathBuf,
}

/// Every number that was given, or none.
fn each(list: &[usize]) -> Vec<Option<usize>> {
    if list.is_empty() { vec![None] } else { list.iter().map(|&number| Some(number)).collect() }
}

/// One for every combination of the lists.
pub fn wanted(args: &cli::Train, names: &[&str]) -> Vec<Wanted> {
    let mut wanted = Vec::new();
    for name in names {
        for &latents in &each(&args.latents) {
            for &k in &each(&args.k) {
                for &seed in &args.seed {
                    let size = latents.map_or(String::new(), |latents| format!("-{latents}"));
                    let active = k.map_or(String::new(), |k| format!("-k{k}"));
                    let out = args.out.join(format!("{name}{size}{active}-seed{seed}"));
                    wanted.push(Wanted { name: name.to_string(), latents, k, seed, out });
                }
            }
        }
    }
    wanted
}

/// Makes and saves them; answers a line and an object for each.
pub fn make(
    args: &cli::Train,
    wanted: &[Wanted],
    store: &ActivationStore,
    session: &Session,
) -> Result<Vec<(String, Value)>> {
    let like = match &args.like {
        Some(path) if !wanted.is_empty() => Some(checkpoint::load(path, &session.budget)?.dictionary),
        _ => None,
    };
    let watch = session.watch();
    let mut made = Vec::new();
    for Wanted { name, latents, k, seed, out } in wanted {
        let baseline = baseline::find(name)
            .ok_or_else(|| Complaint::new(format!("there is no baseline `{name}`")).advice("see `etalon archs`"))?;
        let wish = Wish { latents: *latents, k: *k, seed: *seed, like: like.as_ref() };
        let dictionary = baseline.make(store, &wish, &session.budget, &watch)?;
        let mut about = Map::new();
        about.insert("baseline".into(), json!(name));
        about.insert("seed".into(), json!(seed));
        if let Some(like) = &like {
            about.insert("like".into(), json!({"arch": like.card().arch, "id": like.id()}));
        }
        checkpoint::save(&dictionary, &about, "etalon", out)?;
        let card = dictionary.card();
        made.push((
            format!("dictionary: {} ({}, {} latents, a baseline)", out.display(), card.arch, card.latents),
            json!({
                "sae": out, "arch": card.arch, "latents": card.latents, "steps": 0, "baseline": true,
                "id": dictionary.id(),
            }),
        ));
    }
    Ok(made)
}
