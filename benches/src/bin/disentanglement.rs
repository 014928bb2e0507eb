//! How long do DCI and R4 take on 5,000 rows, 10 latents and 5 concepts?
//! Peer: scikit-learn's boosted trees, as the released programs call them.

use etalon::codes::Codes;
use etalon::error::Result;
use etalon::labels::{Annotations, Label};
use etalon::results::Profile;
use etalon::run::{CODES, Inputs, LABELS};
use etalon_bench::{answer, best_seconds, run};
use etalon_kernel::random::{stream, unit};
use serde_json::json;

const ROWS: usize = 5000;
const LATENTS: usize = 10;
const CONCEPTS: usize = 5;

fn main() -> Result<()> {
    let mut random = stream(1, "bench disentanglement", 0);
    let present: Vec<bool> = (0..ROWS * CONCEPTS).map(|_| unit(&mut random) < 0.4).collect();
    let mut codes = Vec::with_capacity(ROWS * LATENTS);
    for row in 0..ROWS {
        for latent in 0..LATENTS {
            let own = f64::from(u8::from(present[row * CONCEPTS + latent % CONCEPTS]));
            codes.push((0.6 * own + unit(&mut random)) as f32);
        }
    }
    let label = |row: usize, concept: usize| if present[row * CONCEPTS + concept] { Label::Yes } else { Label::No };
    let names = (0..CONCEPTS).map(|concept| format!("concept {concept}")).collect();
    let inputs = Inputs::default()
        .with(&CODES, Codes::from_dense(&codes, LATENTS)?)
        .with(&LABELS, Annotations::new(names, ROWS, label)?);
    let mut parts = Vec::new();
    for metric in ["dci", "r4"] {
        parts.push(best_seconds(3, || run(metric, &inputs, &[], Profile::Paper).map(|_| ()))?);
    }
    let how = format!("DCI {:.3} s, R4 {:.3} s", parts[0], parts[1]);
    let values = [
        ("dci_seconds", json!(parts[0])),
        ("r4_seconds", json!(parts[1])),
        ("how", json!(how)),
        ("f_scores", json!(0)),
    ];
    answer(parts.iter().sum(), &values);
    Ok(())
}
