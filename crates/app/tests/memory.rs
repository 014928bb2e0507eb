//! Peak anonymous memory of commands stays within `--memory` plus a fixed allowance, and Ctrl-C ends them within a second.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "tests")]
#![cfg(target_os = "linux")]

mod common;

use std::process::{Child, Stdio};
use std::time::{Duration, Instant};

use common::everything::{self, Size};
use common::{Sandbox, TIME_LIMIT, etalon, words};

/// Allowance for the program itself, its threads and its allocator.
const ALLOWANCE: u64 = 64 << 20;

/// The anonymous resident memory of a process, in bytes; mapped files do not count.
fn anonymous(child: &Child) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{}/status", child.id())).unwrap_or_default();
    let line = status.lines().find(|line| line.starts_with("RssAnon:"));
    line.and_then(|line| line.split_whitespace().nth(1)?.parse::<u64>().ok()).unwrap_or(0) * 1024
}

/// Runs a command and returns the most anonymous memory that it held.
fn peak(sandbox: &Sandbox, arguments: &str) -> u64 {
    let mut command = etalon(&sandbox.path("."), &words(arguments));
    let mut child = command.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
    let (mut peak, began) = (0, Instant::now());
    let status = loop {
        peak = peak.max(anonymous(&child));
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
    for metric in everything::metrics(&sandbox) {
        let quick = match metric.as_str() {
            "sparse_probing" => "--repeats 1 --full-repeats 1",
            "sae_probes" | "scr" | "tpp" => "--repeats 1",
            "meta_structure" => "--meta-steps 20",
            _ => "",
        };
        let inputs = everything::inputs(&sandbox, &metric);
        assert_within(&sandbox, &format!("eval {metric} {inputs} {quick} --out {metric}.json"), 150);
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

/// Clock ticks per second of the times in `/proc`.
const TICKS: f64 = 100.0;

/// The state of a process (`Z` after its end, before it is waited for) and the processor seconds of all its threads.
fn state(child: &Child) -> (char, f64) {
    let text = std::fs::read_to_string(format!("/proc/{}/stat", child.id())).unwrap();
    let fields: Vec<&str> = text[text.rfind(')').unwrap() + 2..].split(' ').collect();
    let ticks = |field: usize| fields[field].parse::<f64>().unwrap();
    (fields[0].chars().next().unwrap(), (ticks(11) + ticks(12)) / TICKS)
}

/// The processor seconds per thread from Ctrl-C to the end, which do not depend on what else runs on the machine, and the
/// exit code; `None` if the command ended before.
fn interrupted(sandbox: &Sandbox, arguments: &str, after: Duration) -> Option<(f64, Option<i32>)> {
    const THREADS: f64 = 2.0;
    let mut command = etalon(&sandbox.path("."), &words(&format!("{arguments} --threads {THREADS}")));
    let mut child = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    std::thread::sleep(after);
    let (running, before) = state(&child);
    if running == 'Z' {
        child.wait().unwrap();
        return None;
    }
    let id = rustix::process::Pid::from_child(&child);
    rustix::process::kill_process(id, rustix::process::Signal::INT).unwrap();
    let began = Instant::now();
    let spent = loop {
        let (now, spent) = state(&child);
        if now == 'Z' {
            break spent - before;
        }
        assert!(began.elapsed() < TIME_LIMIT, "{arguments}");
        std::thread::sleep(Duration::from_millis(3));
    };
    Some((spent / THREADS, child.wait().unwrap().code()))
}

#[test]
fn every_metric_stops_within_a_second_of_ctrl_c() {
    let sandbox = Sandbox::new();
    everything::make(&sandbox, &Size { rows: 20_000, features: 60, width: 64, latents: 512 });
    for metric in everything::metrics(&sandbox) {
        let inputs = everything::inputs(&sandbox, &metric);
        let arguments = format!("eval {metric} {inputs} --out {metric}.json");
        for after in [300, 1500] {
            let Some((seconds, code)) = interrupted(&sandbox, &arguments, Duration::from_millis(after)) else { break };
            assert!(seconds < 1.0, "{metric}, {after} ms: {seconds} s");
            assert!(code == Some(130) || code == Some(0), "{metric}: {code:?}");
        }
    }
    assert_eq!(sandbox.leftovers(), Vec::<String>::new());
}
