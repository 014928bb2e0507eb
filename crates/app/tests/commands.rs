//! Black-box tests of every command; `demo.rs` tests `demo`.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "tests")]

mod common;

use std::collections::BTreeSet;
use std::fs;

use common::files::{SAELENS, SAELENS_SETTINGS, npy, npy_f32, saelens, shape, zip};
use common::{Sandbox, without_seconds};
use serde_json::Value;

fn keys(value: &Value) -> BTreeSet<&str> {
    value.as_object().unwrap().keys().map(String::as_str).collect()
}

/// A result has exactly these fields, and every headline number its interval and its n.
fn check_shape(result: &Value) {
    let fields = ["etalon", "metric", "version", "profile", "seed", "params", "inputs", "headline", "tables", "notes"];
    assert_eq!(keys(result), fields.into_iter().chain(["about", "seconds", "check"]).collect(), "{result:#}");
    assert_eq!(result["etalon"], env!("CARGO_PKG_VERSION"));
    assert!(result["version"].is_u64() && result["seed"].is_u64() && result["seconds"].is_f64());
    assert!(result["params"].is_object() && result["notes"].is_array());
    for id in result["inputs"].as_object().unwrap().values() {
        assert!(id.as_str().unwrap().starts_with("blake3:"), "{id}");
    }
    assert!(!result["headline"].as_object().unwrap().is_empty());
    for (name, headline) in result["headline"].as_object().unwrap() {
        assert_eq!(keys(headline), BTreeSet::from(["value", "low", "high", "n"]), "{name}");
        let number = |field: &str| headline[field].as_f64();
        for field in ["value", "low", "high"] {
            assert!(headline[field].is_null() || number(field).unwrap().is_finite(), "{name}: {headline}");
        }
        assert!(headline["n"].is_u64());
        if let (Some(low), Some(high)) = (number("low"), number("high")) {
            assert!(low <= high, "{name}: {headline}");
        }
    }
    for table in result["tables"].as_object().unwrap().values() {
        let lengths: BTreeSet<usize> =
            table.as_object().unwrap().values().map(|column| column.as_array().unwrap().len()).collect();
        assert!(lengths.len() <= 1, "columns of {lengths:?} rows");
    }
}

#[test]
fn data_makes_every_world_and_verifies() {
    let sandbox = Sandbox::new();
    for (name, options) in [
        ("superposition", "--rows 60 --width 6 --features 9 --active 2 --pairs 5 --hierarchy 0.3"),
        ("shapes", "--rows 20 --side 8 --pairs 4"),
        ("impure-codes", "--rows 40 --concepts 3"),
        ("tabular-toy", "--rows 40"),
    ] {
        let output = sandbox.done(&format!("data {name} {options} --seed 5 --out {name} --json"));
        assert!(output.json()["rows"].as_u64().unwrap() >= 20);
        let world = sandbox.json(&format!("{name}/world.json"));
        assert_eq!((world["world"].as_str(), world["seed"].as_u64()), (Some(name), Some(5)));
        for part in ["activations/manifest.json", "codes/manifest.json", "labels.csv"] {
            assert!(sandbox.path(&format!("{name}/{part}")).is_file(), "{name}/{part}");
        }
        sandbox.done(&format!("verify {name}"));
        // The same command confirms, another seed is refused.
        let before = sandbox.files(name);
        sandbox.done(&format!("data {name} {options} --seed 5 --out {name} --quiet"));
        assert_eq!(sandbox.files(name), before);
        assert_eq!(sandbox.run(&format!("data {name} {options} --seed 6 --out {name}")).code, Some(2));
    }
    // A world is enough for whatever does not need codes, and the truth for what does.
    let output = sandbox.done("eval probe_ceiling --world tabular-toy --json");
    check_shape(&output.json());
    let output = sandbox.done("eval recovery,match --codes superposition/codes --world superposition --json");
    assert_eq!(output.json()[0]["headline"]["recovery"]["value"], 1.0);
}

