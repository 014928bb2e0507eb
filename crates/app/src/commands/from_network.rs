//! Activations of a network for commands that need a store: captured into the cache, or found there.

use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use etalon::error::{Error, Result};
use etalon::load::{CapturedInputs, Given, NetworkSource};
use etalon::metrics::Metric;
use etalon::run::{LABELS, NETWORK, POOLING};
use etalon::store::ActivationStore;
use etalon::study::Study;
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

/// Captures activations into the cache, if the options name a network.
pub fn capture(args: &NetworkArgs, cache: &CacheArgs, console: &Console) -> Result<Option<Cached>> {
    let Some(request) = request(args, cache.cache.as_deref()) else { return Ok(None) };
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

/// The inputs that a capture gives to metrics: its store; its labels if there are no others, and they fit; and itself, for
/// metrics that run the network again.
pub fn inputs(cached: &Cached, given: &Given, metrics: &[&dyn Metric], console: &Console) -> Result<CapturedInputs> {
    let asks = |key: &str| metrics.iter().any(|metric| metric.card().roles().iter().any(|role| role.card().key == key));
    let store = store(cached)?;
    let mut inputs = CapturedInputs { store: text(&store), ..CapturedInputs::default() };
    inputs.capture = asks(NETWORK.card().key).then(|| text(&cached.directory));
    if !asks(LABELS.card().key) || given.has(LABELS.card().key) {
        return Ok(inputs);
    }
    let by_sample = given.has(POOLING.card().key) || is_by_sample(&store)?;
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
    let known: Mutex<Vec<(NetworkSource, Cached)>> = Mutex::default();
    Ok(study.with_networks(Box::new(move |source, base, given| {
        let mut known = known.lock().unwrap_or_else(PoisonError::into_inner);
        if !known.iter().any(|(other, _)| other == source) {
            let options = CaptureOptions::of_study(&source.settings)?;
            let (model, input) = (beside(&source.model, base), beside(&source.input, base));
            let request = options.request(&model, &input, &source.site, directory.clone());
            let cached = capture_cached(&request, most, &console.context)?;
            console.status(format!("capture: {}", cached.directory.display()));
            known.push((source.clone(), cached));
        }
        match known.iter().find(|(other, _)| other == source) {
            Some((_, cached)) => inputs(cached, given, &metrics, &console),
            None => Err(Error::Bug("a capture that was not kept".into())),
        }
    })))
}

/// A path relative to the study file, if there is such a file; otherwise a name.
fn beside(text: &str, base: &Path) -> String {
    let (path, _) = Tower::split(text);
    if base.join(path).exists() { base.join(text).display().to_string() } else { text.to_string() }
}
