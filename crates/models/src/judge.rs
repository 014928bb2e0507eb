//! Language models as judges.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use etalon::context::Context;
use etalon::error::Result;
use etalon::network::{Judge, LocalJudge, Network};

use crate::data::resolve;
use crate::open::open_language;
use crate::tokenizer_of::open_tokenizer;

/// Opens a language model as a judge: a directory or file relative to `base`, a packaged name, or a name in the Hugging Face cache.
pub fn open_judge(text: &str, base: &Path, context: &Context) -> Result<Arc<dyn Judge>> {
    let beside = base.join(text);
    let path: PathBuf = if beside.exists() { beside } else { resolve(text, None)? };
    let network = context.install(|| open_language(&path, context.budget()))?;
    let tokenizer = open_tokenizer(&path, context.budget())?;
    tokenizer.check_vocabulary(network.card().vocabulary)?;
    Ok(Arc::new(LocalJudge::new(network, Arc::new(tokenizer))?))
}