#[test]
fn worlds_of_factors_write_images_factors_concepts_and_tasks() {
    let sandbox = Sandbox::new();
    for (name, factors) in [("dsprites", 5), ("shapes3d-like", 6)] {
        let options = "--rows 30 --side 8 --lambda 2 --pairs 4 --weak-pairs 6 --corruption 0.5 --seed 1";
        sandbox.done(&format!("data {name} {options} --out {name}"));
        let lines = |file: &str| sandbox.read(&format!("{name}/{file}")).lines().map(String::from).collect::<Vec<_>>();
        for (file, columns) in [("factors.csv", factors), ("labels.csv", factors), ("task-labels.csv", 1)] {
            let lines = lines(file);
            assert_eq!((lines.len(), lines[0].split(',').count()), (31, columns), "{name}/{file}");
        }
        assert_eq!((lines("weak-pairs.csv").len(), lines("pairs.csv").len()), (7, 5), "{name}");
        let images = fs::read(sandbox.path(&format!("{name}/images.npy"))).unwrap();
        assert!(images.starts_with(b"\x93NUMPY") && images.len() == 128 + 30 * 8 * 8 * 3, "{}", images.len());
        assert!(String::from_utf8_lossy(&images[..128]).contains("(30, 8, 8, 3)"));
        let pairs = fs::read(sandbox.path(&format!("{name}/pair-images.npy"))).unwrap();
        assert!(String::from_utf8_lossy(&pairs[..128]).contains("(8, 8, 8, 3)"));
        sandbox.done(&format!("verify {name}"));
        // A changed pixel is found, in either file.
        for file in ["images.npy", "pair-images.npy"] {
            let path = sandbox.path(&format!("{name}/{file}"));
            let whole = fs::read(&path).unwrap();
            let mut damaged = whole.clone();
            damaged[200] ^= 1;
            fs::write(&path, damaged).unwrap();
            let output = sandbox.run(&format!("verify {name}"));
            assert!(output.code == Some(2) && output.err.contains(file), "{:?} {}", output.code, output.err);
            fs::write(&path, whole).unwrap();
        }
        // A world supplies its factors, unless labels are given.
        let with_world = format!("eval mig --codes {name}/activations --world {name} --json");
        let mig = |command: &str| sandbox.done(command).json()["headline"]["mig"]["value"].as_f64().unwrap();
        let concepts = mig(&format!("eval mig --codes {name}/activations --labels {name}/labels.csv --json"));
        let given = mig(&format!("eval mig --codes {name}/activations --factors {name}/factors.csv --json"));
        assert_eq!((mig(&with_world), mig(&format!("{with_world} --labels {name}/labels.csv"))), (given, concepts));
        assert_ne!(given, concepts, "{name}");
        // Pixels can be evaluated as codes.
        let options = format!("--codes {name}/activations --labels {name}/labels.csv");
        check_shape(&sandbox.done(&format!("eval explicitness {options} --json")).json());
    }
}

