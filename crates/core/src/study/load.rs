//! From paths to inputs: every array may be a foreign file or a directory of ours.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use serde::Deserialize;

use super::dictionary::Recognised;
use super::generated::{generated_in, models};
use super::rows;
use super::tokens::TokensOfSets;
use crate::budget::Budget;
use crate::codes::{Codes, CodesBuilder};
use crate::error::{Complaint, InFile, Result};
use crate::input::{self, Finite, Source};
use crate::labels::{Annotations, PairSet};
use crate::progress::Watch;
use crate::run::{Inputs, Truth};
use crate::sae::{Dictionary, checkpoint};
use crate::store::ActivationStore;

/// Where the inputs of an evaluation are. Field names are the options of the command line and the keys of a study.
#[derive(Clone, Debug, Default, Deserialize, PartialEq)]
#[serde(deny_unknown_fields, default, rename_all = "kebab-case")]
pub struct Paths {
    /// Codes of the rows.
    pub codes: Option<String>,
    /// A dictionary that makes the codes, and those of the pairs, from embeddings: see [`Paths::encode`].
    pub sae: Option<String>,
    /// Embeddings of the rows.
    pub embeddings: Option<String>,
    /// Concepts × rows.
    pub labels: Option<String>,
    /// Pairs that differ in one thing.
    pub pairs: Option<String>,
    /// Codes of the rows that the pairs point into.
    pub pair_codes: Option<String>,
    /// Embeddings of the rows that the pairs point into.
    pub pair_embeddings: Option<String>,
    /// Concepts × the rows that the pairs point into.
    pub pair_labels: Option<String>,
    /// Codes of untrained dictionaries.
    #[serde(rename = "null")]
    pub nulls: Vec<String>,
    /// One direction per latent.
    pub directions: Option<String>,
    /// Dictionaries trained with other seeds, or their directions.
    #[serde(rename = "other")]
    pub others: Vec<String>,
    /// A world, for its true features.
    pub truth: Option<String>,
    /// A world, for everything it has that is not named otherwise.
    pub world: Option<String>,
    /// The sample of each row, where rows are tokens and the embeddings do not say it.
    pub samples: Option<String>,
    /// How the rows of a sample become one: `max`, `mean`, `sum` or `cls`.
    pub pool: Option<String>,
    /// Generators as NAME=PATH: codes of what they made for the prompts of the rows, or activations if `sae` is named.
    pub generated: Vec<String>,
}

impl Paths {
    /// Fields of `self` where they are given, else those of `other`.
    pub fn or(self, other: &Paths) -> Paths {
        // Codes of one's own come before a dictionary of the other, and the other way round.
        let (codes, sae) = match (&self.codes, &self.sae) {
            (None, None) => (other.codes.clone(), other.sae.clone()),
            _ => (self.codes, self.sae),
        };
        Paths {
            codes,
            sae,
            embeddings: self.embeddings.or(other.embeddings.clone()),
            labels: self.labels.or(other.labels.clone()),
            pairs: self.pairs.or(other.pairs.clone()),
            pair_codes: self.pair_codes.or(other.pair_codes.clone()),
            pair_embeddings: self.pair_embeddings.or(other.pair_embeddings.clone()),
            pair_labels: self.pair_labels.or(other.pair_labels.clone()),
            nulls: if self.nulls.is_empty() { other.nulls.clone() } else { self.nulls },
            directions: self.directions.or(other.directions.clone()),
            others: if self.others.is_empty() { other.others.clone() } else { self.others },
            truth: self.truth.or(other.truth.clone()),
            world: self.world.or(other.world.clone()),
            samples: self.samples.or(other.samples.clone()),
            pool: self.pool.or(other.pool.clone()),
            generated: if self.generated.is_empty() { other.generated.clone() } else { self.generated },
        }
    }

    /// The world's files for everything that is not named. True codes are not taken as codes under test.
    pub(super) fn with_world(self, base: &Path) -> Result<Paths> {
        let Some(world) = self.world.clone() else { return Ok(self) };
        let directory = base.join(&world);
        if !directory.join("world.json").is_file() {
            return Err(Complaint::new("this directory holds no world")
                .expected("a directory made by `etalon data`, with a file world.json")
                .file(&directory)
                .into());
        }
        let part = |name: &str| directory.join(name).exists().then(|| format!("{world}/{name}"));
        let found = Paths {
            embeddings: part("activations"),
            labels: part("labels.csv"),
            // They point into rows of their own, of which somebody has to bring the codes.
            pairs: self.pair_codes.as_ref().or(self.sae.as_ref()).and_then(|_| part("pairs.csv")),
            pair_embeddings: part("pair-activations"),
            pair_labels: part("pair-labels.csv"),
            truth: Some(world.clone()),
            // The true codes of a world are not of the latents under test; activations can be encoded.
            generated: self.sae.as_ref().map_or(Ok(Vec::new()), |_| generated_in(&directory, &world))?,
            ..Paths::default()
        };
        Ok(self.or(&found))
    }

