//! Commands that name a network instead of a store: captures are made once, kept in the cache, and removed.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "tests")]

mod common;

use std::fs;
use std::process::Stdio;
use std::time::{Duration, Instant};

use common::everything::{SITE, make_model};
use common::{Sandbox, without_seconds};
use serde_json::Value;

/// Options that name the tiny model and its text.
fn network(context: usize) -> String {
    format!("--model model --input texts.jsonl --site {SITE} --context {context} --pack --cache cache")
}

fn trained() -> Sandbox {
    let sandbox = Sandbox::new();
    make_model(&sandbox, 40);
    let options = "--arch topk --latents 32 --k 4 --steps 20 --batch 64";
    sandbox.done(&format!("train {} {options} --out sae", network(16)));
    sandbox
}

fn captures(sandbox: &Sandbox) -> Vec<Value> {
    sandbox.done("cache --cache cache --json").json().as_array().unwrap().clone()
}

/// What a result says and what it depends on: everything but names and times.
fn content(result: &Value) -> Vec<&Value> {
    ["metric", "params", "inputs", "headline", "tables"].map(|key| result.get(key).expect(key)).to_vec()
}

#[test]
fn train_and_eval_use_one_capture_and_equal_those_of_a_store() {
    let sandbox = trained();
    let found = captures(&sandbox);
    assert_eq!(found.len(), 1);
    assert_eq!((found[0]["model"].as_str(), found[0]["sites"][0].as_str()), (Some("model"), Some(SITE)));
    let output = sandbox.done(&format!("eval loss_recovered,core --sae sae {} --out a.json", network(16)));
    assert!(output.err.contains("capture: "), "{output:#?}");
    assert_eq!(captures(&sandbox).len(), 1);
    // The same by hand, from another directory: neither results nor dictionaries depend on where the capture is.
    sandbox.done(&format!("capture --model model --input texts.jsonl --site {SITE} --context 16 --pack --out own"));
    let store = format!("--store own/sites/{SITE}");
    sandbox.done(&format!("train {store} --arch topk --latents 32 --k 4 --steps 20 --batch 64 --out sae2"));
    sandbox.done(&format!("eval loss_recovered,core --sae sae2 {store} --capture own --out b.json"));
    let (a, b) = (sandbox.json("a.json"), sandbox.json("b.json"));
    for (a, b) in a.as_array().unwrap().iter().zip(b.as_array().unwrap()) {
        assert!(content(a) == content(b), "{}: {} {}", a["metric"], a["inputs"], b["inputs"]);
    }
    // A capture that was made from another directory is found, and its network too.
    fs::create_dir(sandbox.path("elsewhere")).unwrap();
    let options = network(16).replace("model model", "model ../model").replace("texts.jsonl", "../texts.jsonl");
    let arguments =
        format!("eval loss_recovered --sae ../sae {} --out c.json", options.replace("cache cache", "cache ../cache"));
    let command = common::etalon(&sandbox.path("elsewhere"), &common::words(&arguments));
    let output = common::finish(command, common::TIME_LIMIT);
    assert_eq!(output.code, Some(0), "{output:#?}");
    assert_eq!(captures(&sandbox).len(), 1);
}

#[test]
fn labels_come_from_the_input() {
    let sandbox = trained();
    let output = sandbox.done(&format!("eval match --sae sae --pool max {} --out a.json", network(16)));
    assert!(output.err.contains("labels: ") && output.err.contains("from the input"), "{output:#?}");
    // Rows are tokens: labels of samples do not fit, and the message says what to do.
    let output = sandbox.run(&format!("eval match --sae sae {}", network(16)));
    assert!(output.code == Some(2) && output.err.contains("`--pool`"), "{output:#?}");
    // A row per sample needs no pooling; given labels are used.
    let rows = format!("{} --rows mean", network(64).replace(" --pack", ""));
    sandbox.done(&format!("eval match --sae sae {rows} --out b.json"));
    let labels: String = (0..40).map(|row| format!("{}\n", row % 5 / 4)).collect();
    sandbox.write("labels.csv", format!("fifth\n{labels}"));
    let output = sandbox.done(&format!("eval match --sae sae {rows} --labels labels.csv --out c.json"));
    assert!(!output.err.contains("from the input"), "{output:#?}");
    let (b, c) = (sandbox.json("b.json"), sandbox.json("c.json"));
    assert_ne!(b["inputs"]["labels"], c["inputs"]["labels"]);
}

