//! `etalon archs`.

use std::process::ExitCode;

use etalon::error::Result;
use etalon::sae::arch::{self, ARCHS, ArchCard};
use etalon::sae::baseline::{self, BASELINES};
use serde_json::json;

use crate::cli;
use crate::console::Console;

/// Lists architectures and baselines, or describes one.
pub fn run(args: &cli::Archs, console: &Console) -> Result<ExitCode> {
    match &args.name {
        Some(name) => {
            let card = match baseline::find(name) {
                Some(baseline) => baseline.card(),
                None => arch::find(name)?.card(),
            };
            console.print(card.to_text(), || card.to_json())?;
        }
        None => {
            let trained: Vec<&ArchCard> = ARCHS.iter().map(|arch| arch.card()).collect();
            let baselines: Vec<&ArchCard> = BASELINES.iter().map(|baseline| baseline.card()).collect();
            let lines = |cards: &[&ArchCard]| {
                cards.iter().map(|card| format!("{:<12} {}", card.name, card.summary)).collect::<Vec<_>>().join("\n")
            };
            let text = format!(
                "{}\n\nBaselines, created without training:\n{}\n\n`etalon archs NAME` describes one in detail.",
                lines(&trained),
                lines(&baselines)
            );
            console.print(text, || {
                json!(trained.iter().chain(&baselines).map(|card| card.to_json()).collect::<Vec<_>>())
            })?;
        }
    }
    Ok(ExitCode::SUCCESS)
}
