//! Black-box tests of studies that make their own inputs, and of SAEBench's `core` with a network.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "tests")]

mod common;

use common::Sandbox;
use common::everything::{SITE, make_model};

/// A study in a folder of its own that captures, trains and evaluates.
fn study(steps: &str) -> String {
    format!(
        "metrics = [\"core\", \"loss_recovered\", \"mdl\"]\nsteps = [{steps}]\n\
         [inputs]\nembeddings = \"texts/sites/{SITE}\"\n\
         [[set]]\nname = \"network\"\nsae = \"saes/*\"\ncapture = \"texts\"\nmetrics = [\"core\", \"loss_recovered\"]\n\
         [[set]]\nname = \"codes\"\nsae = \"saes/*\"\nmetrics = [\"mdl\"]\n"
    )
}

fn steps() -> String {
    format!(
        "\"capture --model ../model --input ../texts.jsonl,../texts.jsonl --every 1,2 --limit 40,6 --site {SITE} --context 16 \
         --pack --out texts\", [\"train\", \"--store\", \"texts/sites/{SITE}\", \"--arch\", \"topk\", \"--latents\", \"24,32\", \
         \"--k\", \"4\", \"--steps\", \"20\", \"--batch\", \"64\", \"--out\", \"saes\"]"
    )
}

#[test]
fn a_study_makes_its_inputs_and_core_has_the_losses() {
    let sandbox = Sandbox::new();
    make_model(&sandbox, 40);
    sandbox.write("own/study.toml", study(&steps()));
    let output = sandbox.done("run own/study.toml --saebench files --threads 2");
    assert!(output.err.contains("$ etalon capture") && output.err.contains("$ etalon train"), "{output:#?}");
    assert_eq!(sandbox.json("own/texts/capture.json")["samples"], 46);
    // Two dictionaries: two metrics on one kind of set, one on the other.
    let results = sandbox.files("own/study-results/results");
    assert_eq!(results.iter().filter(|name| name.ends_with(".json")).count(), 6, "{results:?}");
    let files = sandbox.files("files");
    let core: Vec<&String> = files.iter().filter(|name| name.starts_with("core")).collect();
    assert_eq!(core.len(), 2, "{files:?}");
    for name in core {
        let file = sandbox.json(&format!("files/{name}"));
        let number = |category: &str, name: &str| file["eval_result_metrics"][category][name].as_f64().unwrap();
        assert!(number("model_performance_preservation", "ce_loss_without_sae") > 0.0);
        assert!(number("model_behavior_preservation", "kl_div_with_ablation") > 0.0);
        assert!(number("sparsity", "l0") > 0.0);
        assert_eq!(file["eval_config"]["compute_kl"], true);
        assert_eq!(file["eval_config"]["context_size"], 16);
        assert_eq!(file["sae_cfg_dict"]["hook_name"], SITE);
    }
    // Nothing is run again.
    let again = sandbox.done("run own/study.toml");
    assert!(again.err.contains("the capture is complete"), "{again:#?}");
    assert_eq!(sandbox.files("own/study-results/results"), results);
}

#[test]
fn a_wrong_step_is_refused_before_the_first_one_runs() {
    let sandbox = Sandbox::new();
    make_model(&sandbox, 4);
    for (step, expected) in [
        ("\"fetch imdb\"", "capture"),
        ("\"train --stor x --arch topk --out saes\"", "--stor"),
        ("\"run study.toml\"", "no command that makes inputs"),
    ] {
        sandbox.write("study.toml", study(&format!("{}, {step}", steps().replace("../", ""))));
        let output = sandbox.run("run study.toml");
        assert!(output.code == Some(2) && output.err.contains(expected), "{output:#?}");
        assert!(output.err.contains("study.toml") && !sandbox.path("texts").exists(), "{output:#?}");
    }
    // A step that fails ends the study with its exit code.
    sandbox.write("study.toml", study("\"train --store nowhere.npy --arch topk --latents 8 --k 2 --out saes\""));
    let output = sandbox.run("run study.toml");
    assert!(output.code == Some(2) && output.err.contains("a step of the study failed"), "{output:#?}");
}