    /// Reads everything that is named, relative to a base directory, encodes it if a dictionary is named, and pools
    /// tokens if that is wanted. Call it on the threads that should do the work.
    pub fn open(
        &self,
        base: &Path,
        finite: Finite,
        budget: &Budget,
        watch: &Watch<'_>,
    ) -> Result<(Inputs, Option<Recognised>)> {
        let (inputs, recognised, _) = self.open_keeping(false, base, finite, budget, watch)?;
        Ok((inputs, recognised))
    }

    /// The same; codes of tokens that are pooled are kept on request: what a sample is, token by token. They are the larger
    /// part of the memory.
    pub fn open_keeping(
        &self,
        keep_tokens: bool,
        base: &Path,
        finite: Finite,
        budget: &Budget,
        watch: &Watch<'_>,
    ) -> Result<(Inputs, Option<Recognised>, TokensOfSets)> {
        let mut inputs = self.load(base, finite, budget)?;
        let recognised = self.encode(base, &mut inputs, budget, watch.progress, watch.cancel)?;
        let mut tokens = TokensOfSets::default();
        match (&self.pool, &self.samples) {
            (Some(pool), samples) => {
                let samples = samples.as_ref().map(|text| load_samples(&base.join(text), budget)).transpose()?;
                tokens = rows::pool(&mut inputs, pool.parse()?, samples, keep_tokens)?;
            }
            (None, Some(_)) => {
                return Err(Complaint::new("samples are given, and no way to pool them").expected("`pool`").into());
            }
            (None, None) => {}
        }
        inputs.check()?;
        Ok((inputs, recognised, tokens))
    }

    /// Reads everything that is named, as it is; checks that it fits together, unless tokens are to be pooled first.
    pub fn load(&self, base: &Path, finite: Finite, budget: &Budget) -> Result<Inputs> {
        let paths = self.clone().with_world(base)?;
        let at = |text: &String| base.join(text);
        let codes = |text: &String| load_codes(&at(text), budget).map(Arc::new);
        // Pairs and latents are counted by row, so that no row may go here.
        let activations = |text: &String| load_activations(&at(text), Finite::Refuse, budget).map(Arc::new);
        let labels = |text: &String| load_labels(&at(text), budget).map(Arc::new);
        let mut inputs = Inputs {
            codes: paths.codes.as_ref().map(codes).transpose()?,
            labels: paths.labels.as_ref().map(labels).transpose()?,
            pair_codes: paths.pair_codes.as_ref().map(codes).transpose()?,
            pair_embeddings: paths.pair_embeddings.as_ref().map(activations).transpose()?,
            pair_labels: paths.pair_labels.as_ref().map(labels).transpose()?,
            nulls: paths.nulls.iter().map(codes).collect::<Result<_>>()?,
            directions: paths.directions.as_ref().map(activations).transpose()?,
            others: paths
                .others
                .iter()
                .map(|text| load_directions(&at(text), budget).map(Arc::new))
                .collect::<Result<_>>()?,
            truth: paths.truth.as_ref().map(|text| load_truth(&at(text), budget).map(Arc::new)).transpose()?,
            // Activations of models are read when the dictionary is there that encodes them.
            models: match &paths.sae {
                None => models(&paths.generated, |path| Ok((codes(path)?, None)))?,
                Some(_) => Vec::new(),
            },
            ..Inputs::default()
        };
        let pairs = paths.pairs.as_ref().map(at);
        if let Some(file) = &pairs {
            let names = inputs.labels.as_ref().or(inputs.pair_labels.as_ref()).map(|labels| labels.names().to_vec());
            let table = input::read_table(file, budget)?;
            inputs.pairs = Some(Arc::new(PairSet::from_table(&table, names.as_deref()).in_file(file)?));
        }
        if let Some(file) = paths.embeddings.as_ref().map(at) {
            let (embeddings, dropped) = load_finite(&file, finite, budget)?;
            inputs.embeddings = Some(Arc::new(embeddings));
            rows::leave_out(&mut inputs, &dropped).in_file(&file)?;
        }
        if paths.pool.is_none() {
            inputs.check_rows()?;
        }
        if let Some(file) = &pairs {
            inputs.check_pairs().in_file(file)?;
        }
        Ok(inputs)
    }
}

fn source(path: &Path) -> Result<Source> {
    Source::parse(&path.to_string_lossy())
}

/// Activations from a store directory or an array file; a plain `f32` file is used in place.
pub fn load_activations(path: &Path, finite: Finite, budget: &Budget) -> Result<ActivationStore> {
    load_finite(path, finite, budget).map(|(store, _)| store)
}

