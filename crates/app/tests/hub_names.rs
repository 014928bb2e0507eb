//! Names of the Hugging Face hub for `--model`, `--sae` and `--input`, found in the user's cache. No test opens a connection.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "tests")]

mod common;

use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;

use common::everything::{SITE, make_model};
use common::{Output, Sandbox, TIME_LIMIT, etalon, finish, words};

const COMMIT: &str = "0123456789abcdef0123456789abcdef01234567";

/// Puts the files of a folder into a repository of the cache `home/hub`, as the client does: links to files below `blobs`.
fn publish(sandbox: &Sandbox, kind: &str, name: &str, from: &Path, inside: &str) {
    let repository = sandbox.path("home/hub").join(format!("{kind}--org--{name}"));
    let snapshot = repository.join("snapshots").join(COMMIT).join(inside);
    fs::create_dir_all(&snapshot).unwrap();
    fs::create_dir_all(repository.join("blobs")).unwrap();
    fs::create_dir_all(repository.join("refs")).unwrap();
    fs::write(repository.join("refs/main"), COMMIT).unwrap();
    for entry in fs::read_dir(from).unwrap() {
        let path = entry.unwrap().path();
        let file = path.file_name().unwrap();
        let blob = repository.join("blobs").join(file);
        fs::copy(&path, &blob).unwrap();
        symlink(&blob, snapshot.join(file)).unwrap();
    }
}

fn run(sandbox: &Sandbox, variable: (&str, &str), arguments: &str) -> Output {
    let mut command = etalon(&sandbox.path("."), &words(arguments));
    ["HF_HOME", "HF_HUB_CACHE", "HUGGINGFACE_HUB_CACHE", "XDG_CACHE_HOME"].iter().for_each(|name| {
        command.env_remove(name);
    });
    command.env(variable.0, sandbox.path(variable.1)).env("ETALON_CACHE", sandbox.path("cache"));
    finish(command, TIME_LIMIT)
}

const HOME: (&str, &str) = ("HF_HOME", "home");

fn done(sandbox: &Sandbox, arguments: &str) -> Output {
    let output = run(sandbox, HOME, arguments);
    assert_eq!(output.code, Some(0), "{arguments}: {output:#?}");
    output
}

/// A model, texts and a dictionary, in folders and in the cache.
fn published() -> Sandbox {
    let sandbox = Sandbox::new();
    make_model(&sandbox, 40);
    let network = format!("--model model --input texts.jsonl --site {SITE} --context 16 --pack");
    done(&sandbox, &format!("train {network} --arch topk --latents 32 --k 4 --steps 20 --batch 64 --out sae"));
    fs::create_dir(sandbox.path("data")).unwrap();
    fs::copy(sandbox.path("texts.jsonl"), sandbox.path("data/train.jsonl")).unwrap();
    publish(&sandbox, "models", "net", &sandbox.path("model"), "");
    publish(&sandbox, "datasets", "texts", &sandbox.path("data"), "data");
    publish(&sandbox, "models", "saes", &sandbox.path("sae"), "layers.1");
    sandbox
}

#[test]
fn models_inputs_and_dictionaries_have_the_results_of_their_paths() {
    let sandbox = published();
    let options = format!("--site {SITE} --context 16 --pack");
    let eval = |sae: &str, model: &str, input: &str, out: &str| {
        format!("eval loss_recovered,core --sae {sae} --model {model} --input {input} {options} --out {out}")
    };
    done(&sandbox, &eval("sae", "model", "texts.jsonl", "a.json"));
    done(&sandbox, &eval("org/saes/layers.1", "org/net", "org/texts", "b.json"));
    let commit = &COMMIT[..8];
    let arguments = eval(&format!("org/saes/layers.1@{commit}"), "org/net@main", "datasets/org/texts", "c.json");
    let output = run(&sandbox, ("HF_HUB_CACHE", "home/hub"), &arguments);
    assert_eq!(output.code, Some(0), "{output:#?}");
    let content = |name: &str| {
        let results = sandbox.json(name).as_array().unwrap().clone();
        results.into_iter().map(|result| (result["inputs"].clone(), result["headline"].clone())).collect::<Vec<_>>()
    };
    assert_eq!(content("a.json"), content("b.json"));
    assert_eq!(content("a.json"), content("c.json"));
    // A study: names are not relative to its file.
    let study = format!(
        "metrics = [\"core\"]\n[[set]]\nname = \"a\"\nsae = \"org/saes/layers.1\"\nmodel = \"org/net\"\ninput = \"org/texts\"\n\
         site = \"{SITE}\"\ncapture = {{context = 16, pack = true}}\n"
    );
    sandbox.write("study/study.toml", study);
    done(&sandbox, "run study/study.toml");
    let file = sandbox.files("study/study-results/results").pop().unwrap();
    let result = sandbox.json(&format!("study/study-results/results/{file}"));
    assert_eq!((result["inputs"].clone(), result["headline"].clone()), content("b.json")[1]);
    // Commands with a dictionary and nothing else.
    let found = done(&sandbox, "inspect org/saes/layers.1 --json").json();
    assert_eq!((found["kind"].as_str(), found["facts"]["latents"].as_u64()), (Some("dictionary"), Some(32)));
    done(&sandbox, "convert org/saes/layers.1 --to saelens --out converted");
}

#[test]
fn sharded_checkpoints_are_found_by_their_index() {
    let sandbox = Sandbox::new();
    let golden = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/golden/networks/gpt_neox");
    publish(&sandbox, "models", "neox", &golden, "");
    let found = done(&sandbox, "models org/neox --json").json();
    assert_eq!(
        (found["family"].as_str(), found["weights"].as_str()),
        (Some("gpt_neox"), Some("safetensors, 2 shards"))
    );
}

#[test]
fn names_that_are_not_in_the_cache_are_explained() {
    let sandbox = published();
    let sae = |sae: &str| format!("encode --sae {sae} --store x.npy --out z");
    sandbox.write("x.npy", common::files::npy_f32(&[2, 16], &[0.5; 32]));
    for (arguments, parts) in [
        (sae("org/none"), &["not a dictionary", "nothing of this name", "`etalon fetch hf:org/none`"][..]),
        (sae("org/saes"), &["layers.1"]),
        (sae("org/saes/layers.9"), &["`layers.9` in the commit 01234567", "`etalon fetch hf:org/saes`"]),
        (sae("org/saes/layers.1@v9"), &["revision `v9`", "`etalon fetch hf:org/saes@v9`"]),
        (
            "models org/none".to_string(),
            &["neither a path nor in the Hugging Face cache", "`etalon fetch hf:org/none`"],
        ),
    ] {
        let output = run(&sandbox, HOME, &arguments);
        assert!(output.code == Some(2) && !sandbox.path("z").exists(), "{arguments}: {output:#?}");
        parts.iter().for_each(|part| assert!(output.err.contains(part), "{arguments}, {part}: {output:#?}"));
    }
}