#[test]
fn the_cache_has_a_size_and_can_be_cleared() {
    let sandbox = trained();
    for context in [8, 12] {
        sandbox.done(&format!("eval core --sae sae {}", network(context)));
    }
    let found = captures(&sandbox);
    assert_eq!(found.len(), 3);
    let last = found[0]["name"].as_str().unwrap().to_string();
    // Room for none: all but the capture that is used are removed.
    sandbox.done(&format!("eval core --sae sae {} --cache-size 1kB", network(12)));
    let found = captures(&sandbox);
    assert_eq!(found.iter().map(|capture| capture["name"].as_str().unwrap()).collect::<Vec<_>>(), [&last]);
    let listed = sandbox.done("cache --cache cache").out;
    assert!(
        listed.contains(&last) && listed.contains("model on texts.jsonl") && listed.contains("1 captures"),
        "{listed}"
    );
    let output = sandbox.run("cache clear nothing --cache cache");
    assert!(output.code == Some(2) && output.err.contains("no capture `nothing`"), "{output:#?}");
    sandbox.done(&format!("cache clear {last} --cache cache"));
    sandbox.done(&format!("eval core --sae sae {}", network(12)));
    let removed = sandbox.done("cache clear --all --cache cache --json").json();
    assert_eq!(removed["removed"].as_array().unwrap().len(), 1);
    assert_eq!(sandbox.files("cache"), Vec::<String>::new());
}

#[test]
fn two_processes_make_one_capture() {
    let sandbox = trained();
    sandbox.done("cache clear --all --cache cache");
    let arguments = format!("eval core --sae sae {}", network(16));
    let start =
        |_| std::thread::scope(|_| common::etalon(&sandbox.path("."), &common::words(&arguments)).spawn().unwrap());
    let children: Vec<_> = (0..3).map(start).collect();
    for mut child in children {
        assert!(child.wait().unwrap().success());
    }
    assert_eq!(captures(&sandbox).len(), 1);
}

/// The files of the only capture in a cache, without the record of its last use.
fn cached_files(sandbox: &Sandbox, cache: &str) -> Vec<(String, Vec<u8>)> {
    let is_capture =
        |name: &String| name.starts_with("captures/") && !name.ends_with("use.json") && !name.ends_with("lock");
    let files = sandbox.files(cache).into_iter().filter(is_capture);
    files.map(|name| (name.clone(), fs::read(sandbox.path(cache).join(name)).unwrap())).collect()
}

#[test]
fn a_killed_capture_in_the_cache_continues_and_ends_with_the_same_bytes() {
    let sandbox = Sandbox::new();
    make_model(&sandbox, 4000);
    let command = |cache: &str, out: &str| {
        let network = network(16).replace("cache cache", &format!("cache {cache}"));
        format!("train {network} --arch topk --latents 32 --k 4 --steps 20 --batch 64 --out {out}")
    };
    sandbox.done(&command("whole", "sae"));
    let parts = |sandbox: &Sandbox| sandbox.files("parts").iter().filter(|name| name.contains("/parts/0")).count();
    let mut before = 0;
    for more in [1, 3, 9] {
        let mut killed = common::etalon(&sandbox.path("."), &common::words(&command("parts", "sae2")));
        let mut child = killed.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
        let began = Instant::now();
        while parts(&sandbox) < before + more && child.try_wait().unwrap().is_none() {
            assert!(began.elapsed() < common::TIME_LIMIT);
            std::thread::sleep(Duration::from_millis(1));
        }
        child.kill().unwrap();
        child.wait().unwrap();
        // It is listed as unfinished, and not used.
        let listed = sandbox.done("cache --cache parts --json").json();
        assert_eq!(listed[0]["finished"], false, "the capture ended before it was killed: {listed}");
        assert!(parts(&sandbox) >= before + more && !sandbox.path("sae2").exists());
        before = parts(&sandbox);
    }
    sandbox.done(&command("parts", "sae2"));
    let (whole, parts) = (cached_files(&sandbox, "whole"), cached_files(&sandbox, "parts"));
    assert_eq!(
        whole.iter().map(|(name, _)| name).collect::<Vec<_>>(),
        parts.iter().map(|(name, _)| name).collect::<Vec<_>>()
    );
    assert!(whole == parts);
    let weights = |name: &str| fs::read(sandbox.path(name).join("weights.safetensors")).unwrap();
    assert!(weights("sae") == weights("sae2"));
}

