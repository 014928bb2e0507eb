//! Decoding and preprocessing against Pillow, torchvision, timm and transformers; see `tests/golden/images/README.md` and
//! `tests/golden/image-formats/README.md`. Then files that are cut, changed or lie about their size.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "tests")]

use std::fs;
use std::path::PathBuf;

use etalon::context::Context;
use etalon_models::image::{
    CropRule, DecodeOptions, Filter, Pixels, Preprocess, Resize, channels_first, decode, decode_with, preprocess_batch,
};
use serde_json::Value;

const FILES: [&str; 5] = ["gradient.png", "shapes_rgba.png", "smooth_420.jpg", "exif_444.jpg", "small_gray.png"];

fn path(name: &str) -> PathBuf {
    PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/golden/images")).join(name)
}

fn file(name: &str) -> Vec<u8> {
    fs::read(path(name)).unwrap_or_else(|error| panic!("{name}: {error}"))
}

fn stem(name: &str) -> &str {
    name.split('.').next().unwrap()
}

/// The shape and the bytes of a numpy array.
fn array(name: &str) -> (Vec<usize>, Vec<u8>) {
    let bytes = file(name);
    let end = 10 + usize::from(u16::from_le_bytes([bytes[8], bytes[9]]));
    let header = String::from_utf8_lossy(&bytes[10..end]).into_owned();
    assert!(header.contains("'fortran_order': False"), "{name}");
    let shape = header.split("'shape': (").nth(1).unwrap().split(')').next().unwrap();
    (shape.split(',').filter_map(|side| side.trim().parse().ok()).collect(), bytes[end..].to_vec())
}

fn pixels(name: &str) -> Pixels {
    let (shape, bytes) = array(name);
    Pixels::new(shape[1], shape[0], bytes).unwrap()
}

fn floats(name: &str) -> Vec<f32> {
    array(name).1.chunks_exact(4).map(|bytes| f32::from_le_bytes(bytes.try_into().unwrap())).collect()
}

fn decoded(name: &str) -> Pixels {
    pixels(&format!("decoded/{}.u8.npy", stem(name)))
}

fn assert_close(found: &[f32], expected: &[f32], tolerance: f32, what: &str) {
    assert_eq!(found.len(), expected.len(), "{what}");
    let largest = found.iter().zip(expected).map(|(a, b)| (a - b).abs()).fold(0.0, f32::max);
    assert!(largest <= tolerance, "{what}: {largest}");
}

/// The folders and their pipelines, with the sizes of `meta.json`.
fn pipelines() -> Vec<(&'static str, Preprocess)> {
    let meta: Value = serde_json::from_slice(&file("meta.json")).unwrap();
    let side = |key: &str| meta[key].as_u64().unwrap() as usize;
    let (short, crop) = (side("resize_short_side"), side("crop"));
    vec![
        ("torchvision_bilinear_pil", Preprocess::torchvision(short, crop)),
        ("openai_clip_bicubic_pil", Preprocess::openai_clip(crop)),
        ("dreamsim_bicubic_square", Preprocess::dreamsim(crop)),
        ("timm_bicubic", Preprocess::timm(crop, 0.875, Filter::Bicubic)),
        ("torchvision_v2_uint8_tensor_bilinear", Preprocess::torchvision_tensor(short, crop, Filter::Bilinear)),
        ("torchvision_v2_uint8_tensor_bicubic", Preprocess::torchvision_tensor(crop, crop, Filter::Bicubic)),
        ("hf_clip", Preprocess::hugging_face_clip(crop)),
        ("hf_clip_pil_backend", Preprocess::hugging_face_clip_pil(crop)),
        ("hf_vit", Preprocess::hugging_face_vit(crop)),
    ]
}

#[test]
fn files_decode_to_the_bytes_of_pillow() {
    for name in FILES {
        assert!(decode(&file(name)).unwrap() == decoded(name), "{name}");
    }
}

