//! Capture: runs a network on texts or images and stores the activations of some sites.
//!
//! A capture is a directory:
//!
//! | file | content |
//! |---|---|
//! | `sites/NAME/` | a store for every site, with the sample of every row |
//! | `rows.jsonl` | a line per sample: `sample`, `id`, and `text` with `words` (one per row), or `image` (the file), `caption` and `grid` |
//! | `labels.csv` | concepts of the samples, if the input has labels |
//! | `token_labels.csv` | concepts of the rows, if the words of the texts are annotated |
//! | `pairs.csv` | pairs of samples that differ in one attribute, if the packaged input has them and all of it was captured |
//! | `tokens.npy` | the token sequences that were run: uint32 [sequences, context] |
//! | `units/NAME.csv` | a line per unit of every site of a network of images: id, model, layer, type, depth, width, channel |
//! | `skipped.csv` | items of the input that could not be read, with the reason |
//! | `capture.json` | model, input and settings; written last |
//!
//! The network runs on parts of the input of a fixed size. Finished parts are files, so a capture that was interrupted
//! continues after the last of them, and ends with the same bytes.

mod cache;
mod images;
mod letter_words;
mod parts;
mod place;
mod records;
mod request;
mod rows;
mod stream;
mod text_run;
mod texts;
mod units;
mod word_labels;

use std::path::{Path, PathBuf};
use std::sync::Arc;

use etalon::context::{Context, Monitor, Reservation};
use etalon::error::{Error, InputError, Key, Result};
use etalon::network::{Grid, Network, RowKind, SiteId};
use etalon::store::{ImportOptions, Lock, disk, import};
use serde_json::{Value, json};

pub use cache::{Cached, CachedCapture, cached, capture_cached, clear_cached};
pub use request::{CaptureRequest, CaptureSettings, RowChoice, Separator};
pub use stream::NetworkStream;
pub use text_run::open_text_run;

use crate::data::{ContentKind, Input, input_id, known_input_id, packaged_pairs, resolve};
use crate::open::{Tower, open_with};
use crate::weights::NetworkOptions;
use parts::{Parts, PartsReader};
use records::Records;
use units::UnitChoice;

/// A finished capture.
#[derive(Clone, Debug)]
pub struct Captured {
    /// The store of every site, by its name.
    pub stores: Vec<(String, PathBuf)>,
    /// Concept labels of the samples.
    pub labels: Option<PathBuf>,
    /// Concept labels of the rows, one per token.
    pub token_labels: Option<PathBuf>,
    /// Pairs of samples.
    pub pairs: Option<PathBuf>,
    /// What to tell the user.
    pub notes: Vec<String>,
}

/// The file that makes a capture complete.
const ABOUT: &str = "capture.json";

/// The directory of finished parts.
const PARTS: &str = "parts";

/// Runs a network on an input and stores activations in a directory. A directory with the same finished capture is used as
/// it is; one with another capture is refused.
pub fn capture(request: &CaptureRequest, out: &Path, context: &Context) -> Result<Captured> {
    let request = &letter_words::completed(request, context)?;
    let prepared = Prepared::new(request, false, context)?;
    match finished(out, &prepared.id)? {
        Some(captured) => Ok(captured),
        None => prepared.run(request, out, context),
    }
}

/// A network with the sites to capture.
struct Prepared {
    /// Where the network is.
    path: PathBuf,
    network: Arc<dyn Network>,
    sites: Vec<SiteId>,
    /// Which units were asked for, if units were.
    choice: Option<UnitChoice>,
    /// The identity of the capture.
    id: String,
    /// Items of the input.
    items: u64,
}

impl Prepared {
    /// Opens the network. For the cache, refuses several sites before the input is read, and reads an input that is known and has not
    /// changed not at all.
    fn new(request: &CaptureRequest, for_cache: bool, context: &Context) -> Result<Prepared> {
        let (model, tower) = Tower::split(&request.model);
        let path = resolve(model, request.options.cache.as_deref())?;
        let network = context.install(|| open_with(&path, tower, request.settings.network(), context.budget()))?;
        let (sites, choice) = units::sites_of(network.sites(), &request.sites)?;
        if choice.is_some() && request.settings.rows != RowChoice::Mean {
            return Err(InputError::new("the units of a network are means over positions")
                .expected(Key("rows mean"))
                .found("rows of layers of different sizes")
                .advice(format!("store one row per image with {}", Key("rows mean")))
                .into());
        }
        if for_cache && sites.len() > 1 {
            return Err(several_sites(&*network, &sites).into());
        }
        check_rows(&*network, &sites)?;
        let address = if for_cache { known_input_id } else { input_id };
        let input = address(&request.input, &request.options, context)?;
        let id = identity(request, &*network, &sites, &input.id)?;
        Ok(Prepared { path, network, sites, choice, id, items: input.items })
    }

