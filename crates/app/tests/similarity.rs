//! `etalon similarity` and captures with weights drawn anew, as users run them.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "tests")]

mod common;

use std::fs;
use std::path::Path;

use common::Sandbox;

fn golden(name: &str) -> String {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/golden").join(name).display().to_string()
}

/// Six images of 40 × 40 pixels as an array of bytes, and some pairs.
fn images() -> Sandbox {
    let sandbox = Sandbox::new();
    let mut header = String::from("{'descr': '|u1', 'fortran_order': False, 'shape': (6, 40, 40, 3), }");
    header.push_str(&" ".repeat(117 - header.len()));
    header.push('\n');
    let mut bytes = b"\x93NUMPY\x01\x00".to_vec();
    bytes.extend((header.len() as u16).to_le_bytes());
    bytes.extend(header.as_bytes());
    bytes.extend((0..6 * 40 * 40 * 3).map(|i| ((i * i / 7 + i / 4800 * 31) % 256) as u8));
    sandbox.write("images.npy", bytes);
    sandbox.write("pairs.csv", "a,b\n0,1\n2,5\n");
    sandbox
}

/// The `f32` of an `.npy` file.
fn values(path: &Path) -> Vec<f32> {
    let bytes = fs::read(path).unwrap();
    bytes[128..].as_chunks::<4>().0.iter().map(|value| f32::from_le_bytes(*value)).collect()
}

#[test]
fn vectors_distances_and_pairs() {
    let sandbox = images();
    let alex = golden("mis/lpips/tiny_alex.safetensors");
    let lpips = format!("similarity --model {alex} --input images.npy");
    let done = sandbox.done(&format!("{lpips} --out vectors --distances d.npy --json --threads 2"));
    let json = done.json();
    assert_eq!((json["images"].as_u64(), json["size"][0].as_u64()), (Some(6), Some(40)));
    assert_eq!(sandbox.json("vectors/manifest.json")["width"], json["width"]);
    assert!(sandbox.read("vectors.images.csv").starts_with("row,id\n0,0\n"));
    let distances = values(&sandbox.path("d.npy"));
    assert_eq!((distances.len(), distances[0], distances[1] > 0.0), (36, 0.0, true));
    sandbox.done(&format!("{lpips} --pairs pairs.csv --out pairs-out.csv --threads 1"));
    let text = sandbox.read("pairs-out.csv");
    let found: f32 = text.lines().nth(1).unwrap().split(',').nth(2).unwrap().parse().unwrap();
    assert!((found - distances[1]).abs() < 1e-6, "{text}");
    // Running again confirms the store; the distances of a store and of memory are the same.
    sandbox.done(&format!("{lpips} --out vectors"));
    sandbox.done(&format!("{lpips} --distances again.npy"));
    assert_eq!(values(&sandbox.path("again.npy")), distances);
    sandbox.done("verify vectors");
    let (vgg, heads) = (golden("networks/vgg16_features"), golden("mis/dists/heads.safetensors"));
    sandbox.done(&format!(
        "similarity --model {vgg} --measure dists --heads {heads} --input images.npy --size 32 --distances s.npy"
    ));
    assert!(values(&sandbox.path("s.npy"))[1] > 0.0);
    let vit = golden("networks/vit_timm");
    sandbox.done(&format!("similarity --model {vit} --measure cosine --site blocks.1 --input images.npy --out cls"));
    assert!(sandbox.leftovers().is_empty(), "{:?}", sandbox.leftovers());
}

#[test]
fn wrong_requests_are_explained() {
    let sandbox = images();
    sandbox.write("texts.txt", "no image");
    let (alex, vgg) = (golden("mis/lpips/tiny_alex.safetensors"), golden("networks/vgg16_features"));
    let (llama, vit) = (golden("networks/llama"), golden("networks/vit_timm"));
    let cases = [
        (format!("--model {vgg} --input images.npy --out x"), "`--heads FILE`"),
        (format!("--model {vgg} --measure dists --input images.npy --out x"), "`--distances FILE.npy`"),
        (format!("--model {llama} --measure cosine --site embed --input images.npy --out x"), "reads texts"),
        (format!("--model {vit} --measure cosine --site blocks.77 --input images.npy --out x"), "`--site blocks.77`"),
        (format!("--model {alex} --input texts.txt --out x"), "expected: images"),
        (format!("--model {alex} --input images.npy"), "--out"),
        (format!("--model {alex} --input images.npy --size 3000 --out x --memory 16MB"), "`--size 64`"),
        (format!("--model {alex} --input images.npy --pairs images.npy --distances d.npy --out x"), "cannot be used"),
    ];
    for (arguments, expected) in cases {
        let output = sandbox.run(&format!("similarity {arguments}"));
        assert_eq!(output.code, Some(2), "{arguments}: {output:?}");
        assert!(output.err.contains(expected), "{arguments}: {}", output.err);
        assert!(!sandbox.path("x").exists() && !sandbox.path("d.npy").exists(), "{arguments}");
    }
}

#[test]
fn weights_are_drawn_anew() {
    let sandbox = images();
    let capture = format!("capture --model {} --input images.npy --site blocks.1", golden("networks/vit_timm"));
    let mut ids = Vec::new();
    for (name, options) in [("a", ""), ("b", "--randomise weights"), ("c", "--randomise weights --weights-seed 1")] {
        sandbox.done(&format!("{capture} {options} --out {name}"));
        ids.push(sandbox.json(&format!("{name}/sites/blocks.1.hook_resid_post/manifest.json"))["id"].clone());
    }
    assert!(ids[0] != ids[1] && ids[1] != ids[2] && ids[0] != ids[2]);
    let other = sandbox.run(&format!("{capture} --out b"));
    assert!(other.code == Some(2) && other.err.contains("another capture"), "{other:?}");
}
