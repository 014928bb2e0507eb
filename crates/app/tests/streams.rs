//! `train --stream`: dictionaries that train while a network computes the activations.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "tests")]

mod common;

use std::fs;
use std::process::Stdio;
use std::time::{Duration, Instant};

use common::everything::{SITE, make_model};
use common::{Sandbox, etalon, words};

/// A sandbox with the tiny model and texts of some 23 tokens each.
fn model(texts: usize) -> Sandbox {
    let sandbox = Sandbox::new();
    make_model(&sandbox, texts);
    sandbox
}

/// A training on a stream.
fn stream(buffer: usize, rest: &str) -> String {
    format!(
        "train --model model --input texts.jsonl --site {SITE} --context 16 --cache cache --stream --buffer {buffer} {rest}"
    )
}

fn bytes(sandbox: &Sandbox, directory: &str) -> Vec<(String, Vec<u8>)> {
    let files = sandbox.files(directory).into_iter();
    files.map(|name| (name.clone(), fs::read(sandbox.path(directory).join(name)).unwrap())).collect()
}

#[test]
fn several_architectures_train_on_one_stream_with_the_same_bits() {
    let sandbox = model(60);
    let options = "--pack --arch topk,batch_topk,matryoshka,jumprelu,relu --latents 32,48 --k 4 --steps 30 --batch 64";
    for threads in [1, 2, 7] {
        let output =
            sandbox.done(&stream(300, &format!("{options} --log-every 10 --threads {threads} --out t{threads}")));
        assert!(output.err.contains("tokens/s") && output.err.contains("rows/s"), "{output:#?}");
    }
    assert!(bytes(&sandbox, "t1") == bytes(&sandbox, "t2") && bytes(&sandbox, "t1") == bytes(&sandbox, "t7"));
    assert_eq!(sandbox.files("t1").len(), 20);
    // Nothing was stored but the dictionaries.
    assert!(!sandbox.path("cache").exists() && sandbox.leftovers().is_empty());
    assert!(!sandbox.files(".").iter().any(|name| name.contains(".training")));
    // Alone as together.
    sandbox.done(&stream(300, "--pack --arch jumprelu --latents 32 --k 4 --steps 30 --batch 64 --out alone"));
    let weights = |name: &str| fs::read(sandbox.path(name).join("weights.safetensors")).unwrap();
    assert!(weights("alone") == weights("t1/jumprelu-32-l0-4-seed0"));
    // The record: what the rows were, and which of them set the threshold.
    let about = sandbox.json("t1/batch_topk-32-k4-seed0/sae.json")["about"].clone();
    let recorded = &about["stream"];
    assert_eq!((recorded["model"]["name"].as_str(), recorded["input"].as_str()), (Some("model"), Some("texts.jsonl")));
    assert_eq!((recorded["site"].as_str(), recorded["settings"]["context"].as_u64()), (Some(SITE), Some(16)));
    assert_eq!((recorded["buffer"].as_u64(), recorded["held_out_rows"].as_u64()), (Some(300), Some(30)));
    assert_eq!((about["threshold"]["rows"].as_u64(), about["threshold"]["held_out"].as_bool()), (Some(30), Some(true)));
    // The same command finds them; another buffer is another training.
    let again = sandbox.done(&stream(300, &format!("{options} --out t1 --json"))).json();
    assert!(again.as_array().unwrap().iter().all(|one| one["kept"] == true));
    let other = sandbox.run(&stream(301, &format!("{options} --out t1")));
    assert!(other.code == Some(2) && other.err.contains("another dictionary"), "{other:#?}");
}

#[test]
fn a_stream_learns_as_well_as_a_store() {
    let sandbox = model(60);
    let options =
        "--pack --arch topk,batch_topk,jumprelu --latents 64 --k 8 --steps 600 --batch 64 --lr 0.003 --normalise";
    sandbox.done(&stream(300, &format!("{options} --out streamed")));
    // An input that fits into the buffer is run once.
    sandbox.done(&stream(10_000, &format!("{options} --out fits")));
    let store = format!("--model model --input texts.jsonl --site {SITE} --context 16 --cache cache");
    sandbox.done(&format!("train {store} {options} --out stored"));
    for name in ["topk-64-k8-seed0", "batch_topk-64-k8-seed0", "jumprelu-64-l0-8-seed0"] {
        let explained = |out: &str| {
            let result = sandbox.done(&format!("eval core --sae {out}/{name} {store} --pack --json")).json();
            result["headline"]["explained_variance"]["value"].as_f64().unwrap()
        };
        let [streamed, fits, stored] = ["streamed", "fits", "stored"].map(explained);
        assert!(streamed > stored - 0.05 && fits > stored - 0.05, "{name}: {streamed} {fits} {stored}");
    }
}

#[test]
fn a_killed_stream_resumes_with_the_same_bytes() {
    let sandbox = model(80);
    // One text per sequence, and texts that continue in the next sequence.
    for (pack, buffer) in [("", 200), ("--pack", 250)] {
        let command = |out: &str| {
            stream(
                buffer,
                &format!(
                    "{pack} --arch topk,batch_topk --latents 200 --k 4 --steps 300 --batch 100 --checkpoint-every 0.02 --out {out}{buffer}"
                ),
            )
        };
        sandbox.done(&command("whole"));
        let saved = sandbox.path(&format!("parts{buffer}/topk-200-k4-seed0.training/training.json"));
        let mut resumed = 0;
        for milliseconds in [10, 80, 170, 260] {
            let mut killed = etalon(&sandbox.path("."), &words(&command("parts")));
            let mut child = killed.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
            // After the first saved state of this run, and a little later.
            let (began, before) = (Instant::now(), fs::read(&saved).ok());
            while fs::read(&saved).ok() == before && child.try_wait().unwrap().is_none() {
                assert!(began.elapsed() < common::TIME_LIMIT);
                std::thread::sleep(Duration::from_millis(1));
            }
            std::thread::sleep(Duration::from_millis(milliseconds));
            child.kill().unwrap();
            child.wait().unwrap();
            resumed += u32::from(saved.exists());
        }
        assert!(resumed > 0, "every run ended before it was killed");
        sandbox.done(&command("parts"));
        assert!(bytes(&sandbox, &format!("whole{buffer}")) == bytes(&sandbox, &format!("parts{buffer}")));
        assert!(!sandbox.files(".").iter().any(|name| name.contains(".training")));
    }
}

#[test]
fn ctrl_c_saves_the_stream() {
    let sandbox = model(80);
    let command =
        |out: &str| stream(300, &format!("--pack --arch topk --latents 300 --k 4 --steps 400 --batch 100 --out {out}"));
    sandbox.done(&command("whole"));
    let mut child = etalon(&sandbox.path("."), &words(&command("parts")))
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let began = Instant::now();
    while !sandbox.path("parts.training/.lock").exists() {
        assert!(began.elapsed() < common::TIME_LIMIT);
        std::thread::sleep(Duration::from_millis(1));
    }
    std::thread::sleep(Duration::from_millis(150));
    let id = rustix::process::Pid::from_child(&child);
    rustix::process::kill_process(id, rustix::process::Signal::INT).unwrap();
    let stopped = Instant::now();
    let code = child.wait().unwrap().code();
    assert!(stopped.elapsed() < common::interrupt::WALL_LIMIT, "{:?}", stopped.elapsed());
    assert!(code == Some(130) || code == Some(0), "{code:?}");
    sandbox.done(&command("parts"));
    assert!(bytes(&sandbox, "whole") == bytes(&sandbox, "parts"));
}
