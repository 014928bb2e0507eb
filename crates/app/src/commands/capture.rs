//! `etalon capture`.

use std::process::ExitCode;

use etalon::error::{Error, Result};
use etalon_models::capture;
use serde_json::json;

use super::from_network;
use crate::cli;
use crate::console::Console;
use crate::outputs::Paths;

/// Runs a network and stores activations.
pub fn run(args: &cli::Capture, console: &Console) -> Result<ExitCode> {
    let network = from_network::paths(&args.network);
    let paths = network.into_iter().fold(Paths::default(), |paths, (option, path)| paths.input(option, path));
    paths.output("--out", Some(&args.out)).check()?;
    let request = from_network::request(&args.network, args.cache.as_deref())
        .ok_or_else(|| Error::Bug("a capture without a network".into()))?;
    let captured = capture(&request, &args.out, &console.context)?;
    captured.notes.iter().for_each(|note| console.status(format!("note: {note}")));
    let mut lines: Vec<String> =
        captured.stores.iter().map(|(name, path)| format!("{name}: {}", path.display())).collect();
    lines.extend(captured.labels.iter().map(|path| format!("labels of samples: {}", path.display())));
    lines.extend(captured.token_labels.iter().map(|path| format!("labels of tokens: {}", path.display())));
    lines.extend(captured.pairs.iter().map(|path| format!("pairs of samples: {}", path.display())));
    console.print(lines.join("\n"), || {
        let stores: serde_json::Map<_, _> =
            captured.stores.iter().map(|(name, path)| (name.clone(), json!(path))).collect();
        json!({ "stores": stores, "labels": captured.labels, "token_labels": captured.token_labels, "pairs": captured.pairs })
    })?;
    Ok(ExitCode::SUCCESS)
}
