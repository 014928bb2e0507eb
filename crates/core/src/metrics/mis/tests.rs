//! Hand-worked tasks, the slow definition as an oracle, the released program's tasks, and wrong input.

use std::path::PathBuf;
use std::sync::Arc;

use super::units::Selected;
use super::*;
use crate::context::{Budget, Context};
use crate::input::Finite;
use crate::metrics::recipe;
use crate::metrics::testing::{codes, column, scores as run_metric, scores_with_any_threads};
use crate::results::{Cells, Profile};
use crate::run::{DistanceMatrix, Inputs, Mode, Unit, Units, load_activations};
use crate::store::ActivationStore;
use etalon_kernel::random::{stream, unit};
use serde_json::Value;

fn store(values: &[f32], width: usize) -> ActivationStore {
    ActivationStore::from_rows(values.to_vec(), width).unwrap()
}

fn sigmoid(x: f64) -> f64 {
    1.0 / (1.0 + (-x).exp())
}

fn mis(inputs: &Inputs, given: &[(&str, &str)]) -> Scores {
    run_metric(&Mis, inputs, given, Profile::Paper, 1).unwrap()
}

/// Four images; one task with one explanation on a side: explained by images 3 and 0, asked about 2 and 1.
fn four_images() -> (Inputs, Vec<f32>) {
    let vectors = vec![1.0, 0.0, 0.8, 0.6, 0.6, 0.8, 0.0, 2.0];
    (
        Inputs::default().with(&EMBEDDINGS, store(&[1.0, 2.0, 3.0, 4.0], 1)).with(&SIMILARITY, store(&vectors, 2)),
        vectors,
    )
}

const ONE: [(&str, &str); 2] = [("tasks", "1"), ("explanations", "1")];

#[test]
fn worked_example() {
    // Directions: e⁺ = (0, 1), e⁻ = (1, 0), q⁺ = (.6, .8), q⁻ = (.8, .6).
    // Cosines: D⁺ = .8 − .6 = .2, D⁻ = .6 − .8 = −.2. Squared distances: e⁺ = (0, 2), so q⁺ is 1.8 and .8 away, D⁺ = −1;
    // q⁻ is 2.6 and .4 away, D⁻ = −2.2.
    let (inputs, _) = four_images();
    let cases: [(&[(&str, &str)], f64); 5] = [
        (&[], sigmoid(0.4 / 0.16)),
        (&[("reading", "multiplier")], sigmoid(0.4 * 0.16)),
        (&[("reading", "literal")], sigmoid(0.16 * 0.2 + 0.2)),
        (&[("measure", "squared")], sigmoid(1.2 / 0.16)),
        (&[("measure", "squared"), ("reading", "literal"), ("alpha", "0.5")], sigmoid(-0.5 + 2.2)),
    ];
    for (given, expected) in cases {
        let scores = mis(&inputs, &[&ONE[..], given].concat());
        assert!((scores.value("mis").unwrap() - expected).abs() < 1e-6, "{given:?}");
        assert_eq!((scores.value("mis_hard"), scores.headline[0].interval), (Some(1.0), None));
    }
    let distances = [0.0, 0.4, 0.8, 5.0, 0.4, 0.0, 0.1, 2.6, 0.8, 0.1, 0.0, 1.8, 5.0, 2.6, 1.8, 0.0];
    let matrix = DistanceMatrix::new(store(&distances, 4), || Ok(())).unwrap();
    let inputs = inputs.without(&SIMILARITY).with(&DISTANCES, matrix);
    let scores = mis(&inputs, &ONE);
    assert!((scores.value("mis").unwrap() - sigmoid(1.2 / 0.16)).abs() < 1e-6);
    assert_eq!(column(&scores, "latent", "largest_activation"), [Some(4.0)]);
}

#[test]
fn visualisations_replace_explanations() {
    // Minimised (−1, 0), maximised (1, 1): q⁺ = (.6, .8) has cosines 1.4/√2 and −.6; q⁻ = (.8, .6) has 1.4/√2 and −.8.
    let (inputs, _) = four_images();
    let inputs = inputs.with(&VISUALISATIONS, store(&[-1.0, 0.0, 1.0, 1.0], 2));
    let expected = sigmoid((0.6 - 0.8) / 0.16);
    assert!((mis(&inputs, &ONE).value("mis").unwrap() - expected).abs() < 1e-6);
    let wrong = inputs.with(&VISUALISATIONS, store(&[-1.0, 0.0], 2));
    let error = run_metric(&Mis, &wrong, &ONE, Profile::Paper, 1).unwrap_err().to_string();
    assert!(error.contains("2 × 2") && error.contains("found: 1 × 2"), "{error}");
}

