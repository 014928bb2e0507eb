//! How long does absorption take for 26 classes on 20,000 words, with 16,384 latents on activations of width 768? Codes are
//! there already. Peer: the selector of the released program alone, a sparse probe in PyTorch and scikit-learn's probes on
//! one to ten latents of every class, which encodes all words again for every epoch and every probe.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use etalon::error::Result;
use etalon::progress::Silent;
use etalon::results::Profile;
use etalon::run::Inputs;
use etalon::sae::{encode_store, untrained};
use etalon::store::ActivationStore;
use etalon_bench::{answer, best_seconds, classes, run};

fn main() -> Result<()> {
    let (store, labels) = classes(20_000, 768, 26, false)?;
    let dictionary = untrained(&store, 16_384, 32, 0)?;
    let codes = encode_store(&dictionary, &store, &Silent, &AtomicBool::new(false))?;
    let directions = ActivationStore::from_rows(dictionary.directions().to_vec(), 768)?;
    let inputs = Inputs {
        codes: Some(Arc::new(codes)),
        embeddings: Some(store),
        labels: Some(labels),
        directions: Some(Arc::new(directions)),
        ..Inputs::default()
    };
    let seconds = best_seconds(2, || run("absorption", &inputs, &[], Profile::Paper).map(drop))?;
    answer(seconds, &[]);
    Ok(())
}
