//! Monosemanticity against the paper's released program, on `tests/golden/matching`.
//!
//! That program walks over all pairs; our sums come in another order (about 1e-15 here), so 1e-9 is ample.

use etalon::results::Profile;
use etalon::run::CODES;

use crate::{golden_json, matching_inputs, scores};

#[test]
fn every_latent_agrees() {
    let inputs = matching_inputs();
    let expected = &golden_json("matching/expected.json")["ms"];
    let mut wanted = vec![None; inputs.get(&CODES).unwrap().latents()];
    for (latent, score) in expected["latents"].as_array().unwrap().iter().zip(expected["score"].as_array().unwrap()) {
        wanted[latent.as_u64().unwrap() as usize] = score.as_f64();
    }
    for profile in [Profile::Paper, Profile::Reference] {
        let scores = scores("monosemanticity", &inputs, &[], profile);
        let column = scores.table("latent").unwrap().column("score").unwrap();
        for (latent, wanted) in wanted.iter().enumerate() {
            match (column.number(latent), wanted) {
                (Some(score), Some(wanted)) => assert!((score - wanted).abs() < 1e-9, "latent {latent}"),
                (score, wanted) => assert_eq!(score, *wanted, "latent {latent}"),
            }
        }
        let mean = expected["mean_defined"].as_f64().unwrap();
        assert!((scores.value("monosemanticity").unwrap() - mean).abs() < 1e-9);
    }
}
