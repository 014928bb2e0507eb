use std::collections::BTreeMap;
use std::sync::Arc;

use super::*;
use crate::codes::Codes;
use crate::metrics::{recipe, testing};
use crate::results::Profile;
use crate::run::Inputs;
use crate::sae::{Activation, Linear, Normalisation, Parts};
use crate::store::ActivationStore;
use etalon_kernel::product::dot;
use etalon_kernel::random::{stream, unit};

fn run(inputs: &Inputs, profile: Profile, batch: &str, threads: usize) -> Scores {
    testing::scores(&Reconstruction, inputs, &[("batch_rows", batch)], profile, threads).unwrap()
}

fn dictionary(encoder: Vec<f32>, encoder_bias: Vec<f32>, decoder: Vec<f32>, bias: Vec<f32>) -> Linear {
    Linear::new(Parts {
        arch: "test".into(),
        encoder,
        encoder_bias,
        decoder,
        bias,
        subtract_bias: false,
        input: Normalisation::None,
        activation: Activation::Signed,
    })
    .unwrap()
}

/// Rows (3, 4) and (1, 0); codes (3, 2) and (−1, 0), which decode to themselves.
fn small() -> Inputs {
    let linear = dictionary(vec![1.0, 0.0, 3.0, 4.0], vec![0.5, -0.5], vec![1.0, 0.0, 0.0, 1.0], vec![0.0; 2]);
    let embeddings = ActivationStore::from_rows(vec![3.0, 4.0, 1.0, 0.0], 2).unwrap();
    Inputs::default()
        .with(&CODES, Codes::from_dense(&[3.0, 2.0, -1.0, 0.0], 2).unwrap())
        .with(&EMBEDDINGS, embeddings.with_samples(vec![7, 7]).unwrap())
        .with(&DICTIONARY, Arc::new(linear) as Arc<dyn crate::sae::Dictionary>)
}

fn check(scores: &Scores, expected: &[(&str, f64)]) {
    for &(key, value) in expected {
        let found = scores.value(key).unwrap_or_else(|| panic!("{key} is undefined"));
        assert!((found - value).abs() < 1e-6, "{key}: {found}, expected {value}");
    }
}

fn column(scores: &Scores, name: &str) -> Vec<Option<f64>> {
    let table = scores.table("latent").unwrap();
    (0..table.rows()).map(|row| table.column(name).unwrap().number(row)).collect()
}

#[test]
fn paper_numbers_match_the_worked_example() {
    let scores = run(&small(), Profile::Paper, "16", 1);
    let root = 13f64.sqrt();
    check(
        &scores,
        &[
            // (2 + 1) / 2 active, (3 + 2 + 1) / 2; errors (0, 2) and (2, 0).
            ("l0", 1.5),
            ("l1", 3.0),
            ("mse", 4.0),
            // The mean row is (2, 2): (25 + 1) / 2 − 8 = 5, and both rows are at squared distance 5 from it.
            ("explained_variance", 0.2),
            ("explained_variance_legacy", 0.2),
            // Products 17 and −1; lengths 5, 1 in and √13, 1 out.
            ("cossim", (17.0 / (5.0 * root) - 1.0) / 2.0),
            ("l2_norm_in", 3.0),
            ("l2_norm_out", (root + 1.0) / 2.0),
            ("l2_ratio", (root / 5.0 + 1.0) / 2.0),
            ("relative_reconstruction_bias", 14.0 / 16.0),
            // Densities 1 and 1/2: a negative value is a value.
            ("frac_alive", 1.0),
            ("freq_over_10_percent", 1.0),
            ("normalized_freq_over_1_percent", 1.0),
            // (1, 0)·(3, 4)/5, and (1, 0)·(0, 1).
            ("average_max_encoder_cosine_sim", 0.6),
            ("average_max_decoder_cosine_sim", 0.0),
        ],
    );
    assert_eq!(column(&scores, "feature_density"), [Some(1.0), Some(0.5)]);
    assert_eq!(column(&scores, "mean_when_active"), [Some(1.0), Some(2.0)]);
    assert_eq!(column(&scores, "max"), [Some(3.0), Some(2.0)]);
    assert_eq!(column(&scores, "encoder_norm"), [Some(1.0), Some(5.0)]);
    assert_eq!(column(&scores, "encoder_bias"), [Some(0.5), Some(-0.5)]);
    assert_eq!(column(&scores, "encoder_decoder_cosine_sim"), [Some(1.0), Some(0.8)]);
    // Both rows are of sample 7: 2 rows and 1 row in one sample.
    assert_eq!(column(&scores, "consistent_activation_heuristic"), [Some(2.0), Some(1.0)]);
    // log10 of 1 is in the last bin; log10 of 1/2 = −0.301 in the one before: it ends at −0.25.
    let histogram = scores.table("density").unwrap();
    let count = |row: usize| histogram.column("latents").unwrap().number(row);
    assert_eq!((histogram.rows(), count(31), count(30), count(29)), (32, Some(1.0), Some(1.0), Some(0.0)));
    assert_eq!(histogram.column("log10_to").unwrap().number(30), Some(-0.25));
}

