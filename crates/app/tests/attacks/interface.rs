//! Messages and exit codes that misled, and files that were left behind.

use std::fs::File;
use std::process::Stdio;
use std::time::{Duration, Instant};

use crate::common::files::npy_f32;
use crate::common::interrupt::interrupted;
use crate::common::served::serve_sandbox;
use crate::common::{Sandbox, etalon, words};
use crate::{SOON, noise};

#[test]
fn ctrl_c_ends_a_long_computation_with_130() {
    let sandbox = Sandbox::new();
    sandbox.write("x.npy", npy_f32(&[400, 64], &noise(400 * 64, 1)));
    sandbox.done("train --store x.npy --arch untrained --latents 6000 --k 16 --out s");
    let stopped = interrupted(&sandbox, "eval meta_structure --sae s --store x.npy", Duration::from_secs(2)).unwrap();
    stopped.assert_in_time("meta_structure");
    assert_eq!(stopped.code, Some(130));
}

#[test]
fn quiet_and_json_do_not_hide_failures() {
    let sandbox = Sandbox::with_inputs();
    sandbox.write(
        "s.toml",
        "metrics = [\"core\"]\n[[set]]\nname = \"a\"\ncodes = \"codes.npy\"\n[[set]]\nname = \"b\"\ncodes = \"absent.npy\"\n",
    );
    for option in ["--quiet", "--json"] {
        let output = sandbox.run(&format!("run s.toml {option}"));
        assert_eq!(output.code, Some(3), "{output:?}");
        assert!(
            output.err.contains("failed: reading the inputs on b") && output.err.contains("absent.npy"),
            "{output:?}"
        );
    }
    sandbox.write("s-results/results/notes.json", "{}");
    let report = sandbox.run("report s-results --quiet");
    assert!(report.code == Some(0) && report.err.contains("notes.json"), "{report:?}");
}

#[test]
fn a_study_without_inputs_names_them() {
    let sandbox = Sandbox::with_inputs();
    sandbox.write("s.toml", "metrics = [\"match\", \"cknna\"]\n[[set]]\nname = \"a\"\ncodes = \"codes.npy\"\n");
    let nothing = sandbox.run("run s.toml");
    assert_eq!(nothing.code, Some(2), "{nothing:?}");
    for part in [
        "skipped: match on a: missing `labels`",
        "skipped: cknna on a: missing `embeddings`",
        "no metric can be evaluated",
        "cknna: `embeddings`; match: `labels`",
    ] {
        assert!(nothing.err.contains(part), "{part}: {nothing:?}");
    }
    sandbox.write("s.toml", "metrics = [\"match\", \"core\"]\n[[set]]\nname = \"a\"\ncodes = \"codes.npy\"\n");
    let some = sandbox.done("run s.toml");
    assert!(some.err.contains("skipped: match on a: missing `labels`"), "{some:?}");
}

#[test]
fn an_answer_that_cannot_be_written_is_an_error() {
    let sandbox = Sandbox::with_inputs();
    for arguments in
        ["eval core --codes codes.npy", "eval core --codes codes.npy --json", "completions bash", "--help", "metrics"]
    {
        let full = File::options().write(true).open("/dev/full").unwrap();
        let mut command = etalon(&sandbox.path("."), &words(arguments));
        let output = command.stdout(full).stderr(Stdio::piped()).output().unwrap();
        let err = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(2), "{arguments}: {err}");
        assert!(err.contains("could not write the result") && err.contains("standard output"), "{arguments}: {err}");
    }
    // A reader that has enough, as in `etalon … | head`, is not an error.
    for arguments in ["completions bash", "metrics --json", "--help"] {
        let mut command = etalon(&sandbox.path("."), &words(arguments));
        let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        drop(child.stdout.take());
        let output = child.wait_with_output().unwrap();
        assert!(output.status.success() && output.stderr.is_empty(), "{arguments}: {output:?}");
    }
}

#[test]
fn files_of_a_killed_run_are_removed_by_the_next() {
    let sandbox = Sandbox::new();
    sandbox.write("x.npy", npy_f32(&[20_000, 32], &noise(20_000 * 32, 1)));
    let encode = "encode --sae untrained --latents 512 --k 4 --store x.npy --out z.npy";
    let began = Instant::now();
    while sandbox.leftovers().is_empty() && began.elapsed() < SOON {
        let mut command = etalon(&sandbox.path("."), &words(encode));
        let mut child = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
        while child.try_wait().unwrap().is_none() && sandbox.leftovers().is_empty() {
            std::thread::sleep(Duration::from_millis(1));
        }
        child.kill().unwrap();
        child.wait().unwrap();
    }
    assert_eq!(sandbox.leftovers().len(), 1);
    // A file of another program stays.
    sandbox.write(".z.npy.tmp", "mine");
    sandbox.done(encode);
    assert_eq!(sandbox.leftovers(), [".z.npy.tmp"]);
}