#[test]
fn published_images_of_factors_are_converted() {
    let sandbox = Sandbox::new();
    // Two images of 2 × 2 pixels, deflated or not as NumPy writes them; a heart at the upper left, and a small square.
    let pixels = npy("|u1", false, &shape(&[2, 2, 2]), &[1, 0, 0, 0, 0, 0, 0, 1]);
    let classes = [0i64, 2, 5, 0, 0, 0, 0, 0, 0, 39, 31, 31].map(i64::to_le_bytes).concat();
    let classes = npy("<i8", false, &shape(&[2, 6]), &classes);
    sandbox.write("d.npz", zip(&[("imgs.npy", &pixels), ("latents_classes.npy", &classes)]));
    let output = sandbox.done("data dsprites-file --from d.npz --out d --json");
    assert_eq!((output.json()["images"].as_u64(), output.json()["concepts"].as_u64()), (Some(2), Some(5)));
    assert_eq!(sandbox.read("d/factors.csv"), "shape,scale,orientation,x,y\n2,5,0,0,0\n0,0,39,31,31\n");
    assert_eq!(sandbox.read("d/labels.csv"), "low_shape,low_scale,low_orientation,low_x,low_y\n0,0,1,1,1\n1,1,0,0,0\n");
    // Not a square or ellipse: 4 + [orientation, y] = 7. A small square to the right: [scale, x] = 2.
    assert_eq!(sandbox.read("d/task-labels.csv"), "task\n7\n2\n");
    // As the program has it: 4 + [x < 15, y < 15] = 7, and [scale, orientation] = 2.
    sandbox.done("data dsprites-file --from d.npz --variant code --out d-code");
    assert_eq!(sandbox.read("d-code/task-labels.csv"), "task\n7\n2\n");
    assert_eq!(sandbox.read("d-code/labels.csv"), sandbox.read("d/labels.csv"));
    let output = sandbox.run("data dsprites-file --from d.npz --variant both --out d-both");
    assert!(output.code == Some(2) && output.err.contains("paper | code"), "{}", output.err);
    assert_eq!(sandbox.json("d/activations/manifest.json")["dtype"], "f16");
    sandbox.done("verify d/activations");
    assert_eq!(sandbox.run("data dsprites-file --from d.npz --out d").code, Some(2));
    let classes = [0i64, 0, 0, 0, 3, 0, 9, 9, 9, 7, 0, 14].map(i64::to_le_bytes).concat();
    let classes = npy("<i8", false, &shape(&[2, 6]), &classes);
    let pixels = npy("|u1", false, &shape(&[2, 12]), &[200; 24]);
    sandbox.write("s.npz", zip(&[("imgs.npy", &pixels), ("latents_classes.npy", &classes)]));
    sandbox.done("data 3dshapes-file --from s.npz --out s");
    // A capsule: 8 + [scale, orientation] = 11. A cube of high hues: 0.
    assert_eq!(sandbox.read("s/task-labels.csv"), "task\n11\n0\n");
    // As the program has it: a capsule of a low floor and a low wall: [1, 1] = 3; a cube: 4 + [object, scale, orientation] = 4.
    sandbox.done("data 3dshapes-file --from s.npz --variant code --out s-code");
    assert_eq!(sandbox.read("s-code/task-labels.csv"), "task\n3\n4\n");
}

#[test]
fn pairs_of_a_world_need_codes_of_their_own() {
    let sandbox = Sandbox::new();
    sandbox.done("data superposition --rows 60 --width 6 --features 9 --active 2 --pairs 5 --out w");
    // The pairs point into rows that are not those of the codes, so they must not be used with them.
    let output = sandbox.run("eval tapa --world w --codes w/codes");
    assert!(output.code == Some(2) && output.err.contains("no pairs"), "{}", output.err);
    let output = sandbox.done("eval tapa,stay --world w --codes w/codes --pair-codes w/pair-codes --json");
    output.json().as_array().unwrap().iter().for_each(check_shape);
}

#[test]
fn data_lists_worlds_and_data_sets() {
    let sandbox = Sandbox::new();
    let output = sandbox.done("data --list");
    let worlds = ["superposition", "shapes", "impure-codes", "tabular-toy", "dsprites", "shapes3d-like", "blindspots"];
    for name in worlds.iter().chain(&["array", "cub", "coco", "syncub", "syncoco"]) {
        assert!(output.out.contains(name), "{name}");
    }
    assert_eq!(sandbox.done("data --list --json").json()["worlds"].as_array().unwrap().len(), worlds.len());
}

#[test]
fn encode_to_a_directory_and_to_an_array() {
    let sandbox = Sandbox::with_inputs();
    let options = "--store embeddings.npy --latents 6 --k 2 --seed 3";
    let output = sandbox.done(&format!("encode --sae untrained {options} --out z --reconstruction r.npy --json"));
    assert_eq!((output.json()["rows"].as_u64(), output.json()["latents"].as_u64()), (Some(8), Some(6)));
    sandbox.done(&format!("encode --sae untrained {options} --out z.npy"));
    sandbox.done("verify z");
    // A header of 128 bytes, then 8 × 6 and 8 × 4 numbers.
    assert_eq!(fs::metadata(sandbox.path("z.npy")).unwrap().len(), 128 + 8 * 6 * 4);
    assert_eq!(fs::metadata(sandbox.path("r.npy")).unwrap().len(), 128 + 8 * 4 * 4);
    let score = |codes: &str| {
        let output = sandbox
            .done(&format!("eval match,cknna --codes {codes} --labels labels.csv --store embeddings.npy --json"));
        output.json().as_array().unwrap().iter().map(|result| result["headline"].clone()).collect::<Vec<_>>()
    };
    assert_eq!(score("z"), score("z.npy"));
    sandbox.done(&format!("encode --sae random {options} --out random"));
    assert!(sandbox.leftovers().is_empty());
}

