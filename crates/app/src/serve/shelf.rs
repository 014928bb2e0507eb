//! Everything that can be asked for, under its exact address. A static export is the same table written to disk.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::{PoisonError, RwLock};
use std::time::SystemTime;

use etalon::budget::Budget;
use etalon::error::{Error, Result};
use etalon::input::{PointLayout, read_layout, read_samples};
use etalon::metrics::METRICS;
use etalon::report;
use etalon::results::{Archive, Cells, Damaged, Stored};
use serde_json::{Value, json};

use super::answer::Answer;
use super::bundle;
use super::directions::Directions;
use super::pictures;
use super::samples::Samples;

const JSON: &str = "application/json; charset=utf-8";
const API: &str = "/api/v1";

/// The results of a directory with everything beside them; looks again when the page is loaded and they have changed.
pub struct Shelf {
    directory: PathBuf,
    title: String,
    budget: Budget,
    /// Directions that were named, and need not lie beside the results.
    directions: Option<PathBuf>,
    content: RwLock<Content>,
}

/// What was found at one moment.
#[derive(Default)]
struct Content {
    stamp: Stamp,
    results: Vec<Stored>,
    damaged: Vec<Damaged>,
    layouts: BTreeMap<String, PointLayout>,
    samples: Samples,
    albums: BTreeMap<String, Value>,
    directions: Option<Directions>,
    /// What is there but cannot be used, in words.
    problems: Vec<String>,
}

/// Names, lengths and times of the files: what changes when a run adds results.
type Stamp = Vec<(PathBuf, u64, Option<SystemTime>)>;

impl Shelf {
    /// Reads a results directory. Directions that are named must be readable; those beside the results are a problem to
    /// show when they are not.
    pub fn open(directory: &Path, title: String, directions: Option<&Path>, budget: &Budget) -> Result<Shelf> {
        Archive::open_existing(directory)?;
        directions.map(|path| Directions::read(path, budget)).transpose()?;
        let content = Content::read(directory, directions, budget)?;
        Ok(Shelf {
            directory: directory.into(),
            title,
            budget: budget.clone(),
            directions: directions.map(PathBuf::from),
            content: RwLock::new(content),
        })
    }

    /// How many results there are.
    pub fn results(&self) -> usize {
        self.content.read().unwrap_or_else(PoisonError::into_inner).results.len()
    }

    /// The answer to an address; `None` when nothing stands there.
    pub fn get(&self, path: &str) -> Result<Option<Answer>> {
        match path {
            "/" | "/index.html" => return Ok(Some(Answer::found("text/html; charset=utf-8", bundle::PAGE.as_bytes()))),
            "/app.js" => return Ok(Some(Answer::found("text/javascript; charset=utf-8", bundle::SCRIPT.as_bytes()))),
            "/app.css" => return Ok(Some(Answer::found("text/css; charset=utf-8", bundle::STYLE.as_bytes()))),
            "/api/v1/manifest.json" => self.look_again()?,
            _ => {}
        }
        let content = self.content.read().unwrap_or_else(PoisonError::into_inner);
        if let Some((file, kind)) = path.strip_prefix("/img/").and_then(|hash| content.samples.pictures.get(hash)) {
            let mut answer = Answer::found(kind, pictures::read(file)?);
            answer.keep = "private, max-age=31536000, immutable";
            return Ok(Some(answer));
        }
        match content.json(path, &self.title)? {
            Some(value) => Ok(Some(Answer::found(JSON, value.to_string().into_bytes()))),
            None => Ok(None),
        }
    }

    /// Every address of the data, in order.
    pub fn addresses(&self) -> Vec<String> {
        self.content.read().unwrap_or_else(PoisonError::into_inner).addresses()
    }

    fn look_again(&self) -> Result<()> {
        let stamp = stamp(&self.directory);
        let same = self.content.read().unwrap_or_else(PoisonError::into_inner).stamp == stamp;
        if !same {
            let content = Content::read(&self.directory, self.directions.as_deref(), &self.budget)?;
            *self.content.write().unwrap_or_else(PoisonError::into_inner) = content;
        }
        Ok(())
    }
}

fn stamp(directory: &Path) -> Stamp {
    let mut stamp = Stamp::new();
    for folder in
        [directory.to_path_buf(), directory.join("results"), directory.join("layouts"), directory.join("images")]
    {
        for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
            // Folders change their time with every file that is being written.
            if let Ok(about) = entry.metadata()
                && about.is_file()
            {
                stamp.push((entry.path(), about.len(), about.modified().ok()));
            }
        }
    }
    stamp.sort();
    stamp
}

impl Content {
    fn read(directory: &Path, directions: Option<&Path>, budget: &Budget) -> Result<Content> {
        let stamp = stamp(directory);
        let (results, damaged) = Archive::open_existing(directory)?.read_all()?;
        let mut content = Content { stamp, damaged, ..Content::default() };
        for (name, path) in layout_files(directory) {
            match read_layout(&path, budget) {
                Ok(layout) => drop(content.layouts.insert(name, layout)),
                Err(error) => content.problems.push(without_paths(&error)),
            }
        }
        let (file, mut samples) = (directory.join("samples.jsonl"), Vec::new());
        if file.exists() {
            match read_samples(&file, budget) {
                Ok(found) => samples = found,
                Err(error) => content.problems.push(without_paths(&error)),
            }
        }
        content.samples = Samples::new(samples, pictures::find(directory)?);
        if let Some(path) = directions.map(PathBuf::from).or_else(|| Directions::beside(directory)) {
            match Directions::read(&path, budget) {
                Ok(directions) => content.directions = Some(directions),
                Err(error) => content.problems.push(without_paths(&error)),
            }
        }
        content.albums = report::album(&results).into_iter().collect();
        content.results = results;
        Ok(content)
    }

