//! Distances of images against the networks themselves, and against values by hand.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use etalon::context::{Budget, Context, Progress};
use etalon::error::Error;
use etalon::store::ActivationStore;
use etalon_models::vision::{Dists, Lpips};
use etalon_models::weights::Model;
use etalon_models::{MeasureKind, SimilarityRequest, similarity};

use crate::{context, floats, golden};

const SIDE: usize = 48;

/// Values 0 to 255 of an image.
fn made(index: usize) -> Vec<u8> {
    let pixel = |i: usize| ((i * (index * 37 + 11) + (i / (SIDE * 3)) * (index * 13 + 5)) % 251) as u8;
    (0..SIDE * SIDE * 3).map(pixel).collect()
}

/// A folder with five images, the last one a copy of the first.
fn folder(work: &Path) -> PathBuf {
    let folder = work.join("images");
    fs::create_dir(&folder).unwrap();
    for index in 0..5 {
        let image = image::RgbImage::from_raw(SIDE as u32, SIDE as u32, made(index % 4)).unwrap();
        image.save(folder.join(format!("{index}.png"))).unwrap();
    }
    folder
}

fn lpips(folder: &Path) -> SimilarityRequest {
    SimilarityRequest {
        model: golden("mis/lpips/tiny_alex.safetensors").display().to_string(),
        input: folder.display().to_string(),
        ..SimilarityRequest::default()
    }
}

fn dists(folder: &Path) -> SimilarityRequest {
    SimilarityRequest {
        model: golden("networks/vgg16_features").display().to_string(),
        heads: Some(golden("mis/dists/heads.safetensors")),
        measure: MeasureKind::Dists,
        ..lpips(folder)
    }
}

fn cosine(folder: &Path, model: &str, site: &str) -> SimilarityRequest {
    SimilarityRequest {
        model: golden(model).display().to_string(),
        measure: MeasureKind::Cosine,
        site: Some(site.into()),
        ..lpips(folder)
    }
}

fn small() -> Context {
    Context::silent(2, 1 << 30).unwrap()
}

/// The matrix of all distances.
fn matrix(request: &SimilarityRequest, work: &Path, name: &str, context: &Context) -> Vec<f32> {
    let path = work.join(name);
    similarity(&SimilarityRequest { distances: Some(path.clone()), ..request.clone() }, context).unwrap();
    let (values, shape) = floats(&path);
    assert_eq!(shape, [5, 5]);
    for row in 0..5 {
        assert_eq!(values[row * 6], 0.0);
        (0..5).for_each(|column| assert_eq!(values[row * 5 + column], values[column * 5 + row]));
    }
    assert!(values[4].abs() < 1e-6, "copies: {}", values[4]);
    values
}

fn close(found: f32, expected: f64) {
    assert!((f64::from(found) - expected).abs() < 1e-5 * expected.abs() + 1e-6, "{found} {expected}");
}

#[test]
fn lpips_as_vectors_matrix_and_pairs() {
    let work = tempfile::tempdir().unwrap();
    let request = lpips(&folder(work.path()));
    let found = matrix(&request, work.path(), "a.npy", &context(1));
    assert!(found == matrix(&request, work.path(), "b.npy", &context(7)));
    // The same distances by the network, of images from -1 to 1.
    let budget = Budget::new(1 << 30);
    let network = Lpips::open(&Model::open(Path::new(&request.model), &budget).unwrap(), None, &budget).unwrap();
    let image =
        |index: usize| -> Vec<f32> { made(index).iter().map(|value| f32::from(*value) / 127.5 - 1.0).collect() };
    for (a, b) in [(0, 1), (0, 3), (2, 3)] {
        let expected = network.distances(&image(a), &image(b), SIDE, SIDE, &small()).unwrap()[0];
        assert!(expected > 0.01);
        close(found[a * 5 + b], expected);
    }
    // Squared Euclidean distances of the stored vectors.
    let store = work.path().join("store");
    let done = similarity(&SimilarityRequest { store: Some(store.clone()), ..request.clone() }, &small()).unwrap();
    let stored = ActivationStore::open(&store).unwrap();
    assert_eq!((stored.rows(), stored.width(), done.size), (5, done.width, [SIDE, SIDE]));
    let tile = stored.tile(0..5).unwrap();
    let square: f64 = tile.row(1).iter().zip(tile.row(2)).map(|(a, b)| f64::from(a - b).powi(2)).sum();
    close(found[7], square);
    assert_eq!(fs::read_to_string(work.path().join("store.images.csv")).unwrap().lines().nth(2), Some("1,1.png"));
    // Pairs by id and by row number.
    let (pairs, out) = (work.path().join("pairs.csv"), work.path().join("out.csv"));
    fs::write(&pairs, "b,a\n3,0.png\n4.png,0\n").unwrap();
    similarity(&SimilarityRequest { pairs: Some((pairs, out.clone())), ..request }, &small()).unwrap();
    let text = fs::read_to_string(out).unwrap();
    let lines: Vec<Vec<&str>> = text.lines().map(|line| line.split(',').collect()).collect();
    assert_eq!((lines[0].join(","), lines[1][0], lines[1][1]), ("a,b,distance".into(), "0.png", "3"));
    close(lines[1][2].parse().unwrap(), f64::from(found[3]));
    assert_eq!(lines[2][2], "0");
}