#[test]
fn dictionaries_are_encoded_converted_and_evaluated() {
    let sandbox = Sandbox::with_inputs();
    sandbox.write("sae/cfg.json", SAELENS_SETTINGS);
    sandbox.write("sae/sae_weights.safetensors", saelens(&SAELENS));
    let output = sandbox.done("convert sae --to etalon --out ours --json");
    assert_eq!((output.json()["width"].as_u64(), output.json()["latents"].as_u64()), (Some(4), Some(6)));
    sandbox.done("convert ours --to saelens --out theirs");
    for (dictionary, codes) in [("sae", "z1"), ("ours", "z2"), ("theirs", "z3")] {
        sandbox.done(&format!("encode --sae {dictionary} --store embeddings.npy --out {codes}"));
    }
    let bytes = |codes: &str| fs::read(sandbox.path(codes).join("values.f32")).unwrap();
    assert!(bytes("z1") == bytes("z2") && bytes("z2") == bytes("z3") && !bytes("z1").is_empty());
    // A dictionary in place of codes gives what its codes give.
    let headline = |arguments: &str| {
        sandbox.done(&format!("eval match {arguments} --labels labels.csv --json")).json()["headline"].clone()
    };
    assert_eq!(headline("--sae sae --store embeddings.npy"), headline("--codes z1"));
    // It encodes the pairs of a world as well, so these can be used.
    sandbox.done("data superposition --rows 60 --width 4 --features 9 --active 2 --pairs 5 --out w");
    check_shape(&sandbox.done("eval tapa --sae sae --world w --json").json());
}

#[test]
fn eval_writes_one_object_or_an_array() {
    let sandbox = Sandbox::with_inputs();
    sandbox.done("eval match --codes codes.npy --labels labels.csv --seed 4 --out one.json");
    let one = sandbox.json("one.json");
    check_shape(&one);
    assert_eq!(
        (one["metric"].as_str(), one["profile"].as_str(), one["seed"].as_u64()),
        (Some("match"), Some("paper"), Some(4))
    );
    assert_eq!(keys(&one["inputs"]), BTreeSet::from(["codes", "labels"]));
    assert_eq!((one["params"]["matcher"].as_str(), one["params"]["k"].as_u64()), (Some("fbmp"), Some(3)));
    let concept = &one["tables"]["concept"];
    assert_eq!(concept["name"], serde_json::json!(["red", "round"]));
    // Latent 0 fires exactly with `red`; latent 1 fires in three of the four rows of `round` and nowhere else: 6/7.
    assert_eq!(concept["f1"][0], 1.0);
    assert_eq!(concept["coalition"][0], serde_json::json!([0]));

    sandbox.done(
        "eval match,tapa,stay,monosemanticity,cknna,fms,probe_ceiling --codes codes.npy --labels labels.csv \
         --pairs pairs.csv --embeddings embeddings.npy --neighbours 2 --out deep/down/all.json",
    );
    let all = sandbox.json("deep/down/all.json");
    let names: Vec<&str> = all.as_array().unwrap().iter().map(|result| result["metric"].as_str().unwrap()).collect();
    assert_eq!(names, ["match", "tapa", "stay", "monosemanticity", "cknna", "fms", "probe_ceiling"]);
    all.as_array().unwrap().iter().for_each(check_shape);
    assert!(sandbox.leftovers().is_empty());
}

#[test]
fn eval_has_two_profiles_and_lists_of_values() {
    let sandbox = Sandbox::with_inputs();
    let base = "eval match --codes codes.npy --labels labels.csv --json";
    let paper = sandbox.done(&format!("{base} --profile paper")).json();
    let reference = sandbox.done(&format!("{base} --profile reference")).json();
    assert_eq!((paper["profile"].as_str(), reference["profile"].as_str()), (Some("paper"), Some("reference")));
    assert_ne!(paper["params"]["threshold"], reference["params"]["threshold"]);
    check_shape(&reference);
    let grid = sandbox.done(&format!("{base} --matcher naive,fbmp --beta 0.5,1 --k 1,2")).json();
    assert_eq!(grid["params"]["matcher"], serde_json::json!(["naive", "fbmp"]));
    check_shape(&grid);
}

