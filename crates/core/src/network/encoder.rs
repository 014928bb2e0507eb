//! Sentence encoders: texts as vectors that say which texts mean something similar.

use std::path::Path;
use std::sync::{Arc, OnceLock};

use crate::context::Context;
use crate::error::{InputError, Result};

/// A sentence encoder.
pub trait SentenceEncoder: Send + Sync {
    /// What its vectors depend on, for recipes.
    fn id(&self) -> String;

    /// The vector of a text, of length 1. Texts that are too long are cut.
    fn embed(&self, text: &str, context: &Context) -> Result<Vec<f32>>;
}

/// Opens an encoder from what a user wrote, with paths relative to a directory.
pub type OpenEncoder = fn(&str, &Path, &Context) -> Result<Arc<dyn SentenceEncoder>>;

static OPEN: OnceLock<OpenEncoder> = OnceLock::new();

/// Makes sentence encoders available. A program that has some calls this once, before it loads inputs.
pub fn provide_encoders(open: OpenEncoder) {
    OPEN.get_or_init(|| open);
}

/// Opens an encoder of the program.
pub(crate) fn open_encoder(text: &str, base: &Path, context: &Context) -> Result<Arc<dyn SentenceEncoder>> {
    let open = OPEN.get().ok_or_else(|| {
        InputError::new("this program has no sentence encoders").advice("use a program that was built with networks")
    })?;
    open(text, base, context)
}
