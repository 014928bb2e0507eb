//! A snapshot of a results directory as JSON.

use std::collections::BTreeMap;
use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::Mutex;

use etalon::context::{Budget, Reserved};
use etalon::error::{Error, Result};
use etalon::input::{MapLayout, read_layout, read_samples};
use etalon::metrics::METRICS;
use etalon::report;
use etalon::results::{Archive, Cells, Damaged, Stored};
use serde_json::{Value, json};

use super::directions::Directions;
use super::json::Json;
use super::pictures::Pictures;
use super::samples::Samples;
use crate::console::message;

const API: &str = "/api/v1";

/// A snapshot of a results directory.
#[derive(Default)]
pub struct Content {
    /// Samples with their images.
    pub samples: Samples,
    /// Bytes of the budget in use.
    pub memory: u64,
    /// Cached tags and lengths of long responses.
    pub long: Mutex<BTreeMap<String, (String, u64)>>,
    results: Option<Reserved<Vec<Stored>>>,
    layouts: BTreeMap<String, MapLayout>,
    albums: BTreeMap<String, Value>,
    directions: Option<Directions>,
    manifest: Value,
    runs: Value,
}

impl Content {
    /// Reads a directory within `memory` bytes. Unusable files next to the results are listed as problems.
    pub fn read(directory: &Path, title: &str, directions: Option<&Path>, memory: u64) -> Result<Content> {
        // A separate budget, so that its reservations end with this snapshot.
        let budget = Budget::new(memory);
        let (results, damaged) = Archive::open_existing(directory)?.read_all(&budget)?;
        let (mut content, mut problems) = (Content::default(), Vec::new());
        for (name, path) in layout_files(directory) {
            match read_layout(&path, &budget) {
                Ok(layout) => drop(content.layouts.insert(name, layout)),
                Err(error) => problems.push(without_paths(&error)),
            }
        }
        let (file, mut samples) = (directory.join("samples.jsonl"), Vec::new());
        if file.exists() {
            match read_samples(&file, &budget) {
                Ok(found) => samples = found,
                Err(error) => problems.push(without_paths(&error)),
            }
        }
        if directory.join("images").is_symlink() {
            problems.push("`images` is a symbolic link, which is not followed: move the directory here".into());
        }
        content.samples = Samples::new(samples, Pictures::find(directory)?);
        if let Some(path) = directions.map(PathBuf::from).or_else(|| Directions::beside(directory)) {
            match Directions::read(&path, &budget) {
                Ok(directions) => content.directions = Some(directions),
                Err(error) => problems.push(without_paths(&error)),
            }
        }
        {
            let _memory = report::working_memory(&results, &budget)?;
            content.albums = report::album(&results).into_iter().collect();
            content.runs = report::board(&results);
        }
        content.results = Some(results);
        content.manifest = content.manifest(title, &damaged, &problems);
        content.memory = memory.saturating_sub(budget.left());
        Ok(content)
    }

    /// Number of results.
    pub fn results(&self) -> usize {
        self.stored().len()
    }

    fn stored(&self) -> &[Stored] {
        self.results.as_ref().map_or(&[], |results| results.as_slice())
    }

    /// All data addresses, in order.
    pub fn addresses(&self) -> Vec<String> {
        let mut all: Vec<String> =
            ["manifest", "metrics", "runs", "samples"].iter().map(|name| format!("{API}/{name}.json")).collect();
        all.extend(self.stored().iter().map(|stored| format!("{API}/results/{}.json", stored.id)));
        all.extend(self.albums.keys().map(|slug| format!("{API}/figures/{slug}.json")));
        all.extend(self.layouts.keys().map(|name| format!("{API}/layouts/{name}.json")));
        all.extend(self.samples.latents().map(|latent| format!("{API}/concepts/{latent}.json")));
        all.extend(self.samples.rows().map(|row| format!("{API}/rows/{row}.json")));
        // The server computes neighbours for any latent; an export has files only for latents with samples.
        let near = self.samples.latents().filter(|latent| (**latent as usize) < self.latents());
        all.extend(near.map(|latent| format!("{API}/neighbours/{latent}.json")));
        all.extend(self.samples.pictures.hashes().map(|hash| format!("/img/{hash}")));
        all
    }

    /// Writes the JSON of an address; returns false if there is none.
    pub fn write(&self, path: &str, out: impl Write) -> Result<bool> {
        let Some(json) = self.json(path)? else { return Ok(false) };
        serde_json::to_writer(out, &json).map_err(|error| Error::Bug(format!("JSON of {path}: {error}")))?;
        Ok(true)
    }

