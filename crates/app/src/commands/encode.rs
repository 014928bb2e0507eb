//! `etalon encode`.

use std::path::Path;
use std::process::ExitCode;

use etalon::codes::Codes;
use etalon::error::{Complaint, Result};
use etalon::input::Finite;
use etalon::sae::{Dictionary, encode_store, random_codes, untrained};
use etalon::store::{self, ActivationStore};
use etalon::study::load_activations;
use serde_json::json;

use crate::cli;
use crate::session::Session;

/// Turns activations into codes.
pub fn run(args: &cli::Encode, session: &Session) -> Result<ExitCode> {
    let store = load_activations(Path::new(&args.store), Finite::Refuse, &session.budget)?;
    let engine = session.engine()?;
    let (codes, reconstruction) = match args.sae.as_str() {
        "untrained" => {
            let dictionary = untrained(&store, args.latents, args.k, args.seed)?;
            let codes = engine.install(|| encode_store(&dictionary, &store, session.progress(), &session.cancel))?;
            let reconstruction = args.reconstruction.as_ref().map(|_| reconstruct(&dictionary, &codes)).transpose()?;
            (codes, reconstruction)
        }
        "random" => (random_codes(store.rows(), args.latents, args.k, args.seed)?, None),
        other => {
            return Err(Complaint::new("this is not a dictionary that Etalon can read")
                .expected("`untrained` or `random`")
                .found(format!("`{other}`"))
                .into());
        }
    };
    if let Some(path) = &args.reconstruction {
        let rows = reconstruction.ok_or_else(|| Complaint::new("random codes cannot be decoded"))?;
        store::write_npy(path, &rows, store.width())?;
        session.wrote("reconstructions", path);
    }
    save(&codes, &args.out)?;
    let l0 = codes.entries() as f64 / codes.rows().max(1) as f64;
    session.answer(
        format!("codes: {} ({} rows, {} latents, {l0:.1} active)", args.out.display(), codes.rows(), codes.latents()),
        || json!({"codes": args.out, "rows": codes.rows(), "latents": codes.latents(), "l0": l0}),
    );
    Ok(ExitCode::SUCCESS)
}

fn reconstruct(dictionary: &dyn Dictionary, codes: &Codes) -> Result<Vec<f32>> {
    let mut rows = vec![0.0; codes.rows() * dictionary.card().width];
    dictionary.decode(&codes.all()?, &mut rows)?;
    Ok(rows)
}

fn save(codes: &Codes, out: &Path) -> Result<()> {
    if out.extension().is_some_and(|extension| extension == "npy") {
        return store::write_npy(out, &codes.to_dense()?, codes.latents());
    }
    codes.save(out)
}

/// Activations kept as a store.
pub fn save_activations(activations: &ActivationStore, out: &Path, session: &Session) -> Result<()> {
    activations.save(out, &session.budget, session.progress(), &session.cancel)
}
