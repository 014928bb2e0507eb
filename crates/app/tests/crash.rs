//! Killed at any moment and run again, every command ends with the bytes of an undisturbed run.
//!
//! With the feature `crash-points` the program aborts just before its n-th change to the disk (`ETALON_CRASH_AT=n`); the
//! sweeps try every n until nothing is left to crash at.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "tests")]

mod common;

use std::fs;
use std::time::Duration;

use common::files::npy_f32;
#[cfg(feature = "crash-points")]
use common::finish;
use common::{Room, etalon, is_leftover, without_seconds, words};

const STUDY: &str = "metrics = [\"match\", \"monosemanticity\"]\nout = \"out\"\n\
                     [inputs]\nlabels = \"labels.csv\"\nembeddings = \"embeddings.npy\"\n\
                     [[set]]\nname = \"a\"\ncodes = \"codes.npy\"\n[[set]]\nname = \"b\"\ncodes = \"other.npy\"\n";

/// Every file below `out` that counts, without the time that results took.
fn content(room: &Room) -> Vec<(String, Vec<u8>)> {
    let names = room.files("out").into_iter().filter(|name| !is_leftover(name));
    let bytes = |name: &str| {
        let bytes = fs::read(room.path("out").join(name)).unwrap();
        match String::from_utf8(bytes) {
            Ok(text) if name.starts_with("results/") => without_seconds(&text).into_bytes(),
            Ok(text) => text.into_bytes(),
            Err(error) => error.into_bytes(),
        }
    };
    names.map(|name| (name.clone(), bytes(&name))).collect()
}

fn study_room() -> Room {
    let room = Room::furnished();
    room.write("other.npy", npy_f32(&[8, 2], &[0.0, 1.0].repeat(8)));
    room.write("study.toml", STUDY);
    room
}

/// Crashes a command before each of its changes to the disk, and runs it again.
#[cfg(feature = "crash-points")]
fn sweep(make: impl Fn() -> Room, arguments: &str, fewest: usize) {
    let whole = make();
    whole.done(arguments);
    let expected = content(&whole);
    assert!(!expected.is_empty());
    for place in 1.. {
        let room = make();
        let mut command = etalon(&room.path("."), &words(arguments));
        let said = finish(command_at(&mut command, place), common::PATIENCE);
        let crashed = said.code.is_none();
        assert!(crashed || said.code == Some(0), "at {place}: {}", said.err);
        room.done(arguments);
        let found = content(&room);
        let names = |content: &[(String, Vec<u8>)]| content.iter().map(|(name, _)| name.clone()).collect::<Vec<_>>();
        assert_eq!(names(&found), names(&expected), "crashed at {place}");
        for ((name, found), (_, expected)) in found.iter().zip(&expected) {
            assert!(found == expected, "{name} differs after a crash at {place}");
        }
        room.done(&format!("verify {}", if room.path("out").is_dir() { "out" } else { "." }));
        if !crashed {
            assert!(place > fewest, "only {place} places to crash at");
            return;
        }
    }
}

#[cfg(feature = "crash-points")]
fn command_at(command: &mut std::process::Command, place: usize) -> std::process::Command {
    let mut owned = std::mem::replace(command, std::process::Command::new(""));
    // One thread, so that the n-th operation is always the same one.
    owned.env("ETALON_CRASH_AT", place.to_string()).args(["--threads", "1"]);
    owned
}

#[cfg(feature = "crash-points")]
#[test]
fn import_survives_a_crash_anywhere() {
    sweep(Room::furnished, "data array --from embeddings.npy --out out", 10);
}

#[cfg(feature = "crash-points")]
#[test]
fn a_study_survives_a_crash_anywhere() {
    sweep(study_room, "run study.toml", 30);
}

#[cfg(feature = "crash-points")]
#[test]
fn a_report_survives_a_crash_anywhere() {
    let make = || {
        let room = study_room();
        room.done("run study.toml");
        fs::remove_dir_all(room.path("out/report")).unwrap();
        room
    };
    sweep(make, "report out", 5);
}

#[cfg(feature = "crash-points")]
#[test]
fn a_world_survives_a_crash_anywhere() {
    sweep(Room::new, "data superposition --rows 12 --width 3 --features 4 --active 1 --pairs 2 --out out", 60);
}

#[test]
fn kill_9_is_no_worse_than_a_crash() {
    let whole = study_room();
    whole.done("run study.toml");
    let expected: Vec<_> = content(&whole).into_iter().filter(|(name, _)| name.starts_with("results/")).collect();
    // From before the first byte to after the last, on any machine.
    for pause in [1, 4, 8, 15, 25, 40, 70] {
        let room = study_room();
        for _ in 0..3 {
            let mut child = etalon(&room.path("."), &words("run study.toml --quiet"))
                .stdout(std::process::Stdio::null())
                .stderr(std::process::Stdio::null())
                .spawn()
                .unwrap();
            std::thread::sleep(Duration::from_millis(pause));
            // The signal that cannot be caught.
            child.kill().unwrap();
            child.wait().unwrap();
        }
        room.done("run study.toml");
        let found: Vec<_> = content(&room).into_iter().filter(|(name, _)| name.starts_with("results/")).collect();
        assert!(found == expected, "killed after {pause} ms");
        assert!(room.files("out/units").iter().all(|name| is_leftover(name)), "{:?}", room.files("out/units"));
        room.done("verify out");
    }
}
