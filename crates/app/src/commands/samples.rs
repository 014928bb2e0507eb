//! `etalon samples`.

use std::path::Path;
use std::process::ExitCode;

use etalon::error::Result;
use etalon::load::Opening;
use etalon::samples::{SampleSettings, write_samples};
use serde_json::json;

use super::print_recognised;
use crate::cli;
use crate::console::Console;

/// Writes samples of rows and the latents that fire on them.
pub fn run(args: &cli::Samples, console: &Console) -> Result<ExitCode> {
    let (rows, boxes) = (args.rows.as_deref(), args.boxes.as_deref());
    let grid = args.grid.as_deref().map(str::parse).transpose()?;
    let settings = SampleSettings { rows, boxes, grid, most: args.most };
    let (context, budget) = (&console.context, console.budget());
    let opening = Opening { keep_tokens: true, ..Opening::at(Path::new("")) };
    let opened = args.inputs.given.open(&opening, context)?;
    print_recognised(opened.recognised.as_ref(), console);
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
    );
    Ok(ExitCode::SUCCESS)
}
