//! `etalon similarity`.

use std::process::ExitCode;

use etalon::error::Result;
use etalon_models::data::InputOptions;
use etalon_models::{MeasureKind, SimilarityRequest, similarity};
use serde_json::json;

use crate::cli;
use crate::console::Console;
use crate::outputs::Paths;

/// Compares images.
pub fn run(args: &cli::Similarity, console: &Console) -> Result<ExitCode> {
    let mut paths = Paths::default().input("--model", &args.model).input("--input", &args.input);
    for (option, path) in [("--heads", &args.heads), ("--pairs", &args.pairs)] {
        paths = path.iter().fold(paths, |paths, path| paths.input(option, path));
    }
    paths.output("--out", args.out.as_ref()).output("--distances", args.distances.as_ref()).check()?;
    let (store, pairs) = match (&args.pairs, &args.out) {
        (Some(pairs), Some(out)) => (None, Some((pairs.clone(), out.clone()))),
        (_, out) => (out.clone(), None),
    };
    let request = SimilarityRequest {
        model: args.model.clone(),
        input: args.input.clone(),
        measure: MeasureKind::parse(&args.measure).unwrap_or_default(),
        heads: args.heads.clone(),
        site: args.site.clone(),
        size: args.size,
        store,
        distances: args.distances.clone(),
        pairs,
        options: InputOptions {
            image_column: args.image_column.clone(),
            limit: args.limit.into_iter().collect(),
            cache: args.cache.clone(),
            ..InputOptions::default()
        },
    };
    let done = similarity(&request, &console.context)?;
    done.notes.iter().for_each(|note| console.status(format!("note: {note}")));
    let [height, width] = done.size;
    let mut lines = vec![format!("{} images of {width} × {height} pixels, {} values each", done.images, done.width)];
    let outputs = [
        ("vectors", request.store.as_ref()),
        ("distances", request.distances.as_ref()),
        ("distances of pairs", request.pairs.as_ref().map(|(_, out)| out)),
        ("ids", done.ids.as_ref()),
    ];
    lines.extend(outputs.iter().filter_map(|(what, path)| path.map(|path| format!("{what}: {}", path.display()))));
    console.print(lines.join("\n"), || {
        json!({
            "images": done.images, "width": done.width, "size": done.size, "store": request.store,
            "distances": request.distances.as_ref().or(request.pairs.as_ref().map(|(_, out)| out)), "ids": done.ids,
        })
    })?;
    Ok(ExitCode::SUCCESS)
}
