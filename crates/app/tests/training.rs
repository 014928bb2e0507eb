//! `train`, `archs` and `convert` from outside.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "tests")]

mod common;

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use std::process::Stdio;
use std::time::Duration;

use common::files::npy_f32;
use common::{Sandbox, etalon, words};
use etalon::context::Budget;
use etalon::input::{Tensors, read_tensors};
use etalon::store::ActivationStore;
use serde_json::{Value, json};

const GOLDEN: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/golden/training");

/// A sandbox with a small world.
fn world() -> Sandbox {
    let sandbox = Sandbox::new();
    sandbox.done("data superposition --rows 400 --width 12 --features 20 --active 3 --seed 3 --out w");
    sandbox
}

fn bytes(sandbox: &Sandbox, directory: &str) -> Vec<(String, Vec<u8>)> {
    let files = sandbox.files(directory).into_iter();
    files.map(|name| (name.clone(), fs::read(sandbox.path(directory).join(name)).unwrap())).collect()
}

#[test]
fn a_dictionary_is_trained_described_converted_and_evaluated() {
    let sandbox = world();
    let output = sandbox.done(
        "train --store w/activations --arch topk --latents 30 --k 3 --steps 60 --batch 64 --log-every 20 \
         --log log.jsonl --tensorboard board --keep 0.5 --out sae --json",
    );
    let answer = output.json();
    assert_eq!((answer["arch"].as_str(), answer["latents"].as_u64()), (Some("topk"), Some(30)));
    assert_eq!(answer["steps"].as_u64(), Some(60));
    // A share of dead latents says what dead means.
    let plain =
        sandbox.done("train --store w/activations --arch topk --latents 8 --k 2 --steps 20 --batch 64 --out plain");
    assert!(plain.err.contains("dead 0.0 % (silent for 10000000 rows)"), "{}", plain.err);
    assert!(sandbox.path("sae-step-30/sae.json").is_file() && !sandbox.path("sae.training").exists());
    let lines: Vec<Value> = sandbox.read("log.jsonl").lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(lines.iter().map(|line| line["step"].as_u64().unwrap()).collect::<Vec<_>>(), [0, 20, 40, 59]);
    for field in ["terms", "explained_variance", "l0", "dead", "rate", "rows_per_second"] {
        assert!(lines.iter().all(|line| !line[field].is_null()), "{field}");
    }
    let board = sandbox.files("board");
    assert!(board.len() == 1 && board[0].starts_with("events.out.tfevents."), "{board:?}");

    // The same command reuses the finished dictionary.
    let again = sandbox
        .done("train --store w/activations --arch topk --latents 30 --k 3 --steps 60 --batch 64 --out sae --json");
    assert_eq!(again.json()["kept"], true);

    sandbox.done("convert sae --to saelens --out lens");
    for (from, to) in [("sae", "a"), ("lens", "b")] {
        sandbox.done(&format!("encode --sae {from} --store w/activations --out {to}.npy"));
    }
    assert!(fs::read(sandbox.path("a.npy")).unwrap() == fs::read(sandbox.path("b.npy")).unwrap());
    let result = sandbox.done("eval training --sae sae --store w/activations --json").json();
    assert_eq!(result["tables"]["step"]["step"].as_array().unwrap().len(), 60);
    assert!(result["headline"]["explained_variance_end"]["value"].is_f64());
}

#[test]
fn training_together_equals_training_separately() {
    let sandbox = world();
    let common = "--store w/activations --steps 20 --batch 50 --warmup 2";
    sandbox.done(&format!("train {common} --arch topk,relu --latents 16,40 --k 2,4 --seed 0,1 --out all"));
    let names: BTreeSet<String> =
        sandbox.files("all").iter().map(|name| name.split('/').next().unwrap().to_string()).collect();
    assert_eq!(names.len(), 16);
    // The order of rows follows the first seed.
    sandbox.done(&format!("train {common} --arch topk --latents 40 --k 4 --seed 0 --out one"));
    let weights = |directory: &str| fs::read(sandbox.path(directory).join("weights.safetensors")).unwrap();
    assert!(weights("one") == weights("all/topk-40-k4-seed0"));
    // Also beside a dictionary that sets rows aside.
    sandbox.done(&format!("train {common} --arch batch_topk,topk --latents 40 --k 4 --seed 0 --out two"));
    assert!(weights("one") == weights("two/topk-40-k4-seed0"));
    assert!(weights("one") != weights("all/topk-40-k4-seed1"));
}