    /// How the network is run.
    fn network_run<'a>(&'a self, request: &'a CaptureRequest, context: &'a Context) -> Run<'a> {
        Run { network: &*self.network, sites: &self.sites, settings: &request.settings, context }
    }

    /// Runs the network and stores activations.
    fn run(&self, request: &CaptureRequest, out: &Path, context: &Context) -> Result<Captured> {
        run(self, request, out, context)
    }
}

fn run(prepared: &Prepared, request: &CaptureRequest, out: &Path, context: &Context) -> Result<Captured> {
    let is_new = !out.exists();
    let captured = run_in(prepared, request, out, context);
    // A wrong input leaves nothing behind. What is finished stays, for the next run.
    if is_new && captured.as_ref().is_err_and(Error::is_input) && !Parts::any(&out.join(PARTS)) {
        let _ = disk::remove_directory(out);
    }
    captured
}

fn run_in(prepared: &Prepared, request: &CaptureRequest, out: &Path, context: &Context) -> Result<Captured> {
    let Prepared { path, network, sites, choice, id, items } = prepared;
    disk::make_directory(out)?;
    let _lock = Lock::take(out)?;
    let mut input = Input::open(&request.input, &request.options, context.budget())?;
    if input.kind() == ContentKind::Image && request.settings.rows == RowChoice::Word {
        return Err(InputError::new(format!("{} is for texts", Key("rows word"))).found("images").into());
    }
    let parts = Parts::open(&out.join(PARTS), id, sites.len())?;
    let mut records = Records::create(out, &input, context)?;
    let what = prepared.network_run(request, context);
    let widths: Vec<usize> = sites.iter().map(|site| network.sites()[site.0 as usize].width).collect();
    match input.kind() {
        // The number of tokens is not known before they are read.
        ContentKind::Text => context.start("capturing activations", 0, "tokens"),
        ContentKind::Image => context.start("capturing activations", *items, "images"),
    }
    let ran = match input.kind() {
        ContentKind::Text => texts::run(&what, &parts, path, (&mut input, *items), &mut records),
        ContentKind::Image => images::run(&what, &parts, path, &mut input, &mut records),
    };
    context.finish();
    let summary = ran?;
    let (mut stores, content) = (Vec::new(), parts.content()?);
    for (index, (site, width)) in sites.iter().zip(widths).enumerate() {
        let name = &network.sites()[site.0 as usize].name;
        let store = out.join("sites").join(name);
        let mut reader = PartsReader::new(&parts, &content, index, width, context)?;
        let options = ImportOptions {
            samples: Some(content.samples.clone()),
            dtype: request.settings.dtype,
            ..ImportOptions::default()
        };
        import(&mut reader, &store, &options, context)?;
        stores.push((name.clone(), store));
    }
    if input.kind() == ContentKind::Image {
        units::write_tables(&request.model, network.sites(), sites, out)?;
    }
    let labels = records.finish(&input, request.settings.group_labels)?;
    let pairs = pairs(request, &input, out)?;
    let mut model = json!({"name": request.model, "family": network.card().family, "weights": network.card().weights, "id": network.card().id});
    if let Some(relative) = place::relative_model(&request.model, out) {
        model["path"] = json!(relative);
    }
    let mut about = json!({
        "id": id,
        "model": model,
        "input": request.input,
        "settings": serde_json::to_value(&request.settings).map_err(|error| Error::Bug(error.to_string()))?,
        "sites": stores.iter().map(|(name, _)| name).collect::<Vec<_>>(),
        "samples": summary.samples, "rows": summary.rows, "skipped": input.skipped().len(), "labels": labels.samples.is_some(), "token_labels": labels.tokens.is_some(), "pairs": pairs.is_some(),
    });
    for ((name, _), grid) in stores.iter().zip(&summary.grids) {
        if let Some(Grid { prefix, height, width }) = grid {
            about["grids"][name] = json!({"prefix": prefix, "height": height, "width": width});
        }
    }
    disk::write(&out.join(ABOUT), format!("{about:#}\n").as_bytes())?;
    parts.remove()?;
    let mut notes = input.notes();
    notes.extend(choice.map(|choice| {
        let units = units::count(network.sites(), sites);
        format!("{units} units of {} layers (`units:{}`)", sites.len(), choice.name())
    }));
    if !input.skipped().is_empty() {
        notes.push(format!("{} items of the input were skipped; skipped.csv lists them", input.skipped().len()));
    }
    Ok(Captured { stores, labels: labels.samples, token_labels: labels.tokens, pairs, notes })
}

/// Copies the pairs of a packaged input. They count its samples, so all of them must have been captured.
fn pairs(request: &CaptureRequest, input: &Input, out: &Path) -> Result<Option<PathBuf>> {
    let options = &request.options;
    let whole = input.skipped().is_empty() && options.limit.is_empty() && options.every.is_empty();
    let source = packaged_pairs(&request.input, options.cache.as_deref()).filter(|_| whole);
    let Some(source) = source else { return Ok(None) };
    let bytes = disk::read(&source).map_err(Error::io("read the pairs of the input", &source))?;
    let path = out.join("pairs.csv");
    disk::write(&path, &bytes)?;
    Ok(Some(path))
}