#[test]
fn undefined_is_null() {
    let sandbox = Sandbox::with_inputs();
    sandbox.write("dead.npy", npy_f32(&[8, 2], &[0.0; 16]));
    let result = sandbox.done("eval monosemanticity --codes dead.npy --embeddings embeddings.npy --json").json();
    check_shape(&result);
    assert!(result["headline"]["monosemanticity"]["value"].is_null());
    assert!(!result["notes"].as_array().unwrap().is_empty());
}

#[test]
fn results_go_to_stdout_and_messages_to_stderr() {
    let sandbox = Sandbox::with_inputs();
    let base = "eval match --codes codes.npy --labels labels.csv --out r.json";
    let output = sandbox.done(base);
    assert!(output.out.contains("MATCHScore") && output.err.contains("r.json"));
    // An undefined score is explained on standard error too.
    let few_rows = sandbox.done("eval cknna --codes codes.npy --embeddings embeddings.npy --neighbours 100");
    assert!(few_rows.err.contains("note: cknna: "), "{}", few_rows.err);
    let output = sandbox.done(&format!("{base} --quiet"));
    assert!(output.out.contains("MATCHScore") && output.err.is_empty(), "{}", output.err);
    let output = sandbox.done(&format!("{base} --json"));
    assert!(output.err.is_empty(), "{}", output.err);
    check_shape(&output.json());
    let output = sandbox.run("eval match --codes gone.npy --labels labels.csv --json");
    assert_eq!((output.code, output.json()["exit_code"].as_u64()), (Some(2), Some(2)));
    assert!(output.json()["error"].as_str().unwrap().contains("gone.npy"));
    assert!(sandbox.run("").err.contains("Usage"));
    let version = sandbox.done("--version").out;
    assert!(version.contains(env!("CARGO_PKG_VERSION")) && version.contains("int8 by "), "{version}");
    assert!(["AVX-512", "AVX2", "no AVX2"].iter().any(|name| version.contains(&format!(" {name}, "))), "{version}");
}

#[test]
fn results_do_not_depend_on_threads() {
    let sandbox = Sandbox::new();
    // More rows than a unit of work, so that several threads have work.
    sandbox.done("data superposition --rows 3000 --width 8 --features 16 --active 3 --out w");
    sandbox.done("encode --sae untrained --store w/activations --latents 24 --k 4 --out z");
    let mut first: Option<String> = None;
    for threads in [1, 2, 7] {
        sandbox.done(&format!(
            "eval match,monosemanticity,cknna,fms,recovery --codes z --world w --sample 500 --threads {threads} --out r{threads}.json"
        ));
        let text = without_seconds(&sandbox.read(&format!("r{threads}.json")));
        assert_eq!(*first.get_or_insert_with(|| text.clone()), text, "{threads} threads");
    }
}

#[test]
fn sanity() {
    let sandbox = Sandbox::with_inputs();
    let base = "sanity --codes codes.npy --embeddings embeddings.npy --labels labels.csv --name mine --nulls 2";
    let output = sandbox.done(&format!("{base} --metrics match,monosemanticity --out s --json"));
    assert_eq!(output.json()["computed"], 6);
    assert!(sandbox.path("s/report/index.html").is_file());
    let names: BTreeSet<String> = sandbox
        .files("s/results")
        .iter()
        .map(|name| sandbox.json(&format!("s/results/{name}"))["about"]["inputs"].as_str().unwrap().to_string())
        .collect();
    assert_eq!(names, BTreeSet::from(["mine", "untrained", "random"].map(String::from)));
    assert_eq!(sandbox.done(&format!("{base} --metrics match,monosemanticity --out s --json")).json()["kept"], 6);
    assert!(sandbox.leftovers().is_empty());
}

const STUDY: &str = "title = \"A small study\"\nseeds = [0, 1]\nmetrics = [\"match\", \"cknna\"]\n\
                     [params.match]\nk = [1, 2]\n[params.cknna]\nneighbours = 2\n\
                     [inputs]\nlabels = \"labels.csv\"\nembeddings = \"embeddings.npy\"\n\
                     [[set]]\nname = \"a\"\ncodes = \"codes.npy\"\nabout = { architecture = \"TopK\" }\n\
                     [[set]]\nname = \"b\"\ncodes = \"other.npy\"\n";

