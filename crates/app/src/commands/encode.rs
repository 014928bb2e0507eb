//! `etalon encode`.

use std::path::Path;
use std::process::ExitCode;

use etalon::codes::Codes;
use etalon::error::{InputError, Result};
use etalon::input::Finite;
use etalon::load::load_activations;
use etalon::run::{Axis, AxisSize, check_sizes};
use etalon::sae::checkpoint::{self, Loaded};
use etalon::sae::{Dictionary, Encoded, Linear, Precision, encode_to_disk, random_codes_within, untrained};
use etalon::store::{self, ActivationStore};
use serde_json::json;

use crate::cli;
use crate::console::Console;
use crate::outputs::Paths;

/// Encodes activations.
pub fn run(args: &cli::Encode, console: &Console) -> Result<ExitCode> {
    let reconstruction = args.reconstruction.as_ref();
    let mut paths = Paths::default().input("--store", &args.store);
    if !["random", "untrained"].contains(&args.sae.as_str()) {
        paths = paths.input("--sae", &args.sae);
    }
    paths.output("--out", Some(&args.out)).output("--reconstruction", reconstruction).check()?;
    let store = load_activations(Path::new(&args.store), Finite::Refuse, console.budget())?;
    let (mut recognised, mut precision) = (args.sae.clone(), None);
    let chosen = Precision::named(&args.precision)?;
    let mut encode_by = |mut dictionary: Box<dyn Dictionary>| {
        dictionary.set_precision(chosen);
        precision = Some(dictionary.precision());
        encode(args, &*dictionary, &store, console)
    };
    let encoded = match args.sae.as_str() {
        "random" => save_random(args, &store, console)?,
        "untrained" => {
            let bytes = Linear::bytes(args.latents, store.width());
            let memory =
                console.budget().reserve(bytes, format!("an untrained dictionary of {} latents", args.latents))?;
            encode_by(Box::new(untrained(&store, args.latents, args.k, args.seed)?.holding(memory)))?
        }
        path => {
            let settings = checkpoint::parse_settings(&args.settings)?;
            let loaded: Loaded = checkpoint::load_with(Path::new(path), settings, console.budget())?;
            console.status(format!("dictionary: {}", loaded.recognised));
            loaded.notes.iter().for_each(|note| console.status(format!("note: {note}")));
            recognised = loaded.recognised;
            check_sizes(
                Axis::Width,
                AxisSize::new("sae", loaded.dictionary.card().width, Some(Path::new(path))),
                AxisSize::new("store", store.width(), Some(Path::new(&args.store))),
            )?;
            encode_by(loaded.dictionary)?
        }
    };
    let Encoded { rows, latents, entries } = encoded;
    let l0 = entries as f64 / rows.max(1) as f64;
    let by = precision.map_or(String::new(), |precision| format!(", {precision}"));
    console.print(
        format!("codes: {} ({rows} rows, {latents} latents, {l0:.1} active{by})", args.out.display()),
        || {
            json!({
                "codes": args.out, "dictionary": recognised, "rows": rows, "latents": latents, "l0": l0,
                "precision": precision,
            })
        },
    )?;
    Ok(ExitCode::SUCCESS)
}

/// Encodes directly to disk.
fn encode(
    args: &cli::Encode,
    dictionary: &dyn Dictionary,
    store: &ActivationStore,
    console: &Console,
) -> Result<Encoded> {
    let reconstruction = args.reconstruction.as_deref();
    let encoded = encode_to_disk(dictionary, store, &args.out, reconstruction, &console.context)?;
    if let Some(path) = reconstruction {
        console.wrote("reconstructions", path);
    }
    Ok(encoded)
}

/// Random codes depend only on the number of rows.
fn save_random(args: &cli::Encode, store: &ActivationStore, console: &Console) -> Result<Encoded> {
    if args.reconstruction.is_some() {
        return Err(InputError::new("random codes cannot be decoded").advice("remove --reconstruction").into());
    }
    let codes = random_codes_within(store.rows(), args.latents, args.k, args.seed, console.budget())?;
    save_codes(&codes, &args.out)?;
    Ok(Encoded { rows: codes.rows(), latents: codes.latents(), entries: codes.entries() })
}

fn save_codes(codes: &Codes, out: &Path) -> Result<()> {
    match out.extension().and_then(|end| end.to_str()) {
        Some("npy") => {}
        Some("npz") => return codes.save_npz(out),
        _ => return codes.save(out),
    }
    store::write_npy(out, codes.rows(), codes.latents(), |row, into| {
        for (_, latents, values) in codes.view(row..row + 1)?.iter() {
            latents.iter().zip(values).for_each(|(&latent, &value)| into[latent as usize] = value);
        }
        Ok(())
    })
}
