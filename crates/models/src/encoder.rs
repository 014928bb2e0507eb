//! Networks of texts as sentence encoders.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use etalon::context::Context;
use etalon::error::{InputError, Result};
use etalon::network::{Batch, Network, SentenceEncoder, Untouched};

use crate::data::resolve;
use crate::open::{Tower, open};
use crate::text::{Special, Tokenizer};
use crate::tokenizer_of::open_tokenizer;

/// A network whose last state is one row per text.
struct Encoder {
    network: Arc<dyn Network>,
    tokenizer: Tokenizer,
}

/// Opens an encoder, such as MiniLM: a directory or file relative to `base`, a packaged name, or a name in the Hugging Face cache.
pub fn open_encoder(text: &str, base: &Path, context: &Context) -> Result<Arc<dyn SentenceEncoder>> {
    let (name, tower) = Tower::split(text);
    let beside = base.join(name);
    let path: PathBuf = if beside.exists() { beside } else { resolve(name, None)? };
    let network = context.install(|| open(&path, tower, context.budget()))?;
    if !network.sites().iter().any(|site| site.name == "pooled") {
        return Err(InputError::new("the network does not give one vector per text")
            .expected("a sentence encoder, such as minilm")
            .found(format!("`{}`", network.card().family))
            .file(&path)
            .into());
    }
    let tokenizer = open_tokenizer(&path, context.budget())?;
    tokenizer.check_vocabulary(network.card().vocabulary)?;
    Ok(Arc::new(Encoder { network, tokenizer }))
}

impl SentenceEncoder for Encoder {
    fn id(&self) -> String {
        self.network.card().id.clone()
    }

    fn embed(&self, text: &str, context: &Context) -> Result<Vec<f32>> {
        let mut tokens = self.tokenizer.encode(text, Special::Add)?;
        let most = self.network.card().context;
        if tokens.len() > most {
            // The last token marks the end of a text.
            let end = tokens.last().copied();
            tokens.truncate(most.saturating_sub(1));
            tokens.extend(end);
        }
        let length = tokens.len();
        let mut state = self.network.begin(&Batch::Tokens { tokens: &tokens, length }, context)?;
        self.network.run(0..self.network.stages(), &mut state, &mut Untouched, context)?;
        let size = state.values.iter().map(|value| f64::from(*value).powi(2)).sum::<f64>().sqrt();
        Ok(state.values.iter().map(|value| if size > 0.0 { (f64::from(*value) / size) as f32 } else { 0.0 }).collect())
    }
}