#[test]
fn dists_as_distances() {
    let work = tempfile::tempdir().unwrap();
    let request = dists(&folder(work.path()));
    let found = matrix(&request, work.path(), "a.npy", &context(1));
    assert!(found == matrix(&request, work.path(), "b.npy", &context(7)));
    let budget = Budget::new(1 << 30);
    let open = |path: &Path| Model::open(path, &budget).unwrap();
    let heads = open(request.heads.as_ref().unwrap());
    let network = Dists::open(&open(Path::new(&request.model)), Some(&heads.weights), &budget).unwrap();
    let image = |index: usize| -> Vec<f32> { made(index).iter().map(|value| f32::from(*value) / 255.0).collect() };
    for (a, b) in [(0, 1), (1, 3)] {
        close(found[a * 5 + b], network.distances(&image(a), &image(b), SIDE, SIDE, &small()).unwrap()[0]);
    }
}

#[test]
fn cosines_of_class_tokens_and_maps() {
    let work = tempfile::tempdir().unwrap();
    let folder = folder(work.path());
    for (name, model, site) in [("vit", "networks/vit_timm", "blocks.1"), ("cnn", "networks/resnet", "layer2.0")] {
        let request = cosine(&folder, model, site);
        let found = matrix(&request, work.path(), &format!("{name}.npy"), &small());
        let store = work.path().join(name);
        similarity(&SimilarityRequest { store: Some(store.clone()), ..request }, &context(7)).unwrap();
        let stored = ActivationStore::open(&store).unwrap();
        let tile = stored.tile(0..5).unwrap();
        let dot = |a: usize, b: usize| tile.row(a).iter().zip(tile.row(b)).map(|(a, b)| f64::from(a * b)).sum::<f64>();
        assert!((dot(3, 3) - 1.0).abs() < 1e-6);
        close(found[1], 1.0 - dot(0, 1));
    }
}

#[test]
fn images_of_other_sizes_are_resized_or_refused() {
    let work = tempfile::tempdir().unwrap();
    let request = lpips(&folder(work.path()));
    let wide = image::RgbImage::from_pixel(60, 40, image::Rgb([9, 80, 160]));
    wide.save(Path::new(&request.input).join("9.png")).unwrap();
    let distances = Some(work.path().join("d.npy"));
    let request = SimilarityRequest { distances: distances.clone(), ..request };
    let error = similarity(&request, &small()).unwrap_err().to_string();
    assert!(error.contains("different sizes") && error.contains("60 × 40 pixels: 9.png"), "{error}");
    let resized = SimilarityRequest { size: Some(64), ..request };
    assert_eq!(similarity(&resized, &small()).unwrap().size, [64, 64]);
    // A damaged image is skipped.
    fs::write(Path::new(&resized.input).join("8.png"), b"\x89PNG\r\n\x1a\nrubbish").unwrap();
    let done = similarity(&resized, &small()).unwrap();
    assert!(done.images == 6 && done.notes.iter().any(|note| note.contains("8.png")), "{done:?}");
}

