//! How much does everything around the encoder product cost? Encoding against the bare product of the same rows with the
//! same weights, two threads. Arguments: rows, width, latents.

use etalon::error::{Error, Result};
use etalon::sae::{Activation, Linear, encode_store, encode_to_disk, untrained};
use etalon_bench::{context, embeddings, packed, product, sizes, turns};
use etalon_kernel::packed::Panels;

fn main() -> Result<()> {
    let [rows, width, latents] = sizes()?;
    let store = embeddings(rows, width)?;
    let top = untrained(&store, latents, 32, 0)?;
    let mut parts = top.parts();
    let panels = Panels::pack(&parts.encoder, width);
    // A threshold that about one latent in two hundred passes.
    parts.activation = Activation::Threshold(vec![0.85; latents]);
    let threshold = Linear::new(parts)?;
    let directory = std::env::temp_dir().join(format!("etalon-bench-{}", std::process::id()));
    let outcome = turns(|name| {
        let context = context(2)?;
        let (store, top, threshold, directory) = (&store, &top, &threshold, &directory);
        Ok(match name {
            "product" => {
                let (panels, rows) = (&panels, packed(&store.tile(0..rows)?.values, width));
                Box::new(move || product(panels, &rows, width))
            }
            "topk" => Box::new(move || encode_store(top, store, &context).map(drop)),
            "threshold" => Box::new(move || encode_store(threshold, store, &context).map(drop)),
            "topk to disk" => {
                let mut round = 0;
                Box::new(move || {
                    round += 1;
                    let out = directory.join(round.to_string());
                    encode_to_disk(top, store, &out, None, &context).map(drop)
                })
            }
            other => return Err(Error::Bug(format!("no measure {other}"))),
        })
    });
    if directory.exists() {
        std::fs::remove_dir_all(&directory).map_err(Error::io("remove a directory", &directory))?;
    }
    outcome
}
