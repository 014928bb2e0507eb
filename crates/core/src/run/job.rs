//! What a metric is given.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::Model;
use crate::budget::Budget;
use crate::codes::{Codes, Pool};
use crate::error::{Complaint, Error, Result};
use crate::labels::{Annotations, PairSet};
use crate::results::Profile;
use crate::sae::train::Record;
use crate::sae::{Dictionary, Linear};
use crate::store::ActivationStore;

/// Everything that can be evaluated together. A metric's card says what it needs of it.
#[derive(Clone, Debug, Default)]
pub struct Inputs {
    /// The codes under test.
    pub codes: Option<Arc<Codes>>,
    /// The embeddings that the codes are of, row by row.
    pub embeddings: Option<Arc<ActivationStore>>,
    /// Concepts × the rows of the codes.
    pub labels: Option<Arc<Annotations>>,
    /// Pairs of rows of `pair_codes` (or of `codes`, if there are none).
    pub pairs: Option<Arc<PairSet>>,
    /// Codes of the images that the pairs are made of.
    pub pair_codes: Option<Arc<Codes>>,
    /// Embeddings of the same images, from which baselines make their own codes.
    pub pair_embeddings: Option<Arc<ActivationStore>>,
    /// Concepts × the rows of `pair_codes`.
    pub pair_labels: Option<Arc<Annotations>>,
    /// Codes of untrained dictionaries on the same rows, one per seed.
    pub nulls: Vec<Arc<Codes>>,
    /// One direction per latent, in the space of the embeddings.
    pub directions: Option<Arc<ActivationStore>>,
    /// The dictionary that made the codes.
    pub dictionary: Option<Arc<Linear>>,
    /// The directions of dictionaries that were trained with other seeds.
    pub others: Vec<Arc<ActivationStore>>,
    /// The true features of a world.
    pub truth: Option<Arc<Truth>>,
    /// How the dictionary was trained.
    pub training: Option<Arc<Record>>,
    /// Generators that are compared with the rows of `codes`, prompt by prompt.
    pub models: Vec<Model>,
    /// How tokens became the rows of codes, if they were pooled.
    pub pooling: Option<Pool>,
}

/// What a world knows about itself.
#[derive(Debug)]
pub struct Truth {
    /// The true feature values of every row.
    pub codes: Arc<Codes>,
    /// One direction per feature.
    pub directions: Option<Arc<ActivationStore>>,
}

impl Truth {
    fn id(&self) -> Result<String> {
        let directions = self.directions.as_ref().map(|store| store.id()).transpose()?;
        Ok([Some(self.codes.id()?), directions].into_iter().flatten().collect::<Vec<_>>().join(" "))
    }
}

impl Inputs {
    /// Content addresses of the inputs in some roles, for the recipe.
    pub fn ids(&self, looks_at: impl Fn(&str) -> bool) -> Result<BTreeMap<String, String>> {
        let mut ids = BTreeMap::new();
        let mut add = |role: &str, id: Option<String>| {
            if let Some(id) = id.filter(|_| looks_at(role)) {
                ids.insert(role.to_string(), id);
            }
        };
        add("codes", self.codes.as_ref().map(|codes| codes.id()).transpose()?);
        add("embeddings", self.embeddings.as_ref().map(|store| store.id()).transpose()?);
        add("labels", self.labels.as_ref().map(|labels| labels.id()));
        add("pairs", self.pairs.as_ref().map(|pairs| pairs.id()));
        add("pair_codes", self.pair_codes.as_ref().map(|codes| codes.id()).transpose()?);
        add("pair_labels", self.pair_labels.as_ref().map(|labels| labels.id()));
        add("directions", self.directions.as_ref().map(|store| store.id()).transpose()?);
        add("dictionary", self.dictionary.as_ref().map(|dictionary| dictionary.id()));
        add("truth", self.truth.as_ref().map(|truth| truth.id()).transpose()?);
        add("training", self.training.as_ref().map(|record| record.id()));
        if !self.nulls.is_empty() {
            let nulls = self.nulls.iter().map(|null| null.id()).collect::<Result<Vec<_>>>()?;
            add("nulls", Some(nulls.join(" ")));
        }
        if !self.others.is_empty() {
            let others = self.others.iter().map(|other| other.id()).collect::<Result<Vec<_>>>()?;
            add("others", Some(others.join(" ")));
        }
        if !self.models.is_empty() {
            let models = self.models.iter().map(Model::id).collect::<Result<Vec<_>>>()?;
            add("models", Some(models.join(", ")));
            add("pooling", self.pooling.map(|pool| pool.name().into()));
        }
        Ok(ids)
    }

