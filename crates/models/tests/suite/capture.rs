//! Captures of texts and images: what is stored, and that an interrupted capture ends with the same bytes.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use etalon::context::{Budget, Context, Progress};
use etalon::store::{ActivationStore, StoredNumber};
use etalon_models::{CaptureRequest, CaptureSettings, RowChoice, capture};

use crate::{context, golden};

/// Words of the tiny vocabulary, after the special tokens of BERT.
const WORDS: [&str; 8] = ["a", "bird", "sings", "the", "dog", "barks", "loud", "##ly"];

/// A directory with the tiny BERT and a vocabulary of its size.
fn bert() -> tempfile::TempDir {
    let directory = tempfile::tempdir().unwrap();
    for name in ["config.json", "model.safetensors"] {
        fs::copy(golden("networks/bert").join(name), directory.path().join(name)).unwrap();
    }
    let special = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"];
    let unused = (13..70).map(|index| format!("[unused{index}]"));
    let words: Vec<String> = special.iter().chain(&WORDS).map(|word| word.to_string()).chain(unused).collect();
    fs::write(directory.path().join("vocab.txt"), words.join("\n")).unwrap();
    directory
}

/// 150 short texts with a label.
fn texts(path: &Path) {
    let text = |i: usize| match i % 3 {
        0 => "a bird sings loudly",
        1 => "the dog barks",
        _ => "a loud dog",
    };
    let lines = (0..150)
        .map(|i| format!("{{\"id\": \"t{i}\", \"text\": \"{}\", \"dog\": {}}}\n", text(i), i32::from(i % 3 > 0)));
    fs::write(path, lines.collect::<String>()).unwrap();
}

fn request(model: &Path, input: &Path, sites: &str, rows: RowChoice) -> CaptureRequest {
    CaptureRequest {
        model: model.display().to_string(),
        input: input.display().to_string(),
        sites: sites.into(),
        settings: CaptureSettings { context: 16, rows, ..CaptureSettings::default() },
        ..CaptureRequest::default()
    }
}

/// All files below a directory, without locks.
fn files(directory: &Path) -> BTreeMap<String, Vec<u8>> {
    let mut found = BTreeMap::new();
    let mut open = vec![directory.to_path_buf()];
    while let Some(path) = open.pop() {
        for entry in fs::read_dir(path).unwrap() {
            let path = entry.unwrap().path();
            let name = path.strip_prefix(directory).unwrap().display().to_string();
            match path.is_dir() {
                true => open.push(path),
                false if name.ends_with("lock") => {}
                false => drop(found.insert(name, fs::read(&path).unwrap())),
            }
        }
    }
    found
}

#[test]
fn tokens_are_rows_of_their_texts() {
    let (model, work) = (bert(), tempfile::tempdir().unwrap());
    let (input, out) = (work.path().join("texts.jsonl"), work.path().join("out"));
    texts(&input);
    let request = request(model.path(), &input, "blocks.*.hook_resid_pre", RowChoice::All);
    let captured = capture(&request, &out, &context(2)).unwrap();
    assert_eq!(captured.stores.len(), 3);
    let store = ActivationStore::open(&captured.stores[1].1).unwrap();
    // Words, one of them in two pieces, without [CLS] and [SEP]: 5, 3 and 3 rows.
    assert_eq!((store.rows(), store.width()), (50 * 11, 18));
    let samples = store.samples().unwrap();
    assert_eq!(samples[..12], [0, 0, 0, 0, 0, 1, 1, 1, 2, 2, 2, 3]);
    let lines = fs::read_to_string(out.join("rows.jsonl")).unwrap();
    let first = lines.lines().next().unwrap();
    assert!(first.contains("\"id\":\"t0\"") && first.contains("[\"a\",\"bird\",\"sings\",\"loud\","), "{first}");
    assert_eq!(lines.lines().count(), 150);
    let labels = fs::read_to_string(captured.labels.unwrap()).unwrap();
    assert_eq!(labels.lines().count(), 151, "{labels}");
    // The same capture is used as it is; another one is refused.
    assert!(capture(&request, &out, &context(2)).unwrap().notes[0].contains("nothing was run"));
    let other = CaptureRequest { settings: CaptureSettings { context: 8, ..request.settings.clone() }, ..request };
    assert!(capture(&other, &out, &context(2)).unwrap_err().to_string().contains("another capture"));
}