#[test]
fn a_prompt_longer_than_the_context_is_refused() {
    let sandbox = Sandbox::new();
    make_model(&sandbox, 1);
    let generate = |words: usize| {
        let prompt = vec!["w5"; words].join(" ");
        common::finish(
            common::etalon(&sandbox.path("."), &["generate", "--model", "model", &prompt, "--tokens", "2"]),
            common::TIME_LIMIT,
        )
    };
    // The network has a context of 64 tokens.
    assert_eq!(generate(50).code, Some(0));
    let output = generate(65);
    assert!(output.code == Some(2) && output.err.contains("longer than the context"), "{output:#?}");
    assert!(output.err.contains("64") && output.out.is_empty(), "{output:#?}");
}

#[test]
fn sets_of_a_study_share_a_capture() {
    let sandbox = trained();
    sandbox.done("cache clear --all --cache cache");
    let study = format!(
        "metrics = [\"core\", \"loss_recovered\", \"match\"]\n[inputs]\nmodel = \"model\"\ninput = \"texts.jsonl\"\n\
         capture = {{context = 16, pack = true}}\nsite = \"{SITE}\"\n[[set]]\nname = \"a\"\nsae = \"sae\"\n\
         [[set]]\nname = \"b\"\nsae = \"sae\"\ncapture = {{context = 8, pack = true}}\n\
         [[set]]\nname = \"c\"\nsae = \"sae\"\n"
    );
    sandbox.write(
        "study/study.toml",
        study.replace("\"model\"", "\"../model\"").replace("\"texts", "\"../texts").replace("\"sae\"", "\"../sae\""),
    );
    let output = sandbox.done("run study/study.toml --cache cache");
    assert!(output.err.matches("capture: ").count() == 2, "{output:#?}");
    assert!(output.err.contains("skipped: match on a"), "{output:#?}");
    assert_eq!(captures(&sandbox).len(), 2);
    let files = sandbox.files("study/study-results/results");
    let again = sandbox.done("run study/study.toml --cache cache --json").json();
    assert_eq!((again["computed"].as_u64(), again["kept"].as_u64()), (Some(0), Some(6)));
    // Another cache, the same results.
    let texts: Vec<String> =
        files.iter().map(|f| without_seconds(&sandbox.read(&format!("study/study-results/results/{f}")))).collect();
    sandbox.done("run study/study.toml --cache other --out other-results");
    assert_eq!(sandbox.files("other-results/results"), files);
    for (file, text) in files.iter().zip(texts) {
        assert_eq!(without_seconds(&sandbox.read(&format!("other-results/results/{file}"))), text);
    }
    // In units.
    let cell = sandbox.done("unit study/study.toml --cell a:core:0 --cache cache --json").json();
    assert_eq!(cell["done"], true);
}

#[test]
fn wrong_options_and_keys_are_named() {
    let sandbox = trained();
    let several = network(16).replace(SITE, "blocks.*.hook_resid_post");
    for (arguments, words) in [
        (format!("eval core --sae sae {several}"), "blocks.0.hook_resid_post, blocks.1.hook_resid_post"),
        (format!("train --arch topk --latents 8 --k 2 --out new {several}"), "`--site` means several sites"),
        (format!("eval core --sae sae --store x.npy {}", network(16)), "cannot be used with"),
        (format!("train --arch topk --latents 8 --store x.npy --out new {}", network(16)), "cannot be used with"),
        ("train --arch topk --latents 8 --out new".into(), "--store"),
        ("eval core --sae sae --model model".into(), "--input"),
        ("eval core --sae sae --store x.npy --context 8".into(), "--model"),
        (format!("eval core --sae sae {} --cache-size much", network(16)), "`--cache-size` is not a size"),
        (format!("eval loss_recovered --sae sae {}", network(64).replace(" --pack", "")), "capture with packing"),
        (format!("eval core --sae sae {}", network(16).replace("model model", "model none")), "none"),
    ] {
        let output = sandbox.run(&arguments);
        assert!(output.code == Some(2) && output.err.contains(words), "{arguments}: {output:#?}");
    }
    let set = format!("model = \"model\"\ninput = \"texts.jsonl\"\nsite = \"{SITE}\"\n");
    for (text, words) in [
        (set.replace("site", "#"), "incomplete"),
        (format!("{set}embeddings = \"x.npy\"\n"), "and a network are given"),
        (format!("{set}capture = {{contxt = 3}}\n"), "did you mean `context`?"),
        (format!("{set}capture = {{pack = 3}}\n"), "true or false"),
    ] {
        sandbox.write("s.toml", format!("metrics = [\"core\"]\n[[set]]\nname = \"a\"\nsae = \"sae\"\n{text}"));
        let output = sandbox.run("run s.toml --cache cache");
        assert!(output.code.is_some_and(|code| code >= 2) && output.err.contains(words), "{text}: {output:#?}");
    }
}
