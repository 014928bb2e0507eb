//! Opens a capture of texts, to run its network again.

use std::path::Path;
use std::sync::Arc;

use etalon::context::Context;
use etalon::error::{Error, InFile, InputError, Result};
use etalon::network::{Processing, TextRun, find_sites};
use etalon::store::disk;
use serde_json::Value;

use super::ABOUT;
use super::cache::last_model;
use super::place;
use crate::data::resolve;
use crate::layer::WeightNumber;
use crate::open::open_language_with;
use crate::tokenizer_of::open_tokenizer;
use crate::weights::NetworkOptions;

/// The network of a capture with the sequences that it was run on. A capture with several sites needs the name of one.
pub fn open_text_run(directory: &Path, site: Option<&str>, context: &Context) -> Result<TextRun> {
    let about = directory.join(ABOUT);
    let bytes = disk::read(&about).map_err(|_| {
        InputError::new("not a finished capture")
            .expected(format!("a directory with `{ABOUT}`"))
            .advice("run the capture to its end")
            .file(directory)
    })?;
    let value: Value = serde_json::from_slice(&bytes)
        .map_err(|error| InputError::new("the description of a capture is damaged").found(error).file(&about))?;
    let text = |value: &Value| value.as_str().unwrap_or_default().to_string();
    let sites: Vec<String> = value["sites"].as_array().into_iter().flatten().map(text).collect();
    let site = match (site, &sites[..]) {
        (Some(site), _) => site,
        (None, [only]) => only,
        (None, _) => {
            return Err(InputError::new("the capture has several sites")
                .expected(format!("DIR:SITE with one of {}", sites.join(", ")))
                .file(directory)
                .into());
        }
    };
    let (name, id) = (text(&value["model"]["name"]), text(&value["model"]["id"]));
    // A cached capture may have been made from another place than the one it is used from.
    let name = last_model(directory).unwrap_or(name);
    let path = match place::of_model(&name, value["model"]["path"].as_str(), directory) {
        Some(path) => path,
        None => resolve(&name, None).in_file(&about)?,
    };
    let options = options(&value["settings"]).in_file(&about)?;
    let network = context.install(|| open_language_with(&path, options, context.budget()))?;
    let card = etalon::network::Network::card(&*network);
    if card.id != id {
        return Err(InputError::new("the network is not the one of the capture")
            .expected(id)
            .found(&card.id)
            .advice("restore the model, or capture again")
            .file(&path)
            .into());
    }
    let found = find_sites(etalon::network::Network::sites(&*network), site)?;
    let [site] = found[..] else {
        return Err(InputError::new("a run needs one site").found(format!("{} sites", found.len())).into());
    };
    let (tokens, length) = tokens(&directory.join("tokens.npy"), card.vocabulary, context)?;
    let tokenizer = open_tokenizer(&path, context.budget())?;
    let special = (0..card.vocabulary as u32).filter(|token| tokenizer.is_special(*token)).collect();
    Ok(TextRun { network, site, tokenizer: Arc::new(tokenizer), tokens, length, special })
}

/// How the network of a capture was used.
fn options(settings: &Value) -> Result<NetworkOptions> {
    let unknown = |key: &str, found: &str| {
        InputError::new(format!("unknown setting `{key}` of a capture"))
            .found(found)
            .advice("use the version of Etalon that made the capture, or capture again")
    };
    let (mut processing, mut numbers) = (Processing::NONE, WeightNumber::F32);
    if let Some(text) = settings["processing"].as_str() {
        processing = text.parse().map_err(|_| unknown("processing", text))?;
    }
    if let Some(text) = settings["weights"].as_str() {
        numbers = text.parse().map_err(|()| unknown("weights", text))?;
    }
    Ok(NetworkOptions { randomise: settings["randomise"].as_u64(), processing, numbers })
}

/// The sequences of a capture.
fn tokens(path: &Path, vocabulary: usize, context: &Context) -> Result<(Vec<u32>, usize)> {
    if !path.exists() {
        return Err(InputError::new("the capture has no sequences of the same length")
            .expected("texts that were captured with packing, or that all have the same number of tokens")
            .advice("capture with packing")
            .file(path)
            .into());
    }
    let source = etalon::input::Source::parse(&path.to_string_lossy())?;
    let read = etalon::input::read_rows(&source, etalon::input::Finite::Refuse, context.budget())?;
    // Numbers up to 2^24 are exact.
    let token =
        |value: &f32| (value.fract() == 0.0 && (0.0..vocabulary as f32).contains(value)).then_some(*value as u32);
    let tokens: Option<Vec<u32>> = read.values.iter().map(token).collect();
    let tokens = tokens.ok_or_else(|| {
        Error::from(
            InputError::new("the sequences of a capture have tokens outside of the vocabulary")
                .expected(format!("numbers below {vocabulary}"))
                .file(path),
        )
    })?;
    Ok((tokens, read.width))
}