fn study() -> Sandbox {
    let sandbox = Sandbox::with_inputs();
    sandbox.write(
        "other.npy",
        npy_f32(&[8, 2], &[0.0, 1.0, 1.0, 0.0, 0.5, 0.0, 1.0, 0.0, 2.0, 0.0, 0.0, 3.0, 0.0, 1.0, 1.0, 0.0]),
    );
    sandbox.write("study.toml", STUDY);
    sandbox
}

/// Every result by name, without its time.
fn results(sandbox: &Sandbox) -> Vec<(String, String)> {
    let names = sandbox.files("study-results/results");
    names
        .into_iter()
        .map(|name| (name.clone(), without_seconds(&sandbox.read(&format!("study-results/results/{name}")))))
        .collect()
}

#[test]
fn run_resumes() {
    let sandbox = study();
    let output = sandbox.done("run study.toml --json");
    assert_eq!((output.json()["computed"].as_u64(), output.json()["kept"].as_u64()), (Some(8), Some(0)));
    let all = results(&sandbox);
    assert_eq!(all.len(), 8);
    for (name, _) in &all {
        check_shape(&sandbox.json(&format!("study-results/results/{name}")));
    }
    assert!(sandbox.read("study-results/report/index.html").contains("A small study"));
    assert!(sandbox.leftovers().is_empty() && sandbox.files("study-results/units").is_empty());
    sandbox.done("verify study-results");

    let bytes = fs::read(sandbox.path(&format!("study-results/results/{}", all[0].0))).unwrap();
    assert_eq!(sandbox.done("run study.toml --json").json()["kept"], 8);
    assert_eq!(fs::read(sandbox.path(&format!("study-results/results/{}", all[0].0))).unwrap(), bytes);

    fs::remove_file(sandbox.path(&format!("study-results/results/{}", all[2].0))).unwrap();
    sandbox.change(&format!("study-results/results/{}", all[5].0), |bytes| bytes[40] ^= 1);
    let output = sandbox.done("run study.toml --json");
    assert_eq!((output.json()["computed"].as_u64(), output.json()["kept"].as_u64()), (Some(2), Some(6)));
    assert_eq!(results(&sandbox), all);
    // Another number of threads, elsewhere: the same results.
    sandbox.done("run study.toml --threads 1 --out elsewhere --quiet");
    assert_eq!(sandbox.files("elsewhere/results").len(), 8);
    for (name, text) in &all {
        assert_eq!(without_seconds(&sandbox.read(&format!("elsewhere/results/{name}"))), *text);
    }
}

#[test]
fn a_bad_set_does_not_affect_the_others() {
    let sandbox = study();
    sandbox.write("study.toml", format!("{STUDY}[[set]]\nname = \"broken\"\ncodes = \"gone.npy\"\n"));
    let output = sandbox.run("run study.toml");
    assert_eq!(output.code, Some(3), "{}", output.err);
    for text in ["failed: ", "broken", "there is no such file", "gone.npy", "8 computed"] {
        assert!(output.err.contains(text), "{text}: {}", output.err);
    }
    assert_eq!(results(&sandbox).len(), 8);
    let output = sandbox.run("run study.toml --json");
    let failed = &output.json()["failed"];
    assert_eq!(
        (output.code, failed.as_array().unwrap().len(), &failed[0]["set"]),
        (Some(3), 1, &Value::from("broken"))
    );
    // After the fix, only the new set is computed.
    fs::copy(sandbox.path("codes.npy"), sandbox.path("gone.npy")).unwrap();
    assert_eq!(sandbox.done("run study.toml --json").json()["kept"], 8);
    // A set without a required input is named and skipped.
    sandbox.write("study.toml", STUDY.replace("embeddings = \"embeddings.npy\"\n", ""));
    let output = sandbox.done("run study.toml");
    assert!(output.err.contains("skipped: cknna on a"), "{}", output.err);
}

