//! Peak anonymous memory of commands stays within `--memory` plus a fixed allowance, and Ctrl-C ends them within a second.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "tests")]
#![cfg(target_os = "linux")]

mod common;

use std::collections::BTreeMap;
use std::process::Stdio;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use common::everything::{self, Size};
use common::gguf::Llama;
use common::interrupt::interrupted;
use common::served::{connect, start_server};
use common::{Sandbox, TIME_LIMIT, etalon, words};
use etalon::context::Budget;
use etalon::results::{Archive, Profile, Recipe, ResultFile, Scores, Table};
use serde_json::json;

/// Allowance for the program itself, its threads and its allocator.
const ALLOWANCE: u64 = 64 << 20;

/// The anonymous resident memory of a process, in bytes; mapped files do not count.
fn anonymous(process: u32) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{process}/status")).unwrap_or_default();
    let line = status.lines().find(|line| line.starts_with("RssAnon:"));
    line.and_then(|line| line.split_whitespace().nth(1)?.parse::<u64>().ok()).unwrap_or(0) * 1024
}

/// Runs a command and returns the most anonymous memory that it held.
fn peak(sandbox: &Sandbox, arguments: &str) -> u64 {
    let mut command = etalon(&sandbox.path("."), &words(arguments));
    let mut child = command.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
    let (mut peak, began) = (0, Instant::now());
    let status = loop {
        peak = peak.max(anonymous(child.id()));
        if let Some(status) = child.try_wait().unwrap() {
            break status;
        }
        assert!(began.elapsed() < TIME_LIMIT, "{arguments}");
        std::thread::sleep(Duration::from_millis(3));
    };
    let mut text = String::new();
    std::io::Read::read_to_string(&mut child.stderr.take().unwrap(), &mut text).unwrap();
    assert!(status.success(), "etalon {arguments}\n{text}");
    peak
}

fn assert_within(sandbox: &Sandbox, arguments: &str, megabytes: u64) {
    let peak = peak(sandbox, &format!("{arguments} --memory {megabytes}MB --quiet"));
    let limit = megabytes * 1_000_000 + ALLOWANCE;
    assert!(peak <= limit, "etalon {arguments}: {peak} bytes, limit {megabytes} MB and {ALLOWANCE} bytes");
}

/// Metrics of concept purity.
const PURITY: &[&str] = &[
    "ois",
    "nis",
    "sap",
    "mig",
    "r4",
    "dci",
    "modularity",
    "explicitness",
    "concept_alignment",
    "concept_auc",
    "task_auc",
    "ctl",
    "icl",
];

#[test]
fn memory_stays_within_the_limit() {
    let sandbox = Sandbox::new();
    everything::make(&sandbox, &Size { rows: 20_000, features: 60, width: 64, latents: 512 });
    assert_within(&sandbox, "encode --sae sae0 --store world/activations --out codes", 40);
    assert_within(
        &sandbox,
        "train --store world/activations --arch topk,jumprelu --latents 1024 --k 8 --steps 5 --batch 512 --out more",
        150,
    );
    // These fit networks or trees to every pair of latent and concept.
    let small = Sandbox::new();
    everything::make(&small, &Size { rows: 2000, features: 6, width: 16, latents: 24 });
    for metric in everything::metrics(&sandbox) {
        let purity = PURITY.contains(&metric.as_str());
        let sandbox = if purity { &small } else { &sandbox };
        let quick = match metric.as_str() {
            "sparse_probing" => "--repeats 1 --full-repeats 1",
            "sae_probes" | "scr" | "tpp" => "--repeats 1",
            "meta_structure" => "--meta-steps 20",
            "dci" | "r4" => "--stages 5",
            _ => "",
        };
        let inputs = everything::inputs(sandbox, &metric);
        assert_within(sandbox, &format!("eval {metric} {inputs} {quick} --out {metric}.json"), 150);
    }
}