#[test]
fn reference_numbers_match_the_worked_example() {
    let scores = run(&small(), Profile::Reference, "16", 1);
    check(
        &scores,
        &[
            ("l0", 1.5),
            // (5 − 1) / 2, with its sign.
            ("l1", 2.0),
            // 4 over the two rows of the batch.
            ("mse", 2.0),
            // S = 13, M = 13/2, R = 4: 1 − 4 / (13 − 42.25).
            ("explained_variance", 1.0 + 4.0 / 29.25),
            ("relative_reconstruction_bias", 14.0 / 16.0),
            ("frac_alive", 1.0),
        ],
    );
    // A negative value does not count as firing.
    assert_eq!(column(&scores, "feature_density"), [Some(0.5), Some(0.5)]);
    assert_eq!(column(&scores, "consistent_activation_heuristic"), [Some(1.0), Some(1.0)]);
}

fn random(count: usize, seed: u64) -> Vec<f32> {
    let mut random = stream(seed, "core test", 0);
    (0..count).map(|_| unit(&mut random) as f32 - 0.4).collect()
}

/// Rows × 3 with 40 latents, few of them active.
fn larger(rows: usize) -> Inputs {
    let sparse = |value: f32| if value > 0.4 { value } else { 0.0 };
    let codes: Vec<f32> = random(rows * 40, 1).into_iter().map(sparse).collect();
    let linear = dictionary(random(120, 3), random(40, 4), random(120, 5), random(3, 6));
    Inputs::default()
        .with(&CODES, Codes::from_dense(&codes, 40).unwrap())
        .with(&EMBEDDINGS, ActivationStore::from_rows(random(rows * 3, 2), 3).unwrap())
        .with(&DICTIONARY, Arc::new(linear) as Arc<dyn crate::sae::Dictionary>)
}

#[test]
fn batches_follow_the_definition() {
    let (rows, size) = (1000, 64);
    let inputs = larger(rows);
    let (store, codes) = (inputs.get(&EMBEDDINGS).unwrap(), inputs.get(&CODES).unwrap());
    let tile = store.tile(0..rows).unwrap();
    let mut back = vec![0.0; rows * 3];
    inputs.get(&DICTIONARY).unwrap().decode(&codes.all().unwrap(), None, &mut back).unwrap();
    let value = |row: usize, d: usize| f64::from(tile.row(row)[d]);
    let error = |row: usize| (0..3).map(|d| (value(row, d) - f64::from(back[row * 3 + d])).powi(2)).sum::<f64>();
    let square = |row: usize| (0..3).map(|d| value(row, d).powi(2)).sum::<f64>();
    let (mut legacy, mut mse, mut bias, mut s, mut r) = (0.0, 0.0, 0.0, 0.0, 0.0);
    let batches: Vec<Vec<usize>> = (0..rows).collect::<Vec<_>>().chunks(size).map(<[usize]>::to_vec).collect();
    for batch in &batches {
        let n = batch.len() as f64;
        let mean: Vec<f64> = (0..3).map(|d| batch.iter().map(|&row| value(row, d)).sum::<f64>() / n).collect();
        let spread = |row: usize| (0..3).map(|d| (value(row, d) - mean[d]).powi(2)).sum::<f64>();
        legacy += batch.iter().map(|&row| 1.0 - error(row) / spread(row)).sum::<f64>() / rows as f64;
        mse += batch.iter().map(|&row| error(row) / n).sum::<f64>() / rows as f64;
        let out = batch.iter().map(|&row| dot(&back[row * 3..][..3], &back[row * 3..][..3])).sum::<f64>();
        bias += out / batch.iter().map(|&row| dot(tile.row(row), &back[row * 3..][..3])).sum::<f64>();
        s += batch.iter().map(|&row| square(row)).sum::<f64>() / n;
        r += batch.iter().map(|&row| error(row)).sum::<f64>() / n;
    }
    let count = batches.len() as f64;
    let (s, r) = (s / count, r / count);
    let scores = run(&inputs, Profile::Reference, "64", 2);
    check(
        &scores,
        &[
            ("explained_variance_legacy", legacy),
            ("mse", mse),
            ("relative_reconstruction_bias", bias / count),
            ("explained_variance", 1.0 - r / (s - (s / 3.0).powi(2))),
        ],
    );
    let mean: Vec<f64> = (0..3).map(|d| (0..rows).map(|row| value(row, d)).sum::<f64>() / rows as f64).collect();
    let variance = (0..rows).map(square).sum::<f64>() / rows as f64 - mean.iter().map(|m| m * m).sum::<f64>();
    let errors = (0..rows).map(error).sum::<f64>() / rows as f64;
    let paper = run(&inputs, Profile::Paper, "64", 2);
    check(&paper, &[("explained_variance", 1.0 - errors / variance), ("mse", errors)]);
    for headline in paper.headline.iter().chain(&scores.headline) {
        let (interval, value) = (headline.interval.unwrap(), headline.value.unwrap());
        let slack = 1e-9 * value.abs().max(1.0);
        assert!(interval.low - slack <= value && value <= interval.high + slack, "{headline:?}");
    }
    for threads in [1, 7] {
        assert_eq!(run(&inputs, Profile::Paper, "64", threads), paper);
        assert_eq!(run(&inputs, Profile::Reference, "64", threads), scores);
    }
}

