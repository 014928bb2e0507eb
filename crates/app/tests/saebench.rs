//! `--saebench`, `import-results` and `data words` from outside.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "tests")]

mod common;

use std::fs;

use common::{Room, Said};

const TOKENIZER: &str = r###"{"model":{"vocab":{"[PAD]":0,"apple":1,"bear":2,"##ing":3,"9":4,"axe":5,"cat":6,"ant":7,"bee":8,
"cow":9,"arm":10,"boat":11,"cup":12}}}"###;

/// Insists on a refusal that says what is wrong, and where.
fn refused(said: &Said, what: &[&str]) {
    assert_eq!(said.code, Some(2), "{said:#?}");
    for what in what {
        assert!(said.err.contains(what), "`{what}` is not in {}", said.err);
    }
    assert!(!said.err.contains("panicked"), "{}", said.err);
}

/// A room with files of SAEBench that were written here.
fn written() -> Room {
    let room = Room::new();
    room.done("data superposition --rows 300 --width 12 --features 20 --active 3 --seed 3 --out w");
    room.done("train --store w/activations --arch topk --latents 24 --k 3 --steps 20 --batch 64 --out sae");
    room.done("eval core,mdl --sae sae --store w/activations --saebench files");
    room
}

#[test]
fn results_go_out_as_saebench_writes_them_and_come_back() {
    let room = written();
    let files = room.files("files");
    assert!(files.iter().any(|name| name.ends_with("eval_results.json")), "{files:?}");
    let core = files.iter().find(|name| name.contains("core")).unwrap();
    let core = room.json(&format!("files/{core}"));
    assert_eq!(core["eval_type_id"], "core");
    assert!(core["eval_result_metrics"]["sparsity"]["l0"].as_f64().is_some_and(|l0| (l0 - 3.0).abs() < 1e-6));
    assert!(core["eval_result_details"].is_array() && core["eval_id"].is_string());

    let said = room.done("import-results files --out back");
    assert!(room.files("back").iter().any(|name| name.ends_with("report/index.html")), "{said:#?}");
    // What is there already is not taken twice.
    let before = room.files("back/results");
    room.done("import-results files --out back");
    assert_eq!(room.files("back/results"), before);
}

#[test]
fn a_file_that_was_cut_is_left_out_and_the_others_are_not() {
    let room = written();
    let core = room.files("files").into_iter().find(|name| name.contains("core")).unwrap();
    let whole = fs::read(room.path("files").join(&core)).unwrap();
    room.write("files/cut_eval_results.json", &whole[..whole.len() / 2]);
    room.write("files/list_eval_results.json", "[1, 2]");
    room.write("files/empty_eval_results.json", "");
    let said = room.done("import-results files --out back");
    assert_eq!(said.err.matches("left out:").count(), 3, "{}", said.err);
    // Nothing but refused files is an error, and so is a folder without any, or none at all.
    room.write("only/cut_eval_results.json", &whole[..40]);
    refused(
        &room.run("import-results only --out none"),
        &["no results of SAEBench", "only", "1 that cannot be understood"],
    );
    fs::create_dir(room.path("empty")).unwrap();
    refused(&room.run("import-results empty --out none"), &["no results of SAEBench", "eval_results.json"]);
    assert!(!room.path("none").exists());
    assert_ne!(room.run("import-results nowhere --out none").code, Some(0));
}

#[test]
fn words_of_a_vocabulary() {
    let room = Room::new();
    room.write("tokenizer.json", TOKENIZER);
    room.done("data words --from tokenizer.json --out words");
    let labels = room.read("words/labels.csv");
    let prompts = room.read("words/prompts.jsonl");
    assert_eq!(labels.lines().count(), prompts.lines().count() + 1);
    let words: Vec<String> = prompts
        .lines()
        .map(|line| {
            serde_json::from_str::<serde_json::Value>(line).unwrap()["word"].as_str().unwrap().trim().to_string()
        })
        .collect();
    // Neither parts of words nor digits nor marks.
    for word in ["apple", "bear", "cup"] {
        assert!(words.iter().any(|other| other == word), "{words:?}");
    }
    assert!(words.iter().all(|word| word.bytes().all(|byte| byte.is_ascii_alphabetic())), "{words:?}");
    assert!(prompts.lines().all(|line| line.contains("has the first letter:")));
}

#[test]
fn what_is_no_tokenizer_is_refused() {
    let room = Room::new();
    for (name, text) in [
        ("cut.json", &TOKENIZER[..60]),
        ("config.json", r#"{"hidden_size": 384, "num_attention_heads": 12}"#),
        ("list.json", "[]"),
    ] {
        room.write(name, text);
        refused(&room.run(&format!("data words --from {name} --out words")), &["tokenizer", name]);
    }
    room.write("empty.json", "");
    refused(&room.run("data words --from empty.json --out words"), &["the file is empty", "empty.json"]);
    room.write("digits.json", r#"{"model":{"vocab":{"1":0,"2":1}}}"#);
    refused(&room.run("data words --from digits.json --out words"), &["no words", "digits.json"]);
    assert!(!room.path("words").exists());
    assert_ne!(room.run("data words --from nowhere.json --out words").code, Some(0));
}
