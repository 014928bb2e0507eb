//! `etalon encode`.

use std::path::Path;
use std::process::ExitCode;

use etalon::codes::Codes;
use etalon::error::{Complaint, Result};
use etalon::input::Finite;
use etalon::sae::{Dictionary, encode_store, random_codes, untrained};
use etalon::store;
use etalon::study::load_activations;
use serde_json::json;

use crate::cli;
use crate::session::Session;

/// Turns activations into codes.
pub fn run(args: &cli::Encode, session: &Session) -> Result<ExitCode> {
    let store = load_activations(Path::new(&args.store), Finite::Refuse, &session.budget)?;
    let engine = session.engine()?;
    let codes = match args.sae.as_str() {
        "untrained" => {
            let dictionary = untrained(&store, args.latents, args.k, args.seed)?;
            let codes = engine.install(|| encode_store(&dictionary, &store, session.progress(), &session.cancel))?;
            if let Some(path) = &args.reconstruction {
                save_reconstruction(&dictionary, &codes, path)?;
                session.wrote("reconstructions", path);
            }
            codes
        }
        "random" if args.reconstruction.is_some() => {
            return Err(Complaint::new("random codes cannot be decoded").advice("leave out --reconstruction").into());
        }
        "random" => random_codes(store.rows(), args.latents, args.k, args.seed)?,
        other => {
            return Err(Complaint::new("this is not a dictionary that Etalon can read")
                .expected("`untrained` or `random`")
                .found(format!("`{other}`"))
                .into());
        }
    };
    save_codes(&codes, &args.out)?;
    let l0 = codes.entries() as f64 / codes.rows().max(1) as f64;
    session.answer(
        format!("codes: {} ({} rows, {} latents, {l0:.1} active)", args.out.display(), codes.rows(), codes.latents()),
        || json!({"codes": args.out, "rows": codes.rows(), "latents": codes.latents(), "l0": l0}),
    );
    Ok(ExitCode::SUCCESS)
}

/// Decodes a few rows at a time straight into the file.
fn save_reconstruction(dictionary: &dyn Dictionary, codes: &Codes, path: &Path) -> Result<()> {
    store::write_npy(path, codes.rows(), dictionary.card().width, |row, into| {
        dictionary.decode(&codes.view(row..row + 1)?, None, into)
    })
}

fn save_codes(codes: &Codes, out: &Path) -> Result<()> {
    if out.extension().is_none_or(|extension| extension != "npy") {
        return codes.save(out);
    }
    store::write_npy(out, codes.rows(), codes.latents(), |row, into| {
        for (_, latents, values) in codes.view(row..row + 1)?.iter() {
            latents.iter().zip(values).for_each(|(&latent, &value)| into[latent as usize] = value);
        }
        Ok(())
    })
}