#[test]
fn wrong_requests_are_refused() {
    let work = tempfile::tempdir().unwrap();
    let folder = folder(work.path());
    let error = |request: SimilarityRequest| {
        let request = SimilarityRequest { distances: Some(work.path().join("d.npy")), ..request };
        similarity(&request, &small()).unwrap_err().to_string()
    };
    let without_heads = SimilarityRequest { heads: None, ..dists(&folder) };
    let vgg = SimilarityRequest { measure: MeasureKind::Lpips, ..without_heads.clone() };
    let cases = [
        (error(without_heads), "weights of DISTS are missing"),
        (error(vgg), "heads of LPIPS are missing"),
        (
            error(SimilarityRequest { model: golden("networks/llama").display().to_string(), ..lpips(&folder) }),
            "no network for LPIPS",
        ),
        (error(cosine(&folder, "networks/llama", "blocks.0.hook_resid_post")), "reads texts"),
        (error(cosine(&folder, "networks/vit_timm", "blocks.99")), "no site"),
        (error(cosine(&folder, "networks/vit_timm", "blocks.*")), "one site"),
        (error(SimilarityRequest { site: None, ..cosine(&folder, "networks/vit_timm", "x") }), "needs a site"),
        (
            error(SimilarityRequest { size: Some(8), ..cosine(&folder, "networks/vit_timm", "blocks.1") }),
            "belongs to LPIPS",
        ),
        (error(SimilarityRequest { size: Some(2), ..lpips(&folder) }), "too small"),
        (error(SimilarityRequest { store: Some(work.path().join("s")), ..dists(&folder) }), "no store"),
    ];
    for (found, expected) in cases {
        assert!(found.contains(expected), "{expected}: {found}");
    }
    assert!(!work.path().join("d.npy").exists() && !work.path().join("s").exists());
    let pairs = work.path().join("pairs.csv");
    for (text, expected) in [("a,b\n0.png,12\n", "below 5"), ("a,c\n1,2\n", "`a` and `b`"), ("a,b\n", "no pairs")] {
        fs::write(&pairs, text).unwrap();
        let request = SimilarityRequest { pairs: Some((pairs.clone(), work.path().join("o.csv"))), ..lpips(&folder) };
        let found = similarity(&request, &small()).unwrap_err().to_string();
        assert!(found.contains(expected), "{expected}: {found}");
    }
    let large = SimilarityRequest { size: Some(2000), store: Some(work.path().join("s")), ..lpips(&folder) };
    let found = similarity(&large, &Context::silent(1, 8 << 20).unwrap()).unwrap_err().to_string();
    assert!(found.contains("do not fit into memory") && found.contains("smaller"), "{found}");
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
fn an_interrupted_comparison_ends_with_the_same_bytes() {
    let work = tempfile::tempdir().unwrap();
    let request = lpips(&folder(work.path()));
    for index in 5..20 {
        let image = image::RgbImage::from_raw(SIDE as u32, SIDE as u32, made(index)).unwrap();
        image.save(Path::new(&request.input).join(format!("{index}.png"))).unwrap();
    }
    let request = |name: &str| SimilarityRequest {
        store: Some(work.path().join(name)),
        distances: Some(work.path().join(format!("{name}.npy"))),
        ..request.clone()
    };
    similarity(&request("whole"), &context(1)).unwrap();
    // While images are listed, after the first batch, and while distances are computed.
    for steps in [7, 21, 40] {
        let shared = Arc::new(Mutex::new(None));
        let stop = Stop { left: AtomicU64::new(steps), context: shared.clone() };
        let interrupted = Context::new(2, Budget::new(1 << 30), stop).unwrap();
        *shared.lock().unwrap() = Some(interrupted.clone());
        let ended = similarity(&request("parts"), &interrupted);
        assert!(matches!(ended, Err(Error::Cancelled)) || steps == 40, "{steps}: {ended:?}");
        assert!(!work.path().join("parts.npy").exists() || steps == 40, "{steps}");
    }
    similarity(&request("parts"), &context(7)).unwrap();
    let bytes = |name: &str| fs::read(work.path().join(name)).unwrap();
    for (a, b) in [("whole.npy", "parts.npy"), ("whole/manifest.json", "parts/manifest.json")] {
        assert!(bytes(a) == bytes(b), "{a}");
    }
}