/// The files of `tests/golden/image-formats`, in the order of their names.
fn formats() -> Vec<String> {
    let entries = fs::read_dir(path("../image-formats")).unwrap().map(|entry| entry.unwrap().file_name());
    let names = entries.map(|name| name.into_string().unwrap());
    let images = names.filter(|name| [".png", ".jpg", ".webp", ".gif", ".bmp"].iter().any(|end| name.ends_with(end)));
    let mut files: Vec<String> = images.map(|name| format!("../image-formats/{name}")).collect();
    files.sort();
    assert_eq!(files.len(), 26);
    files
}

#[test]
fn every_kind_of_file_decodes_to_the_bytes_of_pillow() {
    for name in formats() {
        let found = decode(&file(&name)).unwrap_or_else(|error| panic!("{name}: {error}"));
        assert!(found == pixels(&format!("{name}.u8.npy")), "{name}");
    }
}

#[test]
fn orientation_is_applied_on_demand() {
    let options = DecodeOptions { orient: true, ..DecodeOptions::default() };
    let turned = decode_with(&file("exif_444.jpg"), &options).unwrap();
    // The file has orientation 6.
    assert!(turned == decoded("exif_444.jpg").oriented(6));
    assert!(decode_with(&file("gradient.png"), &options).unwrap() == decoded("gradient.png"));
}

#[test]
fn every_pipeline_resizes_and_crops_exactly() {
    for (folder, preprocess) in pipelines() {
        for name in FILES {
            let found = preprocess.resize_and_crop(&decoded(name)).unwrap();
            let expected = pixels(&format!("{folder}/{}.u8.npy", stem(name)));
            let differ = found.rgb().iter().zip(expected.rgb()).filter(|(a, b)| a != b).count();
            assert_eq!((found.width(), differ), (expected.width(), 0), "{folder} {name}");
        }
    }
}

#[test]
fn final_values_agree_from_the_file_on() {
    let mut compared = 0;
    for (folder, preprocess) in pipelines() {
        for name in FILES {
            let expected = format!("{folder}/{}.f32.npy", stem(name));
            if path(&expected).exists() {
                let values = preprocess.apply(&decode(&file(name)).unwrap()).unwrap();
                assert_close(&channels_first(&values), &floats(&expected), 1e-6, &expected);
                compared += 1;
            }
        }
    }
    assert_eq!(compared, 14);
}

#[test]
fn floating_point_pipelines_are_not_rounded() {
    for (folder, filter) in
        [("float_tensor_bilinear_antialias", Filter::Bilinear), ("float_tensor_bicubic_antialias", Filter::Bicubic)]
    {
        let values = Preprocess::float_tensor(66, 48, filter).apply(&decoded("gradient.png")).unwrap();
        assert_close(&channels_first(&values), &floats(&format!("{folder}/gradient.f32.npy")), 1e-6, folder);
    }
}

#[test]
fn scaling_of_other_networks() {
    let input = pixels("arithmetic/input_20x20.u8.npy");
    for (name, preprocess, tolerance) in [
        ("caffe_bgr", Preprocess::caffe(20, 20), 1e-5),
        ("efficientnet_lite", Preprocess { resize: Resize::None, ..Preprocess::efficientnet_lite(20) }, 0.0),
        ("lpips_scaled", Preprocess::lpips(), 1e-6),
        ("lucent_googlenet", Preprocess::lucent_googlenet(20, 20), 0.0),
    ] {
        let values = preprocess.apply(&input).unwrap();
        assert_close(&channels_first(&values), &floats(&format!("arithmetic/{name}.f32.npy")), tolerance, name);
    }
}

