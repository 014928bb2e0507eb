//! Every command, killed at any moment and run again, produces the bytes of an uninterrupted run.
//!
//! With the feature `crash-points` the program aborts just before its n-th change to the disk (`ETALON_CRASH_AT=n`); the
//! sweeps try every n until the command finishes.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "tests")]

mod common;

use std::fs;
use std::time::Duration;

use common::files::npy_f32;
#[cfg(feature = "crash-points")]
use common::finish;
use common::{Sandbox, etalon, is_leftover, without_seconds, words};

const STUDY: &str = "metrics = [\"match\", \"monosemanticity\"]\nout = \"out\"\n\
                     [inputs]\nlabels = \"labels.csv\"\nembeddings = \"embeddings.npy\"\n\
                     [[set]]\nname = \"a\"\ncodes = \"codes.npy\"\n[[set]]\nname = \"b\"\ncodes = \"other.npy\"\n";

/// All final files below `out`, without the run time of results.
fn content(sandbox: &Sandbox) -> Vec<(String, Vec<u8>)> {
    let names = sandbox.files("out").into_iter().filter(|name| !is_leftover(name));
    let bytes = |name: &str| {
        let bytes = fs::read(sandbox.path("out").join(name)).unwrap();
        match String::from_utf8(bytes) {
            Ok(text) if name.starts_with("results/") => without_seconds(&text).into_bytes(),
            Ok(text) => text.into_bytes(),
            Err(error) => error.into_bytes(),
        }
    };
    names.map(|name| (name.clone(), bytes(&name))).collect()
}

fn study_sandbox() -> Sandbox {
    let sandbox = Sandbox::with_inputs();
    sandbox.write("other.npy", npy_f32(&[8, 2], &[0.0, 1.0].repeat(8)));
    sandbox.write("study.toml", STUDY);
    sandbox
}

/// Crashes a command before each of its changes to the disk, and runs it again.
#[cfg(feature = "crash-points")]
fn sweep(make: impl Fn() -> Sandbox, arguments: &str, fewest: usize) {
    let whole = make();
    whole.done(arguments);
    let expected = content(&whole);
    assert!(!expected.is_empty());
    for operation in 1.. {
        let sandbox = make();
        let mut command = etalon(&sandbox.path("."), &words(arguments));
        let output = finish(command_at(&mut command, operation), common::TIME_LIMIT);
        let crashed = output.code.is_none();
        assert!(crashed || output.code == Some(0), "at {operation}: {}", output.err);
        sandbox.done(arguments);
        let found = content(&sandbox);
        let names = |content: &[(String, Vec<u8>)]| content.iter().map(|(name, _)| name.clone()).collect::<Vec<_>>();
        assert_eq!(names(&found), names(&expected), "crashed at {operation}");
        for ((name, found), (_, expected)) in found.iter().zip(&expected) {
            assert!(found == expected, "{name} differs after a crash at {operation}");
        }
        sandbox.done(&format!("verify {}", if sandbox.path("out").is_dir() { "out" } else { "." }));
        if !crashed {
            assert!(operation > fewest, "only {operation} operations");
            return;
        }
    }
}

#[cfg(feature = "crash-points")]
fn command_at(command: &mut std::process::Command, operation: usize) -> std::process::Command {
    let mut owned = std::mem::replace(command, std::process::Command::new(""));
    // One thread, so that the n-th operation is always the same one.
    owned.env("ETALON_CRASH_AT", operation.to_string()).args(["--threads", "1"]);
    owned
}

#[cfg(feature = "crash-points")]
#[test]
fn import_survives_a_crash_anywhere() {
    sweep(Sandbox::with_inputs, "data array --from embeddings.npy --out out", 10);
}

#[cfg(feature = "crash-points")]
#[test]
fn a_study_survives_a_crash_anywhere() {
    sweep(study_sandbox, "run study.toml", 30);
}

#[cfg(feature = "crash-points")]
#[test]
fn a_report_survives_a_crash_anywhere() {
    let make = || {
        let sandbox = study_sandbox();
        sandbox.done("run study.toml");
        fs::remove_dir_all(sandbox.path("out/report")).unwrap();
        sandbox
    };
    sweep(make, "report out", 5);
}

#[cfg(feature = "crash-points")]
#[test]
fn a_world_survives_a_crash_anywhere() {
    sweep(Sandbox::new, "data superposition --rows 12 --width 3 --features 4 --active 1 --pairs 2 --out out", 60);
}

#[test]
fn a_killed_run_resumes_like_a_crashed_one() {
    let whole = study_sandbox();
    whole.done("run study.toml");
    let expected: Vec<_> = content(&whole).into_iter().filter(|(name, _)| name.starts_with("results/")).collect();
    // Delays from before the first byte to after the last, on any machine.
    for pause in [1, 4, 8, 15, 25, 40, 70] {
        let sandbox = study_sandbox();
        for _ in 0..3 {
            let mut child = etalon(&sandbox.path("."), &words("run study.toml --quiet"))
                .stdout(std::process::Stdio::null())
                .stderr(std::process::Stdio::null())
                .spawn()
                .unwrap();
            std::thread::sleep(Duration::from_millis(pause));
            // SIGKILL.
            child.kill().unwrap();
            child.wait().unwrap();
        }
        sandbox.done("run study.toml");
        let found: Vec<_> = content(&sandbox).into_iter().filter(|(name, _)| name.starts_with("results/")).collect();
        assert!(found == expected, "killed after {pause} ms");
        assert!(sandbox.files("out/units").iter().all(|name| is_leftover(name)), "{:?}", sandbox.files("out/units"));
        sandbox.done("verify out");
    }
}