/// What the two kinds of input share.
struct Run<'a> {
    network: &'a dyn Network,
    sites: &'a [SiteId],
    settings: &'a CaptureSettings,
    context: &'a Context,
}

impl Run<'_> {
    /// Stages up to the last wanted site.
    fn stages(&self) -> usize {
        self.sites.iter().map(|site| self.network.sites()[site.0 as usize].stage + 1).max().unwrap_or(0)
    }

    /// Whether the sites have one row per sample.
    fn is_of_samples(&self) -> bool {
        self.sites.iter().any(|site| self.network.sites()[site.0 as usize].rows == RowKind::Sample)
    }

    /// Reserves the memory of a part with this many rows: the rows of all sites, in order, and as bytes of a file.
    fn reserve_part(&self, rows: usize) -> Result<Reservation> {
        let width: usize = self.sites.iter().map(|site| self.network.sites()[site.0 as usize].width).sum();
        self.context.budget().reserve(3 * 4 * (rows as u64).saturating_mul(width as u64), "a part of the capture")
    }

    /// Whether every token is stored as a row.
    fn by_token(&self) -> bool {
        self.settings.rows == RowChoice::All && !self.is_of_samples()
    }
}

/// Refuses sites whose rows stand for different things: the stores of a capture share the list of samples.
fn check_rows(network: &dyn Network, sites: &[SiteId]) -> Result<()> {
    let of_sample = |site: &&SiteId| network.sites()[site.0 as usize].rows == RowKind::Sample;
    match (sites.iter().find(of_sample), sites.iter().find(|site| !of_sample(site))) {
        (Some(one), Some(many)) => Err(InputError::new("the sites have different rows")
            .expected("sites with a row per token, or sites with a row per sample")
            .found(format!(
                "`{}` and `{}`",
                network.sites()[many.0 as usize].name,
                network.sites()[one.0 as usize].name
            ))
            .advice("capture them separately")
            .into()),
        _ => Ok(()),
    }
}

/// The error where one site is needed.
fn several_sites(network: &dyn Network, sites: &[SiteId]) -> InputError {
    let names: Vec<&str> = sites.iter().map(|site| network.sites()[site.0 as usize].name.as_str()).collect();
    InputError::new(format!("{} means several sites", Key("site")))
        .expected("one site")
        .found(names.join(", "))
        .advice("choose one of them")
}

/// How much was captured.
#[derive(Clone, Debug, Default)]
struct Summary {
    samples: u64,
    rows: u64,
    /// The grid of the rows of an image, by site; empty for texts.
    grids: Vec<Option<Grid>>,
}

/// The hash of everything that the captured bytes depend on.
fn identity(request: &CaptureRequest, network: &dyn Network, sites: &[SiteId], input: &str) -> Result<String> {
    let settings = serde_json::to_string(&request.settings).map_err(|error| Error::Bug(error.to_string()))?;
    let mut hash = blake3::Hasher::new_derive_key("etalon capture v1");
    let names = sites.iter().map(|site| network.sites()[site.0 as usize].name.as_str());
    for text in [network.card().id.as_str(), network.card().family, &settings, input].into_iter().chain(names) {
        hash.update(&(text.len() as u64).to_le_bytes());
        hash.update(text.as_bytes());
    }
    Ok(format!("blake3:{}", hash.finalize().to_hex()))
}

/// The capture in a directory, if it is finished and the same.
fn finished(out: &Path, id: &str) -> Result<Option<Captured>> {
    let about = out.join(ABOUT);
    if !about.exists() {
        return Ok(None);
    }
    let bytes = disk::read(&about).map_err(Error::io("read a capture", &about))?;
    let value: Value = serde_json::from_slice(&bytes)
        .map_err(|error| InputError::new("the description of a capture is damaged").found(error).file(&about))?;
    if value["id"].as_str() != Some(id) {
        return Err(InputError::new("the output directory has another capture")
            .expected("a new directory, or one with the same model, input, sites and settings")
            .advice("choose another directory")
            .file(out)
            .into());
    }
    let names = value["sites"].as_array().into_iter().flatten().filter_map(Value::as_str);
    let stores = names.map(|name| (name.to_string(), out.join("sites").join(name))).collect();
    let file = |key: &str, name: &str| value[key].as_bool().unwrap_or(false).then(|| out.join(name));
    let (labels, token_labels) = (file("labels", "labels.csv"), file("token_labels", "token_labels.csv"));
    let pairs = file("pairs", "pairs.csv");
    Ok(Some(Captured {
        stores,
        labels,
        token_labels,
        pairs,
        notes: vec!["the capture is complete; nothing was run".into()],
    }))
}

/// The network of a capture, for callers that go on to use it.
pub fn open_network(
    model: &str,
    options: NetworkOptions,
    cache: Option<&Path>,
    context: &Context,
) -> Result<Arc<dyn Network>> {
    let (model, tower) = Tower::split(model);
    let path = resolve(model, cache)?;
    context.install(|| open_with(&path, tower, options, context.budget()))
}
