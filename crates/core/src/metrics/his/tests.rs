//! Simulated people with known probabilities, exclusion rules, and hand-worked shares.

use super::*;
use crate::metrics::testing::{column, scores as run_metric, scores_with_any_threads};
use crate::results::Profile;
use crate::run::{EMBEDDINGS, SIMILARITY};
use crate::run::{Inputs, Response, Responses, Units};
use crate::store::ActivationStore;
use etalon_kernel::random::unit;

fn unit_of(model: &str, channel: u64, mis: Option<f64>) -> Unit {
    Unit { model: model.into(), layer: "l".into(), channel: Some(channel), mis, ..Unit::default() }
}

fn answer(model: &str, channel: u64, correct: bool, session: &str) -> Response {
    let (model, layer, session) = (model.into(), "l".into(), session.into());
    Response { model, layer, channel: Some(channel), correct, session, mode: "natural".into(), ..Response::default() }
}

fn inputs(units: Vec<Unit>, trials: Vec<Response>) -> Inputs {
    Inputs::default().with(&UNITS, Units { units }).with(&RESPONSES, Responses { trials })
}

#[test]
fn worked_example() {
    // Unit 0: 3 of 4 right, unit 1: 1 of 2, unit 2: 1 of 1, unit 3: no answer. Exercises, attention checks, another mode and an
    // unknown unit do not count; session b fails its checks.
    let units = [0.9, 0.4, 0.95, 0.1].iter().enumerate().map(|(i, &mis)| unit_of("m", i as u64, Some(mis))).collect();
    let mut trials: Vec<Response> = [(0, true), (0, true), (0, true), (0, false), (1, true), (1, false), (2, true)]
        .map(|(channel, correct)| answer("m", channel, correct, "a"))
        .to_vec();
    trials.push(Response { demo: true, ..answer("m", 1, true, "a") });
    trials.push(Response { catch: true, ..answer("m", 1, true, "a") });
    trials.push(Response { mode: "optimized".into(), ..answer("m", 1, true, "a") });
    trials.push(answer("other", 1, true, "a"));
    trials.push(Response { passed: Some(false), ..answer("m", 3, true, "b") });
    let scores = run_metric(&His, &inputs(units, trials), &[], Profile::Paper, 1).unwrap();
    assert_eq!(column(&scores, "latent", "his"), [Some(0.75), Some(0.5), Some(1.0), None]);
    assert!((scores.value("his").unwrap() - 0.75).abs() < 1e-12);
    let expected = pearson(&[0.9, 0.4, 0.95], &[0.75, 0.5, 1.0]).unwrap();
    assert!((scores.value("his_pearson").unwrap() - expected).abs() < 1e-12);
    assert_eq!(scores.value("his_spearman"), Some(1.0));
    assert_eq!((scores.value("his_alpha"), scores.value("his_model_pearson")), (None, None));
    let notes = scores.notes.join("\n");
    for part in [
        "1 of 2 sessions failed",
        "2 answers are exercises",
        "1 answers are about another mode",
        "1 answers are about units",
    ] {
        assert!(notes.contains(part), "{notes}");
    }
    assert_eq!(column(&scores, "extreme", "unit"), [2.0, 0.0, 3.0, 1.0].map(Some));
    // Groups: easiest 1.0 and 0.75, hardest 0.5; no other units.
    assert_eq!(column(&scores, "group", "his"), [Some(0.875), Some(0.5)]);
    let p = column(&scores, "correlation", "pearson_p");
    assert_eq!((p[0], p[1]), (super::super::rank_tests::correlation_p(expected, 3), None));
    // The released program's interval of the mean.
    let units = (0..3).map(|i| unit_of("m", i, Some(0.5))).collect();
    let trials =
        [(0, true), (0, false), (1, true), (2, true)].map(|(channel, correct)| answer("m", channel, correct, "a"));
    let scores = run_metric(&His, &inputs(units, trials.to_vec()), &[], Profile::Reference, 1).unwrap();
    assert_eq!(scores.headline[0].interval, bca_of_mean(&[0.5, 1.0, 1.0], 3, "his/units"));
}