#[test]
fn results_do_not_depend_on_threads() {
    let sandbox = world();
    for threads in [1, 2, 7] {
        sandbox.done(&format!(
            "train --store w/activations --arch batch_topk --latents 70 --k 4 --steps 15 --batch 100 --threads {threads} \
             --out t{threads}"
        ));
    }
    assert!(bytes(&sandbox, "t1") == bytes(&sandbox, "t2") && bytes(&sandbox, "t1") == bytes(&sandbox, "t7"));
}

#[test]
fn a_killed_training_resumes_with_the_same_bytes() {
    let sandbox = world();
    let command = |out: &str| {
        format!(
            "train --store w/activations --arch topk,jumprelu --latents 200 --k 4 --steps 400 --batch 100 \
             --checkpoint-every 0.02 --out {out}"
        )
    };
    sandbox.done(&command("whole"));
    for milliseconds in [30, 90, 200, 350] {
        let mut killed = etalon(&sandbox.path("."), &words(&command("parts")));
        let mut child = killed.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
        std::thread::sleep(Duration::from_millis(milliseconds));
        child.kill().unwrap();
        child.wait().unwrap();
    }
    sandbox.done(&command("parts"));
    assert!(bytes(&sandbox, "whole") == bytes(&sandbox, "parts"));
    assert!(!sandbox.files(".").iter().any(|name| name.contains(".training")));
}

/// The mean number of active latents that `encode` reports.
fn l0(sandbox: &Sandbox, sae: &str) -> f64 {
    let codes = sandbox.done(&format!("encode --sae {sae} --store w/activations --out {sae}.npz --json")).json();
    codes["l0"].as_f64().unwrap()
}

#[test]
fn thresholds_of_short_runs_keep_k_latents() {
    let sandbox = world();
    for (arch, preset) in [("batch_topk", "etalon"), ("matryoshka", "etalon"), ("batch_topk", "dictionary-learning")] {
        let out = format!("{arch}-{preset}");
        sandbox.done(&format!(
            "train --store w/activations --arch {arch} --preset {preset} --latents 64 --k 6 --steps 20 --batch 100 --out {out}"
        ));
        let found = l0(&sandbox, &out);
        // 40 of the 400 rows set the threshold; the standard error of their mean L0 is about 5 %.
        assert!((found - 6.0).abs() < 0.15 * 6.0, "{out}: {found}");
    }
}

#[test]
fn targets_are_reached() {
    let sandbox = Sandbox::new();
    sandbox.done("data superposition --rows 2000 --width 16 --features 40 --active 3 --seed 3 --out w");
    for (arch, target) in [("relu", 4), ("relu_april", 4), ("gated", 4), ("jumprelu", 4), ("jumprelu", 8)] {
        let out = format!("{arch}-{target}");
        sandbox.done(&format!(
            "train --store w/activations --arch {arch} --latents 64 --k {target} --steps 2000 --batch 64 --out {out}"
        ));
        let found = l0(&sandbox, &out);
        assert!((found / f64::from(target) - 1.0).abs() < 0.1, "{out}: {found}");
    }
}

/// L0 and explained variance.
fn quality(sandbox: &Sandbox, sae: &str) -> [f64; 2] {
    let answer = sandbox.done(&format!("eval core --sae {sae} --store w/activations --json")).json();
    ["l0", "explained_variance"].map(|key| answer["headline"][key]["value"].as_f64().unwrap())
}