    /// Makes sure that everything fits together.
    pub fn check(&self) -> Result<()> {
        self.check_rows()?;
        Model::check_all(&self.models, self.codes.as_deref())?;
        self.check_pairs()
    }

    /// Makes sure that everything speaks of the same rows, latents and concepts.
    pub fn check_rows(&self) -> Result<()> {
        let rows = self.codes.as_deref().map(Codes::rows);
        let same = |what: &str, expected: Option<usize>, found: Option<usize>, unit: &str, advice: &str| match (
            expected, found,
        ) {
            (Some(expected), Some(found)) if expected != found => Err(Error::from(
                Complaint::new(what)
                    .expected(format!("{expected} {unit}"))
                    .found(format!("{found} {unit}"))
                    .advice(advice),
            )),
            _ => Ok(()),
        };
        let split = "take both from the same split, in the same order";
        let labels = self.labels.as_deref();
        same("labels and codes differ in rows", rows, labels.map(Annotations::rows), "rows", split)?;
        let embeddings = self.embeddings.as_deref();
        same("embeddings and codes differ in rows", rows, embeddings.map(ActivationStore::rows), "rows", split)?;
        let labelled = rows.or(embeddings.map(ActivationStore::rows));
        same("labels and embeddings differ in rows", labelled, labels.map(Annotations::rows), "rows", split)?;
        let latents = self.codes.as_deref().map(Codes::latents);
        let dictionary = "encode both with the same dictionary";
        let pair_codes = self.pair_codes.as_deref();
        same("pair codes and codes differ in latents", latents, pair_codes.map(Codes::latents), "latents", dictionary)?;
        let pair_rows = pair_codes.map(Codes::rows);
        let pair_labels = self.pair_labels.as_deref().map(Annotations::rows);
        same("pair labels and pair codes differ in rows", pair_rows, pair_labels, "rows", split)?;
        let pair_embeddings = self.pair_embeddings.as_deref().map(ActivationStore::rows);
        same("pair embeddings and pair codes differ in rows", pair_rows, pair_embeddings, "rows", split)?;
        for null in &self.nulls {
            same("null codes and codes differ in rows", rows, Some(null.rows()), "rows", split)?;
        }
        let directions = self.directions.as_deref().map(ActivationStore::rows);
        same("directions and codes differ in latents", latents, directions, "latents", dictionary)?;
        let card = self.dictionary.as_deref().map(Dictionary::card);
        same("dictionary and codes differ in latents", latents, card.map(|card| card.latents), "latents", dictionary)?;
        let width = embeddings.map(ActivationStore::width);
        same("dictionary and embeddings differ", width, card.map(|card| card.width), "values per row", dictionary)?;
        for other in &self.others {
            let (mine, theirs) = (self.directions.as_deref(), Some(other.width()));
            let advice = "compare dictionaries of the same activations";
            same("directions differ in width", mine.map(ActivationStore::width), theirs, "values", advice)?;
        }
        let truth = self.truth.as_ref();
        same("true codes and codes differ in rows", rows, truth.map(|truth| truth.codes.rows()), "rows", split)?;
        if let (Some(labels), Some(pair_labels)) = (labels, &self.pair_labels)
            && labels.names() != pair_labels.names()
        {
            return Err(Complaint::new("labels and pair labels name different concepts")
                .expected(format!("{} concepts, the same names in the same order", labels.concepts()))
                .found(format!("{} concepts", pair_labels.concepts()))
                .into());
        }
        Ok(())
    }