#[test]
fn crop_margins_are_those_of_the_libraries() {
    let meta: Value = serde_json::from_slice(&file("meta.json")).unwrap();
    for (side, margins) in meta["centre_crop_offsets"].as_object().unwrap() {
        let side: usize = side.parse().unwrap();
        let found = [CropRule::Torchvision, CropRule::Transformers].map(|rule| rule.margin(side, 42) as u64);
        let expected = ["torchvision_int_round", "hf_floor"].map(|key| margins[key].as_u64().unwrap());
        assert_eq!(found, expected, "{side}");
    }
}

#[test]
fn a_batch_equals_single_images_for_any_number_of_threads() {
    let preprocess = Preprocess::torchvision(48, 42);
    let mut files: Vec<Vec<u8>> = FILES.iter().cycle().take(23).map(|name| file(name)).collect();
    files[3].truncate(500);
    files[20] = b"no image".to_vec();
    let mut expected = Vec::new();
    for (number, name) in FILES.iter().cycle().take(23).enumerate() {
        if ![3, 20].contains(&number) {
            expected.extend(preprocess.apply(&decode(&file(name)).unwrap()).unwrap());
        }
    }
    for threads in [1, 2, 7] {
        let context = Context::silent(threads, 1 << 30).unwrap();
        let batch = preprocess_batch(&files, &preprocess, &DecodeOptions::default(), &context).unwrap();
        assert!(*batch.values == expected, "{threads} threads");
        assert_eq!(batch.failed.iter().map(|(number, _)| *number).collect::<Vec<_>>(), [3, 20]);
        assert_eq!(batch.kept.len(), 21);
        drop(batch);
        assert_eq!(context.budget().left(), 1 << 30);
    }
}

#[test]
fn a_batch_needs_memory_and_a_fixed_size() {
    let files = [file("gradient.png"), file("smooth_420.jpg")];
    let options = DecodeOptions::default();
    // Two outputs of 42 × 42 × 3 × 4 bytes, and one image of 84 × 61 pixels at a time.
    let context = Context::silent(2, 2 * 21_168 + 84 * 61 * 16).unwrap();
    assert!(preprocess_batch(&files, &Preprocess::torchvision(48, 42), &options, &context).is_ok());
    let context = Context::silent(2, 2 * 21_168 + 1000).unwrap();
    let error = preprocess_batch(&files, &Preprocess::torchvision(48, 42), &options, &context).unwrap_err();
    assert!(error.to_string().contains("decoding an image"), "{error}");
    assert!(preprocess_batch(&files, &Preprocess::lpips(), &options, &context).unwrap_err().is_input());
}

/// A PNG file of grey pixels that claims a size and contains some compressed bytes.
fn claiming_png(width: u32, height: u32) -> Vec<u8> {
    let checksum = |bytes: &[u8]| {
        !bytes.iter().fold(!0u32, |sum, &byte| {
            (0..8).fold(sum ^ u32::from(byte), |sum, _| if sum & 1 == 1 { sum >> 1 ^ 0xedb8_8320 } else { sum >> 1 })
        })
    };
    let mut png = b"\x89PNG\r\n\x1a\n".to_vec();
    let mut header = [width.to_be_bytes(), height.to_be_bytes()].concat();
    header.extend([8, 0, 0, 0, 0]);
    // An empty compressed stream.
    for (kind, data) in [(b"IHDR", header), (b"IDAT", b"x\x9c\x03\x00\x00\x00\x00\x01".to_vec()), (b"IEND", vec![])] {
        png.extend((data.len() as u32).to_be_bytes());
        let body = [&kind[..], &data].concat();
        png.extend(&body);
        png.extend(checksum(&body).to_be_bytes());
    }
    png
}

fn refused(bytes: &[u8]) -> String {
    let error = decode(bytes).unwrap_err();
    assert!(error.is_input(), "{error}");
    error.to_string()
}