/// The presets reproduce the trainings of dictionary_learning (step by step, see below) and of SAELens. Their weights of the
/// penalty are chosen here so that L0 is at least the target: with more active latents they explain less.
#[test]
fn a_target_costs_no_explained_variance() {
    let sandbox = Sandbox::new();
    sandbox.done("data superposition --rows 2000 --width 16 --features 40 --active 3 --seed 3 --out w");
    let common = "train --store w/activations --latents 64 --steps 2000 --batch 64";
    let libraries = [
        ("relu", "dictionary-learning --l1 0.9"),
        ("relu", "saelens --l1 0.9"),
        ("relu_april", "dictionary-learning --l1 0.75"),
        // With its own learning rate, the library's reconstruction is worse than the mean after 2,000 steps.
        ("gated", "dictionary-learning --l1 1 --lr 0.001"),
        ("jumprelu", "saelens --l1 1"),
    ];
    for (index, (arch, preset)) in libraries.into_iter().enumerate() {
        let (ours, theirs) = (format!("{arch}-8"), format!("library-{index}"));
        sandbox.done(&format!("{common} --arch {arch} --target-l0 8 --out {ours}"));
        sandbox.done(&format!("{common} --arch {arch} --preset {preset} --out {theirs}"));
        let ([l0, explained], [more, less]) = (quality(&sandbox, &ours), quality(&sandbox, &theirs));
        assert!((l0 / 8.0 - 1.0).abs() < 0.1, "{arch}: L0 {l0}");
        assert!(more > l0 && less < explained, "{arch}, {preset}: {l0} {explained}, {more} {less}");
    }
}

/// 256 features in 64 dimensions: a low learning rate finds few of them in 2,000 steps. The penalty of SAELens is chosen so
/// that its L0 is above the target.
#[test]
fn a_target_costs_no_explained_variance_in_superposition() {
    let sandbox = Sandbox::new();
    sandbox.done("data superposition --rows 10000 --width 64 --features 256 --active 8 --seed 1 --out w");
    let common = "train --store w/activations --latents 512 --steps 2000 --batch 128";
    sandbox.done(&format!("{common} --arch relu --preset saelens --l1 1.4 --lr 0.001 --out library"));
    let [more, less] = quality(&sandbox, "library");
    for arch in ["relu", "gated", "jumprelu"] {
        sandbox.done(&format!("{common} --arch {arch} --target-l0 16 --out {arch}"));
        let [l0, explained] = quality(&sandbox, arch);
        assert!((l0 / 16.0 - 1.0).abs() < 0.1, "{arch}: L0 {l0}");
        assert!(more > l0 && less < explained, "{arch}: {l0} {explained}, SAELens: {more} {less}");
    }
}

/// Biases and thresholds are in the unit of the rows; steps of Adam are not.
#[test]
fn the_scale_of_the_rows_costs_nothing() {
    let sandbox = Sandbox::new();
    sandbox.done("data superposition --rows 4000 --width 32 --features 80 --active 3 --seed 3 --out w");
    let store = ActivationStore::open(&sandbox.path("w/activations")).unwrap();
    for (name, scale) in [("small", 0.02), ("large", 50.0)] {
        let values: Vec<f32> = store.tile(0..4000).unwrap().values.iter().map(|value| value * scale).collect();
        sandbox.write(&format!("{name}.npy"), npy_f32(&[4000, 32], &values));
    }
    for arch in ["relu", "relu_april", "gated"] {
        let [small, large] = ["small", "large"].map(|rows| {
            let out = format!("{arch}-{rows}");
            sandbox.done(&format!(
                "train --store {rows}.npy --arch {arch} --latents 128 --k 4 --steps 2000 --batch 64 --out {out}"
            ));
            let answer = sandbox.done(&format!("eval core --sae {out} --store {rows}.npy --json")).json();
            ["l0", "explained_variance"].map(|key| answer["headline"][key]["value"].as_f64().unwrap())
        });
        assert!([small, large].iter().all(|[l0, _]| (l0 / 4.0 - 1.0).abs() < 0.1), "{arch}: {small:?} {large:?}");
        assert!(small[1] > 0.5 && (small[1] - large[1]).abs() < 0.02, "{arch}: {small:?} {large:?}");
    }
}

