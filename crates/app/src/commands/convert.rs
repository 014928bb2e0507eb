//! `etalon convert`.

use std::process::ExitCode;

use etalon::error::Result;
use etalon::sae::checkpoint::{self, Loaded};
use serde_json::json;

use crate::cli;
use crate::console::Console;
use crate::outputs::Paths;

/// Converts a dictionary to another format.
pub fn run(args: &cli::Convert, console: &Console) -> Result<ExitCode> {
    Paths::default().input("SAE", &args.sae).output("--out", Some(&args.out)).check()?;
    let settings = checkpoint::parse_settings(&args.settings)?;
    let Loaded { dictionary, recognised, notes, about, .. } =
        checkpoint::load_with(&args.sae, settings, console.budget())?;
    console.status(format!("dictionary: {recognised}"));
    notes.iter().for_each(|note| console.status(format!("note: {note}")));
    checkpoint::save(&*dictionary, &about, &args.to, &args.out)?;
    let card = dictionary.card();
    console.print(format!("{} dictionary: {}", args.to, args.out.display()), || {
        json!({
            "dictionary": args.out, "format": args.to, "recognised": recognised, "notes": notes,
            "arch": card.arch, "width": card.width, "latents": card.latents, "id": dictionary.id(),
        })
    })?;
    Ok(ExitCode::SUCCESS)
}
