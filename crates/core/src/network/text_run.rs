//! A language model with the sequences that it is run on.

use std::path::Path;
use std::sync::{Arc, OnceLock};

use super::{LanguageModel, SiteId, Tokenize};
use crate::context::Context;
use crate::error::{InputError, Result};

/// A language model, a site, and the sequences that it is run on: what is needed to run it again with changed activations.
pub struct TextRun {
    /// The network.
    pub network: Arc<dyn LanguageModel>,
    /// The site of the activations.
    pub site: SiteId,
    /// Its tokenizer.
    pub tokenizer: Arc<dyn Tokenize>,
    /// The sequences, one after the other; none for a network without texts.
    pub tokens: Vec<u32>,
    /// Tokens per sequence.
    pub length: usize,
    /// Special tokens: their activations are not evaluated.
    pub special: Vec<u32>,
}

impl TextRun {
    /// Number of sequences.
    pub fn sequences(&self) -> usize {
        self.tokens.len().checked_div(self.length).unwrap_or(0)
    }

    /// The content hash.
    pub fn id(&self) -> String {
        let mut hash = blake3::Hasher::new_derive_key("etalon text run v1");
        let site = self.network.sites().get(self.site.0 as usize).map_or("", |site| site.name.as_str());
        for text in [self.network.card().id.as_str(), site] {
            hash.update(&(text.len() as u64).to_le_bytes()).update(text.as_bytes());
        }
        hash.update(&(self.length as u64).to_le_bytes());
        for list in [&self.special, &self.tokens] {
            hash.update(&(list.len() as u64).to_le_bytes()).update(bytemuck::cast_slice(list));
        }
        format!("blake3:{}", hash.finalize().to_hex())
    }
}

/// Opens the capture in a directory, or one of its sites: `DIR:SITE`.
pub type OpenCapture = fn(&Path, Option<&str>, &Context) -> Result<TextRun>;

static OPEN: OnceLock<OpenCapture> = OnceLock::new();

/// Makes networks available. The library has no networks; a program that has some calls this once, before it loads inputs.
pub fn provide_networks(open: OpenCapture) {
    OPEN.get_or_init(|| open);
}

/// Opens a capture with the provided networks.
pub(crate) fn open_capture(directory: &Path, site: Option<&str>, context: &Context) -> Result<TextRun> {
    let open = OPEN.get().ok_or_else(|| {
        InputError::new("this program has no networks").advice("use a program that was built with them").file(directory)
    })?;
    open(directory, site, context)
}