/// Writes some rows of the world, with a constant added to every value.
fn write_rows(sandbox: &Sandbox, name: &str, rows: std::ops::Range<usize>, shift: f32) {
    let store = ActivationStore::open(&sandbox.path("w/activations")).unwrap();
    let values: Vec<f32> = store.tile(rows.clone()).unwrap().values.iter().map(|value| value + shift).collect();
    sandbox.write(name, npy_f32(&[rows.len(), store.width()], &values));
}

#[test]
fn a_large_mean_of_the_rows_costs_nothing() {
    let sandbox = Sandbox::new();
    sandbox.done("data superposition --rows 4000 --width 32 --features 80 --active 3 --seed 3 --out w");
    write_rows(&sandbox, "centred.npy", 0..4000, 0.0);
    write_rows(&sandbox, "shifted.npy", 0..4000, 1.5);
    for arch in ["relu", "gated", "jumprelu"] {
        let [centred, shifted] = ["centred", "shifted"].map(|rows| {
            let out = format!("{arch}-{rows}");
            sandbox.done(&format!(
                "train --store {rows}.npy --arch {arch} --latents 128 --k 4 --steps 2000 --batch 64 --out {out}"
            ));
            let answer = sandbox.done(&format!("eval core --sae {out} --store {rows}.npy --json")).json();
            ["l0", "explained_variance"].map(|key| answer["headline"][key]["value"].as_f64().unwrap())
        });
        for [l0, _] in [centred, shifted] {
            assert!((l0 / 4.0 - 1.0).abs() < 0.1, "{arch}: {centred:?} {shifted:?}");
        }
        // The rows differ by a constant, which is no feature.
        assert!(centred[1] > 0.4 && (centred[1] - shifted[1]).abs() < 0.02, "{arch}: {centred:?} {shifted:?}");
    }
}

#[test]
fn thresholds_hold_on_new_rows() {
    let sandbox = Sandbox::new();
    sandbox.done("data superposition --rows 3600 --width 32 --features 80 --active 3 --seed 3 --out w");
    write_rows(&sandbox, "few.npy", 0..600, 0.0);
    write_rows(&sandbox, "new.npy", 600..3600, 0.0);
    for arch in ["batch_topk", "matryoshka"] {
        let answer = sandbox.done(&format!(
            "train --store few.npy --arch {arch} --latents 256 --k 8 --steps 1500 --batch 100 --lr 0.002 --out {arch} --json"
        ));
        // A tenth of the rows is set aside.
        assert_eq!(answer.json()["threshold"], json!({"rows": 60, "held_out": true}));
        let codes = sandbox.done(&format!("encode --sae {arch} --store new.npy --out {arch}.npz --json")).json();
        let found = codes["l0"].as_f64().unwrap();
        assert!((found / 8.0 - 1.0).abs() < 0.2, "{arch}: {found}");
    }
}

#[test]
fn options_without_an_effect_are_refused() {
    let sandbox = world();
    let refused = |words: &str| {
        let output = sandbox.run(&format!("train --store w/activations --latents 16 --batch 50 --out no {words}"));
        assert_eq!(output.code, Some(2), "{words}");
        output.err
    };
    assert!(refused("--arch p_anneal --k 4").contains("`p_anneal` has no"));
    assert!(refused("--arch relu --k 4 --l1 0.1").contains("--l1"));
    let error = refused("--arch topk --k 4 --steps 37 --warmup 1000");
    assert!(error.contains("--warmup") && error.contains("1001 steps"), "{error}");
    assert!(refused("--arch relu --steps 1500 --sparsity-warmup 2000").contains("2001 steps"));
    assert!(refused("--arch topk --k 4 --checkpoint-every=-1").contains("--checkpoint-every"));
}