    /// Makes sure that pairs point at rows and concepts that there are.
    pub fn check_pairs(&self) -> Result<()> {
        let Some(pairs) = &self.pairs else { return Ok(()) };
        let rows = self.codes_of_pairs().map_or(usize::MAX, Codes::rows);
        let labels = self.labels.as_deref().or(self.pair_labels.as_deref());
        pairs.check(rows, labels.map_or(usize::MAX, Annotations::concepts))
    }

    /// The codes that pairs point into.
    pub fn codes_of_pairs(&self) -> Option<&Codes> {
        self.pair_codes.as_deref().or(self.codes.as_deref())
    }

    /// The labels of the rows that pairs point into.
    pub fn labels_of_pairs(&self) -> Option<&Annotations> {
        if self.pair_codes.is_some() { self.pair_labels.as_deref() } else { self.labels.as_deref() }
    }
}

/// One evaluation: inputs, settings, and the means to do it.
pub struct Job<'a> {
    /// What is evaluated.
    pub inputs: &'a Inputs,
    /// The metric's parameters, checked and complete.
    pub params: &'a BTreeMap<String, serde_json::Value>,
    /// Paper or reference.
    pub profile: Profile,
    /// The seed of everything random.
    pub seed: u64,
    /// The memory there is.
    pub budget: &'a Budget,
}

impl<'a> Job<'a> {
    fn need<T>(&self, what: Option<&'a T>, option: &str) -> Result<&'a T> {
        what.ok_or_else(|| {
            Complaint::new(format!("this metric needs `{option}`")).advice(format!("add {option} FILE")).into()
        })
    }

    /// The codes.
    pub fn codes(&self) -> Result<&'a Codes> {
        self.need(self.inputs.codes.as_deref(), "--codes")
    }

    /// The embeddings.
    pub fn embeddings(&self) -> Result<&'a ActivationStore> {
        self.need(self.inputs.embeddings.as_deref(), "--embeddings")
    }

    /// The labels.
    pub fn labels(&self) -> Result<&'a Annotations> {
        self.need(self.inputs.labels.as_deref(), "--labels")
    }

    /// The directions.
    pub fn directions(&self) -> Result<&'a ActivationStore> {
        self.need(self.inputs.directions.as_deref(), "--directions")
    }

    /// The models that are compared with the real rows, at least one.
    pub fn models(&self) -> Result<&'a [Model]> {
        self.need(Some(&self.inputs.models).filter(|models| !models.is_empty()), "--generated").map(Vec::as_slice)
    }

    /// The pairs.
    pub fn pairs(&self) -> Result<&'a PairSet> {
        self.need(self.inputs.pairs.as_deref(), "--pairs")
    }

    fn param(&self, name: &str) -> Result<&serde_json::Value> {
        self.params.get(name).ok_or_else(|| Error::Bug(format!("the card declares no parameter `{name}`")))
    }

    /// A whole number of the parameters.
    pub fn whole(&self, name: &str) -> Result<usize> {
        let value = self.param(name)?.as_u64();
        value.map(|value| value as usize).ok_or_else(|| Error::Bug(format!("parameter `{name}` is not a whole number")))
    }

    /// A number of the parameters.
    pub fn number(&self, name: &str) -> Result<f64> {
        self.param(name)?.as_f64().ok_or_else(|| Error::Bug(format!("parameter `{name}` is not a number")))
    }

    /// A word of the parameters.
    pub fn word(&self, name: &str) -> Result<&str> {
        self.param(name)?.as_str().ok_or_else(|| Error::Bug(format!("parameter `{name}` is not a word")))
    }

    /// A parameter that may be given several times, as a list in any case.
    pub fn several(&self, name: &str) -> Result<Vec<serde_json::Value>> {
        let value = self.param(name)?;
        Ok(value.as_array().cloned().unwrap_or_else(|| vec![value.clone()]))
    }
}
