//! `etalon metrics`.

use std::process::ExitCode;

use etalon::error::Result;
use etalon::metrics::METRICS;
use serde_json::json;

use super::find_metric;
use crate::cli;
use crate::console::Console;

/// Lists metrics, or describes one.
pub fn run(args: &cli::Metrics, console: &Console) -> Result<ExitCode> {
    match &args.name {
        Some(name) => {
            let card = find_metric(name)?.card();
            console.print(card.to_text(), || card.to_json())?;
        }
        None => {
            let list: Vec<String> =
                METRICS.iter().map(|m| format!("{:<16} {}", m.card().name, m.card().summary)).collect();
            let text = format!("{}\n\n`etalon metrics NAME` describes one in detail.", list.join("\n"));
            console.print(text, || json!(METRICS.iter().map(|m| m.card().to_json()).collect::<Vec<_>>()))?;
        }
    }
    Ok(ExitCode::SUCCESS)
}
