//! `etalon inspect`: what a path or a name is, and what could go wrong with it.

mod dictionary;
mod network;
mod rows;

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use etalon::codes::Codes;
use etalon::error::{Error, InputError, Result};
use etalon::input::{Finite, Source};
use etalon::load::load_activations;
use etalon::sae::checkpoint;
use etalon::store::{ActivationStore, disk};
use etalon_models::Tower;
use etalon_models::data::resolve;
use serde_json::{Map, Value, json};

use crate::cli;
use crate::console::Console;

/// What was found.
pub(super) struct Inspection {
    /// What it is.
    kind: &'static str,
    /// What is known, by name.
    facts: Map<String, Value>,
    /// What could go wrong.
    warnings: Vec<String>,
}

impl Inspection {
    fn new(kind: &'static str) -> Inspection {
        Inspection { kind, facts: Map::new(), warnings: Vec::new() }
    }

    /// Adds a fact.
    fn fact(&mut self, name: &str, value: impl Into<Value>) {
        self.facts.insert(name.into(), value.into());
    }

    fn warn(&mut self, text: impl Into<String>) {
        self.warnings.push(text.into());
    }

    fn text(&self, name: &str) -> String {
        let value = |value: &Value| match value {
            Value::String(text) => text.clone(),
            Value::Array(list) => list
                .iter()
                .map(|one| one.as_str().map_or(one.to_string(), str::to_string))
                .collect::<Vec<_>>()
                .join(", "),
            other => other.to_string(),
        };
        let lines = self.facts.iter().map(|(name, fact)| format!("\n  {}: {}", name.replace('_', " "), value(fact)));
        let warnings = self.warnings.iter().map(|warning| format!("\nwarning: {warning}"));
        let end = if self.warnings.is_empty() { "\nno problems found" } else { "" };
        format!("{}: {name}{}{}{end}", self.kind, lines.collect::<String>(), warnings.collect::<String>())
    }
}

/// Describes activations, codes, a dictionary, a capture or a network.
pub fn run(args: &cli::Inspect, console: &Console) -> Result<ExitCode> {
    let found = console.context.install(|| inspect(args, console))?;
    console.print(
        found.text(&args.name),
        || json!({"kind": found.kind, "name": args.name, "facts": found.facts, "warnings": found.warnings}),
    )?;
    Ok(ExitCode::SUCCESS)
}

fn inspect(args: &cli::Inspect, console: &Console) -> Result<Inspection> {
    let path = Path::new(&args.name);
    if checkpoint::is_known(path)
        && let Ok(loaded) = checkpoint::load(path, console.budget())
    {
        return dictionary::inspect(path, &loaded);
    }
    // An array in a file with several: `x.npz:key`.
    let source = Source::parse(&args.name)?;
    if !path.exists() && source.path.is_file() {
        return array(path, console);
    }
    let (name, tower) = Tower::split(&args.name);
    let path = resolve(name, args.cache.as_deref())?;
    if path.is_dir() { directory(&path, tower, console) } else { file(&path, tower, console) }
}

fn directory(path: &Path, tower: Tower, console: &Console) -> Result<Inspection> {
    let about = path.join("capture.json");
    if about.is_file() {
        return capture(&about, path);
    }
    if let Ok(store) = ActivationStore::open(path) {
        return rows::inspect(&store, console);
    }
    if let Ok(codes) = Codes::open(path) {
        return rows::inspect_codes(&codes);
    }
    network::inspect(path, tower, console).map_err(|error| nothing(path, error))
}

/// Files of networks and files of arrays have some endings in common: what opens as a network is one.
fn file(path: &Path, tower: Tower, console: &Console) -> Result<Inspection> {
    let ending = path.extension().map(|ending| ending.to_string_lossy().to_ascii_lowercase()).unwrap_or_default();
    if ["npy", "npz", "parquet"].contains(&ending.as_str()) {
        return array(path, console);
    }
    match network::inspect(path, tower, console) {
        Ok(found) => Ok(found),
        Err(error @ Error::Cancelled) => Err(error),
        Err(error) => array(path, console).map_err(|_| nothing(path, error)),
    }
}

fn array(path: &Path, console: &Console) -> Result<Inspection> {
    rows::inspect(&load_activations(path, Finite::Refuse, console.budget())?, console)
}

/// The error of a path that is nothing: what it is not, as a network.
fn nothing(path: &Path, error: Error) -> Error {
    let Error::Input(why) = error else { return error };
    let why = why.to_string();
    InputError::new("this is nothing that Etalon can read")
        .expected("activations, codes, a dictionary, a capture or a network")
        .found(format!("no network: {}", why.lines().next().unwrap_or_default()))
        .advice("check the path; `etalon verify` checks results and studies")
        .file(path)
        .into()
}

/// What the description of a capture says.
fn capture(about: &Path, path: &Path) -> Result<Inspection> {
    let damaged = |found: String| InputError::new("the description of a capture is damaged").found(found).file(about);
    let bytes = disk::read(about).map_err(Error::io("read a capture", about))?;
    let value: Value = serde_json::from_slice(&bytes).map_err(|error| damaged(error.to_string()))?;
    let mut found = Inspection::new("capture");
    let stores = value["sites"].as_array().into_iter().flatten().filter_map(Value::as_str);
    let stores: Vec<PathBuf> = stores.map(|site| path.join("sites").join(site)).collect();
    found.fact("model", value["model"]["name"].clone());
    found.fact("weights", value["model"]["weights"].clone());
    for key in ["input", "samples", "rows", "skipped"] {
        found.fact(key, value[key].clone());
    }
    let settings = value["settings"].as_object().cloned().unwrap_or_default();
    let set = |value: &Value| !value.is_null() && value != &json!(false);
    let settings = settings.iter().filter(|(_, value)| set(value)).map(|(key, value)| format!("{key} {value}"));
    found.fact("settings", settings.collect::<Vec<_>>().join(", ").replace('"', ""));
    found.fact("stores", stores.iter().map(|store| store.display().to_string()).collect::<Vec<_>>());
    if value["skipped"].as_u64().is_some_and(|skipped| skipped > 0) {
        found.warn("items of the input were skipped; skipped.csv lists them");
    }
    if let Some(missing) = stores.iter().find(|store| !store.is_dir()) {
        found.warn(format!("a store is missing: {}", missing.display()));
    }
    Ok(found)
}
