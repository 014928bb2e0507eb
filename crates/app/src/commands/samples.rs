//! `etalon samples`.

use std::path::Path;
use std::process::ExitCode;

use etalon::error::Result;
use etalon::input::Finite;
use etalon::study::{SampleSettings, write_samples};
use serde_json::json;

use super::say_recognised;
use crate::cli;
use crate::session::Session;

/// Writes what rows show and which latents fire there.
pub fn run(args: &cli::Samples, session: &Session) -> Result<ExitCode> {
    let engine = session.engine()?;
    let (rows, boxes) = (args.rows.as_deref(), args.boxes.as_deref());
    let grid = args.grid.as_deref().map(str::parse).transpose()?;
    let settings = SampleSettings { rows, boxes, grid, most: args.most };
    let (paths, budget) = (args.inputs.paths(), &session.budget);
    let open = || paths.open_keeping(true, Path::new(""), Finite::Refuse, budget, &session.watch());
    let (inputs, recognised, tokens) = engine.install(open)?;
    say_recognised(recognised.as_ref(), session);
    let written = engine.install(|| write_samples(&inputs, &tokens, &settings, &args.out, budget))?;
    if written.unplaced > 0 {
        session.say(format!(
            "note: nobody can know how the tokens of {} samples lie in them: --grid names the patches of images, and a column \
             `words` the words of texts",
            written.unplaced
        ));
    }
    let maps = if written.maps > 0 { format!(", {} maps", written.maps) } else { String::new() };
    session.answer(
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
