//! `etalon samples`.

use std::path::Path;
use std::process::ExitCode;

use etalon::error::Result;
use etalon::load::Opening;
use etalon::samples::{SampleSettings, write_samples};
use etalon::store::disk;
use serde_json::json;

use crate::cli;
use crate::console::Console;
use crate::outputs::Paths;

/// Writes samples of rows and the latents that fire on them.
pub fn run(args: &cli::Samples, console: &Console) -> Result<ExitCode> {
    let (rows, boxes) = (args.rows.as_deref(), args.boxes.as_deref());
    let grid = args.grid.as_deref().map(str::parse).transpose()?;
    let settings = SampleSettings { rows, boxes, grid, most: args.most };
    let (context, budget) = (&console.context, console.budget());
    let written = args.out.join("samples.jsonl");
    let paths = Paths::default().inputs(args.inputs.given.paths(Path::new(""))).output("--out", Some(&written));
    let tables = [("--rows", rows), ("--boxes", boxes)];
    let tables = tables.into_iter().filter_map(|(option, path)| Some((option, path?)));
    tables.fold(paths, |paths, (option, path)| paths.input(option, path)).check()?;
    disk::check_target(&written)?;
    let opening = Opening { keep_tokens: true, ..Opening::at(Path::new("")) };
    let opened = args.inputs.given.open(&opening, context)?;
    opened.messages().iter().for_each(|message| console.status(message));
    let written = context.install(|| write_samples(&opened.inputs, &opened.tokens, &settings, &args.out, budget))?;
    if written.unplaced > 0 {
        console.status(format!(
            "note: token positions unknown for {} samples; pass --grid or a `words` column",
            written.unplaced
        ));
    }
    let maps = if written.maps > 0 { format!(", {} maps", written.maps) } else { String::new() };
    console.print(
        format!(
            "samples: {} ({} samples, {} images{maps})",
            args.out.join("samples.jsonl").display(),
            written.samples,
            written.images
        ),
        || {
            let (samples, images, maps) = (written.samples, written.images, written.maps);
            json!({"samples": samples, "images": images, "maps": maps, "unplaced": written.unplaced, "out": args.out})
        },
    )?;
    Ok(ExitCode::SUCCESS)
}
