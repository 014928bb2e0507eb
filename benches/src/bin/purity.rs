//! How long does OIS take for 112 concepts (as many as the attributes of CUB that bottlenecks use) on 5,000 samples?
//! Peer: the released procedure, which fits one network per pair of a representation and a concept, and one per pair of
//! concepts for the oracle matrix.

use etalon::codes::Codes;
use etalon::error::Result;
use etalon::labels::{Annotations, Label};
use etalon::results::Profile;
use etalon::run::{CODES, Inputs, LABELS};
use etalon_bench::{answer, best_seconds, run};
use etalon_kernel::random::{stream, unit};
use serde_json::json;

const CONCEPTS: usize = 112;
const ROWS: usize = 5000;

fn main() -> Result<()> {
    let mut random = stream(1, "bench purity", 0);
    let present: Vec<bool> = (0..ROWS * CONCEPTS).map(|_| unit(&mut random) < 0.3).collect();
    let score = |&present: &bool, noise: f64| (0.7 * f64::from(u8::from(present)) + 0.3 * noise) as f32;
    let scores: Vec<f32> = present.iter().map(|present| score(present, unit(&mut random))).collect();
    let label = |row: usize, concept: usize| if present[row * CONCEPTS + concept] { Label::Yes } else { Label::No };
    let names = (0..CONCEPTS).map(|concept| format!("concept {concept}")).collect();
    let inputs = Inputs::default()
        .with(&CODES, Codes::from_dense(&scores, CONCEPTS)?)
        .with(&LABELS, Annotations::new(names, ROWS, label)?);
    let seconds = best_seconds(3, || run("ois", &inputs, &[], Profile::Reference).map(|_| ()))?;
    let fits = CONCEPTS * CONCEPTS + CONCEPTS * (CONCEPTS - 1);
    answer(seconds, &[("f_scores", json!(fits)), ("how", json!("12,544 networks; the oracle in closed form"))]);
    Ok(())
}
