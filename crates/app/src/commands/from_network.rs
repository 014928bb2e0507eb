//! Activations of a network for commands that need a store: captured into the cache, or found there.

use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use etalon::error::{Error, Result};
use etalon::load::{CapturedInputs, Given, NetworkSource};
use etalon::metrics::Metric;
use etalon::network::Processing;
use etalon::run::{LABELS, NETWORK, PAIRS, POOLING, SAE};
use etalon::sae::checkpoint;
use etalon::store::ActivationStore;
use etalon::study::Study;
use etalon_models::data::split_layout;
use etalon_models::{Cached, CaptureRequest, Tower, capture_cached};

use crate::console::Console;
use crate::network_args::{CacheArgs, CaptureOptions, NetworkArgs};

/// The capture that options describe, if they name a network.
pub fn request(args: &NetworkArgs, cache: Option<&Path>) -> Option<CaptureRequest> {
    let (model, input, site) = (args.model.as_ref()?, args.input.as_ref()?, args.site.as_ref()?);
    Some(args.options.request(model, input, site, cache.map(Path::to_path_buf)))
}

/// The files among the options of a network; names are left out.
pub fn paths(args: &NetworkArgs) -> Vec<(&'static str, PathBuf)> {
    let model = args.model.as_deref().map(|model| Tower::split(model).0);
    let options = [("--model", model), ("--input", args.input.as_deref())];
    options.into_iter().filter_map(|(option, text)| Some((option, PathBuf::from(text?)))).collect()
}

/// How a network is processed: as the option says, else as the settings of the dictionary say.
pub fn processing(given: Option<Processing>, sae: Option<&Path>, console: &Console) -> Result<Processing> {
    let Some(sae) = sae.filter(|_| given.is_none()) else { return Ok(given.unwrap_or_default()) };
    let processing = Processing::of_dictionary(&checkpoint::settings(sae)?).unwrap_or_default();
    if !processing.is_none() {
        console.status(format!("processing: {processing}, as the settings of the dictionary say"));
    }
    Ok(processing)
}

/// Captures activations into the cache, if the options name a network. It is processed as the settings of the dictionary
/// say, if there is one and no option says something else.
pub fn capture(args: &NetworkArgs, sae: Option<&Path>, cache: &CacheArgs, console: &Console) -> Result<Option<Cached>> {
    let Some(mut request) = request(args, cache.cache.as_deref()) else { return Ok(None) };
    request.settings.processing = processing(args.options.processing, sae, console)?;
    let most = cache.most()?;
    let cached = capture_cached(&request, most, &console.context)?;
    console.status(format!("capture: {}", cached.directory.display()));
    Ok(Some(cached))
}

/// The store of a capture of one site.
pub fn store(cached: &Cached) -> Result<PathBuf> {
    let store = cached.captured.stores.first();
    store.map(|(_, path)| path.clone()).ok_or_else(|| Error::Bug("a capture without a site".into()))
}

/// The inputs that a capture gives to metrics: its store; its labels and its pairs if there are no others, and they fit; and
/// itself, for metrics that run the network again.
pub fn inputs(cached: &Cached, given: &Given, metrics: &[&dyn Metric], console: &Console) -> Result<CapturedInputs> {
    let asks = |key: &str| metrics.iter().any(|metric| metric.card().roles().iter().any(|role| role.card().key == key));
    let store = store(cached)?;
    let mut inputs = CapturedInputs { store: text(&store), ..CapturedInputs::default() };
    inputs.capture = asks(NETWORK.card().key).then(|| text(&cached.directory));
    let by_sample = given.has(POOLING.card().key) || is_by_sample(&store)?;
    if let Some(pairs) = &cached.captured.pairs
        && by_sample
        && asks(PAIRS.card().key)
        && !given.has(PAIRS.card().key)
    {
        console.status(format!("pairs: {}, from the input", pairs.display()));
        inputs.pairs = Some(text(pairs));
    }
    if !asks(LABELS.card().key) || given.has(LABELS.card().key) {
        return Ok(inputs);
    }
    let labels = if by_sample { &cached.captured.labels } else { &cached.captured.token_labels };
    if let Some(labels) = labels {
        console.status(format!("labels: {}, from the input", labels.display()));
        inputs.labels = Some(text(labels));
    } else if cached.captured.labels.is_some() {
        console.status(
            "note: the labels of the input are of samples, and rows are tokens; `--pool` gives a row per sample",
        );
    }
    Ok(inputs)
}

/// Whether every row of a store belongs to a sample of its own.
fn is_by_sample(store: &Path) -> Result<bool> {
    let store = ActivationStore::open(store)?;
    let mut samples = store.samples().unwrap_or_default().to_vec();
    samples.sort_unstable();
    Ok(samples.windows(2).all(|pair| pair[0] != pair[1]))
}

/// An absolute path: those in a study are relative to its file.
fn text(path: &Path) -> String {
    std::path::absolute(path).unwrap_or_else(|_| path.to_path_buf()).display().to_string()
}

/// The study with networks: a set that names one is captured when it is loaded. Sets that name the same network, input, site
/// and settings share a capture.
pub fn with_networks(study: Study, cache: &CacheArgs, console: &Console) -> Result<Study> {
    let (directory, most, console) = (cache.cache.clone(), cache.most()?, console.clone());
    let metrics: Vec<&'static dyn Metric> = study.metrics.iter().map(|(metric, _)| *metric).collect();
    // Captures stay locked until the study ends.
    let known: Mutex<Vec<(NetworkSource, Processing, Cached)>> = Mutex::default();
    Ok(study.with_networks(Box::new(move |source, base, given| {
        let mut known = known.lock().unwrap_or_else(PoisonError::into_inner);
        let options = CaptureOptions::of_study(&source.settings)?;
        let sae = given.first(SAE.card().key).map(|sae| PathBuf::from(beside(sae, base)));
        let processing = processing(options.processing, sae.as_deref(), &console)?;
        let is_same = |other: &NetworkSource, by: &Processing| other == source && *by == processing;
        if !known.iter().any(|(other, by, _)| is_same(other, by)) {
            let (model, input) = (beside(&source.model, base), beside(&source.input, base));
            let mut request = options.request(&model, &input, &source.site, directory.clone());
            request.settings.processing = processing;
            let cached = capture_cached(&request, most, &console.context)?;
            console.status(format!("capture: {}", cached.directory.display()));
            known.push((source.clone(), processing, cached));
        }
        match known.iter().find(|(other, by, _)| is_same(other, by)) {
            Some((.., cached)) => inputs(cached, given, &metrics, &console),
            None => Err(Error::Bug("a capture that was not kept".into())),
        }
    })))
}

/// A path relative to the study file, if there is such a file; otherwise a name. Several inputs are separated by commas.
fn beside(text: &str, base: &Path) -> String {
    let one = |text: &str| {
        let (layout, rest) = split_layout(text);
        let (path, _) = Tower::split(rest);
        let rest = if base.join(path).exists() { base.join(rest).display().to_string() } else { rest.to_string() };
        layout.map_or_else(|| rest.clone(), |layout| format!("{layout}:{rest}"))
    };
    let whole = one(text);
    if whole == text { text.split(',').map(|name| one(name.trim())).collect::<Vec<_>>().join(",") } else { whole }
}