#[test]
fn an_image_that_becomes_a_link_is_not_served() {
    let sandbox = Sandbox::new();
    let picture = b"\x89PNG\r\n\x1a\n0000IHDR";
    std::fs::create_dir_all(sandbox.path("out/results")).unwrap();
    let image = sandbox.write("out/images/0123456789abcdef.png", picture);
    sandbox.write("secret.txt", "secret");
    let served = serve_sandbox(sandbox, "");
    assert_eq!(served.get("/img/0123456789abcdef").status, 200);
    std::fs::remove_file(&image).unwrap();
    std::os::unix::fs::symlink(served.sandbox.path("secret.txt"), &image).unwrap();
    assert_eq!(served.get("/img/0123456789abcdef").status, 404);
    served.sandbox.write("picture.png", picture);
    std::fs::remove_file(&image).unwrap();
    std::os::unix::fs::symlink(served.sandbox.path("picture.png"), &image).unwrap();
    assert_eq!(served.get("/img/0123456789abcdef").status, 404);
    assert_eq!(served.get("/api/v1/manifest.json").json()["images"], 0);
}

#[test]
fn results_of_eval_are_part_of_a_report() {
    let sandbox = Sandbox::with_inputs();
    std::fs::create_dir_all(sandbox.path("d/results")).unwrap();
    sandbox.done("eval match --codes codes.npy --labels labels.csv --out d/results/mine.json");
    sandbox.done("eval core,cknna --codes codes.npy --embeddings embeddings.npy --out d/results/more.json");
    let report = sandbox.done("report d");
    assert!(report.out.contains("codes") && !report.err.contains("damaged"), "{report:?}");
    assert_eq!(sandbox.done("report d --json").json()["results"], 3);
    sandbox.done("verify d");
    sandbox.change("d/results/mine.json", |bytes| {
        let position = bytes.windows(6).position(|part| part == b"value\"").unwrap() + 10;
        bytes[position] = if bytes[position] == b'1' { b'2' } else { b'1' };
    });
    let report = sandbox.done("report d");
    assert!(report.err.contains("mine.json (wrong checksum)"), "{report:?}");
}

#[test]
fn mistyped_names_are_recognised() {
    let sandbox = Sandbox::with_inputs();
    for (arguments, says) in [
        ("eval mach --codes codes.npy --labels labels.csv", "did you mean `match`?"),
        ("eval match --codes codes.npy --lables labels.csv", "'--labels'"),
        ("metrics monosemantic", "did you mean `monosemanticity`?"),
        ("data superpositon --out w", "did you mean `superposition`?"),
        ("train --store embeddings.npy --arch topkk --latents 8 --k 2 --out sae", "did you mean `topk`?"),
    ] {
        let refused = sandbox.run(arguments);
        assert!(refused.code == Some(2) && refused.err.contains(says), "{arguments}: {refused:?}");
    }
    sandbox.write("s.toml", "metrics = [\"mtach\"]\n[[set]]\nname = \"a\"\ncodes = \"codes.npy\"\n");
    assert!(sandbox.run("run s.toml").err.contains("did you mean `match`?"));
    sandbox.write("s.toml", "metrics = [\"match\"]\n[[set]]\nname = \"a\"\ncode = \"codes.npy\"\n");
    assert!(sandbox.run("run s.toml").err.contains("did you mean `codes`?"));
}

#[test]
fn dropped_rows_are_counted() {
    let sandbox = Sandbox::with_inputs();
    let mut values = crate::common::embeddings();
    values[5] = f32::NAN;
    values[30] = f32::INFINITY;
    sandbox.write("x.npy", npy_f32(&[8, 4], &values));
    let eval = sandbox.done("eval cknna --codes codes.npy --embeddings x.npy --nan drop-rows");
    assert!(eval.err.contains("2 of 8 rows with NaN or infinity were dropped"), "{eval:?}");
    let data = sandbox.done("data array --from x.npy --nan drop-rows --out store");
    assert!(data.err.contains("2 of 8 rows"), "{data:?}");
}

#[test]
fn shares_of_a_training_are_checked() {
    let sandbox = Sandbox::with_inputs();
    for keep in ["2", "-1", "nan", "0", "0.5,2"] {
        let refused = sandbox.run(&format!(
            "train --store embeddings.npy --arch topk --latents 8 --k 2 --steps 2 --keep={keep} --out sae"
        ));
        assert!(refused.code == Some(2) && refused.err.contains("a number above 0, at most 1"), "{keep}: {refused:?}");
    }
}