    fn json(&self, path: &str) -> Result<Option<Json<'_>>> {
        let Some(name) = path.strip_prefix(API).and_then(|rest| rest.strip_prefix('/')?.strip_suffix(".json")) else {
            return Ok(None);
        };
        Ok(match name.split_once('/') {
            None if name == "manifest" => Some(Json::Kept(&self.manifest)),
            None if name == "metrics" => {
                Some(Json::New(METRICS.iter().map(|metric| metric.card().to_json()).collect()))
            }
            None if name == "runs" => Some(Json::Kept(&self.runs)),
            None if name == "samples" => Some(Json::Samples(&self.samples)),
            Some(("results", id)) => {
                let found = self.stored().iter().find(|stored| stored.id == id);
                found.map(Json::result).transpose()?
            }
            Some(("figures", slug)) => self.albums.get(slug).map(Json::Kept),
            Some(("layouts", name)) => self.layouts.get(name).map(Json::Layout),
            Some(("concepts", latent)) => {
                latent.parse().ok().and_then(|latent| self.samples.concept(latent)).map(Json::New)
            }
            Some(("rows", row)) => row.parse().ok().and_then(|row| self.samples.row(row)).map(Json::New),
            Some(("neighbours", latent)) => {
                latent.parse().ok().and_then(|latent| self.directions.as_ref()?.near(latent)).map(Json::New)
            }
            _ => None,
        })
    }

    /// Number of latents with a direction.
    fn latents(&self) -> usize {
        self.directions.as_ref().map_or(0, Directions::latents)
    }

    fn manifest(&self, title: &str, damaged: &[Damaged], problems: &[String]) -> Value {
        let results: Vec<Value> = self.stored().iter().map(manifest_entry).collect();
        let layouts: Vec<Value> =
            self.layouts.iter().map(|(name, layout)| json!({"id": name, "points": layout.latents.len()})).collect();
        let name = |file: &Path| file.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let damaged: Vec<Value> =
            damaged.iter().map(|one| json!({"file": name(&one.file), "reason": one.reason})).collect();
        json!({
            "schema": 1,
            "etalon": env!("CARGO_PKG_VERSION"),
            "title": title,
            "results": results,
            "layouts": layouts,
            "samples": self.samples.len(),
            "sample_codes": self.samples.codes(),
            "sample_token_codes": self.samples.token_codes(),
            "concepts": self.samples.latents().collect::<Vec<_>>(),
            "images": self.samples.pictures.len(),
            "directions": self.latents(),
            "albums": self.albums.iter().map(|(slug, album)| json!({"slug": slug, "name": album["name"]})).collect::<Vec<_>>(),
            "damaged": damaged,
            "problems": problems,
        })
    }
}

/// The entry of a result in the manifest.
fn manifest_entry(stored: &Stored) -> Value {
    let recipe = &stored.result.recipe;
    let tables: BTreeMap<&str, Value> = stored
        .result
        .scores
        .tables
        .iter()
        .map(|table| {
            let columns: Vec<&String> = table.columns.iter().map(|(name, _)| name).collect();
            let single = |cells: &Cells| matches!(cells, Cells::Whole(_) | Cells::Number(_));
            let numbers: Vec<&String> =
                table.columns.iter().filter(|(_, cells)| single(cells)).map(|(name, _)| name).collect();
            (table.axis.as_str(), json!({"rows": table.rows(), "columns": columns, "numbers": numbers}))
        })
        .collect();
    json!({
        "id": stored.id, "metric": recipe.metric, "version": recipe.version, "profile": recipe.profile.name(),
        "seed": recipe.seed, "params": recipe.params, "about": stored.about, "tables": tables,
        "codes": recipe.inputs.get("codes"),
    })
}

/// `points.*` and `layouts/*`, by name.
fn layout_files(directory: &Path) -> Vec<(String, PathBuf)> {
    let mut files: Vec<(String, PathBuf)> = Vec::new();
    let known = |path: &Path| path.extension().is_some_and(|ending| ending == "npy" || ending == "csv");
    for entry in fs::read_dir(directory.join("layouts")).into_iter().flatten().flatten() {
        let path = entry.path();
        let name = path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
        // Names become part of addresses.
        let plain =
            !name.is_empty() && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_'));
        if plain && known(&path) && !path.is_symlink() {
            files.push((name, path));
        }
    }
    for ending in ["csv", "npy"] {
        let path = directory.join(format!("points.{ending}"));
        if path.is_file() && !path.is_symlink() {
            files.push(("points".into(), path));
        }
    }
    files.sort();
    files
}

/// An error message for the browser, with file names instead of paths.
fn without_paths(error: &Error) -> String {
    let line = |line: &str| match line.trim().strip_prefix("file: ") {
        Some(path) => format!("file: {}", Path::new(path).file_name().unwrap_or_default().to_string_lossy()),
        None => line.trim().to_string(),
    };
    message(error).lines().map(line).collect::<Vec<_>>().join("; ")
}