#[test]
fn claimed_sizes_are_checked_before_memory_is_allocated() {
    let message = refused(&claiming_png(60_000, 60_000));
    assert!(message.contains("60000 × 60000") && message.contains("178956970"), "{message}");
    assert!(refused(&claiming_png(2_000_000_000, 1)).contains("out of range"));
    // Below the limit, but more than the bytes can contain.
    assert!(refused(&claiming_png(13_000, 13_000)).contains("can contain"));
    assert!(refused(&claiming_png(10, 10)).contains("a complete PNG file"));
    refused(&claiming_png(0, 5));
    refused(&claiming_png(5, 0));
    // The height and width of a JPEG frame are 5 bytes behind its marker.
    let mut jpeg = file("exif_444.jpg");
    let frame = jpeg.windows(2).position(|marker| marker == [0xff, 0xc0]).unwrap();
    jpeg[frame + 5..frame + 9].copy_from_slice(&[0xea, 0x60, 0xea, 0x60]);
    refused(&jpeg);
    jpeg[frame + 5..frame + 9].copy_from_slice(&[0, 0, 0, 10]);
    refused(&jpeg);
    // A GIF frame of 65,535 × 65,535.
    let mut gif = file("../image-formats/partial.gif");
    gif[6..10].fill(0xff);
    assert!(refused(&gif).contains("65535 × 65535"));
    let tight = DecodeOptions { largest: 84 * 61 - 1, ..DecodeOptions::default() };
    assert!(decode_with(&file("gradient.png"), &tight).unwrap_err().is_input());
}

#[test]
fn bytes_that_are_no_image_are_refused() {
    assert!(refused(b"").contains("no bytes"));
    let message = refused(b"<svg onload=alert(1)>");
    assert!(message.contains("PNG, JPEG, WebP, GIF or BMP") && message.contains("<svg onload="), "{message}");
    for start in [&b"\x89PNG\r\n\x1a\n"[..], b"\xff\xd8\xff", b"RIFF\0\0\0\0WEBP", b"GIF89a", b"BM", &[0; 4096]] {
        refused(start);
        refused(&[start, &[0xff; 100]].concat());
        refused(&[start, &[0; 100]].concat());
    }
}

#[test]
fn cut_files_are_refused() {
    for name in FILES.map(String::from).into_iter().chain(formats()) {
        let whole = file(&name);
        // What follows the pixels: the last chunk of a PNG file with the checksum before it, the last marker of a JPEG
        // file, the end of a GIF frame and the trailer, further frames, the padding of a row.
        let rest = match name.rsplit('.').next().unwrap() {
            "png" => 20,
            "jpg" => 3,
            "gif" if !name.contains("animated") => 4,
            "webp" => 1,
            "bmp" => 4,
            _ => whole.len() / 2 + 100,
        };
        let end = whole.len().saturating_sub(rest);
        for length in (0..end).step_by(13).chain([end]) {
            match decode(&whole[..length]) {
                Ok(_) => panic!("{name} cut at {length} of {} is accepted", whole.len()),
                Err(error) => assert!(error.is_input(), "{name} cut at {length}: {error}"),
            }
        }
    }
}

#[test]
fn changed_bytes_never_panic() {
    for name in FILES.map(String::from).into_iter().chain(formats()) {
        let whole = file(&name);
        for position in 0..whole.len().min(1500) {
            let mut changed = whole.clone();
            changed[position] ^= 0xff;
            if let Err(error) = decode(&changed) {
                assert!(error.is_input(), "{name}, byte {position}: {error}");
            }
        }
    }
}

#[test]
fn thin_images_do_not_become_huge() {
    // 1 × 60,000 pixels, the shorter side to 256: 15,360,000 rows, of which the crop keeps 224.
    let thin = Pixels::new(1, 60_000, vec![7; 180_000]).unwrap();
    let cropped = Preprocess::torchvision(256, 224);
    assert_eq!(cropped.apply(&thin).unwrap().len(), 224 * 224 * 3);
    assert!(Preprocess { crop: None, ..cropped }.apply(&thin).unwrap_err().is_input());
}
