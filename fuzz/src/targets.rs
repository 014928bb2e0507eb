//! The parsers.

use std::error::Error as Failed;
use std::path::Path;

use etalon::codes::Codes;
use etalon::context::{Budget, Context};
use etalon::error::{Error, Result};
use etalon::input::{self, Finite, Source, TextTable};
use etalon::labels::{self, Annotations, PairSet, Partition};
use etalon::load::{self, Given, Opening};
use etalon::report::saebench;
use etalon::results::Archive;
use etalon::run::{Artefact, Responses, Units};
use etalon::sae::checkpoint;
use etalon::store::{self, ActivationStore};
use etalon::study::Study;

use crate::{records, resume, seeds, tokenizers, weights};

/// How the bytes of an input are used.
#[derive(Clone, Copy, Debug)]
pub enum Layout {
    /// They are a file of this name; every seed is such a file.
    File(&'static str),
    /// They replace a file of a directory; the seeds are its files.
    Folder,
    /// They replace a member of a zip archive of this name; the seeds are its members.
    Archive(&'static str),
}

/// Named contents.
pub type Seeds = std::result::Result<Vec<(String, Vec<u8>)>, Box<dyn Failed>>;

/// A parser with valid files.
pub struct Target {
    /// Its name.
    pub name: &'static str,
    pub(crate) layout: Layout,
    pub(crate) seeds: fn() -> Seeds,
    /// Reads the file or the directory.
    pub(crate) read: fn(&Path) -> Result<()>,
}

/// The target of a name.
pub fn find(name: &str) -> Option<&'static Target> {
    TARGETS.iter().find(|target| target.name == name)
}

const fn target(name: &'static str, layout: Layout, seeds: fn() -> Seeds, read: fn(&Path) -> Result<()>) -> Target {
    Target { name, layout, seeds, read }
}

use Layout::{Archive as Members, File, Folder};

/// Every parser.
pub static TARGETS: &[Target] = &[
    target("npy", File("x.npy"), seeds::npy, array),
    target("npz", File("x.npz"), seeds::npz, array),
    target("npz_members", Members("x.npz"), seeds::npz_members, array),
    target("sparse_npz", Members("x.npz"), seeds::sparse_npz, sparse),
    target("safetensors", File("x.safetensors"), seeds::safetensors, array),
    target("parquet_rows", File("x.parquet"), seeds::parquet_rows, array),
    target("parquet_table", File("x.parquet"), seeds::parquet_table, table),
    target("torch", File("x.pt"), seeds::torch, array),
    target("pickle", Members("x.pt"), seeds::pickle, array),
    target("csv", File("x.csv"), seeds::csv, table),
    target("tsv", File("x.tsv"), seeds::tsv, table),
    target("jsonl", File("x.jsonl"), seeds::jsonl, table),
    target("labels", File("x.csv"), seeds::labels, annotations),
    target("pairs", File("x.csv"), seeds::pairs, pairs),
    target("units", File("x.csv"), seeds::units, units),
    target("responses", File("x.csv"), seeds::responses, responses),
    target("trials", File("x.json"), seeds::trials, |path| {
        Responses::from_table(&input::read_trials(path, &budget())?).map(drop)
    }),
    target("splits", File("x.csv"), seeds::splits, splits),
    target("samples", File("x.jsonl"), seeds::samples, |path| input::read_samples(path, &budget()).map(drop)),
    target("layout", File("x.csv"), seeds::layout, |path| input::read_layout(path, &budget()).map(drop)),
    target("picture", File("x.png"), seeds::picture, |path| input::read_picture(path).map(drop)),
    target("store", Folder, seeds::store, activations),
    target("codes", Folder, seeds::codes, codes),
    target("world", Folder, seeds::world, world),
    target("unit_files", Folder, resume::unit_seeds, resume::read_units),
    target("training_state", Folder, resume::training_seeds, resume::read_training),
    target("study", File("study.toml"), seeds::study, |path| Study::read(path).map(drop)),
    target("result", Folder, seeds::result, results),
    target("saebench", Folder, seeds::saebench, saebench_results),
    target("checkpoint_etalon", Folder, seeds::checkpoint_etalon, dictionary),
    target("checkpoint_saelens", Folder, seeds::checkpoint_saelens, dictionary),
    target("checkpoint_dictionary_learning", Folder, seeds::checkpoint_dictionary_learning, dictionary),
    target("checkpoint_overcomplete", Folder, seeds::checkpoint_overcomplete, dictionary),
    target("checkpoint_sparsify", Folder, seeds::checkpoint_sparsify, dictionary),
    target("checkpoint_llama_scope", Folder, seeds::checkpoint_llama_scope, dictionary),
    target("checkpoint_gemma_scope", Members("params.npz"), seeds::checkpoint_gemma_scope, dictionary),
    target("records_csv", File("x.csv"), records::csv, records::read),
    target("records_jsonl", File("x.jsonl"), records::jsonl, records::read),
    target("records_parquet", File("x.parquet"), records::parquet, records::read),
    target("records_arrow", File("x.arrow"), records::arrow, records::read),
    target("pixel_array", File("x.npy"), records::pixels, records::read_pixels),
    target("torch_old", File("x.pth"), weights::torch_old, weights::read),
    target("pickle_arrays", File("x.pkl"), weights::pickle_arrays, weights::read),
    target("gguf", File("x.gguf"), weights::gguf, weights::read),
    target("llama2c", File("x.bin"), weights::llama2c, weights::read),
    target("tfjs", Folder, weights::tfjs, weights::read),
    target("model_directory", Folder, weights::directory, weights::read),
    target("tokenizer_json", File("tokenizer.json"), tokenizers::json, tokenizers::read),
    target("tokenizer_model", File("tokenizer.model"), tokenizers::model, tokenizers::read),
    target("tokenizer_llama2c", File("tokenizer.bin"), tokenizers::llama2c, tokenizers::read),
    target("tokenizer_directory", Folder, tokenizers::directory, tokenizers::read),
    target("words", File("tokenizer.json"), seeds::words, |path| labels::read_words(path, &budget()).map(drop)),
    target("entities", Folder, seeds::entities, entities),
    target("coco", File("instances.json"), seeds::coco, |path| labels::read_coco(path, &budget()).map(drop)),
    target("cub", Folder, seeds::cub, |path| labels::read_cub(path, 1, &budget()).map(drop)),
    target("syncub", Folder, seeds::syncub, |path| labels::read_syncub(path, &budget()).map(drop)),
    target("syncoco", Folder, seeds::syncoco, |path| labels::read_syncoco(path, &budget()).map(drop)),
];

fn entities(directory: &Path) -> Result<()> {
    for kind in labels::EntitySet::read(directory, &budget())?.kinds {
        kind.entities()?;
        kind.attributes().try_for_each(|name| kind.attribute(name).map(drop))?;
    }
    Ok(())
}

/// Small, so that wrong sizes are refused.
fn budget() -> Budget {
    Budget::new(1 << 26)
}

/// An array, read in every way. Accepted if one of them succeeds; an internal error of any of them is returned.
fn array(path: &Path) -> Result<()> {
    let source = Source { path: path.to_path_buf(), key: None };
    let mut results = vec![
        input::read_rows(&source, Finite::DropRows, &budget()).map(drop),
        input::read_tensors(path, &budget()).map(drop),
    ];
    if let Err(error @ Error::Bug(_)) = input::plain_f32(&source) {
        return Err(error);
    }
    let chosen = results.iter().position(|result| matches!(result, Err(Error::Bug(_))));
    let chosen = chosen.or_else(|| results.iter().position(Result::is_ok));
    results.swap_remove(chosen.unwrap_or(0))
}

fn sparse(path: &Path) -> Result<()> {
    input::read_sparse(&Source { path: path.to_path_buf(), key: None }, &budget()).map(drop)
}

fn read_table(path: &Path) -> Result<TextTable> {
    input::read_table(path, &budget())
}

fn table(path: &Path) -> Result<()> {
    read_table(path).map(drop)
}

fn responses(path: &Path) -> Result<()> {
    Responses::from_table(&read_table(path)?).map(drop)
}

fn annotations(path: &Path) -> Result<()> {
    let (labels, ids) = Annotations::from_table(&read_table(path)?)?;
    labels.to_csv(ids.as_deref()).map(drop)
}

fn pairs(path: &Path) -> Result<()> {
    let names = ["wing", "tail", "beak"].map(String::from);
    PairSet::from_table(&read_table(path)?, Some(&names))?.to_csv(Some(&names)).map(drop)
}

fn units(path: &Path) -> Result<()> {
    Units::from_table(&read_table(path)?)?.id().map(drop)
}

/// A world as an input, and its verification.
fn world(directory: &Path) -> Result<()> {
    let given = Given::default().with("world", directory.to_string_lossy());
    given.open(&Opening::at(Path::new("")), &Context::silent(1, 1 << 26)?)?;
    load::verify_tables(directory).map(drop)
}

fn splits(path: &Path) -> Result<()> {
    let splits = Partition::from_table(&read_table(path)?, None)?;
    splits.names().iter().try_for_each(|name| splits.part(name).map(drop))
}

fn activations(directory: &Path) -> Result<()> {
    let store = ActivationStore::open(directory)?;
    store.tile(0..store.rows())?;
    store.id()?;
    store::verify(directory).map(drop)
}

fn codes(directory: &Path) -> Result<()> {
    let codes = Codes::open(directory)?;
    codes.columns()?;
    codes.id()?;
    store::verify(directory).map(drop)
}

fn results(directory: &Path) -> Result<()> {
    let (_, damaged) = Archive::open_existing(directory)?.check(&budget())?;
    damaged.first().map_or(Ok(()), |damaged| Err(refused(&damaged.reason)))
}

fn saebench_results(directory: &Path) -> Result<()> {
    let imported = saebench::read(directory)?;
    imported.refused.first().map_or(Ok(()), |(_, why)| Err(refused(why)))
}

fn refused(why: &str) -> Error {
    etalon::error::InputError::new(why).into()
}

fn dictionary(path: &Path) -> Result<()> {
    checkpoint::load(path, &budget()).map(drop)
}
