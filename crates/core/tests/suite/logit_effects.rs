//! `logit_effects` on the toy network, against the dense product in double precision.

use etalon::network::LastNorm;
use etalon::results::{Cells, Profile, Scores};
use etalon::run::{DIRECTIONS, Inputs, NETWORK};
use etalon::store::ActivationStore;

use crate::{run, scores, toy_network};

const WIDTH: usize = 6;

/// Three directions; the second has length 5, the third is zero.
fn directions() -> Vec<Vec<f32>> {
    vec![vec![1.0, 0.0, 0.0, 0.0, 0.0, 0.0], vec![3.0, 0.0, 4.0, 0.0, 0.0, 0.0], vec![0.0; WIDTH]]
}

fn inputs() -> Inputs {
    Inputs::default()
        .with(&NETWORK, toy_network::text_run())
        .with(&DIRECTIONS, ActivationStore::from_rows(directions().concat(), WIDTH).unwrap())
}

/// The effect of a direction on a token.
fn dense(direction: &[f32], token: u32, norm: Option<&LastNorm>, size: f64) -> f64 {
    let length = direction.iter().map(|v| f64::from(*v).powi(2)).sum::<f64>().sqrt();
    let mut row = vec![0.0; WIDTH];
    toy_network::text_run().network.unembedding(token, &mut row).unwrap();
    let weight = |i: usize| norm.map_or(1.0, |norm| f64::from(norm.weight[i]));
    (0..WIDTH).map(|i| f64::from(direction[i]) / length * weight(i) * f64::from(row[i])).sum::<f64>() / size
}

fn list(scores: &Scores, name: &str, row: usize) -> Vec<f64> {
    match scores.table("latent").unwrap().column(name).unwrap() {
        Cells::NumberLists(lists) => lists[row].iter().map(|value| value.unwrap()).collect(),
        Cells::WholeLists(lists) => lists[row].iter().map(|value| *value as f64).collect(),
        other => panic!("{other:?}"),
    }
}

#[test]
fn effects_are_the_dense_product() {
    let norm = toy_network::text_run().network.last_norm();
    // Token 0 is the beginning of a text, which no text has.
    for (profile, norm, tokens) in [(Profile::Paper, Some(&norm), 1..5u32), (Profile::Reference, None, 0..5)] {
        let scores = scores("logit_effects", &inputs(), &[("shown", "5")], profile);
        for (latent, direction) in directions().iter().take(2).enumerate() {
            let mut expected: Vec<(f64, u32)> = tokens.clone().map(|t| (dense(direction, t, norm, 1.0), t)).collect();
            let count = expected.len() as f64;
            let mean = expected.iter().map(|(e, _)| e).sum::<f64>() / count;
            let power = |n: i32| expected.iter().map(|(e, _)| (e - mean).powi(n)).sum::<f64>() / count;
            let table = scores.table("latent").unwrap();
            let of = |name: &str| table.column(name).unwrap().number(latent).unwrap();
            let numbers = [of("mean"), of("sd"), of("skewness"), of("kurtosis")];
            let by_hand = [mean, power(2).sqrt(), power(3) / power(2).powf(1.5), power(4) / power(2).powi(2)];
            assert!(numbers.iter().zip(by_hand).all(|(a, b)| (a - b).abs() < 1e-5), "{numbers:?} {by_hand:?}");
            expected.sort_by(|a, b| b.0.total_cmp(&a.0).then(a.1.cmp(&b.1)));
            let tokens: Vec<f64> = expected.iter().map(|(_, token)| f64::from(*token)).collect();
            assert_eq!(list(&scores, "top_tokens", latent), tokens);
            let values = list(&scores, "top_values", latent);
            assert!(values.iter().zip(&expected).all(|(a, (b, _))| (a - b).abs() < 1e-5), "{values:?}");
            let backwards: Vec<f64> = tokens.into_iter().rev().collect();
            assert_eq!(list(&scores, "bottom_tokens", latent), backwards);
        }
        assert_eq!(scores.table("latent").unwrap().column("kurtosis").unwrap().number(2), None);
        assert!(scores.notes.iter().any(|note| note.contains("1 of 3 latents have a direction of zeros")));
    }
}

#[test]
fn effects_per_unit_are_divided_by_the_mean_size() {
    let run = toy_network::text_run();
    let norm = run.network.last_norm();
    // The toy's stream before its last stage is the embedding of the token.
    let context = etalon::context::Context::silent(1, 1 << 24).unwrap();
    let counted: Vec<u32> = run.tokens.iter().copied().filter(|token| *token != 0).collect();
    let batch = etalon::network::Batch::Tokens { tokens: &counted, length: counted.len() };
    let state = run.network.begin(&batch, &context).unwrap();
    let size = state.values.chunks_exact(WIDTH).map(|row| norm.size(row)).sum::<f64>() / counted.len() as f64;
    let scores = scores("logit_effects", &inputs(), &[("per_unit", "yes"), ("shown", "1")], Profile::Paper);
    let token = list(&scores, "top_tokens", 1)[0] as u32;
    let expected = dense(&directions()[1], token, Some(&norm), size);
    assert!((list(&scores, "top_values", 1)[0] - expected).abs() < 1e-5);
}

#[test]
fn threads_do_not_change_a_bit_and_other_widths_are_refused() {
    let metric = etalon::metrics::find("logit_effects").unwrap();
    let with = |threads| run(metric, &inputs(), &[("per_unit", "yes")], Profile::Paper, 3, threads).unwrap().scores;
    assert!([2, 7].iter().all(|threads| with(*threads) == with(1)));
    let narrow = inputs().with(&DIRECTIONS, ActivationStore::from_rows(vec![1.0; 8], 4).unwrap());
    let error = run(metric, &narrow, &[], Profile::Paper, 3, 1).unwrap_err();
    assert!(error.is_input() && error.to_string().contains("do not fit the site"), "{error}");
}