#[test]
fn models_are_compared_as_published() {
    // HIS of model a: 0, 0.1 … 0.5, of b: 0.4 … 0.9, of c: always 1. Variances of a and b are equal, that of c is 0, less by 0.029.
    let (mut units, mut trials) = (Vec::new(), Vec::new());
    for (model, from) in [("a", 0), ("b", 4), ("c", 10)] {
        for i in 0..6u64 {
            units.push(unit_of(model, i, Some(0.5 + 0.01 * i as f64)));
            let right = if from == 10 { 10 } else { from + i };
            trials.extend((0..10).map(|trial| answer(model, i, trial < right, "s")));
        }
    }
    let scores = run_metric(&His, &inputs(units, trials), &[], Profile::Paper, 1).unwrap();
    let table = scores.table("model_pair").unwrap();
    let crate::results::Cells::Text(tests) = table.column("test").unwrap() else { panic!("no names") };
    // b and c do not overlap, as a and c: Brunner and Munzel's test is undefined there.
    assert_eq!(tests, &["Mann-Whitney"]);
    let p = column(&scores, "model_pair", "p")[0].unwrap();
    assert!(p < 0.02 && column(&scores, "model_pair", "p_holm")[0] == Some(p), "{p}");
    assert!(scores.notes.iter().any(|note| note.contains("Kruskal")), "{:?}", scores.notes);
}

#[test]
fn sessions_are_checked_by_the_published_rules() {
    let units = || vec![unit_of("m", 0, Some(0.5))];
    let counted = |change: &dyn Fn(&mut Vec<Response>), given: &[(&str, &str)]| {
        let mut trials: Vec<Response> = (0..12).map(|_| answer("m", 0, true, "s")).collect();
        trials.extend((0..5).map(|_| Response { catch: true, ..answer("m", 0, true, "s") }));
        change(&mut trials);
        let scores = run_metric(&His, &inputs(units(), trials), given, Profile::Paper, 1).unwrap();
        column(&scores, "latent", "answers")[0].unwrap() > 0.0
    };
    assert!(counted(&|_| {}, &[]));
    // Four of five attention checks are enough, three are not.
    let fail = |count: usize| {
        move |trials: &mut Vec<Response>| trials.iter_mut().rev().take(count).for_each(|t| t.correct = false)
    };
    assert!(counted(&fail(1), &[]) && !counted(&fail(2), &[]) && counted(&fail(2), &[("checks", "none")]));
    let seconds = |total: f64| move |trials: &mut Vec<Response>| trials[0].seconds = Some(total);
    assert!(counted(&seconds(135.0), &[]) && !counted(&seconds(134.0), &[]) && !counted(&seconds(2501.0), &[]));
    let reading = |total: f64| move |trials: &mut Vec<Response>| trials[0].instruction_seconds = Some(total);
    assert!(counted(&reading(15.0), &[]) && !counted(&reading(181.0), &[]));
    let attempts = |count: f64| move |trials: &mut Vec<Response>| trials[0].demo_attempts = Some(count);
    assert!(counted(&attempts(3.0), &[]) && !counted(&attempts(4.0), &[]));
    // Twelve answers and five attention checks; exercises do not count.
    let left = |count: usize| {
        move |trials: &mut Vec<Response>| {
            trials.iter_mut().enumerate().for_each(|(i, t)| t.place = if i < count { "0" } else { "1" }.into());
            trials.extend((0..9).map(|_| Response { demo: true, place: "0".into(), ..answer("m", 0, true, "s") }));
        }
    };
    assert!(counted(&left(5), &[]) && !counted(&left(4), &[]) && !counted(&left(0), &[]));
    assert!(counted(&left(12), &[]) && !counted(&left(13), &[]));
    let alone = |trials: &mut Vec<Response>| {
        trials.truncate(1);
        trials[0].place = "1".into();
    };
    assert!(counted(&alone, &[]));
    let again = |trials: &mut Vec<Response>| trials[3].repeated = true;
    assert!(!counted(&again, &[]) && counted(&again, &[("checks", "none")]));
    // A stored verdict counts instead of the rules, unless they are computed.
    let passed = |trials: &mut Vec<Response>| {
        trials[0].seconds = Some(1.0);
        trials.iter_mut().for_each(|t| t.passed = Some(true));
    };
    assert!(counted(&passed, &[]) && !counted(&passed, &[("checks", "computed")]));
}

