//! Evaluates metrics on inputs that are in memory or in files.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use etalon::error::{Error, InputError, Result};
use etalon::input::Finite;
use etalon::load::{Given, Opening};
use etalon::metrics::{self, METRICS, Metric, evaluate_together, recipe};
use etalon::results::Profile;
use etalon::run::{
    CODES, DIRECTIONS, EMBEDDINGS, GENERATED, Generated, Inputs, LABELS, NULLS, OTHERS, PAIR_CODES, PAIR_EMBEDDINGS,
    PAIR_LABELS, SAE, SIMILARITY, VISUALISATIONS,
};
use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;

use crate::arrays::{Codes, Labels, Rows};
use crate::dictionary::Dictionary;
use crate::session::Session;

/// Parameters of a metric as text, by name.
type Params = BTreeMap<String, String>;

/// Evaluates metrics. `given` has the inputs in files, by key; `present` those in memory, by key and name; `how` is profile, seed, and
/// whether rows that are not finite are dropped. Returns a result per metric, as JSON, and notes about the inputs.
#[pyfunction]
pub fn evaluate(
    py: Python<'_>,
    session: &Session,
    chosen: Vec<(String, Params)>,
    given: Vec<(String, String)>,
    present: Vec<(String, String, Bound<'_, PyAny>)>,
    how: (String, u64, bool),
) -> PyResult<(Vec<String>, Vec<String>)> {
    let (profile, seed, drop_rows) = how;
    let mut inputs = Inputs::default();
    for (key, name, value) in &present {
        put(&mut inputs, key, name, value)?;
    }
    let given = given.into_iter().fold(Given::default(), |mut all, (key, value)| {
        all.add(&key, value);
        all
    });
    let profile = if profile == Profile::Reference.name() { Profile::Reference } else { Profile::Paper };
    let finite = if drop_rows { Finite::DropRows } else { Finite::Refuse };
    session.run(py, |context| {
        let chosen = chosen.iter().map(|(name, params)| Ok((find(name)?, params))).collect::<Result<Vec<_>>>()?;
        let opening = Opening { present: Some(&inputs), finite, ..Opening::at(Path::new("")) };
        let opened = context.install(|| given.open(&opening, context))?;
        let work = chosen
            .into_iter()
            .map(|(metric, params)| Ok((metric, recipe(metric, &opened.inputs, params, profile, seed)?)));
        let work = work.collect::<Result<Vec<_>>>()?;
        // Not inside the pool: metrics that run in step wait for each other.
        let results = evaluate_together(&work, &opened.inputs, None, context, |_, result| Ok(result));
        let text = |result: Result<etalon::results::ResultFile>| Ok(result?.to_json()?.to_string());
        Ok((results.into_iter().map(text).collect::<Result<Vec<_>>>()?, opened.messages()))
    })
}

fn find(name: &str) -> Result<&'static dyn Metric> {
    metrics::find(name).ok_or_else(|| {
        let names: Vec<&str> = METRICS.iter().map(|metric| metric.card().name).collect();
        Error::from(InputError::new(format!("there is no metric `{name}`")).one_of(name, &names))
    })
}

/// Adds an input that is in memory.
fn put(inputs: &mut Inputs, key: &str, name: &str, value: &Bound<'_, PyAny>) -> PyResult<()> {
    if let Ok(rows) = value.cast::<Rows>() {
        let rows = rows.get().0.clone();
        match key {
            "embeddings" => inputs.put(&EMBEDDINGS, rows),
            "pair-embeddings" => inputs.put(&PAIR_EMBEDDINGS, rows),
            "directions" => inputs.put(&DIRECTIONS, rows),
            "similarity" => inputs.put(&SIMILARITY, rows),
            "visualisations" => inputs.put(&VISUALISATIONS, rows),
            "other" => inputs.add(&OTHERS, name, rows),
            _ => return Err(unfit(key, "an array of activations")),
        }
    } else if let Ok(codes) = value.cast::<Codes>() {
        let codes = codes.get().0.clone();
        match key {
            "codes" => inputs.put(&CODES, codes),
            "pair-codes" => inputs.put(&PAIR_CODES, codes),
            "null" => inputs.add(&NULLS, name, codes),
            "generated" => inputs.add(&GENERATED, name, Generated { codes, embeddings: None }),
            _ => return Err(unfit(key, "an array of codes")),
        }
    } else if let Ok(labels) = value.cast::<Labels>() {
        let labels = labels.get().0.clone();
        match key {
            "labels" => inputs.put(&LABELS, labels),
            "pair-labels" => inputs.put(&PAIR_LABELS, labels),
            _ => return Err(unfit(key, "a table of labels")),
        }
    } else if let Ok(dictionary) = value.cast::<Dictionary>() {
        match key {
            "sae" => inputs.put(&SAE, Arc::clone(&dictionary.get().checkpoint)),
            _ => return Err(unfit(key, "a dictionary")),
        }
    } else {
        return Err(unfit(key, "an object of this type"));
    }
    Ok(())
}

fn unfit(key: &str, what: &str) -> PyErr {
    PyTypeError::new_err(format!("`{}` cannot be {what}", key.replace('-', "_")))
}
