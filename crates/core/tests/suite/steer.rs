//! `steer` on the toy network.

use std::sync::Arc;

use etalon::codes::{Codes, Latent};
use etalon::context::{Budget, Context};
use etalon::network::{Batch, Edit, Patch, Tap, Untouched};
use etalon::results::{Cells, Profile, Scores};
use etalon::run::{CODES, DICTIONARY, ENCODER, Inputs, NETWORK, TOKENS, TokenSource, TokenTexts};
use etalon::sae::{Activation, Dictionary, Linear, Normalisation, Parts};

use crate::{run, toy_network};

const WIDTH: usize = 6;
const LATENTS: usize = 5;
const ROWS: usize = 120;

fn dictionary() -> Arc<dyn Dictionary> {
    let weights = |shift: usize| (0..LATENTS * WIDTH).map(|i| ((i * 7919 + shift) % 103) as f32 / 50.0 - 1.0).collect();
    let linear = Linear::new(Parts {
        arch: "relu".into(),
        encoder: weights(5),
        encoder_bias: vec![0.0; LATENTS],
        decoder: weights(40),
        bias: vec![0.0; WIDTH],
        subtract_bias: false,
        input: Normalisation::None,
        activation: Activation::Relu,
    });
    Arc::new(linear.unwrap())
}

/// Codes of 120 tokens; the last latent never fires.
fn code(row: usize, latent: usize) -> f32 {
    if latent + 1 < LATENTS && (row * 31 + latent * 7).is_multiple_of(5) { (row % 13) as f32 / 4.0 } else { 0.0 }
}

fn inputs() -> Inputs {
    let codes: Vec<f32> = (0..ROWS).flat_map(|row| (0..LATENTS).map(move |latent| code(row, latent))).collect();
    let sequence = |first: usize| (first..first + 40).map(|row| format!(" w{}", row % 11)).collect();
    let sequences: Vec<Vec<String>> = (0..ROWS).step_by(40).map(sequence).collect();
    let tokens = TokenTexts::new(&sequences, &Budget::new(1 << 20)).unwrap();
    Inputs::default()
        .with(&NETWORK, toy_network::text_run())
        .with(&DICTIONARY, dictionary())
        .with(&CODES, Codes::from_dense(&codes, LATENTS).unwrap())
        .with(&TOKENS, TokenSource::Texts(Arc::new(tokens)))
}

const QUICK: [(&str, &str); 3] = [("strengths", "-1,0.5,2"), ("generated_tokens", "6"), ("kl_sequences", "2")];

fn scores(inputs: &Inputs, threads: usize, profile: Profile) -> Scores {
    run(etalon::metrics::find("steer").unwrap(), inputs, &QUICK, profile, 3, threads).unwrap().scores
}

fn column(scores: &Scores, table: &str, name: &str) -> Vec<Option<f64>> {
    let cells = scores.table(table).unwrap().column(name).unwrap();
    (0..cells.len()).map(|row| cells.number(row)).collect()
}

/// The logarithms of predictions on a sequence.
fn logs(tokens: &[u32], tap: &mut dyn Tap) -> Vec<Vec<f64>> {
    let (run, context) = (toy_network::text_run(), Context::silent(1, 1 << 24).unwrap());
    let mut state = run.network.begin(&Batch::Tokens { tokens, length: tokens.len() }, &context).unwrap();
    run.network.run(0..2, &mut state, tap, &context).unwrap();
    let mut logits = vec![0.0; 5 * tokens.len()];
    run.network.logits(&state, 0..tokens.len(), &mut logits).unwrap();
    let of_row = |row: &[f32]| {
        let sum: f64 = row.iter().map(|logit| f64::from(*logit).exp()).sum();
        row.iter().map(|logit| f64::from(*logit) - sum.ln()).collect()
    };
    logits.chunks_exact(5).map(of_row).collect()
}

#[test]
fn divergences_are_those_of_shifted_activations() {
    let scores = scores(&inputs(), 2, Profile::Paper);
    let (latents, strengths) = (column(&scores, "dose", "latent"), column(&scores, "dose", "strength"));
    let Some(Cells::Text(shifts)) = scores.table("dose").unwrap().column("shift") else { panic!() };
    let found = column(&scores, "dose", "kl");
    let run = toy_network::text_run();
    let mut checked = 0;
    for row in (0..found.len()).filter(|row| shifts[*row] == "latent") {
        let latent = latents[row].unwrap() as usize;
        let largest = (0..ROWS).map(|row| code(row, latent)).fold(0.0, f32::max);
        let by = strengths[row].unwrap() as f32 * largest;
        let shift: Vec<f32> = dictionary().direction(Latent(latent as u32)).iter().map(|value| by * value).collect();
        let (mut sum, mut rows) = (0.0, 0);
        for tokens in run.tokens.chunks_exact(run.length).take(2) {
            let clean = logs(tokens, &mut Untouched);
            let positions = (1..run.length).collect();
            let shifted = logs(tokens, &mut Patch::new(run.site, Edit::Add(shift.clone())).at(positions));
            for at in (1..run.length).filter(|at| tokens[*at] != 0) {
                sum += clean[at].iter().zip(&shifted[at]).map(|(p, q)| p.exp() * (p - q)).sum::<f64>();
                rows += 1;
            }
        }
        assert!((found[row].unwrap() - sum / f64::from(rows)).abs() < 1e-4, "{row}: {:?} {sum} {rows}", found[row]);
        checked += 1;
    }
    // Four latents fire.
    assert_eq!(checked, 4 * 3);
    assert!(!latents.contains(&Some(4.0)));
}

#[test]
fn scores_need_an_encoder() {
    let without = scores(&inputs(), 2, Profile::Paper);
    assert_eq!((without.value("steer_score"), without.value("dose_response")), (None, None));
    assert!(without.value("readback_response").is_some() && without.value("steer_fluency").is_some());
    assert!(without.notes.iter().any(|note| note.contains("no sentence encoder")));
    let with = scores(&inputs().with(&ENCODER, toy_network::encoder()), 2, Profile::Paper);
    for key in ["steer_score", "steer_score_random", "steer_score_other", "dose_response", "steer_fluency"] {
        assert!(with.value(key).is_some(), "{key}");
    }
    // What does not need an encoder does not depend on it.
    for key in ["readback_response", "steer_fluency", "steer_kl", "steer_kl_random"] {
        assert_eq!(with.value(key), without.value(key), "{key}");
    }
    assert_eq!(column(&with, "steered", "score").len(), 4);
}

#[test]
fn threads_do_not_change_a_bit() {
    let inputs = inputs().with(&ENCODER, toy_network::encoder());
    let one = scores(&inputs, 1, Profile::Paper);
    assert!([2, 7].iter().all(|threads| scores(&inputs, *threads, Profile::Paper) == one));
    assert_eq!(scores(&inputs, 2, Profile::Reference), one);
}
