//! Judges of `--judge`: language models of this machine, and servers that the user names by their address. No other part of
//! the program opens a connection.

mod address;
mod chat;
mod key;
mod pace;
mod server;

use std::path::Path;
use std::sync::{Arc, OnceLock};

use etalon::context::Context;
use etalon::error::Result;
use etalon::network::{Judge, RecordedJudge};
use etalon_models::data::cache_directory;

use crate::console::Console;
use address::Address;
use server::ServerJudge;

static CONSOLE: OnceLock<Console> = OnceLock::new();

/// Makes judges available, which print their cost to a console.
pub fn provide(console: &Console) {
    CONSOLE.get_or_init(|| console.clone());
    etalon::network::provide_judges(open);
}

/// Opens a server, whose answers are recorded, or a language model.
fn open(text: &str, base: &Path, context: &Context) -> Result<Arc<dyn Judge>> {
    let Some(address) = Address::parse(text)? else { return etalon_models::open_judge(text, base, context) };
    let answers = match &address.settings.answers {
        Some(directory) => base.join(directory),
        None => cache_directory(None)?.join("answers").join(address.folder()),
    };
    let judge = ServerJudge::new(address, answers.clone(), CONSOLE.get().cloned())?;
    Ok(Arc::new(RecordedJudge::new(Arc::new(judge), &answers)?))
}
