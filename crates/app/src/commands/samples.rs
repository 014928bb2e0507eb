//! `etalon samples`.

use std::process::ExitCode;

use etalon::error::Result;
use etalon::input::Finite;
use etalon::study::{SampleTables, write_samples};
use serde_json::json;

use super::load_inputs;
use crate::cli;
use crate::session::Session;

/// Writes what rows show and which latents fire there.
pub fn run(args: &cli::Samples, session: &Session) -> Result<ExitCode> {
    let engine = session.engine()?;
    let inputs = load_inputs(&args.inputs.paths(), Finite::Refuse, &engine, session)?;
    let tables = SampleTables { rows: args.rows.as_deref(), boxes: args.boxes.as_deref() };
    let written = engine.install(|| write_samples(&inputs, &tables, args.most, &args.out, &session.budget))?;
    session.answer(
        format!(
            "samples: {} ({} samples, {} images)",
            args.out.join("samples.jsonl").display(),
            written.samples,
            written.images
        ),
        || json!({"samples": written.samples, "images": written.images, "out": args.out}),
    );
    Ok(ExitCode::SUCCESS)
}