#[test]
fn one_row_per_text() {
    let (model, work) = (bert(), tempfile::tempdir().unwrap());
    let input = work.path().join("texts.jsonl");
    texts(&input);
    for (site, rows) in [("sentence_embedding", RowChoice::All), ("encoder.layer.2", RowChoice::Mean)] {
        let out = work.path().join(site);
        let captured = capture(&request(model.path(), &input, site, rows), &out, &context(2)).unwrap();
        let store = ActivationStore::open(&captured.stores[0].1).unwrap();
        assert_eq!((store.rows(), store.samples().unwrap()[149]), (150, 149), "{site}");
    }
    let mixed = request(model.path(), &input, "pooled,encoder.layer.2", RowChoice::All);
    let error = capture(&mixed, &work.path().join("mixed"), &context(1)).unwrap_err().to_string();
    assert!(error.contains("different rows") && error.contains("pooled"), "{error}");
}

/// Cancels its context after some steps.
struct Stop {
    left: AtomicU64,
    context: Arc<Mutex<Option<Context>>>,
}

impl Progress for Stop {
    fn start(&self, _: &str, _: u64, _: &str) {}

    fn advance(&self, steps: u64) {
        let ended = self.left.fetch_update(Ordering::SeqCst, Ordering::SeqCst, |left| left.checked_sub(steps)).is_err();
        if ended && let Some(context) = self.context.lock().unwrap().as_ref() {
            context.cancel();
        }
    }

    fn finish(&self) {}
}

#[test]
fn an_interrupted_capture_ends_with_the_same_bytes() {
    let (model, work) = (bert(), tempfile::tempdir().unwrap());
    let input = work.path().join("texts.jsonl");
    texts(&input);
    let request = request(model.path(), &input, "blocks.1.hook_resid_pre", RowChoice::All);
    let (whole, parts) = (work.path().join("whole"), work.path().join("parts"));
    capture(&request, &whole, &context(1)).unwrap();
    // Tokens: 364 in the first part, 850 in all. After them the rows of the store are counted.
    for steps in [10, 400, 950] {
        let shared = Arc::new(Mutex::new(None));
        let stop = Stop { left: AtomicU64::new(steps), context: shared.clone() };
        let interrupted = Context::new(2, Budget::new(1 << 30), stop).unwrap();
        *shared.lock().unwrap() = Some(interrupted.clone());
        assert!(matches!(capture(&request, &parts, &interrupted), Err(etalon::error::Error::Cancelled)), "{steps}");
    }
    assert!(parts.join("parts/000000").exists());
    capture(&request, &parts, &context(7)).unwrap();
    let (whole, parts) = (files(&whole), files(&parts));
    assert_eq!(whole.keys().collect::<Vec<_>>(), parts.keys().collect::<Vec<_>>());
    assert!(whole == parts);
}

/// A PNG file of one colour.
fn png(path: &Path, red: u8) {
    let image = image::RgbImage::from_pixel(40, 36, image::Rgb([red, 80, 160]));
    image.save(path).unwrap();
}

#[test]
fn images_and_broken_ones() {
    let work = tempfile::tempdir().unwrap();
    let folder = work.path().join("images");
    fs::create_dir(&folder).unwrap();
    (0..5).for_each(|i| png(&folder.join(format!("{i}.png")), 40 * i));
    let whole = fs::read(folder.join("2.png")).unwrap();
    fs::write(folder.join("2.png"), &whole[..whole.len() / 2]).unwrap();
    let model = golden("networks/vit_timm");
    for (rows, per_image) in
        [(RowChoice::All, 17), (RowChoice::Patches, 16), (RowChoice::Class, 1), (RowChoice::Mean, 1)]
    {
        let out = work.path().join(format!("{rows:?}"));
        let captured = capture(&request(&model, &folder, "blocks.1", rows), &out, &context(2)).unwrap();
        let store = ActivationStore::open(&captured.stores[0].1).unwrap();
        assert_eq!(store.rows(), 4 * per_image, "{rows:?}");
        assert!(fs::read_to_string(out.join("skipped.csv")).unwrap().contains("2.png"));
        assert!(captured.notes.iter().any(|note| note.contains("1 items")), "{:?}", captured.notes);
    }
}

