//! One loader per role: reads the text that a user wrote, usually a path, into an input. An array may be an array file
//! or a directory that Etalon wrote.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::artefact::{Checkpoint, Generated, Samples, Truth, WorldDirectory};
use super::choice_questions::ChoiceQuestions;
use super::distances::DistanceMatrix;
use super::prompts::Prompts;
use super::responses::Responses;
use super::role::{Axis, FromFile, Loading};
use super::sizes::{AxisSize, check_sizes};
use super::text_list::TextList;
use super::token_texts::{TokenSource, TokenTexts};
use super::units::Units;
use crate::codes::{Codes, CodesBuilder, Pool};
use crate::context::{Budget, Reserved};
use crate::error::{Command, InFile, InputError, Key, Result};
use crate::input::{self, Finite, Source, hub};
use crate::labels::{Annotations, EntitySet, Factors, PairSet};
use crate::network::{Judge, SentenceEncoder, TextRun, open_capture, open_encoder, open_judge};
use crate::sae::checkpoint::{self as checkpoints, Loaded};
use crate::sae::encode_store;
use crate::sae::train::Record;
use crate::store::ActivationStore;

fn source(path: &Path) -> Result<Source> {
    Source::parse(&path.to_string_lossy())
}

/// Activations from a store directory or an array file; a plain `f32` file is memory-mapped.
pub fn load_activations(path: &Path, finite: Finite, budget: &Budget) -> Result<ActivationStore> {
    if path.is_dir() {
        return ActivationStore::open(path);
    }
    let source = source(path)?;
    if let (Finite::Refuse, Some((bytes, shape))) = (finite, input::plain_f32(&source)?) {
        let store = ActivationStore::mapped(&source.path, bytes, shape.width)?;
        return with_samples(store, shape.rows_per_sample);
    }
    let rows = input::read_rows(&source, finite, budget)?;
    let store = ActivationStore::from_reserved(Reserved::new(rows.values, rows.memory), rows.width);
    with_samples(store.in_file(&source.path)?.without_rows(rows.dropped), rows.rows_per_sample)
}

/// Assigns the rows of a three-dimensional array to samples.
fn with_samples(store: ActivationStore, rows_per_sample: Option<usize>) -> Result<ActivationStore> {
    match rows_per_sample {
        Some(each) if each > 1 => {
            let samples = (0..store.rows()).map(|row| (row / each) as u32).collect();
            store.with_samples(samples)
        }
        _ => Ok(store),
    }
}

/// Values of a dense array that are converted to codes at a time.
const BLOCK_VALUES: usize = 1 << 20;

/// Bytes per latent that every metric needs at least. The number of latents of a sparse file is a number in its header,
/// which costs nothing to write.
const LATENT_BYTES: u64 = 32;

/// Codes from a codes directory, a SciPy sparse file, or a dense array.
pub fn load_codes(path: &Path, budget: &Budget) -> Result<Codes> {
    count_codes(path, budget).map(|(codes, _)| codes)
}

/// The codes of a file, and how many values are too small for `f32` and became 0.
fn count_codes(path: &Path, budget: &Budget) -> Result<(Codes, u64)> {
    let (codes, underflowed) = read_codes(path, budget)?;
    let bytes = (codes.latents() as u64).saturating_mul(LATENT_BYTES);
    drop(budget.reserve(bytes, format!("numbers of {} latents", codes.latents()))?);
    Ok((codes, underflowed))
}

fn read_codes(path: &Path, budget: &Budget) -> Result<(Codes, u64)> {
    if path.is_dir() {
        let opened = Codes::open(path);
        return match (opened, ActivationStore::open(path)) {
            (Ok(codes), _) => Ok((codes, 0)),
            // Activations may be codes themselves: neurons, or the scores of a concept bottleneck.
            (Err(_), Ok(store)) => Ok((codes_of_store(&store, budget)?, 0)),
            (Err(error), Err(_)) => Err(error),
        };
    }
    let source = source(path)?;
    if let Some(sparse) = input::read_sparse(&source, budget)? {
        let mut builder = CodesBuilder::within(sparse.columns, budget);
        for row in 0..sparse.rows {
            let entries = sparse.offsets[row] as usize..sparse.offsets[row + 1] as usize;
            builder.push(&sparse.indices[entries.clone()], &sparse.values[entries]).in_file(&source.path)?;
        }
        return Ok((builder.finish(), sparse.underflowed));
    }
    let mut reader = input::open_rows(&source, budget)?;
    let width = reader.shape().width;
    let mut builder = CodesBuilder::within(width, budget);
    let mut block = vec![0.0; width.max(1) * (BLOCK_VALUES / width.max(1)).max(1)];
    loop {
        let rows = reader.read(&mut block)?;
        if rows == 0 {
            return Ok((builder.finish(), reader.underflowed()));
        }
        block.chunks_exact(width).take(rows).try_for_each(|row| builder.push_dense(row)).in_file(&source.path)?;
    }
}