/// Command-line options for the parameters of a reference trainer.
fn options(params: &Value) -> String {
    let names = [
        ("lr", "lr"),
        ("warmup_steps", "warmup"),
        ("sparsity_warmup_steps", "sparsity-warmup"),
        ("k", "k"),
        ("l1_penalty", "l1"),
        ("sparsity_penalty", "l1"),
        ("initial_sparsity_penalty", "l1"),
        ("target_l0", "target-l0"),
        ("bandwidth", "bandwidth"),
        ("anneal_start", "anneal-start"),
        ("sparsity_queue_length", "queue"),
    ];
    let mut words: Vec<String> = names
        .iter()
        .filter(|(theirs, _)| params[*theirs].is_number())
        .map(|(theirs, ours)| format!("--{ours} {}", params[*theirs]))
        .collect();
    if let Some(groups) = params["group_fractions"].as_array() {
        let groups: Vec<String> = groups.iter().map(Value::to_string).collect();
        words.push(format!("--groups {}", groups.join(",")));
    }
    if params["p_start"].is_number() {
        words.push(format!("--exponents {},{}", params["p_start"], params["p_end"]));
    }
    words.join(" ")
}

/// The largest difference between one of our tensors and a reference tensor, which may be transposed.
fn difference(ours: &Tensors, theirs: &Tensors, (own, other): (&str, &str)) -> f32 {
    let (a, b) = (&ours[own], &theirs[other]);
    let transposed = a.shape.len() == 2 && a.shape != b.shape;
    let width = *a.shape.last().unwrap();
    let position = |i: usize| if transposed { i % width * b.shape[1] + i / width } else { i };
    (0..a.values.len()).map(|i| (a.values[i] - b.values[position(i)]).abs()).fold(0.0, f32::max)
}

#[test]
fn every_reference_trainer_is_reproduced() {
    let sandbox = Sandbox::new();
    let expected: Value =
        serde_json::from_str(&fs::read_to_string(format!("{GOLDEN}/expected.json")).unwrap()).unwrap();
    let budget = Budget::new(1 << 30);
    for (arch, folder) in [
        ("topk", "topk"),
        ("batch_topk", "batch_topk"),
        ("matryoshka", "matryoshka"),
        ("relu", "standard"),
        ("relu_april", "standard_april"),
        ("gated", "gated"),
        ("jumprelu", "jumprelu"),
        ("p_anneal", "p_anneal"),
    ] {
        sandbox.done(&format!(
            "train --init {GOLDEN}/{folder}/initial.safetensors --store {GOLDEN}/x.npy --order sequential --batch 64 \
             --steps 100 --stop-after 12 --latents 48 --arch {arch} --preset dictionary-learning {} --out {arch}",
            options(&expected[folder]["params"])
        ));
        let read = |path: &Path| read_tensors(path, &budget).unwrap();
        let ours = read(&sandbox.path(arch).join("weights.safetensors"));
        let theirs = read(Path::new(&format!("{GOLDEN}/{folder}/final.safetensors")));
        let pairs =
            [("encoder", "encoder.weight"), ("encoder", "W_enc"), ("decoder", "decoder.weight"), ("decoder", "W_dec")];
        let mut compared = 0;
        for pair in pairs.into_iter().filter(|(_, other)| theirs.contains_key(*other)) {
            let worst = difference(&ours, &theirs, pair);
            assert!(worst < 1e-4, "{arch}, {}: {worst}", pair.1);
            compared += 1;
        }
        assert_eq!(compared, 2, "{arch}: {:?}", theirs.keys());
    }
}

#[test]
fn archs_are_listed_and_described() {
    let sandbox = Sandbox::new();
    let list = sandbox.done("archs --json").json();
    let names: Vec<&str> = list.as_array().unwrap().iter().map(|arch| arch["name"].as_str().unwrap()).collect();
    for name in ["topk", "batch_topk", "matryoshka", "relu", "relu_april", "gated", "jumprelu", "p_anneal"] {
        assert!(names.contains(&name), "{name}");
    }
    for name in names {
        let card = sandbox.done(&format!("archs {name}")).out;
        for part in ["forward", "loss", "initialisation", "constraint", "defaults"] {
            assert!(card.to_lowercase().contains(part), "{name}: {part}\n{card}");
        }
    }
    assert_eq!(sandbox.run("archs nothing").code, Some(2));
}