/// Units: ordinary, rounded with ties, mostly 0.
fn random_inputs(rows: usize, seed: u64) -> (Vec<f32>, Vec<f32>) {
    let mut random = stream(seed, "mis tests", 0);
    let (mut activations, mut vectors) = (Vec::new(), Vec::new());
    for _ in 0..rows {
        let vector: Vec<f32> = (0..5).map(|_| unit(&mut random) as f32 - 0.4).collect();
        let noise = unit(&mut random) as f32;
        activations.extend([vector[0] + noise, (4.0 * vector[1]).round(), (vector[2] - 0.3).max(0.0), 2.5]);
        vectors.extend(vector);
    }
    (activations, vectors)
}

#[test]
fn agrees_with_the_definition_pair_by_pair() {
    let (activations, vectors) = random_inputs(80, 1);
    let cosine = |a: u32, b: u32| {
        let row = |image: u32| &vectors[image as usize * 5..][..5];
        let dot = etalon_kernel::product::dot;
        dot(row(a), row(b)) / (dot(row(a), row(a)) * dot(row(b), row(b))).sqrt()
    };
    let dense = Inputs::default().with(&EMBEDDINGS, store(&activations, 4)).with(&SIMILARITY, store(&vectors, 5));
    let sparse = Inputs::default().with(&CODES, codes(&activations, 4)).with(&EMBEDDINGS, store(&vectors, 5));
    for profile in [Profile::Paper, Profile::Reference] {
        let given = [("tasks", "4"), ("explanations", "5"), ("convergence", "both"), ("task_scores", "yes")];
        let scores = scores_with_any_threads(&Mis, &dense, &given, profile);
        let same = scores_with_any_threads(&Mis, &sparse, &given, profile);
        assert_eq!(column(&scores, "latent", "mis"), column(&same, "latent", "mis"));
        assert_eq!(column(&scores, "latent", "mis")[3], None);
        assert!(scores.notes[0].starts_with("1 of 4 units are constant"), "{:?}", scores.notes);
        with_tasks(&dense, &given, (profile, 3), |tasks| {
            for (unit, tasks) in tasks.iter().enumerate().take(3) {
                let mean = |query: u32, images: &[u32]| {
                    images.iter().map(|&image| cosine(query, image)).sum::<f64>() / images.len() as f64
                };
                let answer = |[low, high]: &tasks::Task| {
                    let of = |query: u32| mean(query, &high.explanations) - mean(query, &low.explanations);
                    sigmoid((of(high.query) - of(low.query)) / 0.16)
                };
                let expected = tasks.iter().map(answer).sum::<f64>() / tasks.len() as f64;
                let found = column(&scores, "latent", "mis")[unit].unwrap();
                assert!((found - expected).abs() < 1e-9, "unit {unit}: {found} {expected}");
            }
        });
        // With all tasks both curves are 0.
        let last = |name: &str| column(&scores, "tasks", name)[3].unwrap();
        assert!(last("prefix_difference") == 0.0 && last("rebuilt_difference") == 0.0);
    }
}

