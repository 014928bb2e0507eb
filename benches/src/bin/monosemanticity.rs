//! How long does monosemanticity take for 50,000 rows × 4,096 latents (32 active) with embeddings of width 768?
//! Peer: the pairwise form on 2,000 rows, scaled by the number of pairs.

use etalon::error::Result;
use etalon::results::Profile;
use etalon::run::{CODES, EMBEDDINGS, Inputs};
use etalon_bench::{answer, best_seconds, codes, embeddings, run};

fn main() -> Result<()> {
    let inputs = Inputs::default().with(&CODES, codes(50_000, 4096, 32)?).with(&EMBEDDINGS, embeddings(50_000, 768)?);
    let seconds = best_seconds(3, || run("monosemanticity", &inputs, &[], Profile::Paper).map(|_| ()))?;
    answer(seconds, &[]);
    Ok(())
}
