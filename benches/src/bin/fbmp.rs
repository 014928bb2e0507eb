//! How long does FBMP take at the size of CUB (5,794 rows × 312 concepts × 4,096 latents, 32 active, three β, 20 steps)?
//! Peer: the released procedure, whose cost is the number of F-scores it computes times one scikit-learn F-score.

use etalon::error::Result;
use etalon::results::{Cells, Profile};
use etalon::run::{CODES, Inputs, LABELS};
use etalon_bench::{answer, best_seconds, codes, labels, run};
use serde_json::json;

const LATENTS: usize = 4096;

fn main() -> Result<()> {
    let codes = codes(5794, LATENTS, 32)?;
    let labels = labels(&codes, 312)?;
    let inputs = Inputs::default().with(&CODES, codes).with(&LABELS, labels);
    let options = [("matcher", "fbmp"), ("beta", "0.25,0.5,1"), ("k", "20"), ("reference_batch", "0")];
    let mut scores = None;
    let seconds = best_seconds(5, || {
        scores = Some(run("match", &inputs, &options, Profile::Reference)?.scores);
        Ok(())
    })?;
    // A concept costs one F-score per latent and step: the accepted steps and the one that was refused.
    let table = scores.as_ref().and_then(|scores| scores.table("concept"));
    let Some(Cells::WholeLists(coalitions)) = table.and_then(|table| table.column("coalition")) else {
        return Err(etalon::error::Error::Bug("no coalitions".into()));
    };
    let steps: usize = coalitions.iter().map(|coalition| (coalition.len() + 1).min(20)).sum();
    answer(seconds, &[("f_scores", json!(steps * LATENTS))]);
    Ok(())
}