/// Four registers follow the class token: only the network knows which rows are patches.
#[test]
fn captures_of_images_have_the_grid_of_patches_and_the_files() {
    let work = tempfile::tempdir().unwrap();
    let folder = work.path().join("images");
    fs::create_dir(&folder).unwrap();
    (0..70).for_each(|i| png(&folder.join(format!("{i:02}.png")), 3 * i));
    // Nothing that the explorer can show.
    fs::rename(folder.join("69.png"), folder.join("69.bmp")).unwrap();
    image::open(folder.join("00.png")).unwrap().save(folder.join("69.bmp")).unwrap();
    let dino = golden("networks/dinov2_registers");
    let line = |out: &Path, number: usize| -> serde_json::Value {
        serde_json::from_str(fs::read_to_string(out.join("rows.jsonl")).unwrap().lines().nth(number).unwrap()).unwrap()
    };
    let about = |out: &Path| -> serde_json::Value {
        serde_json::from_str(&fs::read_to_string(out.join("capture.json")).unwrap()).unwrap()
    };
    for (rows, prefix, grid) in [
        (RowChoice::All, Some(5), Some("4x4")),
        (RowChoice::Patches, Some(0), Some("4x4")),
        (RowChoice::Class, None, None),
        (RowChoice::Mean, None, None),
    ] {
        let out = work.path().join(format!("dino {rows:?}"));
        let captured = capture(&request(&dino, &folder, "encoder.layer.1", rows), &out, &context(2)).unwrap();
        let first = line(&out, 0);
        assert_eq!(first["grid"].as_str(), grid, "{first}");
        assert_eq!(first["image"].as_str(), folder.join("00.png").to_str());
        assert_eq!(
            (line(&out, 69)["id"].as_str(), &line(&out, 69)["image"]),
            (Some("69.bmp"), &serde_json::Value::Null)
        );
        let of_site = &about(&out)["grids"][&captured.stores[0].0];
        assert_eq!(of_site["prefix"].as_u64(), prefix, "{of_site}");
        assert_eq!(of_site["height"].as_u64(), grid.map(|_| 4));
    }
    // Maps of a network of convolutions; the class token and the mean have none.
    let out = work.path().join("resnet");
    let site = "layer2.0.sum,layer2";
    capture(&request(&golden("networks/resnet"), &folder, site, RowChoice::All), &out, &context(2)).unwrap();
    let grids = about(&out)["grids"].clone();
    assert_eq!((grids.as_object().unwrap().len(), grids["layer2.1"]["prefix"].as_u64()), (2, Some(0)));
    let (height, width) = (&grids["layer2.1"]["height"], &grids["layer2.1"]["width"]);
    assert_eq!(line(&out, 0)["grid"], format!("{height}x{width}"));
    // An interrupted capture knows the grid, although it does not run the first images again.
    let out = work.path().join("parts");
    let shared = Arc::new(Mutex::new(None));
    let stop = Stop { left: AtomicU64::new(63), context: shared.clone() };
    let interrupted = Context::new(2, Budget::new(1 << 30), stop).unwrap();
    *shared.lock().unwrap() = Some(interrupted.clone());
    let request = request(&dino, &folder, "encoder.layer.1", RowChoice::All);
    assert!(matches!(capture(&request, &out, &interrupted), Err(etalon::error::Error::Cancelled)));
    assert!(out.join("parts/000000").exists() && !out.join("parts/000001").exists());
    capture(&request, &out, &context(1)).unwrap();
    assert!(files(&out) == files(&work.path().join("dino All")));
}

#[test]
fn half_precision_takes_half_of_the_space() {
    let (model, work) = (bert(), tempfile::tempdir().unwrap());
    let input = work.path().join("texts.jsonl");
    texts(&input);
    let mut read = Vec::new();
    for dtype in [StoredNumber::F32, StoredNumber::F16, StoredNumber::Bf16] {
        let mut request = request(model.path(), &input, "blocks.1.hook_resid_pre", RowChoice::All);
        request.settings.dtype = dtype;
        let captured = capture(&request, &work.path().join(dtype.name()), &context(2)).unwrap();
        let shard = captured.stores[0].1.join(format!("shard-00000.{}", dtype.name()));
        let store = ActivationStore::open(&captured.stores[0].1).unwrap();
        let values = store.tile(0..store.rows()).unwrap().values.to_vec();
        let bytes = if dtype.is_f32() { 4 } else { 2 };
        assert_eq!(fs::metadata(&shard).unwrap().len() as usize, bytes * values.len());
        read.push((store.id().unwrap(), values, captured.stores[0].1.clone()));
    }
    for (index, error) in [(1, 2f32.powi(-11)), (2, 2f32.powi(-8))] {
        assert_ne!(read[0].0, read[index].0);
        let far = |(a, b): (&f32, &f32)| (a - b).abs() > error * a.abs() + 1e-7;
        assert!(!read[0].1.iter().zip(&read[index].1).any(far), "{index}");
    }
    // Another number type is another capture.
    let other = request(model.path(), &input, "blocks.1.hook_resid_pre", RowChoice::All);
    let error = capture(&other, &work.path().join("f16"), &context(1)).unwrap_err().to_string();
    assert!(error.contains("another capture"), "{error}");
}