/// Units of three models whose images are alike to a known degree, and people who answer as the machine says with α = 0.3.
fn simulated_study() -> Inputs {
    let mut random = stream(11, "his study", 0);
    let (rows, count) = (240usize, 24usize);
    let mut vectors = Vec::new();
    let mut activations = vec![0.0f32; rows * count];
    for row in 0..rows {
        let vector: Vec<f32> = (0..8).map(|_| unit(&mut random) as f32 - 0.5).collect();
        for (index, value) in activations[row * count..][..count].iter_mut().enumerate() {
            // Later units are noisier.
            *value = vector[index % 8] + 0.05 * index as f32 * (unit(&mut random) as f32 - 0.5);
        }
        vectors.extend(vector);
    }
    let units: Vec<Unit> = (0..count).map(|i| unit_of(["a", "b", "c"][i / 8], i as u64, None)).collect();
    let study = Inputs::default()
        .with(&EMBEDDINGS, ActivationStore::from_rows(activations, count).unwrap())
        .with(&SIMILARITY, ActivationStore::from_rows(vectors, 8).unwrap())
        .with(&UNITS, Units { units: units.clone() });
    let given = [("alpha", "0.3"), ("tasks", "10"), ("explanations", "5")];
    let mis = run_metric(&mis::Mis, &study, &given, Profile::Paper, 1).unwrap();
    let shares: Vec<f64> = column(&mis, "latent", "mis").into_iter().map(Option::unwrap).collect();
    let mut trials = Vec::new();
    for (i, share) in shares.iter().enumerate() {
        trials.extend((0..400).map(|_| answer(&units[i].model, i as u64, unit(&mut random) < *share, "s")));
    }
    study.with(&RESPONSES, Responses { trials })
}

#[test]
fn simulated_people_are_recovered() {
    let study = simulated_study();
    let given = [
        ("tasks", "10"),
        ("explanations", "5"),
        ("calibration_share", "1"),
        ("repetitions", "100"),
        ("count_bins", "4"),
    ];
    let scores = scores_with_any_threads(&His, &study, &given, Profile::Paper);
    let alpha = scores.value("his_alpha").unwrap();
    assert!((alpha / 0.3 - 1.0).abs() < 0.1, "{alpha}");
    // With 400 answers per unit, both correlations are near 1, and so is the ceiling.
    for key in ["his_pearson", "his_ceiling", "his_attenuated", "his_model_pearson"] {
        assert!(scores.value(key).unwrap() > 0.9, "{key}: {:?}", scores.value(key));
    }
    assert_eq!(scores.table("bin").unwrap().rows(), 4);
    let needed = scores.value("his_needed_all").unwrap();
    assert!(needed >= 1.0 && needed < scores.value("his_needed_unit").unwrap());
    let powers = column(&scores, "power", "unit");
    assert!(powers.windows(2).all(|pair| pair[0] <= pair[1]));
    // Without a table of units, answers are about units by number.
    let by_number: Vec<Response> = study
        .get(&RESPONSES)
        .unwrap()
        .trials
        .iter()
        .map(|trial| Response { unit: trial.channel, channel: None, ..trial.clone() })
        .collect();
    let study = study.without(&UNITS).with(&RESPONSES, Responses { trials: by_number });
    let same = run_metric(&His, &study, &given, Profile::Paper, 1).unwrap();
    assert_eq!(same.value("his_pearson"), scores.value("his_pearson"));
}

#[test]
fn wrong_tables_are_refused() {
    let twice = inputs(vec![unit_of("m", 1, Some(0.5)), unit_of("m", 1, Some(0.5))], vec![answer("m", 1, true, "a")]);
    assert!(run_metric(&His, &twice, &[], Profile::Paper, 1).unwrap_err().to_string().contains("the same unit"));
    let unknown = inputs(vec![unit_of("m", 1, None)], vec![answer("m", 1, true, "a")]);
    assert!(run_metric(&His, &unknown, &[], Profile::Paper, 1).unwrap_err().to_string().contains("column `mis`"));
    let nothing = Inputs::default().with(&RESPONSES, Responses { trials: vec![answer("m", 1, true, "a")] });
    assert!(run_metric(&His, &nothing, &[], Profile::Paper, 1).unwrap_err().to_string().contains("table of units"));
    let empty = inputs(vec![unit_of("m", 1, Some(0.5))], Vec::new());
    let scores = run_metric(&His, &empty, &[], Profile::Paper, 1).unwrap();
    assert!(scores.value("his").is_none() && scores.notes.iter().any(|note| note.contains("undefined: his")));
}
