//! DreamSim's ensemble against the networks of the released package, on a small ensemble of the same layout.

use std::fs;
use std::path::Path;

use etalon::context::Budget;
use etalon_models::vision::DreamSim;
use etalon_models::{MeasureKind, SimilarityRequest, similarity};

use crate::{assert_close, context, floats, golden};

const FILES: [&str; 6] = [
    "images.npy",
    "checkpoints/dino_vitbase16_pretrain.pth",
    "clip_vitb16_pretrain.pth.tar",
    "open_clip_vitb16_pretrain.pth.tar",
    "ensemble_lora/adapter_config.json",
    "ensemble_lora/adapter_model.bin",
];

/// A copy of the ensemble.
fn copy(to: &Path) {
    for name in FILES {
        fs::create_dir_all(to.join(name).parent().unwrap()).unwrap();
        fs::copy(golden("mis/dreamsim").join(name), to.join(name)).unwrap();
    }
}

fn request(directory: &Path, out: &Path) -> SimilarityRequest {
    SimilarityRequest {
        model: directory.display().to_string(),
        input: golden("mis/dreamsim/images.npy").display().to_string(),
        measure: MeasureKind::DreamSim,
        distances: Some(out.to_path_buf()),
        ..SimilarityRequest::default()
    }
}

#[test]
fn vectors_of_the_released_networks() {
    let bytes = fs::read(golden("mis/dreamsim/images.npy")).unwrap();
    let pixels: Vec<f32> =
        bytes[bytes.len() - 3 * 16 * 16 * 3..].iter().map(|value| f32::from(*value) / 255.0).collect();
    let (expected, shape) = floats(&golden("mis/dreamsim/vectors.npy"));
    let ensemble = DreamSim::open(&golden("mis/dreamsim"), &Budget::new(1 << 30)).unwrap();
    assert_eq!((ensemble.side(), ensemble.width()), (16, shape[1]));
    let one = context(1);
    let found = one.install(|| ensemble.embed(&pixels, &one)).unwrap();
    assert_close("vectors", &found, &expected);
    for threads in [2, 7] {
        let context = context(threads);
        assert!(context.install(|| ensemble.embed(&pixels, &context)).unwrap() == found);
    }
}

#[test]
fn distances_follow_from_the_vectors() {
    let work = tempfile::tempdir().unwrap();
    let out = work.path().join("d.npy");
    similarity(&request(&golden("mis/dreamsim"), &out), &context(2)).unwrap();
    let (distances, shape) = floats(&out);
    assert_eq!(shape, [3, 3]);
    let (vectors, shape) = floats(&golden("mis/dreamsim/vectors.npy"));
    let row = |index: usize| &vectors[index * shape[1]..(index + 1) * shape[1]];
    let product = |a: usize, b: usize| row(a).iter().zip(row(b)).map(|(a, b)| a * b).sum::<f32>();
    for (a, b) in [(0, 1), (0, 2), (1, 2)] {
        assert!((distances[a * 3 + b] - (1.0 - product(a, b))).abs() < 1e-4);
        assert_eq!(distances[a * 3 + b], distances[b * 3 + a]);
    }
}

#[test]
fn missing_and_wrong_parts_are_named() {
    let work = tempfile::tempdir().unwrap();
    let refused = |change: &dyn Fn(&Path)| {
        let directory = tempfile::tempdir().unwrap();
        copy(directory.path());
        change(directory.path());
        similarity(&request(directory.path(), &work.path().join("d.npy")), &context(1)).unwrap_err().to_string()
    };
    for (name, expected) in [
        (FILES[1], "torch.hub keeps it"),
        (FILES[2], "clip_vitb16_pretrain.pth.tar"),
        (FILES[4], "adapter_config.json"),
        (FILES[5], "adapter_model.safetensors or adapter_model.bin"),
    ] {
        let error = refused(&|directory| fs::remove_file(directory.join(name)).unwrap());
        assert!(error.contains(expected), "{error}");
    }
    // A network without a projection in the place of one that has it.
    let error = refused(&|directory| {
        let (dino, clip) = (fs::read(directory.join(FILES[1])).unwrap(), directory.join(FILES[2]));
        fs::write(clip, dino).unwrap();
    });
    assert!(error.contains("proj") && error.contains("clip_vitb16"), "{error}");
    let error = refused(&|directory| {
        let path = directory.join(FILES[3]);
        let bytes = fs::read(&path).unwrap();
        fs::write(&path, &bytes[..bytes.len() / 2]).unwrap();
    });
    assert!(error.contains("open_clip"), "{error}");
    let mut request = request(&golden("mis/dreamsim"), &work.path().join("e.npy"));
    request.size = Some(16);
    assert!(similarity(&request, &context(1)).unwrap_err().to_string().contains("size"));
}