#[test]
fn a_study_over_many_dictionaries_returns_what_each_of_them_used() {
    let sandbox = Sandbox::new();
    sandbox.done("data superposition --rows 2000 --features 64 --width 128 --pairs 4 --out world");
    let seeds: Vec<String> = (0..40).map(|seed| seed.to_string()).collect();
    sandbox.done(&format!(
        "train --store world/activations --arch untrained --latents 4096 --k 8 --seed {} --out saes",
        seeds.join(",")
    ));
    sandbox.write(
        "study.toml",
        "metrics = [\"core\"]\n[inputs]\nembeddings = \"world/activations\"\n[[set]]\nsae = \"saes/*\"\n",
    );
    // One dictionary is 2 · 4096 · 128 · 4 bytes, 4 MB; forty of them are 168 MB.
    assert_within(&sandbox, "run study.toml", 60);
}

#[test]
fn a_network_larger_than_the_limit_runs_block_by_block() {
    const LIMIT: u64 = 24;
    let sandbox = Sandbox::new();
    // In f32, a block has 4.2 MB and all of them 540 MB.
    let size = Llama { width: 256, hidden: 1024, layers: 128 }.write(&sandbox.path("large.gguf"));
    assert!(size > 3 * LIMIT * 1_000_000, "{size}");
    let text = |number: usize| {
        let letter = |index: usize| char::from(b'a' + ((index * index + number * 7) % 26) as u8);
        let letters: String = (0..60).map(|index| if index % 5 == 4 { ' ' } else { letter(index) }).collect();
        format!("{{\"text\": \"{letters}\"}}\n")
    };
    sandbox.write("texts.jsonl", (0..3).map(text).collect::<String>());
    let network = "--model large.gguf --input texts.jsonl --site blocks.60.hook_resid_post,blocks.127.hook_resid_post --pack --context 32";
    assert_within(&sandbox, &format!("capture {network} --out little"), LIMIT);
    sandbox.done(&format!("capture {network} --out plenty --memory 2GB"));
    let files: Vec<String> = sandbox.files("plenty/sites");
    assert_eq!(files, sandbox.files("little/sites"));
    for name in files {
        let read = |out: &str| std::fs::read(sandbox.path(&format!("{out}/sites/{name}"))).unwrap();
        assert!(read("plenty") == read("little"), "{name}");
    }
    // A stream has the same memory, with its buffer: 60 rows of 256 values.
    let network = network.replace("blocks.127.hook_resid_post", "").replace("hook_resid_post,", "hook_resid_post");
    let options = "--stream --buffer 60 --arch topk --latents 64 --k 4 --steps 3 --batch 16";
    assert_within(&sandbox, &format!("train {network} {options} --out sae"), LIMIT);
}

#[test]
fn a_stream_stays_within_the_limit() {
    let sandbox = Sandbox::new();
    everything::make_model(&sandbox, 3000);
    let network = format!("--model model --input texts.jsonl --site {} --pack --context 16", everything::SITE);
    // The buffer has 40,000 rows of 24 values, and an input of more rows goes through it.
    let options = "--stream --buffer 40000 --arch topk,jumprelu --latents 256 --k 8 --steps 120 --batch 512";
    assert_within(&sandbox, &format!("train {network} {options} --out sae"), 30);
}

/// A results directory `out` with one result of a million latents; returns the id of the result.
fn make_long_result(sandbox: &Sandbox) -> String {
    const LATENTS: u32 = 1_000_000;
    let values = |latent: u32| latent.is_multiple_of(5).then(|| f64::from(latent) / f64::from(LATENTS));
    let defined: Vec<f64> = (0..LATENTS).filter_map(values).collect();
    let mut scores = Scores::default();
    let mean = defined.iter().sum::<f64>() / defined.len() as f64;
    scores.headline("monosemanticity", Some(mean), None, defined.len());
    let counts = (0..LATENTS as usize).map(|latent| latent % 7);
    scores.tables.push(Table::new("latent").numbers("score", (0..LATENTS).map(values)).counts("fired", counts));
    let recipe = Recipe {
        metric: "monosemanticity".into(),
        version: 1,
        profile: Profile::Paper,
        seed: 0,
        params: BTreeMap::new(),
        inputs: BTreeMap::from([("codes".into(), "blake3:00".into())]),
    };
    let result = ResultFile { etalon: "0".into(), recipe, scores, seconds: 1.0 };
    let about = BTreeMap::from([("inputs".into(), json!("a"))]);
    Archive::open(&sandbox.path("out")).unwrap().put(&result, &about, &Budget::new(1 << 30)).unwrap()
}

