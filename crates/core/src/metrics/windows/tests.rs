//! Worlds in which windows of a latent are alike, or not, and hand-worked answers.

use super::*;
use crate::metrics::Metric;
use crate::metrics::testing::{codes, column, scores as run_metric, scores_with_any_threads};
use crate::results::Profile;
use crate::run::{CODES, EMBEDDINGS, Inputs};
use crate::store::ActivationStore;
use etalon_kernel::random::{stream, unit};

/// 600 windows of four topics; latent t < 4 is active on topic t, latent 4 at random, latent 5 on two windows.
fn world() -> Inputs {
    let mut random = stream(3, "windows world", 0);
    let (mut values, mut vectors) = (Vec::new(), Vec::new());
    for row in 0..600usize {
        let topic = row % 4;
        let strength = 0.5 + unit(&mut random) as f32;
        values.extend((0..4).map(|latent| if latent == topic { strength } else { 0.0 }));
        values.push(if unit(&mut random) < 0.3 { strength } else { 0.0 });
        values.push(if row < 2 { 1.0 } else { 0.0 });
        let noise = |random: &mut _| 0.4 * (unit(random) as f32 - 0.5);
        vectors.extend((0..6).map(|part| if part == topic { 1.0 } else { 0.0 } + noise(&mut random)));
    }
    Inputs::default().with(&CODES, codes(&values, 6)).with(&EMBEDDINGS, ActivationStore::from_rows(vectors, 6).unwrap())
}

const FEW: [(&str, &str); 2] = [("min_active", "100"), ("quantiles", "5")];

#[test]
fn latents_with_a_topic_are_told_from_random_ones() {
    for (metric, key, chance) in
        [(&Intruder as &dyn Metric, "intruder", 0.2), (&ExampleEmbedding, "example_embedding", 0.5)]
    {
        for profile in [Profile::Paper, Profile::Reference] {
            let scores = scores_with_any_threads(metric, &world(), &FEW, profile);
            let latents = column(&scores, "latent", "score");
            assert!(latents[..4].iter().all(|score| score.unwrap() > 0.9), "{key}: {latents:?}");
            assert!((latents[4].unwrap() - chance).abs() < 0.2, "{key}: {latents:?}");
            assert_eq!(latents[5], None);
            assert!(scores.notes[0].starts_with("1 of 6 latents are active in too few windows"));
            assert_eq!(scores.headline[0].n, 5);
            assert_eq!(column(&scores, "quantile", "score").len(), 5);
        }
    }
}

#[test]
fn other_intruders_are_harder_or_meaningless() {
    let run =
        |source| run_metric(&Intruder, &world(), &[&FEW[..], &[("intruders", source)]].concat(), Profile::Paper, 2);
    let score = |source, latent: usize| column(&run(source).unwrap(), "latent", "score")[latent].unwrap();
    assert!(score("similar", 0) > 0.9);
    // All windows of a topic are alike: an active intruder cannot be found.
    assert!(score("internal", 0) < 0.45);
}

#[test]
fn equal_windows_share_the_point() {
    // All vectors are the same: every window ties, so each trial gives 1/5, and every Δ is 0: the area is 1/2, nothing is solved.
    let inputs = world().with(&EMBEDDINGS, ActivationStore::from_rows(vec![1.0; 600], 1).unwrap());
    let scores = run_metric(&Intruder, &inputs, &FEW, Profile::Paper, 1).unwrap();
    assert!((scores.value("intruder").unwrap() - 0.2).abs() < 1e-12);
    let scores = run_metric(&ExampleEmbedding, &inputs, &FEW, Profile::Paper, 1).unwrap();
    assert!((scores.value("example_embedding").unwrap() - 0.5).abs() < 1e-12);
    assert_eq!(scores.value("example_embedding_hard"), Some(0.0));
}

#[test]
fn worked_example() {
    // Windows 0 to 2 are active with vectors (1, 0), windows 3 to 5 are not, with (0, 1). One quantile, one example, two
    // queries: Δ⁺ = 1 − 0, Δ⁻ = 0 − 1, so the area and the share are 1. Intruder: its cosines are 0 and 0, those of the others 1 and 0.
    let inputs = Inputs::default().with(&CODES, codes(&[3.0, 2.0, 1.0, 0.0, 0.0, 0.0], 1)).with(
        &EMBEDDINGS,
        ActivationStore::from_rows([[1.0, 0.0].repeat(3), [0.0, 1.0].repeat(3)].concat(), 2).unwrap(),
    );
    let given =
        [("min_active", "3"), ("quantiles", "1"), ("test_windows", "2"), ("train_windows", "1"), ("negatives", "1")];
    let scores = run_metric(&ExampleEmbedding, &inputs, &given, Profile::Paper, 1).unwrap();
    assert_eq!((scores.value("example_embedding"), scores.value("example_embedding_hard")), (Some(1.0), Some(1.0)));
    let given = [("min_active", "3"), ("quantiles", "1"), ("windows", "3"), ("trials", "3")];
    let scores = run_metric(&Intruder, &inputs, &given, Profile::Paper, 1).unwrap();
    assert_eq!(scores.value("intruder"), Some(1.0));
    let dense = run_metric(&Intruder, &inputs, &[&given[..3], &[("trials", "4")]].concat(), Profile::Paper, 1).unwrap();
    assert!(dense.value("intruder").is_none() && dense.notes[0].contains("inactive in too few"));
}