/// The same, with the rows that were left out.
fn load_finite(path: &Path, finite: Finite, budget: &Budget) -> Result<(ActivationStore, Vec<usize>)> {
    if path.is_dir() {
        return Ok((ActivationStore::open(path)?, Vec::new()));
    }
    let source = source(path)?;
    if let (Finite::Refuse, Some((bytes, shape))) = (finite, input::plain_f32(&source)?) {
        let store = ActivationStore::mapped(&source.path, bytes, shape.width)?;
        return Ok((with_samples(store, shape.rows_per_sample)?, Vec::new()));
    }
    let rows = input::read_rows(&source, finite, budget)?;
    rows.memory.for_good();
    let store = ActivationStore::from_rows(rows.values, rows.width).in_file(&source.path)?;
    Ok((with_samples(store, rows.rows_per_sample)?, rows.dropped))
}

/// Rows of a three-dimensional array know their sample.
fn with_samples(store: ActivationStore, rows_per_sample: Option<usize>) -> Result<ActivationStore> {
    match rows_per_sample {
        Some(each) if each > 1 => {
            let samples = (0..store.rows()).map(|row| (row / each) as u32).collect();
            store.with_samples(samples)
        }
        _ => Ok(store),
    }
}

/// The largest whole number that an array of `f32` holds exactly with all below it.
const LARGEST_SAMPLE: f32 = 16_777_215.0;

fn load_samples(path: &Path, budget: &Budget) -> Result<Vec<u32>> {
    let source = source(path)?;
    let rows = input::read_rows(&source, Finite::Refuse, budget)?;
    let whole = |value: f32| (0.0..=LARGEST_SAMPLE).contains(&value) && value.fract() == 0.0;
    match rows.values.iter().position(|&value| rows.width != 1 || !whole(value)) {
        None => Ok(rows.values.iter().map(|&value| value as u32).collect()),
        Some(place) => Err(Complaint::new("these are not the samples of rows")
            .expected(format!("one whole number from 0 to {LARGEST_SAMPLE} per row"))
            .found(format!("width {}, value {}", rows.width, rows.values[place]))
            .at(format!("value {place}"))
            .file(&source.path)
            .into()),
    }
}

/// Values of a dense array that are turned into codes at a time.
const BLOCK_VALUES: usize = 1 << 20;

/// Codes from a directory of ours, a SciPy sparse file, or a dense array.
pub fn load_codes(path: &Path, budget: &Budget) -> Result<Codes> {
    if path.is_dir() {
        return Codes::open(path);
    }
    let source = source(path)?;
    if let Some(sparse) = input::read_sparse(&source, budget)? {
        let mut builder = CodesBuilder::new(sparse.columns);
        for row in 0..sparse.rows {
            let entries = sparse.offsets[row] as usize..sparse.offsets[row + 1] as usize;
            builder.push(&sparse.indices[entries.clone()], &sparse.values[entries]).in_file(&source.path)?;
        }
        return Ok(builder.finish());
    }
    let mut reader = input::open_rows(&source, budget)?;
    let width = reader.shape().width;
    let mut builder = CodesBuilder::new(width);
    let mut block = vec![0.0; width.max(1) * (BLOCK_VALUES / width.max(1)).max(1)];
    loop {
        let rows = reader.read(&mut block)?;
        if rows == 0 {
            return Ok(builder.finish());
        }
        block.chunks_exact(width).take(rows).try_for_each(|row| builder.push_dense(row)).in_file(&source.path)?;
    }
}

/// Labels from a table with a header of concept names, or from an array of 0, 1 and −1.
pub fn load_labels(path: &Path, budget: &Budget) -> Result<Annotations> {
    let extension = path.extension().map(|extension| extension.to_string_lossy().to_lowercase()).unwrap_or_default();
    if ["csv", "tsv", "jsonl", "ndjson", "parquet"].contains(&extension.as_str()) {
        let table = input::read_table(path, budget)?;
        return Ok(Annotations::from_table(&table).in_file(path)?.0);
    }
    let source = source(path)?;
    let rows = input::read_with_gaps(&source, budget)?;
    Annotations::from_array(&rows.values, rows.width, None).in_file(&source.path)
}

/// The directions of a dictionary, or an array of directions.
pub fn load_directions(path: &Path, budget: &Budget) -> Result<ActivationStore> {
    if !checkpoint::is_known(path) {
        return load_activations(path, Finite::Refuse, budget);
    }
    let dictionary = checkpoint::load(path, budget)?.dictionary;
    ActivationStore::from_rows(dictionary.directions().to_vec(), dictionary.card().width).in_file(path)
}

fn load_truth(world: &Path, budget: &Budget) -> Result<Truth> {
    let part = |name: &str| -> PathBuf { world.join(name) };
    if !part("codes").exists() {
        return Err(Complaint::new("this directory holds no true features")
            .expected("a world made by `etalon data`, with a directory `codes`")
            .file(world)
            .into());
    }
    let directions = part("directions").exists().then(|| load_activations(&part("directions"), Finite::Refuse, budget));
    let codes = Arc::new(load_codes(&part("codes"), budget)?);
    Ok(Truth { codes, directions: directions.transpose()?.map(Arc::new) })
}