#[test]
fn commands_that_read_long_results_stay_within_the_limit() {
    const LIMIT: u64 = 50;
    let sandbox = Sandbox::new();
    let id = make_long_result(&sandbox);
    assert!(std::fs::metadata(sandbox.path(&format!("out/results/{id}.json"))).unwrap().len() > 5_000_000);
    for command in ["report out", "verify out", "export out --out folder", "export out --single one.html"] {
        assert_within(&sandbox, command, LIMIT);
        let refused = sandbox.run(&format!("{command} --memory 20MB"));
        assert_eq!(refused.code, Some(2), "{command}: {refused:?}");
        assert!(refused.err.contains("not enough memory for the result"), "{command}: {refused:?}");
    }
    let child = start_server(&sandbox, &format!("--memory {LIMIT}MB"));
    let (id_of_process, ended) = (child.id(), Arc::new(AtomicBool::new(false)));
    let watched = ended.clone();
    let watcher = std::thread::spawn(move || {
        let mut peak = 0;
        while !watched.load(Ordering::Relaxed) {
            peak = peak.max(anonymous(id_of_process));
            std::thread::sleep(Duration::from_millis(3));
        }
        peak
    });
    let served = connect(sandbox, child);
    for _ in 0..3 {
        let reply = served.get(&format!("/api/v1/results/{id}.json"));
        assert!(reply.status == 200 && reply.body.len() > 5_000_000, "{}", reply.head);
    }
    ended.store(true, Ordering::Relaxed);
    let (peak, limit) = (watcher.join().unwrap(), LIMIT * 1_000_000 + ALLOWANCE);
    assert!(peak <= limit, "serve: {peak} bytes, limit {limit}");
}

/// Sends Ctrl-C to a command after some times, up to its end; returns how often it was really interrupted.
fn interruptions(sandbox: &Sandbox, name: &str, command: impl Fn(u64) -> String, times: &[u64]) -> usize {
    let mut count = 0;
    for &after in times {
        let Some(stopped) = interrupted(sandbox, &command(after), Duration::from_millis(after)) else { break };
        stopped.assert_in_time(&format!("{name}, {after} ms"));
        // A busy machine may not have started the program yet, which then dies of the signal.
        let early = after < 300 && stopped.code.is_none();
        assert!(early || stopped.code == Some(130) || stopped.code == Some(0), "{name}: {:?}", stopped.code);
        count += usize::from(stopped.code == Some(130));
    }
    count
}

#[test]
fn every_metric_stops_within_a_second_of_ctrl_c() {
    let sandbox = Sandbox::new();
    everything::make(&sandbox, &Size { rows: 20_000, features: 60, width: 64, latents: 512 });
    let mut counts = BTreeMap::new();
    for metric in everything::metrics(&sandbox) {
        let inputs = everything::inputs(&sandbox, &metric);
        let command = |_| format!("eval {metric} {inputs} --out {metric}.json");
        counts.insert(metric.clone(), interruptions(&sandbox, &metric, command, &[120, 300, 1500]));
    }
    assert_eq!(sandbox.leftovers(), Vec::<String>::new());
    // Nearly all of them are long enough to be interrupted, and most of them twice.
    let at_least = |times: usize| counts.values().filter(|&&count| count >= times).count();
    assert!(at_least(1) >= counts.len() * 4 / 5 && at_least(2) >= counts.len() / 2, "{counts:?}");
}

#[test]
fn maps_and_worlds_stop_within_a_second_of_ctrl_c() {
    let sandbox = Sandbox::new();
    let values: Vec<f32> = (0..6000 * 48usize).map(|index| ((index * 7919 % 10_007) as f32).sin()).collect();
    sandbox.write("x.npy", common::files::npy_f32(&[6000, 48], &values));
    let map = |after: u64| format!("layout x.npy --out {after}.npy");
    let world = |after: u64| {
        format!("data superposition --rows 20000 --features 1200 --width 1200 --active 20 --out world{after}")
    };
    let counts = [
        interruptions(&sandbox, "layout", map, &[150, 400, 800, 1500]),
        interruptions(&sandbox, "data", world, &[150, 400, 800, 1500]),
    ];
    // In a slow minute of the machine, a command may not have started; in a fast one, it may have ended.
    assert!(counts.iter().all(|&count| count >= 2), "{counts:?}");
    assert_eq!(sandbox.leftovers(), Vec::<String>::new());
}
