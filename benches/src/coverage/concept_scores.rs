//! Soft scores of five correlated concepts that leak one another, and a task, for the metrics of purity.

use etalon::codes::Codes;
use etalon::error::Result;
use etalon::labels::{Annotations, Factors, Label};
use etalon::run::{CODES, Inputs, LABELS, TASK_LABELS};
use etalon_kernel::random::{ChaCha8Rng, stream, unit};

use super::population::normal;

/// Concepts, with a score each.
const CONCEPTS: usize = 5;

/// Hidden numbers of unit variance, with a covariance of 0.25 between any two.
fn hidden(random: &mut ChaCha8Rng) -> [f64; CONCEPTS] {
    let common = normal(random);
    [(); CONCEPTS].map(|()| 0.5 * common + 0.75f64.sqrt() * normal(random))
}

/// A data set of `rows` independent rows; every `number` gives others. A concept is the sign of its hidden number, its
/// score a sigmoid of this number, of that of the next concept, and of noise. The task is whether two of the first three
/// concepts are present, with a tenth of the classes exchanged.
pub fn concept_scores(rows: usize, number: u64) -> Result<Inputs> {
    let mut random = stream(number, "coverage concept scores", rows as u64);
    let (mut scores, mut present, mut task) = (Vec::new(), Vec::new(), Vec::new());
    for _ in 0..rows {
        let z = hidden(&mut random);
        for concept in 0..CONCEPTS {
            let logit = 1.5 * z[concept] + 0.7 * z[(concept + 1) % CONCEPTS] + 0.8 * normal(&mut random);
            scores.push((1.0 / (1.0 + (-logit).exp())) as f32);
            present.push(z[concept] > 0.0);
        }
        let most = z[..3].iter().filter(|&&z| z > 0.0).count() >= 2;
        task.push(i32::from(most != (unit(&mut random) < 0.1)));
    }
    let names = (0..CONCEPTS).map(|concept| format!("concept/{concept}")).collect();
    let label = |row: usize, concept: usize| if present[row * CONCEPTS + concept] { Label::Yes } else { Label::No };
    Ok(Inputs::default()
        .with(&CODES, Codes::from_dense(&scores, CONCEPTS)?)
        .with(&LABELS, Annotations::new(names, rows, label)?)
        .with(&TASK_LABELS, Factors::new(vec!["task".into()], vec![task])?))
}