    fn addresses(&self) -> Vec<String> {
        let mut all: Vec<String> =
            ["manifest", "metrics", "runs", "samples"].iter().map(|name| format!("{API}/{name}.json")).collect();
        all.extend(self.results.iter().map(|stored| format!("{API}/results/{}.json", stored.id)));
        all.extend(self.albums.keys().map(|slug| format!("{API}/figures/{slug}.json")));
        all.extend(self.layouts.keys().map(|name| format!("{API}/layouts/{name}.json")));
        all.extend(self.samples.latents().map(|latent| format!("{API}/concepts/{latent}.json")));
        all.extend(self.samples.rows().map(|row| format!("{API}/rows/{row}.json")));
        // A server computes them for any latent; as files they are for those that have a card with samples.
        let near = self.samples.latents().filter(|latent| (**latent as usize) < self.latents());
        all.extend(near.map(|latent| format!("{API}/neighbours/{latent}.json")));
        all.extend(self.samples.pictures.keys().map(|hash| format!("/img/{hash}")));
        all
    }

    fn json(&self, path: &str, title: &str) -> Result<Option<Value>> {
        let Some(name) = path.strip_prefix(API).and_then(|rest| rest.strip_prefix('/')?.strip_suffix(".json")) else {
            return Ok(None);
        };
        Ok(match name.split_once('/') {
            None if name == "manifest" => Some(self.manifest(title)),
            None if name == "metrics" => Some(METRICS.iter().map(|metric| metric.card().to_json()).collect()),
            None if name == "runs" => Some(report::board(&self.results)),
            None if name == "samples" => Some(self.samples.all()),
            Some(("results", id)) => {
                let found = self.results.iter().find(|stored| stored.id == id);
                found.map(result).transpose()?
            }
            Some(("figures", slug)) => self.albums.get(slug).cloned(),
            Some(("layouts", name)) => self.layouts.get(name).map(layout),
            Some(("concepts", latent)) => latent.parse().ok().and_then(|latent| self.samples.concept(latent)),
            Some(("rows", row)) => row.parse().ok().and_then(|row| self.samples.row(row)),
            Some(("neighbours", latent)) => {
                latent.parse().ok().and_then(|latent| self.directions.as_ref()?.near(latent))
            }
            _ => None,
        })
    }

    /// How many latents have a direction.
    fn latents(&self) -> usize {
        self.directions.as_ref().map_or(0, Directions::latents)
    }

    fn manifest(&self, title: &str) -> Value {
        let results: Vec<Value> = self.results.iter().map(listed).collect();
        let layouts: Vec<Value> =
            self.layouts.iter().map(|(name, layout)| json!({"id": name, "points": layout.latents.len()})).collect();
        let name = |file: &Path| file.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let damaged: Vec<Value> =
            self.damaged.iter().map(|one| json!({"file": name(&one.file), "reason": one.reason})).collect();
        json!({
            "schema": 1,
            "etalon": env!("CARGO_PKG_VERSION"),
            "title": title,
            "results": results,
            "layouts": layouts,
            "samples": self.samples.len(),
            "sample_codes": self.samples.codes(),
            "concepts": self.samples.latents().collect::<Vec<_>>(),
            "images": self.samples.pictures.len(),
            "directions": self.latents(),
            "albums": self.albums.iter().map(|(slug, album)| json!({"slug": slug, "name": album["name"]})).collect::<Vec<_>>(),
            "damaged": damaged,
            "problems": self.problems,
        })
    }
}

/// A result as the list of all results shows it.
fn listed(stored: &Stored) -> Value {
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

fn result(stored: &Stored) -> Result<Value> {
    let mut value = stored.result.to_json()?;
    value["id"] = json!(stored.id);
    value["about"] =
        serde_json::to_value(&stored.about).map_err(|error| Error::Bug(format!("about to JSON: {error}")))?;
    Ok(value)
}

fn layout(layout: &PointLayout) -> Value {
    json!({"latent": layout.latents, "x": layout.x, "y": layout.y, "name": layout.names})
}

/// `points.*` and `layouts/*`, by name.
fn layout_files(directory: &Path) -> Vec<(String, PathBuf)> {
    let mut files: Vec<(String, PathBuf)> = Vec::new();
    let known = |path: &Path| path.extension().is_some_and(|ending| ending == "npy" || ending == "csv");
    for entry in fs::read_dir(directory.join("layouts")).into_iter().flatten().flatten() {
        let path = entry.path();
        let name = path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
        // Names are a part of addresses.
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

/// An error for a browser: the name of the file is enough there.
fn without_paths(error: &Error) -> String {
    let line = |line: &str| match line.trim().strip_prefix("file: ") {
        Some(path) => format!("file: {}", Path::new(path).file_name().unwrap_or_default().to_string_lossy()),
        None => line.trim().to_string(),
    };
    error.to_string().lines().map(line).collect::<Vec<_>>().join("; ")
}
