//! How long does absorption take for 26 classes on 20,000 words, with 16,384 latents on activations of width 768, given the
//! codes? Peer: only the latent selection of the released program, a sparse probe in PyTorch and scikit-learn probes on one
//! to ten latents per class, which encodes all words again for every epoch and every probe.

use etalon::error::Result;
use etalon::results::Profile;
use etalon::run::{CODES, DIRECTIONS, EMBEDDINGS, Inputs, LABELS};
use etalon::sae::{Dictionary, encode_store, untrained};
use etalon::store::ActivationStore;
use etalon_bench::{answer, best_seconds, classes, context, run};

fn main() -> Result<()> {
    let (store, labels) = classes(20_000, 768, 26, false)?;
    let dictionary = untrained(&store, 16_384, 32, 0)?;
    let codes = encode_store(&dictionary, &store, &context(0)?)?;
    let directions = ActivationStore::from_rows(dictionary.directions().to_vec(), 768)?;
    let inputs = Inputs::default()
        .with(&CODES, codes)
        .with(&EMBEDDINGS, store)
        .with(&LABELS, labels)
        .with(&DIRECTIONS, directions);
    let seconds = best_seconds(2, || run("absorption", &inputs, &[], Profile::Paper).map(drop))?;
    answer(seconds, &[]);
    Ok(())
}
