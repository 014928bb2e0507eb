//! Networks: sizes, memory, tokenizer or preprocessing.

use std::path::Path;

use etalon::error::{Error, Result, Size};
use etalon_models::weights::NetworkOptions;
use etalon_models::{Tower, open_tokenizer, open_with, preprocessing};

use super::Inspection;
use crate::console::{Console, message};

pub(super) fn inspect(path: &Path, tower: Tower, console: &Console) -> Result<Inspection> {
    let network = open_with(path, tower, NetworkOptions::default(), console.budget())?;
    let card = network.card();
    let mut found = Inspection::new("network");
    found.fact("family", card.family);
    found.fact("weights", card.weights.clone());
    found.fact("parameters", format!("{}, {} as f32", card.parameters, Size(4 * card.parameters)));
    found.fact("layers", card.layers);
    found.fact("width", card.width);
    found.fact("sites", format!("{}; `etalon models` lists them", network.sites().len()));
    if card.vocabulary > 0 {
        found.fact("context", card.context);
        found.fact("vocabulary", card.vocabulary);
        tokens(&mut found, path, card.vocabulary, console)?;
    } else {
        found.fact("images", preprocessing(path, card)?.describe());
    }
    found.fact("id", card.id.clone());
    Ok(found)
}

/// The tokenizer. A network without one can be run on no text.
fn tokens(found: &mut Inspection, path: &Path, vocabulary: usize, console: &Console) -> Result<()> {
    let tokenizer = match open_tokenizer(path, console.budget()) {
        Ok(tokenizer) => tokenizer,
        Err(error @ Error::Input(_)) => {
            found.warn(format!("no tokenizer, so that the network cannot be run on texts: {}", message(&error)));
            return Ok(());
        }
        Err(error) => return Err(error),
    };
    found.fact("tokens", tokenizer.vocabulary_size());
    let name = |id: Option<u32>| id.and_then(|id| tokenizer.decode_with_special(&[id]).ok());
    let starts = if tokenizer.adds_bos() { "added to every text" } else { "not added by default; `--bos yes` adds it" };
    found.fact("beginning_of_text", name(tokenizer.bos()).map_or("none".into(), |name| format!("{name}, {starts}")));
    found.fact("end_of_text", name(tokenizer.eos()).unwrap_or_else(|| "none".into()));
    found.fact("chat_template", if tokenizer.chat_template().is_some() { "yes" } else { "no" });
    if let Err(error) = tokenizer.check_vocabulary(vocabulary) {
        found.warn(message(&error));
    }
    Ok(())
}
