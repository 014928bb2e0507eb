//! How long does CKNNA take for 20,000 rows × 4,096 latents (32 active) with embeddings of width 768, and in how much memory?
//! Peer: the dense form on 3,000 rows, scaled by the number of pairs (its matrix products scale worse).

use etalon::error::Result;
use etalon::results::Profile;
use etalon::run::{CODES, EMBEDDINGS, Inputs};
use etalon_bench::{answer, best_seconds, codes, embeddings, run};

fn main() -> Result<()> {
    let inputs = Inputs::default().with(&CODES, codes(20_000, 4096, 32)?).with(&EMBEDDINGS, embeddings(20_000, 768)?);
    let seconds = best_seconds(2, || run("cknna", &inputs, &[], Profile::Paper).map(|_| ()))?;
    answer(seconds, &[]);
    Ok(())
}
