//! Outputs that replaced an input or another output.

use std::os::unix::fs::symlink;

use crate::common::Sandbox;
use crate::common::files::npy_f32;
use crate::noise;

/// A sandbox with inputs, a dictionary, a store, and other names of the embeddings.
fn sandbox() -> Sandbox {
    let sandbox = Sandbox::with_inputs();
    sandbox.write("x.npy", npy_f32(&[50, 4], &noise(200, 1)));
    sandbox.done("data array --from x.npy --out store");
    sandbox.done("train --store x.npy --arch untrained --latents 16 --k 2 --out sae");
    symlink("x.npy", sandbox.path("link.npy")).unwrap();
    symlink("store", sandbox.path("folder")).unwrap();
    std::fs::hard_link(sandbox.path("x.npy"), sandbox.path("hard.npy")).unwrap();
    sandbox
}

fn content(sandbox: &Sandbox) -> Vec<(String, Vec<u8>)> {
    let files = sandbox.files(".").into_iter();
    files.map(|name| (name.clone(), std::fs::read(sandbox.path(&name)).unwrap_or_default())).collect()
}

#[test]
fn no_output_replaces_an_input() {
    let sandbox = sandbox();
    let before = content(&sandbox);
    let encode = "encode --sae untrained --latents 16 --k 2";
    for (arguments, says) in [
        (format!("{encode} --store x.npy --out x.npy"), "`--out` is the same as `--store`"),
        (format!("{encode} --store x.npy --out ./store/../x.npy"), "`--out` is the same as `--store`"),
        (format!("{encode} --store x.npy --out link.npy"), "`--out` is the same as `--store`"),
        (format!("{encode} --store link.npy --out x.npy"), "`--out` is the same as `--store`"),
        (format!("{encode} --store x.npy --out hard.npy"), "`--out` is the same as `--store`"),
        (
            format!("{encode} --store x.npy --out new --reconstruction x.npy"),
            "`--reconstruction` is the same as `--store`",
        ),
        (
            format!("{encode} --store x.npy --out o.npy --reconstruction ./o.npy"),
            "`--reconstruction` is the same as `--out`",
        ),
        (format!("{encode} --store store --out folder"), "`--out` is the same as `--store`"),
        (format!("{encode} --store store --out n --reconstruction folder/manifest.json"), "is a file of `--store`"),
        ("encode --sae sae --store x.npy --out sae".into(), "`--out` is the same as `--sae`"),
        (
            "eval match --codes codes.npy --labels labels.csv --out labels.csv".into(),
            "`--out` is the same as `--labels`",
        ),
        ("eval core --codes codes.npy --generated a=x.npy --out x.npy".into(), "`--out` is the same as `--generated`"),
        ("eval core --sae sae --store x.npy --out sae/weights.safetensors".into(), "`--out` is a file of `--sae`"),
        ("layout x.npy --out link.npy".into(), "`--out` is the same as"),
        ("convert sae --to saelens --out sae".into(), "`--out` is the same as"),
        (
            "train --store store --arch topk --latents 8 --k 2 --steps 2 --out store".into(),
            "`--out` is the same as `--store`",
        ),
        (
            "train --store x.npy --arch topk --latents 8 --k 2 --steps 2 --out o --log x.npy".into(),
            "`--log` is the same as",
        ),
    ] {
        let refused = sandbox.run(&arguments);
        assert_eq!(refused.code, Some(2), "{arguments}: {refused:?}");
        assert!(refused.err.contains(says), "{arguments}: {refused:?}");
        assert!(content(&sandbox) == before, "{arguments} changed files");
    }
}

#[test]
fn samples_are_not_written_over_the_table_they_describe() {
    let sandbox = Sandbox::with_inputs();
    sandbox.write("out/samples.jsonl", "{\"text\": \"a\"}\n".repeat(8));
    let before = content(&sandbox);
    let refused = sandbox.run("samples --codes codes.npy --rows out/samples.jsonl --out out");
    assert!(refused.code == Some(2) && refused.err.contains("`--out` is the same as `--rows`"), "{refused:?}");
    assert!(content(&sandbox) == before);
}

#[test]
fn an_output_that_exists_is_refused_before_the_training() {
    let sandbox = sandbox();
    sandbox.write("full/notes.txt", "mine");
    for (out, says) in
        [("full", "holds other files"), ("sae", "another dictionary"), ("codes.npy", "file of that name")]
    {
        let refused = sandbox.run_for(
            &format!(
                "train --store hard.npy --arch topk --latents 64 --k 2 --steps 1000000000 --warmup 10 --out {out}"
            ),
            crate::SOON,
        );
        assert!(refused.code == Some(2) && refused.err.contains(says), "{out}: {refused:?}");
    }
    assert!(!sandbox.path("full.training").exists() && !sandbox.path("sae.training").exists());
}
