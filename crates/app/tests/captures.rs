//! `etalon capture` as users run it: what the explorer shows of a capture, separators, tables of images, and kill -9.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "tests")]

mod common;

use std::fs;
use std::path::Path;
use std::process::Stdio;
use std::sync::Arc;
use std::time::{Duration, Instant};

use common::everything::{SITE, make_model};
use common::{Sandbox, TIME_LIMIT, etalon, words};
use parquet::data_type::{ByteArray, ByteArrayType};
use parquet::file::writer::SerializedFileWriter;
use parquet::schema::parser::parse_message_type;
use serde_json::Value;

fn golden(name: &str) -> String {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/golden").join(name).display().to_string()
}

/// The bytes of a small PNG file.
fn png(red: u8) -> Vec<u8> {
    let mut bytes = std::io::Cursor::new(Vec::new());
    let image = image::RgbImage::from_fn(40, 36, |x, y| image::Rgb([red, 6 * x as u8, 7 * y as u8]));
    image.write_to(&mut bytes, image::ImageFormat::Png).unwrap();
    bytes.into_inner()
}

/// The lines of a JSONL file.
fn lines(sandbox: &Sandbox, name: &str) -> Vec<Value> {
    sandbox.read(name).lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

/// All files of a directory but locks, with their bytes.
fn bytes(sandbox: &Sandbox, directory: &str) -> Vec<(String, Vec<u8>)> {
    let files = sandbox.files(directory).into_iter().filter(|name| !name.ends_with("lock"));
    files.map(|name| (name.clone(), fs::read(sandbox.path(directory).join(name)).unwrap())).collect()
}

/// Samples of a capture at a site, with a dictionary of its own.
fn samples(sandbox: &Sandbox, capture: &str, site: &str) -> (Value, Vec<Value>) {
    let store = format!("--store {capture}/sites/{site}");
    sandbox.done(&format!("train {store} --arch topk --latents 16 --k 4 --steps 20 --batch 32 --out {capture}-sae"));
    let rows = format!("--pool max --rows {capture}/rows.jsonl");
    let written =
        sandbox.done(&format!("samples --sae {capture}-sae {store} {rows} --out {capture}-shown --json")).json();
    (written, lines(sandbox, &format!("{capture}-shown/samples.jsonl")))
}

/// The network has four registers, which cannot be inferred from the number of rows; the grid comes from the capture.
#[test]
fn the_explorer_shows_patches_of_a_capture() {
    let sandbox = Sandbox::new();
    (0..8).for_each(|i| drop(sandbox.write(&format!("images/{i}.png"), png(30 * i))));
    let site = "blocks.1.hook_resid_post";
    let dino = golden("networks/dinov2_registers");
    sandbox.done(&format!("capture --model {dino} --input images --site {site} --out own"));
    let first = &lines(&sandbox, "own/rows.jsonl")[0];
    assert_eq!((first["image"].as_str(), first["grid"].as_str()), (Some("../images/0.png"), Some("4x4")));
    let grid = &sandbox.json("own/capture.json")["grids"][site];
    assert_eq!((grid["prefix"].as_u64(), grid["height"].as_u64(), grid["width"].as_u64()), (Some(5), Some(4), Some(4)));
    let (written, samples) = samples(&sandbox, "own", site);
    assert_eq!((written["samples"].as_u64(), written["images"].as_u64()), (Some(8), Some(8)));
    assert_eq!(written["unplaced"].as_u64(), Some(0));
    assert!(written["maps"].as_u64().unwrap() > 0, "{written}");
    let maps = samples
        .iter()
        .flat_map(|sample| sample["activations"].as_array().unwrap())
        .filter_map(|firing| firing["grid"].as_array());
    assert!(maps.clone().count() > 0 && maps.clone().all(|map| map.is_empty() || map.len() == 16));
    // A network of convolutions: a map of 5 × 5 positions without a class token.
    let resnet = golden("networks/resnet");
    sandbox.done(&format!("capture --model {resnet} --input images --site layer4 --out maps"));
    let (written, _) = self::samples(&sandbox, "maps", "layer4.0");
    assert!(written["maps"].as_u64().unwrap() > 0 && written["unplaced"] == 0, "{written}");
}

#[test]
fn the_explorer_shows_words_of_a_capture() {
    let sandbox = Sandbox::new();
    make_model(&sandbox, 12);
    sandbox.done(&format!("capture --model model --input texts.jsonl --site {SITE} --context 32 --out own"));
    let (written, samples) = samples(&sandbox, "own", SITE);
    assert_eq!((written["samples"].as_u64(), written["unplaced"].as_u64()), (Some(12), Some(0)));
    let (words, firing) = (&samples[0]["words"], &samples[0]["activations"][0]);
    assert_eq!(words.as_array().unwrap().len(), 20);
    assert_eq!(firing["tokens"].as_array().map(Vec::len), Some(20), "{firing}");
}

#[test]
fn packed_texts_have_the_separator_that_was_asked_for() {
    let sandbox = Sandbox::new();
    make_model(&sandbox, 12);
    let capture = |options: &str, out: &str| {
        sandbox.done(&format!(
            "capture --model model --input texts.jsonl --site {SITE} --context 16 {options} --out {out}"
        ));
        let tokens = fs::read(sandbox.path(out).join("tokens.npy")).unwrap();
        tokens[128..].as_chunks::<4>().0.iter().map(|token| u32::from_le_bytes(*token)).collect::<Vec<u32>>()
    };
    let count = |tokens: &[u32], token: u32| tokens.iter().filter(|other| **other == token).count();
    // The first text has 20 words. <s> is 1, </s> is 2; sequences do not begin with <s> unless that is asked for.
    let bos = capture("--pack", "default");
    assert_eq!(bos, capture("--pack --separator bos", "bos"));
    assert_eq!((bos[20], count(&bos, 2)), (1, 0));
    let eos = capture("--pack --separator eos", "eos");
    assert_eq!((eos[20], count(&eos, 1)), (2, 0));
    let none = capture("--pack --separator none", "none");
    assert_eq!((count(&none, 1), count(&none, 2)), (0, 0));
    assert_eq!(none[..20], bos[..20]);
    assert!(none[20..26].iter().eq(&bos[21..27]));
    assert_eq!(sandbox.json("eos/capture.json")["settings"]["separator"], "eos");
    let id = |name: &str| sandbox.json(&format!("{name}/capture.json"))["id"].clone();
    assert_eq!(id("default"), id("bos"));
    assert!(id("eos") != id("bos") && id("none") != id("bos"));
    // The separator is not a row of its text.
    assert_eq!(lines(&sandbox, "eos/rows.jsonl")[0]["words"].as_array().unwrap().len(), 20);
    let refused =
        sandbox.run(&format!("capture --model model --input texts.jsonl --site {SITE} --separator eos --out x"));
    assert!(refused.code == Some(2) && refused.err.contains("--pack"), "{refused:#?}");
}

/// A table of images as Hugging Face writes it.
fn parquet(images: &[(&str, Vec<u8>, &str)]) -> Vec<u8> {
    let schema = "message images { required group image { required binary bytes; required binary path (UTF8); } required binary kind (UTF8); }";
    let mut bytes = Vec::new();
    let schema = Arc::new(parse_message_type(schema).unwrap());
    let mut writer = SerializedFileWriter::new(&mut bytes, schema, Arc::default()).unwrap();
    let mut group = writer.next_row_group().unwrap();
    let columns: [Vec<ByteArray>; 3] = [
        images.iter().map(|(_, bytes, _)| ByteArray::from(bytes.clone())).collect(),
        images.iter().map(|(path, ..)| ByteArray::from(*path)).collect(),
        images.iter().map(|(.., kind)| ByteArray::from(*kind)).collect(),
    ];
    for values in columns {
        let mut column = group.next_column().unwrap().unwrap();
        column.typed::<ByteArrayType>().write_batch(&values, None, None).unwrap();
        column.close().unwrap();
    }
    group.close().unwrap();
    writer.close().unwrap();
    bytes
}

#[test]
fn images_of_a_parquet_table() {
    let sandbox = Sandbox::new();
    let kinds = ["cat", "dog"];
    let images: Vec<(String, Vec<u8>)> = (0..7).map(|i| (format!("{i}.png"), png(30 * i))).collect();
    images.iter().for_each(|(name, bytes)| drop(sandbox.write(&format!("images/{name}"), bytes)));
    let mut rows: Vec<(&str, Vec<u8>, &str)> =
        images.iter().enumerate().map(|(i, (name, bytes))| (name.as_str(), bytes.clone(), kinds[i % 2])).collect();
    // One of them is cut off: it is skipped and listed.
    let cut = rows[3].1.len() / 2;
    rows[3].1.truncate(cut);
    sandbox.write("table.parquet", parquet(&rows));
    fs::remove_file(sandbox.path("images/3.png")).unwrap();
    let capture = |input: &str, out: &str| {
        let model = golden("networks/vit_timm");
        sandbox.done(&format!("capture --model {model} --input {input} --site blocks.1 --out {out}"))
    };
    let done = capture("table.parquet", "table");
    assert!(done.err.contains("1 items of the input were skipped"), "{done:#?}");
    capture("images", "folder");
    // The same activations as those of the files, with labels.
    let store =
        |name: &str| fs::read(sandbox.path(name).join("sites/blocks.1.hook_resid_post/shard-00000.f32")).unwrap();
    assert_eq!(store("table").len(), 6 * 17 * 24 * 4);
    assert!(store("table") == store("folder"));
    assert!(sandbox.read("table/skipped.csv").contains("3.png"), "{}", sandbox.read("table/skipped.csv"));
    let described = lines(&sandbox, "table/rows.jsonl");
    assert_eq!((described[3]["id"].as_str(), described[3]["grid"].as_str()), (Some("4.png"), Some("4x4")));
    // Bytes in a table are no file that can be shown.
    assert_eq!((described.len(), &described[3]["image"]), (6, &Value::Null));
    let labels = sandbox.read("table/labels.csv");
    let header = labels.lines().next().unwrap();
    assert!(header.contains("cat") && header.contains("dog") && labels.lines().count() == 7, "{labels}");
}

#[test]
fn a_killed_capture_continues_and_ends_with_the_same_bytes() {
    let sandbox = Sandbox::new();
    make_model(&sandbox, 4000);
    let command = |out: &str| {
        format!(
            "capture --model model --input texts.jsonl --site {SITE},blocks.0.hook_mlp_out --context 16 --pack --out {out}"
        )
    };
    sandbox.done(&command("whole"));
    let parts = || sandbox.files(".").iter().filter(|name| name.starts_with("killed/parts/0")).count();
    let mut before = 0;
    for more in [1, 3, 9] {
        let mut killed = etalon(&sandbox.path("."), &words(&command("killed")));
        let mut child = killed.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
        let began = Instant::now();
        while parts() < before + more && child.try_wait().unwrap().is_none() {
            assert!(began.elapsed() < TIME_LIMIT);
            std::thread::sleep(Duration::from_millis(1));
        }
        // SIGKILL: nothing of the program runs afterwards.
        child.kill().unwrap();
        child.wait().unwrap();
        assert!(parts() >= before + more, "the capture ended before it was killed");
        assert!(!sandbox.path("killed/capture.json").exists());
        before = parts();
    }
    sandbox.done(&command("killed"));
    let (whole, killed) = (bytes(&sandbox, "whole"), bytes(&sandbox, "killed"));
    let names = |files: &[(String, Vec<u8>)]| files.iter().map(|(name, _)| name.clone()).collect::<Vec<_>>();
    assert_eq!(names(&whole), names(&killed));
    assert!(whole == killed);
    assert!(!sandbox.files(".").iter().any(|name| name.ends_with(".tmp")));
}