/// The rows of a store as codes.
fn codes_of_store(store: &ActivationStore, budget: &Budget) -> Result<Codes> {
    let mut builder = CodesBuilder::within(store.width(), budget);
    let rows_at_once = (BLOCK_VALUES / store.width().max(1)).max(1);
    for start in (0..store.rows()).step_by(rows_at_once) {
        let tile = store.tile(start..(start + rows_at_once).min(store.rows()))?;
        for row in 0..rows_at_once.min(store.rows() - start) {
            builder.push_dense(tile.row(row))?;
        }
    }
    Ok(builder.finish())
}

/// Labels from a table with a header of concept names, or from an array of 0, 1 and −1. Rows whose ids are the row
/// numbers 0 to N − 1 are sorted by them.
pub fn load_labels(path: &Path, budget: &Budget) -> Result<Annotations> {
    let extension = path.extension().map(|extension| extension.to_string_lossy().to_lowercase()).unwrap_or_default();
    if ["csv", "tsv", "jsonl", "ndjson", "parquet"].contains(&extension.as_str()) {
        let table = input::read_table(path, budget)?;
        let (labels, ids) = Annotations::from_table(&table).in_file(path)?;
        return Ok(labels.with_ids(ids.unwrap_or_default()));
    }
    let source = source(path)?;
    let rows = input::read_with_gaps(&source, budget)?;
    Annotations::from_array(&rows.values, rows.width, None).in_file(&source.path)
}

/// Factors from a table with a column per factor, or from an array of integers.
pub fn load_factors(path: &Path, budget: &Budget) -> Result<Factors> {
    let extension = path.extension().map(|extension| extension.to_string_lossy().to_lowercase()).unwrap_or_default();
    if ["csv", "tsv", "jsonl", "ndjson", "parquet"].contains(&extension.as_str()) {
        return Factors::from_table(&input::read_table(path, budget)?).in_file(path);
    }
    let source = source(path)?;
    let rows = input::read_with_gaps(&source, budget)?;
    Factors::from_array(&rows.values, rows.width).in_file(&source.path)
}

/// The directions of a dictionary, or an array of directions. Arrays and dictionaries have the same endings: a file that is
/// no dictionary is an array.
pub fn load_directions(path: &Path, budget: &Budget) -> Result<ActivationStore> {
    if !checkpoints::is_known(path) {
        return load_activations(path, Finite::Refuse, budget);
    }
    match checkpoints::load(path, budget) {
        Ok(Loaded { dictionary, .. }) => {
            ActivationStore::from_rows(dictionary.directions().to_vec(), dictionary.card().output_width()).in_file(path)
        }
        Err(error) => load_activations(path, Finite::Refuse, budget).map_err(|_| error),
    }
}

pub(super) fn codes(text: &str, loading: &Loading<'_>) -> Result<Codes> {
    let (codes, underflowed) = count_codes(&loading.base.join(text), loading.context.budget())?;
    if underflowed > 0 {
        loading.notes.borrow_mut().push(format!(
            "{underflowed} values of {text} are too small for 32-bit floating point and became 0, as if the latent did \
             not fire; multiply the codes by a constant"
        ));
    }
    Ok(codes)
}

/// Codes, or a dictionary, which encodes the embeddings: a directory, or a file with settings. Another file is always read as
/// codes: arrays and dictionaries have the same endings.
pub(super) fn nulls(text: &str, loading: &Loading<'_>) -> Result<Codes> {
    let path = loading.base.join(text);
    let is_array = !path.is_dir() && checkpoints::split_settings(&path).1.is_empty();
    if is_array || !checkpoints::is_known(&path) {
        return codes(text, loading);
    }
    let FromFile { value: embeddings, file } = loading.embeddings.as_ref().ok_or_else(|| {
        InputError::new(format!("the dictionary of {} has nothing to encode", Key("null")))
            .expected("the activations of the rows")
            .needs("embeddings")
            .file(&path)
    })?;
    if !embeddings.dropped_rows().is_empty() {
        return Err(InputError::new(format!("{} cannot be a dictionary while rows are dropped", Key("null")))
            .expected("embeddings without NaN and infinity, or codes of the untrained dictionary")
            .found(format!("{} rows to drop", embeddings.dropped_rows().len()))
            .advice(format!("encode the rows with {} first", Command("encode")))
            .file(&path)
            .into());
    }
    let loaded = checkpoints::load(&path, loading.context.budget())?;
    check_sizes(
        Axis::Width,
        AxisSize::new("embeddings", embeddings.width(), *file),
        AxisSize::new("null", loaded.dictionary.card().width, Some(&path)),
    )?;
    encode_store(&*loaded.dictionary, embeddings, loading.context).in_file(&path)
}

