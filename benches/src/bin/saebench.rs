//! How long do sparse probing, spurious correlation removal and targeted probe perturbation take for one dictionary of
//! 16,384 latents on 20,000 samples of width 768, as the released program defines them, given the codes? Peer: the same
//! protocol with dense codes in PyTorch and scikit-learn, which encodes and decodes again for every ablated set of latents.

use etalon::error::{Error, Result};
use etalon::results::Profile;
use etalon::run::{CODES, DIRECTIONS, EMBEDDINGS, Inputs, LABELS};
use etalon::sae::{Dictionary, encode_store, untrained};
use etalon::store::ActivationStore;
use etalon_bench::{answer, best_seconds, classes, context, run};
use serde_json::json;

const LATENTS: usize = 16_384;
const CLASSES: usize = 5;

fn main() -> Result<()> {
    // Five mutually exclusive classes, and one property of half of the rows.
    let (store, labels) = classes(20_000, 768, CLASSES, true)?;
    let dictionary = untrained(&store, LATENTS, 32, 0)?;
    let context = context(0)?;
    let mut codes = None;
    let encoding = best_seconds(1, || {
        codes = Some(encode_store(&dictionary, &store, &context)?);
        Ok(())
    })?;
    let directions = ActivationStore::from_rows(dictionary.directions().to_vec(), 768)?;
    let inputs = Inputs::default()
        .with(&CODES, codes.ok_or_else(|| Error::Bug("no codes".into()))?)
        .with(&EMBEDDINGS, store)
        .with(&LABELS, labels)
        .with(&DIRECTIONS, directions);
    let couples: Vec<String> = (0..4).map(|class| format!("{class}:{CLASSES}")).collect();
    let couples = couples.join(",");
    let rows = ("most_positives", "2500");
    let seconds = best_seconds(2, || {
        run("sparse_probing", &inputs, &[("repeats", "1"), ("full_repeats", "1"), rows], Profile::Reference)?;
        run("scr", &inputs, &[("repeats", "1"), ("couples", &couples), rows], Profile::Reference)?;
        run("tpp", &inputs, &[("repeats", "1"), rows], Profile::Reference).map(drop)
    })?;
    answer(seconds, &[("encoding", json!(encoding))]);
    Ok(())
}