#[test]
fn largest_cosines_over_several_blocks() {
    let (latents, width) = (2100, 3);
    let mut directions = random(latents * width, 8);
    directions[5 * width..6 * width].fill(0.0);
    let codes = Codes::from_dense(&vec![0.0; latents], latents).unwrap();
    let inputs = Inputs::default()
        .with(&CODES, codes)
        .with(&DIRECTIONS, ActivationStore::from_rows(directions.clone(), width).unwrap());
    let scores = run(&inputs, Profile::Paper, "16", 2);
    let found = column(&scores, "max_decoder_cosine_sim");
    let row = |latent: usize| &directions[latent * width..][..width];
    let cosine = |a: usize, b: usize| dot(row(a), row(b)) / (dot(row(a), row(a)) * dot(row(b), row(b))).sqrt();
    for latent in (0..latents).step_by(97).chain([5, 1023, 1024, 2099]) {
        let others = (0..latents).filter(|&other| other != latent && other != 5);
        let expected = others.map(|other| cosine(latent, other)).fold(f64::NEG_INFINITY, f64::max);
        match found[latent] {
            None => assert_eq!(latent, 5),
            Some(found) => assert!((found - expected).abs() < 1e-5, "{latent}: {found} {expected}"),
        }
    }
    assert_eq!(scores.value("average_max_encoder_cosine_sim"), None);
    assert!(scores.notes.iter().any(|note| note.contains("1 latents without length")));
    // All latents are dead, so densities sum to 0.
    assert_eq!((scores.value("frac_alive"), scores.value("normalized_freq_over_1_percent")), (Some(0.0), None));
    let reference = run(&inputs, Profile::Reference, "16", 2);
    assert_eq!(reference.value("normalized_freq_over_1_percent"), Some(0.0));
}

#[test]
fn undefined_numbers_have_a_note() {
    let inputs = small().without(&DICTIONARY);
    let scores = run(&inputs, Profile::Paper, "16", 1);
    assert_eq!((scores.value("mse"), scores.value("l2_norm_in")), (None, Some(3.0)));
    assert!(scores.notes.iter().any(|note| note.contains("without the dictionary")));
    // Three equal rows have no variance, and a row of zeros has no direction.
    let inputs = small()
        .with(&CODES, Codes::from_dense(&[0.0; 6], 2).unwrap())
        .with(&EMBEDDINGS, ActivationStore::from_rows([0.1, 0.7].repeat(3), 2).unwrap());
    let scores = run(&inputs, Profile::Paper, "16", 1);
    for key in ["explained_variance", "explained_variance_legacy", "cossim", "relative_reconstruction_bias"] {
        assert_eq!(scores.value(key), None, "{key}");
    }
    assert_eq!(scores.value("l2_ratio"), Some(0.0));
    assert!(scores.notes.iter().any(|note| note.contains("`explained_variance`")));
    // A single latent.
    let alone = Inputs::default()
        .with(&CODES, Codes::from_dense(&[1.0], 1).unwrap())
        .with(&DIRECTIONS, ActivationStore::from_rows(vec![1.0], 1).unwrap());
    assert_eq!(run(&alone, Profile::Paper, "16", 1).value("average_max_decoder_cosine_sim"), None);
    // A dictionary of another size is refused.
    let inputs = small().with(&EMBEDDINGS, ActivationStore::from_rows(vec![1.0; 6], 3).unwrap());
    let error = recipe(&Reconstruction, &inputs, &BTreeMap::new(), Profile::Paper, 0).unwrap_err().to_string();
    assert!(error.contains("`sae` and `embeddings` differ in values per row"), "{error}");
}
