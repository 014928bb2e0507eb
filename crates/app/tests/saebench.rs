//! Black-box tests of `--saebench`, `import-results` and `data words`.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "tests")]

mod common;

use std::fs;

use common::{Output, Sandbox};

const TOKENIZER: &str = r###"{"model":{"vocab":{"[PAD]":0,"apple":1,"bear":2,"##ing":3,"9":4,"axe":5,"cat":6,"ant":7,"bee":8,
"cow":9,"arm":10,"boat":11,"cup":12}}}"###;

/// Asserts a refusal whose message contains all of `what`.
fn refused(output: &Output, what: &[&str]) {
    assert_eq!(output.code, Some(2), "{output:#?}");
    for what in what {
        assert!(output.err.contains(what), "`{what}` is not in {}", output.err);
    }
    assert!(!output.err.contains("panicked"), "{}", output.err);
}

/// A directory with files in SAEBench format, written by the program.
fn written() -> Sandbox {
    let sandbox = Sandbox::new();
    sandbox.done("data superposition --rows 300 --width 12 --features 20 --active 3 --seed 3 --out w");
    sandbox.done("train --store w/activations --arch topk --latents 24 --k 3 --steps 20 --batch 64 --out sae");
    sandbox.done("eval core,mdl --sae sae --store w/activations --saebench files");
    sandbox
}

#[test]
fn saebench_files_round_trip() {
    let sandbox = written();
    let files = sandbox.files("files");
    assert!(files.iter().any(|name| name.ends_with("eval_results.json")), "{files:?}");
    let core = files.iter().find(|name| name.contains("core")).unwrap();
    let core = sandbox.json(&format!("files/{core}"));
    assert_eq!(core["eval_type_id"], "core");
    assert!(core["eval_result_metrics"]["sparsity"]["l0"].as_f64().is_some_and(|l0| (l0 - 3.0).abs() < 1e-6));
    assert!(core["eval_result_details"].is_array() && core["eval_id"].is_string());

    let output = sandbox.done("import-results files --out back");
    assert!(sandbox.files("back").iter().any(|name| name.ends_with("report/index.html")), "{output:#?}");
    // Existing results are not imported twice.
    let before = sandbox.files("back/results");
    sandbox.done("import-results files --out back");
    assert_eq!(sandbox.files("back/results"), before);
}

#[test]
fn truncated_files_are_skipped() {
    let sandbox = written();
    let core = sandbox.files("files").into_iter().find(|name| name.contains("core")).unwrap();
    let whole = fs::read(sandbox.path("files").join(&core)).unwrap();
    sandbox.write("files/cut_eval_results.json", &whole[..whole.len() / 2]);
    sandbox.write("files/list_eval_results.json", "[1, 2]");
    sandbox.write("files/empty_eval_results.json", "");
    let output = sandbox.done("import-results files --out back");
    assert_eq!(output.err.matches("skipped:").count(), 3, "{}", output.err);
    // Only refused files, an empty folder and a missing folder are errors.
    sandbox.write("only/cut_eval_results.json", &whole[..40]);
    refused(&sandbox.run("import-results only --out none"), &["no SAEBench results", "only", "1 unreadable files"]);
    fs::create_dir(sandbox.path("empty")).unwrap();
    refused(&sandbox.run("import-results empty --out none"), &["no SAEBench results", "eval_results.json"]);
    assert!(!sandbox.path("none").exists());
    assert_ne!(sandbox.run("import-results nowhere --out none").code, Some(0));
}

#[test]
fn words_of_a_vocabulary() {
    let sandbox = Sandbox::new();
    sandbox.write("tokenizer.json", TOKENIZER);
    sandbox.done("data words --from tokenizer.json --out words");
    let labels = sandbox.read("words/labels.csv");
    let prompts = sandbox.read("words/prompts.jsonl");
    assert_eq!(labels.lines().count(), prompts.lines().count() + 1);
    let words: Vec<String> = prompts
        .lines()
        .map(|line| {
            serde_json::from_str::<serde_json::Value>(line).unwrap()["word"].as_str().unwrap().trim().to_string()
        })
        .collect();
    // Neither word pieces nor digits nor special tokens.
    for word in ["apple", "bear", "cup"] {
        assert!(words.iter().any(|other| other == word), "{words:?}");
    }
    assert!(words.iter().all(|word| word.bytes().all(|byte| byte.is_ascii_alphabetic())), "{words:?}");
    assert!(prompts.lines().all(|line| line.contains("has the first letter:")));
}

#[test]
fn invalid_tokenizers_are_refused() {
    let sandbox = Sandbox::new();
    for (name, text) in [
        ("cut.json", &TOKENIZER[..60]),
        ("config.json", r#"{"hidden_size": 384, "num_attention_heads": 12}"#),
        ("list.json", "[]"),
    ] {
        sandbox.write(name, text);
        refused(&sandbox.run(&format!("data words --from {name} --out words")), &["tokenizer", name]);
    }
    sandbox.write("empty.json", "");
    refused(&sandbox.run("data words --from empty.json --out words"), &["the file is empty", "empty.json"]);
    sandbox.write("digits.json", r#"{"model":{"vocab":{"1":0,"2":1}}}"#);
    refused(&sandbox.run("data words --from digits.json --out words"), &["no words", "digits.json"]);
    assert!(!sandbox.path("words").exists());
    assert_ne!(sandbox.run("data words --from nowhere.json --out words").code, Some(0));
}
