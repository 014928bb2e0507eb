//! `etalon capture`.

use std::process::ExitCode;

use etalon::error::Result;
use etalon_models::data::InputOptions;
use etalon_models::{CaptureRequest, CaptureSettings, RowChoice, capture};
use serde_json::json;

use crate::cli;
use crate::console::Console;
use crate::outputs::Paths;

/// Runs a network and stores activations.
pub fn run(args: &cli::Capture, console: &Console) -> Result<ExitCode> {
    Paths::default()
        .input("--model", &args.model)
        .input("--input", &args.input)
        .output("--out", Some(&args.out))
        .check()?;
    let options = InputOptions {
        text_column: args.text_column.clone(),
        image_column: args.image_column.clone(),
        label_columns: args.label_columns.clone(),
        lines: args.lines,
        folder_classes: args.folder_classes,
        limit: args.limit,
        cache: args.cache.clone(),
        ..InputOptions::default()
    };
    let request = CaptureRequest {
        model: args.model.clone(),
        input: args.input.clone(),
        sites: args.site.clone(),
        settings: CaptureSettings {
            context: args.context.unwrap_or(CaptureSettings::default().context),
            packed: args.pack,
            bos: args.bos.as_ref().map(|when| when == "yes"),
            keep_special: args.keep_special,
            rows: RowChoice::parse(&args.rows).unwrap_or_default(),
        },
        options,
    };
    let captured = capture(&request, &args.out, &console.context)?;
    captured.notes.iter().for_each(|note| console.status(format!("note: {note}")));
    let mut lines: Vec<String> =
        captured.stores.iter().map(|(name, path)| format!("{name}: {}", path.display())).collect();
    lines.extend(captured.labels.iter().map(|path| format!("labels: {}", path.display())));
    console.print(lines.join("\n"), || {
        let stores: serde_json::Map<_, _> =
            captured.stores.iter().map(|(name, path)| (name.clone(), json!(path))).collect();
        json!({ "stores": stores, "labels": captured.labels })
    })?;
    Ok(ExitCode::SUCCESS)
}