#[test]
fn two_runs_do_not_write_to_one_directory() {
    let sandbox = study();
    sandbox.done("run study.toml");
    let lock = fs::File::create(sandbox.path("study-results/.lock")).unwrap();
    lock.lock().unwrap();
    let output = sandbox.run("run study.toml");
    assert!(output.code == Some(2) && output.err.contains("another process is writing"), "{}", output.err);
    assert!(output.err.contains("file: study-results"));
    drop(lock);
    // A lock file of a killed process does not block.
    sandbox.done("run study.toml");
    assert!(sandbox.leftovers().is_empty());
}

#[test]
fn report_and_verify() {
    let sandbox = study();
    sandbox.done("run study.toml");
    fs::remove_dir_all(sandbox.path("study-results/report")).unwrap();
    let output = sandbox.done("report study-results --title Again --json");
    assert_eq!(output.json()["results"], 8);
    assert!(sandbox.read("study-results/report/index.html").contains("Again"));
    let verified = sandbox.done("verify study-results --json").json();
    assert_eq!((verified["files"].as_u64(), &verified["kinds"]), (Some(8), &serde_json::json!(["results"])));
    assert!(verified["bytes"].as_u64().unwrap() > 1000);
    // A damaged result is named and skipped.
    let name = sandbox.files("study-results/results").remove(3);
    sandbox.change(&format!("study-results/results/{name}"), |bytes| bytes[50] ^= 4);
    let output = sandbox.done("report study-results");
    assert!(output.err.contains("skipped, damaged") && output.err.contains(&name), "{}", output.err);
}

#[test]
fn metrics_and_their_cards() {
    let sandbox = Sandbox::new();
    let list = sandbox.done("metrics --json").json();
    assert!(list.as_array().unwrap().len() >= 8);
    for metric in list.as_array().unwrap() {
        let name = metric["name"].as_str().unwrap();
        let card = sandbox.done(&format!("metrics {name}")).out;
        for heading in ["What it measures", "Definition", "Inputs", "Cost", "Source"] {
            assert!(card.lines().any(|line| line == heading), "{name} has no heading {heading}\n{card}");
        }
        assert_eq!(sandbox.done(&format!("metrics {name} --json")).json()["name"], name);
    }
}

#[test]
fn completions() {
    let output = Sandbox::new().done("completions bash");
    assert!(output.out.contains("_etalon") && output.out.contains("--matcher"));
}

#[test]
fn settings_of_a_dictionary_may_follow_its_path() {
    let sandbox = Sandbox::new();
    let golden = concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/golden/checkpoints-overcomplete");
    let (file, rows) = (format!("{golden}/topk/state_dict.pt"), format!("{golden}/x.npy"));
    let refused = sandbox.run(&format!("eval core --sae {file} --store {rows}"));
    assert!(refused.code == Some(2) && refused.err.contains("FILE:arch=.."), "{refused:?}");
    let answer = sandbox.done(&format!("eval core --sae {file}:k=6 --store {rows} --json")).json();
    let l0 = answer["headline"]["l0"]["value"].as_f64().unwrap();
    assert!(l0 > 1.0 && l0 <= 6.0, "{l0}");
    let other = sandbox.done(&format!("eval stability --sae {file}:k=6 --other {file}:k=5 --json")).json();
    assert!((other["headline"]["stability"]["value"].as_f64().unwrap() - 1.0).abs() < 1e-6);
    sandbox.done(&format!("sanity --sae {file}:k=6 --store {rows} --metrics core --out sanity"));
    sandbox.write(
        "s.toml",
        format!("metrics = [\"core\"]\n[[set]]\nname = \"a\"\nsae = \"{file}:k=6\"\nembeddings = \"{rows}\"\n"),
    );
    sandbox.done("run s.toml --out study");
    assert_eq!(sandbox.files("study/results").len(), 1);
}

#[test]
fn directions_may_be_a_dictionary() {
    let sandbox = Sandbox::new();
    sandbox.write("lens/cfg.json", SAELENS_SETTINGS);
    sandbox.write("lens/sae_weights.safetensors", saelens(&SAELENS));
    sandbox.done("convert lens --to etalon --out own");
    for directions in ["lens", "own"] {
        let answer = sandbox.done(&format!("eval stability --directions {directions} --other lens --json")).json();
        assert!((answer["headline"]["stability"]["value"].as_f64().unwrap() - 1.0).abs() < 1e-6, "{answer}");
    }
}