/// A path relative to the base, or a name of the Hugging Face hub that is in the user's cache.
fn dictionary_path(text: &str, base: &Path) -> PathBuf {
    let path = base.join(text);
    let is_name = !checkpoints::split_settings(&path).0.exists() && hub::in_cache(text).is_some();
    if is_name { PathBuf::from(text) } else { path }
}

pub(super) fn checkpoint(text: &str, loading: &Loading<'_>) -> Result<Checkpoint> {
    let loaded = checkpoints::load(&dictionary_path(text, loading.base), loading.context.budget())?;
    Ok(Checkpoint {
        record: Record::of(&loaded.about),
        dictionary: Arc::from(loaded.dictionary),
        recognised: loaded.recognised,
        notes: loaded.notes,
    })
}

/// The only role whose rows may be dropped if they are not finite: pairs and directions refer to row numbers.
pub(super) fn embeddings(text: &str, loading: &Loading<'_>) -> Result<ActivationStore> {
    load_activations(&loading.base.join(text), loading.finite, loading.context.budget())
}

pub(super) fn activations(text: &str, loading: &Loading<'_>) -> Result<ActivationStore> {
    load_activations(&loading.base.join(text), Finite::Refuse, loading.context.budget())
}

pub(super) fn directions(text: &str, loading: &Loading<'_>) -> Result<ActivationStore> {
    load_directions(&loading.base.join(text), loading.context.budget())
}

pub(super) fn labels(text: &str, loading: &Loading<'_>) -> Result<Annotations> {
    load_labels(&loading.base.join(text), loading.context.budget())
}

pub(super) fn factors(text: &str, loading: &Loading<'_>) -> Result<Factors> {
    load_factors(&loading.base.join(text), loading.context.budget())
}

pub(super) fn task_labels(text: &str, loading: &Loading<'_>) -> Result<Factors> {
    let file = loading.base.join(text);
    let factors = load_factors(&file, loading.context.budget())?;
    if factors.count() != 1 {
        return Err(InputError::new(format!("{} needs one column", Key("task-labels")))
            .expected("the class of every row: one column besides an id")
            .found(format!("{} columns: {}", factors.count(), factors.names().join(", ")))
            .advice(format!("pass a file with the column of the task, or pass all columns as {}", Key("factors")))
            .file(&file)
            .into());
    }
    Ok(factors)
}

pub(super) fn pairs(text: &str, loading: &Loading<'_>) -> Result<PairSet> {
    let file = loading.base.join(text);
    let table = input::read_table(&file, loading.context.budget())?;
    PairSet::from_table(&table, loading.concepts).in_file(&file)
}

pub(super) fn units(text: &str, loading: &Loading<'_>) -> Result<Units> {
    let file = loading.base.join(text);
    Units::from_table(&input::read_table(&file, loading.context.budget())?).in_file(&file)
}

/// A table, or JSON with lists of trials, which has no ending of a table.
pub(super) fn responses(text: &str, loading: &Loading<'_>) -> Result<Responses> {
    let (file, budget) = (loading.base.join(text), loading.context.budget());
    let extension = file.extension().map(|extension| extension.to_string_lossy().to_lowercase()).unwrap_or_default();
    let table = match extension.as_str() {
        "json" | "txt" => input::read_trials(&file, budget)?,
        _ => input::read_table(&file, budget)?,
    };
    Responses::from_table(&table).in_file(&file)
}

pub(super) fn distances(text: &str, loading: &Loading<'_>) -> Result<DistanceMatrix> {
    DistanceMatrix::in_file(activations(text, loading)?, &loading.base.join(text), || loading.context.check())
}

pub(super) fn truth(text: &str, loading: &Loading<'_>) -> Result<Truth> {
    let (world, budget) = (loading.base.join(text), loading.context.budget());
    if !world.join("codes").exists() {
        return Err(InputError::new("the directory holds no true features")
            .expected(format!("a world made by {}, with a directory `codes`", Command("data")))
            .file(&world)
            .into());
    }
    let file = world.join("directions");
    let directions = file.exists().then(|| load_activations(&file, Finite::Refuse, budget)).transpose()?;
    Ok(Truth { codes: Arc::new(load_codes(&world.join("codes"), budget)?), directions: directions.map(Arc::new) })
}