/// Calls `check` with the selected rows of all units.
fn with_selected<T>(
    inputs: &Inputs,
    given: &[(&str, &str)],
    (profile, seed): (Profile, u64),
    check: impl Fn(&Job<'_>, &Selected) -> T,
) -> T {
    let given = given.iter().map(|(name, value)| (name.to_string(), value.to_string())).collect();
    let recipe = recipe(&Mis, inputs, &given, profile, seed).unwrap();
    let (inputs, context) = (inputs.completed(), Context::silent(2, 1 << 30).unwrap());
    let job = Job { inputs: &inputs, params: &recipe.params, profile, seed, context: &context };
    let mut work = Work::new("test", &inputs, &context, None, Mode::Local, None);
    let selected = Selected::new(&job, &mut work).unwrap();
    check(&job, &selected)
}

/// Calls `check` with the tasks of all units.
fn with_tasks(
    inputs: &Inputs,
    given: &[(&str, &str)],
    (profile, seed): (Profile, u64),
    check: impl Fn(Vec<Vec<tasks::Task>>),
) {
    with_selected(inputs, given, (profile, seed), |job, selected| {
        let shuffles = selected.shuffles(job, &selected.plan).unwrap();
        let units = job.get(&UNIT_ACTIVATIONS).unwrap().units();
        let tasks = |unit: usize| match selected.varies(unit) {
            true => selected.tasks(&selected.plan, &shuffles, unit),
            false => Vec::new(),
        };
        check((0..units).map(tasks).collect());
    });
}

#[test]
fn tasks_have_one_image_of_every_stratum_and_use_every_image_once() {
    let (activations, vectors) = random_inputs(200, 2);
    let inputs = Inputs::default().with(&EMBEDDINGS, store(&activations, 4)).with(&SIMILARITY, store(&vectors, 5));
    with_tasks(&inputs, &[("tasks", "6"), ("explanations", "4")], (Profile::Paper, 0), |units| {
        for (unit, tasks) in units.iter().enumerate().take(3) {
            let mut order: Vec<u32> = (0..200).collect();
            let value = |row: u32| activations[row as usize * 4 + unit];
            order.sort_by(|&a, &b| value(a).total_cmp(&value(b)).then(a.cmp(&b)));
            let rank = |row: u32| order.iter().position(|&other| other == row).unwrap();
            let mut used: Vec<u32> = Vec::new();
            for [low, high] in tasks {
                for stratum in 0..4 {
                    assert_eq!(rank(low.explanations[stratum]) / 6, 3 - stratum);
                    assert_eq!((199 - rank(high.explanations[stratum])) / 6, 3 - stratum);
                }
                assert_eq!((rank(low.query) / 6, (199 - rank(high.query)) / 6), (4, 4));
                used.extend(low.explanations.iter().chain(&high.explanations).chain([&low.query, &high.query]));
            }
            used.sort_unstable();
            used.dedup();
            assert_eq!(used.len(), 2 * 6 * 5);
        }
    });
}

#[test]
fn the_score_has_the_symmetries_of_its_definition() {
    // One task per unit. A negative activation exchanges explanations and queries of the sides: D⁺ and D⁻ become −D⁻ and −D⁺,
    // and their difference stays.
    let (activations, vectors) = random_inputs(40, 3);
    let first: Vec<f32> = activations.iter().step_by(4).copied().collect();
    let negative: Vec<f32> = first.iter().map(|value| -value).collect();
    let given = [("tasks", "1"), ("explanations", "7")];
    let score = |activations: &[f32], vectors: &[f32]| {
        let inputs = Inputs::default().with(&EMBEDDINGS, store(activations, 1)).with(&SIMILARITY, store(vectors, 5));
        mis(&inputs, &given).value("mis").unwrap()
    };
    let forward = score(&first, &vectors);
    assert!((forward - score(&negative, &vectors)).abs() < 1e-12);
    // Vectors of any length have the same cosines, and images that all look the same are assigned by chance.
    let longer: Vec<f32> = vectors.iter().map(|value| 4.0 * value).collect();
    assert!((forward - score(&first, &longer)).abs() < 1e-12);
    assert!((score(&first, &[0.5; 200]) - 0.5).abs() < 1e-12);
}

fn golden(name: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../tests/golden/mis").join(name)
}

fn array(name: &str) -> (Vec<f32>, usize) {
    let store = load_activations(&golden(name), Finite::Refuse, &Budget::new(1 << 30)).unwrap();
    (store.tile(0..store.rows()).unwrap().values.to_vec(), store.width())
}

/// The values of an array of any shape, of `f32` or of 16-bit integers.
fn values(name: &str) -> Vec<f32> {
    let bytes = std::fs::read(golden(name)).unwrap();
    let start = 10 + usize::from(u16::from_le_bytes([bytes[8], bytes[9]]));
    let header = String::from_utf8_lossy(&bytes[10..start]).into_owned();
    match header.contains("<i2") {
        true => bytes[start..].chunks_exact(2).map(|b| f32::from(i16::from_le_bytes([b[0], b[1]]))).collect(),
        false => bytes[start..].chunks_exact(4).map(|b| f32::from_le_bytes([b[0], b[1], b[2], b[3]])).collect(),
    }
}

/// Some columns of the golden activations, their layers, and the embeddings.
fn golden_inputs(columns: &[usize]) -> Inputs {
    let ((activations, width), (vectors, d)) = (array("tasks/activations.npy"), array("tasks/embeddings.npy"));
    let kept: Vec<f32> =
        activations.chunks_exact(width).flat_map(|row| columns.iter().map(|&column| row[column])).collect();
    let layer = |&column: &usize| if [2, 3].contains(&column) { "b" } else { "a" };
    let unit = |column| Unit { layer: layer(column).into(), ..Unit::default() };
    Inputs::default()
        .with(&EMBEDDINGS, store(&kept, columns.len()))
        .with(&SIMILARITY, Arc::new(store(&vectors, d)))
        .with(&UNITS, Units { units: columns.iter().map(unit).collect() })
}

fn numbers(value: &Value) -> Vec<f64> {
    value.as_array().unwrap().iter().map(|number| number.as_f64().unwrap()).collect()
}

fn assert_close(found: &[Option<f64>], expected: &[f64], what: &str) {
    assert_eq!(found.len(), expected.len(), "{what}");
    for (index, (found, expected)) in found.iter().zip(expected).enumerate() {
        assert!((found.unwrap() - expected).abs() < 1e-6, "{what} {index}: {found:?}, expected {expected}");
    }
}

#[test]
fn agrees_with_the_released_tasks() {
    let expected: Value = serde_json::from_slice(&std::fs::read(golden("tasks/tasks_expected.json")).unwrap()).unwrap();
    let quantile = expected["hard_query_quantile"].to_string();
    type Given<'a> = &'a [(&'a str, &'a str)];
    let cases: [(&str, &str, Given<'_>); 4] = [
        ("imi_easy_N20", "20", &[]),
        ("imi_hard_N20", "20", &[("query_quantile", &quantile)]),
        ("imi_easy_N10", "10", &[]),
        ("paper_no_gap_N20", "20", &[("rank_gap", "0")]),
    ];
    let inputs = golden_inputs(&[0, 1, 2, 3, 4]);
    assert_eq!(expected["variants"].as_object().unwrap().len(), cases.len());
    for (variant, tasks, more) in cases {
        let given = [&[("tasks", tasks), ("task_scores", "yes"), ("convergence", "both")], more].concat();
        let wanted = &expected["variants"][variant];
        assert_eq!(wanted["units"], serde_json::json!([0, 1, 2, 3, 4]));
        // The file has shape units × N × 2 × 10.
        let ids = values(&format!("tasks/tasks_{variant}.npy"));
        with_tasks(&inputs, &given, (Profile::Reference, 0), |units| {
            let sides = units.iter().flatten().flatten();
            let found: Vec<u32> =
                sides.flat_map(|side| side.explanations.iter().copied().chain([side.query])).collect();
            assert_eq!(found, ids.iter().map(|&id| id as u32).collect::<Vec<_>>(), "{variant}");
        });
        let plan = with_selected(&inputs, &given, (Profile::Reference, 0), |_, selected| selected.plan);
        // Ascending ranks: the first of the lowest queries, and the end of the highest ones.
        let whole = |name: &str| wanted[name].as_u64().unwrap() as usize;
        assert_eq!((plan.tasks, plan.explanations), (whole("N"), expected["K"].as_u64().unwrap() as usize));
        assert_eq!(plan.queries_from, [whole("start_min"), 560 - whole("stop_max")], "{variant}");
        let scores = run_seed_0(&inputs, &given);
        assert_close(&column(&scores, "latent", "mis"), &numbers(&wanted["mis"]), variant);
        assert_close(&column(&scores, "latent", "hard"), &numbers(&wanted["hard_accuracy"]), variant);
        let Some(Cells::NumberLists(differences)) =
            scores.table("latent").and_then(|table| table.column("differences"))
        else {
            panic!("no differences");
        };
        let tau = expected["tau"].as_f64().unwrap();
        for (unit, (found, each)) in differences.iter().zip(wanted["logit_times_tau"].as_array().unwrap()).enumerate() {
            assert_close(found, &numbers(each), variant);
            if let Some(prefix) = wanted.get("prefix_mis") {
                let mut sum = 0.0;
                let mean = |(index, difference): (usize, &Option<f64>)| {
                    sum += sigmoid(difference.unwrap() / tau);
                    Some(sum / (index + 1) as f64)
                };
                assert_close(&found.iter().enumerate().map(mean).collect::<Vec<_>>(), &numbers(&prefix[unit]), variant);
            }
        }
        if variant == "imi_easy_N20" {
            let curve = numbers(&wanted["convergence_mean_abs_mis_i_minus_mis_20"]);
            assert_close(&column(&scores, "tasks", "prefix_difference"), &curve, variant);
            // Ten tasks built again are the variant with N = 10.
            let [ten, twenty] =
                ["imi_easy_N10", "imi_easy_N20"].map(|name| numbers(&expected["variants"][name]["mis"]));
            let mean = ten.iter().zip(&twenty).map(|(a, b)| (a - b).abs()).sum::<f64>() / 5.0;
            assert!((column(&scores, "tasks", "rebuilt_difference")[9].unwrap() - mean).abs() < 1e-6);
        }
    }
}

/// The released stream has seed 42, which is that of seed 0.
fn run_seed_0(inputs: &Inputs, given: &[(&str, &str)]) -> Scores {
    let given = given.iter().map(|(name, value)| (name.to_string(), value.to_string())).collect();
    let recipe = recipe(&Mis, inputs, &given, Profile::Reference, 0).unwrap();
    crate::metrics::evaluate(&Mis, inputs, &recipe, &Context::silent(2, 1 << 30).unwrap()).unwrap().scores
}

#[test]
fn ties_and_constant_units_agree_with_the_released_rules() {
    let expected: Value = serde_json::from_slice(&std::fs::read(golden("tasks/tasks_expected.json")).unwrap()).unwrap();
    let inputs = golden_inputs(&[5, 6, 7]);
    let scores = run_seed_0(&inputs, &[("rank_gap", "0"), ("task_scores", "yes")]);
    let wanted = &expected["ties_unit7_no_gap_N20"];
    let found = column(&scores, "latent", "mis");
    assert_eq!(found[..2], [None, None]);
    assert_close(&found[2..], &[wanted["mis"].as_f64().unwrap()], "ties");
    assert_close(&column(&scores, "latent", "hard")[2..], &[wanted["hard_accuracy"].as_f64().unwrap()], "ties");
    let Some(Cells::NumberLists(differences)) = scores.table("latent").unwrap().column("differences") else {
        panic!("no differences");
    };
    assert_close(&differences[2], &numbers(&wanted["logit_times_tau"]), "ties");
    assert!(scores.notes[0].starts_with("2 of 3 units are constant"));
    let ids = values("tasks/tasks_ties_unit7_no_gap_N20.npy");
    with_tasks(&inputs, &[("rank_gap", "0")], (Profile::Reference, 0), |units| {
        let found: Vec<u32> =
            units[2].iter().flatten().flat_map(|side| side.explanations.iter().copied().chain([side.query])).collect();
        assert_eq!(found, ids.iter().map(|&id| id as u32).collect::<Vec<_>>());
    });
}

#[test]
fn ranges_streams_and_symmetries_agree_with_the_released_tasks() {
    let expected: Value = serde_json::from_slice(&std::fs::read(golden("tasks/tasks_expected.json")).unwrap()).unwrap();
    let inputs = golden_inputs(&[0, 1, 2, 3, 4, 5, 6, 7]);
    let scores = run_seed_0(&inputs, &[("rank_gap", "0")]);
    let range = column(&scores, "latent", "largest_activation").into_iter().zip(column(
        &scores,
        "latent",
        "smallest_activation",
    ));
    let range: Vec<Option<f64>> = range.map(|(high, low)| Some(high.unwrap() - low.unwrap())).collect();
    assert_close(&range, &numbers(&expected["range_per_unit"]), "range");
    let constant: Vec<usize> = (0..8).filter(|&unit| column(&scores, "latent", "mis")[unit].is_none()).collect();
    assert_eq!(serde_json::json!(constant), expected["excluded_constant_units"]);
    let mut random = numpy_shuffle::NumpyRandom::new(expected["seed"].as_u64().unwrap() as u32);
    for list in ["first_list_of_20", "second_list_of_20"] {
        assert_eq!(serde_json::json!(random.shuffled(20)), expected["legacy_shuffle_check"][list]);
    }
    // The layers of units in the order of their file: a, b, a, b, a. The stream visits them layer by layer.
    let named = expected["units_file"].as_array().unwrap().iter().map(|name| name.as_str().unwrap());
    let (layers, columns): (Vec<&str>, Vec<usize>) = named
        .map(|name| name.split_once('_').map(|(layer, unit)| (layer, unit.parse::<usize>().unwrap())).unwrap())
        .unzip();
    let units: Vec<Unit> = layers.iter().map(|layer| Unit { layer: (*layer).into(), ..Unit::default() }).collect();
    let order: Vec<usize> = units::by_layer(&units, &[0, 1, 2, 3, 4]).into_iter().map(|index| columns[index]).collect();
    for variant in expected["variants"].as_object().unwrap().values() {
        assert_eq!(serde_json::json!(order), variant["order_in_random_stream"]);
    }
    // Exchanged queries change the sign of every difference.
    let swapped = expected["identities"]["swap_plus_minus_gives_1_minus_mis"].as_f64().unwrap();
    let (tau, of_unit) = (expected["tau"].as_f64().unwrap(), &expected["variants"]["paper_no_gap_N20"]);
    let differences = numbers(&of_unit["logit_times_tau"][0]);
    let reading = units::Reading { alpha: tau, kind: units::ReadingKind::Temperature };
    let mean = |sign: f64| {
        differences.iter().map(|difference| reading.probability([sign * difference, 0.0])).sum::<f64>() / 20.0
    };
    assert!((mean(-1.0) - swapped).abs() < 1e-9 && (mean(1.0) + mean(-1.0) - 1.0).abs() < 1e-12);
}

#[test]
fn lpips_in_its_factored_form_agrees_with_the_released_distances() {
    let expected: Value = serde_json::from_slice(&std::fs::read(golden("lpips/expected.json")).unwrap()).unwrap();
    let matrix: Vec<f32> =
        expected["distance_matrix"].as_array().unwrap().iter().flat_map(numbers).map(|d| d as f32).collect();
    // The task of the file: explained by images 2 to 5 and 6 to 9, asked about 0 and 1.
    let activations = [9.0, 1.0, 10.0, 11.0, 12.0, 13.0, 0.1, 0.2, 0.3, 0.4];
    let inputs = Inputs::default().with(&EMBEDDINGS, store(&activations, 1));
    let given = [("tasks", "1"), ("explanations", "4"), ("task_scores", "yes"), ("measure", "squared")];
    let (wanted, difference) = (&expected["p_at_tau_0.16"], &expected["D_plus_minus_D_minus"]);
    let agrees = |scores: &Scores| {
        let Some(Cells::NumberLists(found)) = scores.table("latent").unwrap().column("differences") else {
            panic!("no differences");
        };
        let close = |found: f64, expected: &Value| (found / expected.as_f64().unwrap() - 1.0).abs() < 1e-5;
        close(found[0][0].unwrap(), difference) && close(scores.value("mis").unwrap(), wanted)
    };
    let by_matrix = inputs.clone().with(&DISTANCES, DistanceMatrix::new(store(&matrix, 10), || Ok(())).unwrap());
    assert!(agrees(&mis(&by_matrix, &given)));
    // Vectors: activations of unit length over channels, times √(weight / positions).
    let mut vectors = vec![Vec::new(); 10];
    let mut ends = vec![0];
    for layer in 0..3 {
        let features = values(&format!("lpips/features_{layer}.npy"));
        let weights = values(&format!("lpips/lin_{layer}.npy"));
        let each = features.len() / 10;
        let positions = each / weights.len();
        for (image, values) in features.chunks_exact(each).enumerate() {
            for position in 0..positions {
                let channel = |c: usize| f64::from(values[c * positions + position]);
                let length = (0..weights.len()).map(|c| channel(c).powi(2)).sum::<f64>().sqrt() + 1e-10;
                let part = |c: usize| channel(c) / length * (f64::from(weights[c]) / positions as f64).sqrt();
                vectors[image].extend((0..weights.len()).map(|c| part(c) as f32));
            }
        }
        ends.push(vectors[0].len());
    }
    let far = |a: usize, b: usize, range: std::ops::Range<usize>| {
        range.map(|index| f64::from(vectors[a][index] - vectors[b][index]).powi(2)).sum::<f64>()
    };
    for (layer, expected) in numbers(&expected["per_layer_0_1"]).into_iter().enumerate() {
        assert!((far(0, 1, ends[layer]..ends[layer + 1]) / expected - 1.0).abs() < 1e-5, "layer {layer}");
    }
    let width = vectors[0].len();
    for (index, &expected) in matrix.iter().enumerate() {
        let found = far(index / 10, index % 10, 0..width);
        assert!((found - f64::from(expected)).abs() <= 1e-5 * f64::from(expected), "{index}: {found} {expected}");
    }
    let by_vector = inputs.with(&SIMILARITY, store(&vectors.concat(), width));
    assert!(agrees(&mis(&by_vector, &given)));
}

#[test]
fn layers_and_models_have_means_and_percentiles() {
    let scores = run_seed_0(&golden_inputs(&[0, 1, 2, 3, 4, 5]), &[]);
    let units = column(&scores, "latent", "mis");
    let layers = column(&scores, "layer", "mis");
    assert!((layers[0].unwrap() - (units[0].unwrap() + units[1].unwrap() + units[4].unwrap()) / 3.0).abs() < 1e-12);
    assert_eq!(column(&scores, "layer", "constant"), [Some(1.0), Some(0.0)]);
    assert_eq!(column(&scores, "model", "units"), [Some(5.0)]);
    assert!(column(&scores, "layer", "p05")[1] <= column(&scores, "layer", "p95")[1]);
}

#[test]
fn wrong_input_is_refused_with_a_message() {
    let (activations, vectors) = random_inputs(30, 4);
    let inputs = Inputs::default().with(&EMBEDDINGS, store(&activations, 4)).with(&SIMILARITY, store(&vectors, 5));
    let message = |inputs: &Inputs, given: &[(&str, &str)]| {
        run_metric(&Mis, inputs, given, Profile::Paper, 1).unwrap_err().to_string()
    };
    let few = message(&inputs, &[]);
    assert!(few.contains("at least 400") && few.contains("found: 30"), "{few}");
    let small = [("tasks", "2"), ("explanations", "2")];
    let quantile = |value| message(&inputs, &[&small[..], &[("query_quantile", value)]].concat());
    assert!(quantile("0.1").contains("among the explanations"));
    assert!(quantile("0.48").contains("overlap"));
    let units = inputs.clone().with(&UNITS, Units { units: vec![Unit::default(); 3] });
    assert!(message(&units, &small).contains("4 units"));
    let other = inputs.clone().with(&SIMILARITY, store(&vectors[..100], 5));
    assert!(message(&other, &small).contains("rows"));
    let none = message(&inputs.without(&SIMILARITY), &small);
    assert!(none.contains("no similarity"), "{none}");
}

#[test]
fn extras_do_not_change_scores() {
    let (activations, vectors) = random_inputs(60, 5);
    let inputs = Inputs::default().with(&EMBEDDINGS, store(&activations, 4)).with(&SIMILARITY, store(&vectors, 5));
    let small = [("tasks", "3"), ("explanations", "2")];
    let more = [&small[..], &[("convergence", "both"), ("task_scores", "yes"), ("listed_tasks", "0")]].concat();
    let (scores, others) = (mis(&inputs, &small), mis(&inputs, &more));
    assert_eq!(scores.headline, others.headline);
    // The first two tasks of the easiest and the hardest unit; their probabilities are part of the scores.
    let table = scores.table("task").unwrap();
    assert!(table.rows() == 4 && others.table("task").is_none());
    let Some(Cells::WholeLists(highest)) = table.column("highest") else { panic!("no images") };
    with_tasks(&inputs, &small, (Profile::Paper, 3), |tasks| {
        for (row, rows) in highest.iter().enumerate() {
            let number = |name: &str| column(&scores, "task", name)[row].unwrap() as usize;
            let [_, high] = &tasks[number("unit")][number("task")];
            assert_eq!(*rows, high.explanations.iter().map(|&row| i64::from(row)).collect::<Vec<_>>());
            assert_eq!(number("high_query"), high.query as usize);
        }
    });
    let listed = column(&scores, "task", "probability")[..2].iter().flatten().sum::<f64>();
    let unit = column(&scores, "task", "unit")[0].unwrap() as usize;
    let whole = 3.0 * column(&scores, "latent", "mis")[unit].unwrap();
    assert!(listed < whole && whole < listed + 1.0);
}
