//! From paths to inputs: every array may be a foreign file or a directory of ours.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use serde::Deserialize;

use crate::budget::Budget;
use crate::codes::{Codes, CodesBuilder};
use crate::error::{Complaint, InFile, Result};
use crate::input::{self, Finite, Source};
use crate::labels::{Annotations, PairSet};
use crate::run::{Inputs, Truth};
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
    /// A world, for its true features.
    pub truth: Option<String>,
    /// A world, for everything it has that is not named otherwise.
    pub world: Option<String>,
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
            truth: self.truth.or(other.truth.clone()),
            world: self.world.or(other.world.clone()),
        }
    }

    /// The world's files for everything that is not named. True codes are not taken as codes under test.
    fn with_world(self, base: &Path) -> Result<Paths> {
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
            pairs: part("pairs.csv"),
            pair_embeddings: part("pair-activations"),
            pair_labels: part("pair-labels.csv"),
            truth: Some(world.clone()),
            ..Paths::default()
        };
        Ok(self.or(&found))
    }

    /// Reads everything that is named, relative to a base directory, and checks that it fits together.
    pub fn load(&self, base: &Path, finite: Finite, budget: &Budget) -> Result<Inputs> {
        let paths = self.clone().with_world(base)?;
        let at = |text: &String| base.join(text);
        let codes = |text: &String| load_codes(&at(text), budget).map(Arc::new);
        let activations = |text: &String| load_activations(&at(text), finite, budget).map(Arc::new);
        let labels = |text: &String| load_labels(&at(text), budget).map(Arc::new);
        let mut inputs = Inputs {
            codes: paths.codes.as_ref().map(codes).transpose()?,
            embeddings: paths.embeddings.as_ref().map(activations).transpose()?,
            labels: paths.labels.as_ref().map(labels).transpose()?,
            pair_codes: paths.pair_codes.as_ref().map(codes).transpose()?,
            pair_embeddings: paths.pair_embeddings.as_ref().map(activations).transpose()?,
            pair_labels: paths.pair_labels.as_ref().map(labels).transpose()?,
            nulls: paths.nulls.iter().map(codes).collect::<Result<_>>()?,
            directions: paths.directions.as_ref().map(activations).transpose()?,
            truth: paths.truth.as_ref().map(|text| load_truth(&at(text), budget).map(Arc::new)).transpose()?,
            ..Inputs::default()
        };
        if let Some(file) = paths.pairs.as_ref().map(at) {
            let names = inputs.labels.as_ref().or(inputs.pair_labels.as_ref()).map(|labels| labels.names().to_vec());
            let table = input::read_table(&file, budget)?;
            inputs.pairs = Some(Arc::new(PairSet::from_table(&table, names.as_deref()).in_file(&file)?));
        }
        inputs.check()?;
        Ok(inputs)
    }
}

fn source(path: &Path) -> Result<Source> {
    Source::parse(&path.to_string_lossy())
}

/// Activations from a store directory or an array file; a plain `f32` file is used in place.
pub fn load_activations(path: &Path, finite: Finite, budget: &Budget) -> Result<ActivationStore> {
    if path.is_dir() {
        return ActivationStore::open(path);
    }
    let source = source(path)?;
    if let (Finite::Refuse, Some((bytes, shape))) = (finite, input::plain_f32(&source)?) {
        return ActivationStore::mapped(&source.path, bytes, shape.width);
    }
    let rows = input::read_rows(&source, finite, budget)?;
    rows.memory.for_good();
    ActivationStore::from_rows(rows.values, rows.width).in_file(&source.path)
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