pub(super) fn world(text: &str, loading: &Loading<'_>) -> Result<WorldDirectory> {
    let directory = loading.base.join(text);
    if !directory.join("world.json").is_file() {
        return Err(InputError::new("the directory holds no world")
            .expected(format!("a directory made by {}, with a file world.json", Command("data")))
            .file(&directory)
            .into());
    }
    Ok(WorldDirectory(directory))
}

/// The largest n such that `f32` represents all integers up to n exactly.
const LARGEST_SAMPLE: f32 = 16_777_215.0;

pub(super) fn samples(text: &str, loading: &Loading<'_>) -> Result<Samples> {
    let source = source(&loading.base.join(text))?;
    let rows = input::read_rows(&source, Finite::Refuse, loading.context.budget())?;
    let is_valid = |value: f32| (0.0..=LARGEST_SAMPLE).contains(&value) && value.fract() == 0.0;
    match rows.values.iter().position(|&value| rows.width != 1 || !is_valid(value)) {
        None => Ok(Samples(rows.values.iter().map(|&value| value as u32).collect())),
        Some(index) => Err(InputError::new(format!("{} is not a list of sample numbers", Key("samples")))
            .expected(format!("one integer from 0 to {LARGEST_SAMPLE} per row"))
            .found(format!("width {}, value {}", rows.width, rows.values[index]))
            .at(format!("value {index}"))
            .file(&source.path)
            .into()),
    }
}

pub(super) fn pooling(text: &str, _: &Loading<'_>) -> Result<Pool> {
    text.parse()
}

/// Codes of generated rows; with a dictionary, activations that it encodes.
pub(super) fn generated(text: &str, loading: &Loading<'_>) -> Result<Generated> {
    let Some(dictionary) = &loading.dictionary else {
        return Ok(Generated { codes: Arc::new(codes(text, loading)?), embeddings: None });
    };
    let file = loading.base.join(text);
    let store = activations(text, loading)?;
    check_sizes(
        Axis::Width,
        AxisSize::new("sae", dictionary.value.card().width, dictionary.file),
        AxisSize::new("generated", store.width(), Some(&file)),
    )?;
    let codes = encode_store(dictionary.value, &store, loading.context).in_file(&file)?;
    Ok(Generated { codes: Arc::new(codes), embeddings: Some(Arc::new(store)) })
}

/// A capture, `DIR` or `DIR:SITE`.
pub(super) fn network(text: &str, loading: &Loading<'_>) -> Result<TextRun> {
    let (directory, site) = match text.rsplit_once(':') {
        Some((directory, site)) if !loading.base.join(text).exists() => (directory, Some(site)),
        _ => (text, None),
    };
    open_capture(&loading.base.join(directory), site, loading.context)
}

/// The texts of tokens: a file, or the directory of a capture.
pub(super) fn tokens(text: &str, loading: &Loading<'_>) -> Result<TokenSource> {
    let texts = TokenTexts::read(&loading.base.join(text), loading.context.budget())?;
    Ok(TokenSource::Texts(Arc::new(texts)))
}

/// A language model or recorded answers.
pub(super) fn judge(text: &str, loading: &Loading<'_>) -> Result<Arc<dyn Judge>> {
    open_judge(text, loading.base, loading.context)
}

/// A file of questions.
pub(super) fn prompts(text: &str, loading: &Loading<'_>) -> Result<Prompts> {
    Prompts::read(&loading.base.join(text))
}

/// A directory of entities, or the name of a packaged one.
pub(super) fn entities(text: &str, loading: &Loading<'_>) -> Result<EntitySet> {
    EntitySet::read(&input::packaged_path(text, loading.base)?, loading.context.budget())
}

/// A table of multiple-choice questions, or the name of a packaged one.
pub(super) fn choice_questions(text: &str, loading: &Loading<'_>) -> Result<ChoiceQuestions> {
    ChoiceQuestions::read(&input::packaged_path(text, loading.base)?, loading.context.budget())
}

/// Texts, or the name of a packaged data set.
pub(super) fn text_list(text: &str, loading: &Loading<'_>) -> Result<TextList> {
    TextList::read(&input::packaged_path(text, loading.base)?, loading.context.budget())
}

/// A sentence encoder.
pub(super) fn encoder(text: &str, loading: &Loading<'_>) -> Result<Arc<dyn SentenceEncoder>> {
    open_encoder(text, loading.base, loading.context)
}
