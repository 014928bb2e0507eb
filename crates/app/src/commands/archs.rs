//! `etalon archs`.

use std::process::ExitCode;

use etalon::error::Result;
use etalon::sae::arch::{self, ARCHS};
use serde_json::json;

use crate::cli;
use crate::session::Session;

/// Lists the architectures, or shows the card of one.
pub fn run(args: &cli::Archs, session: &Session) -> Result<ExitCode> {
    match &args.name {
        Some(name) => {
            let card = arch::find(name)?.card();
            session.answer(card.to_text(), || card.to_json());
        }
        None => {
            let list: Vec<String> =
                ARCHS.iter().map(|a| format!("{:<12} {}", a.card().name, a.card().summary)).collect();
            let text = format!("{}\n\n`etalon archs NAME` shows the card of one.", list.join("\n"));
            session.answer(text, || json!(ARCHS.iter().map(|a| a.card().to_json()).collect::<Vec<_>>()));
        }
    }
    Ok(ExitCode::SUCCESS)
}
