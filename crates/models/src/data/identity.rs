//! The content address of an input.

use etalon::context::Context;
use etalon::error::Result;

use super::input::Input;
use super::known::KnownAddress;
use super::options::InputOptions;
use super::sample::{Content, Label, Sample};

/// Samples between two checks for cancellation.
const BLOCK: u64 = 256;

/// The content address of an input, and its number of items.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InputAddress {
    /// A hash of all samples.
    pub id: String,
    /// Samples, and items that cannot be read.
    pub items: u64,
}

/// The content address of an input as [`input_id`] computes it, recorded in the cache: an input whose files have not changed
/// since is not read again.
pub fn known_input_id(text: &str, options: &InputOptions, context: &Context) -> Result<InputAddress> {
    let files = Input::open(text, options, context.budget())?.files();
    let known = files.and_then(|files| KnownAddress::of(&files, options));
    if let Some(address) = known.as_ref().and_then(KnownAddress::read) {
        return Ok(address);
    }
    let address = input_id(text, options, context)?;
    if let Some(known) = known {
        known.write(&address);
    }
    Ok(address)
}

/// The content address of an input: a hash of all its samples, whatever file they come from. Reads the whole input.
pub fn input_id(text: &str, options: &InputOptions, context: &Context) -> Result<InputAddress> {
    let mut input = Input::open(text, options, context.budget())?;
    let mut hash = blake3::Hasher::new();
    for column in input.label_columns() {
        add(&mut hash, column.as_bytes());
    }
    while let Some(sample) = input.next()? {
        if sample.position % BLOCK == 0 {
            context.check()?;
        }
        add_sample(&mut hash, &sample);
    }
    let items = input.position();
    hash.update(&items.to_le_bytes());
    Ok(InputAddress { id: format!("blake3:{}", hash.finalize().to_hex()), items })
}

/// Adds bytes with their length, so that no two lists of parts have the same hash.
fn add(hash: &mut blake3::Hasher, bytes: &[u8]) {
    hash.update(&(bytes.len() as u64).to_le_bytes());
    hash.update(bytes);
}

fn add_sample(hash: &mut blake3::Hasher, sample: &Sample) {
    hash.update(&sample.position.to_le_bytes());
    add(hash, sample.id.as_bytes());
    add(hash, sample.caption.as_deref().unwrap_or_default().as_bytes());
    match &sample.content {
        Content::Text(text) => add(hash, text.as_bytes()),
        Content::Image(bytes) => add(hash, bytes),
        Content::Pixels(pixels) => {
            hash.update(&(pixels.width() as u64).to_le_bytes());
            add(hash, pixels.rgb());
        }
    }
    let list = |hash: &mut blake3::Hasher, kind: u8, texts: &[String]| {
        hash.update(&[kind]).update(&(texts.len() as u64).to_le_bytes());
        texts.iter().for_each(|text| add(hash, text.as_bytes()));
    };
    for label in &sample.labels {
        match label {
            Label::Missing => list(hash, 0, &[]),
            Label::Value(value) => list(hash, 1, std::slice::from_ref(value)),
            Label::Tags(tags) => list(hash, 2, tags),
        }
    }
    if let Some(marked) = &sample.marked {
        hash.update(&[4]);
        [marked.start, marked.end].iter().for_each(|byte| {
            hash.update(&(*byte as u64).to_le_bytes());
        });
    }
    for (name, tags) in sample.words.iter().flat_map(|words| &words.tags) {
        add(hash, name.as_bytes());
        list(hash, 3, tags);
    }
}
