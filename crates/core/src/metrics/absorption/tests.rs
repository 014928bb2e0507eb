//! Synthetic data with known absorption.

use std::path::PathBuf;

use etalon_kernel::product::dot;
use etalon_kernel::random::{stream, unit};
use serde_json::Value;

use super::fraction::{CURRENT, Carried};
use super::*;
use crate::codes::Codes;
use crate::context::{Budget, Context};
use crate::input::{Finite, Source, read_rows};
use crate::labels::{Annotations, Label};
use crate::metrics::testing;
use crate::results::{Cells, Profile};
use crate::run::{CODES, DIRECTIONS, EMBEDDINGS, Inputs};
use crate::sae::{checkpoint, encode_store};
use crate::store::ActivationStore;

const WIDTH: usize = 8;

/// Two classes along the first two axes, with latents 0 and 1. Latent 2 points mostly along the first class and replaces
/// its latent in the rows that `absorbed` selects.
fn world(absorbed: impl Fn(usize) -> bool) -> Inputs {
    let rows = 600;
    let mut random = stream(4, "absorption test", 0);
    let (mut activations, mut codes) = (Vec::new(), Vec::new());
    for row in 0..rows {
        let class = row % 3;
        let mut x: Vec<f32> = (0..WIDTH).map(|_| 0.05 * (unit(&mut random) as f32 - 0.5)).collect();
        let mut f = [0.0f32; 6];
        if class < 2 {
            x[class] += 1.0;
        }
        match class {
            0 if absorbed(row) => f[2] = 1.0,
            0 | 1 => f[class] = 1.0,
            _ => {}
        }
        let noise = 3 + row % 3;
        f[noise] = 0.2;
        activations.extend(x);
        codes.extend(f);
    }
    let mut directions = vec![0.0; 6 * WIDTH];
    directions[0] = 1.0;
    directions[WIDTH + 1] = 1.0;
    // cos = 0.8 with the first axis.
    (directions[2 * WIDTH], directions[2 * WIDTH + 2]) = (0.8, 0.6);
    for latent in 3..6 {
        directions[latent * WIDTH + latent] = 1.0;
    }
    let yes = |row: usize, class: usize| if row % 3 == class { Label::Yes } else { Label::No };
    Inputs::default()
        .with(&CODES, Codes::from_dense(&codes, 6).unwrap())
        .with(&EMBEDDINGS, ActivationStore::from_rows(activations, WIDTH).unwrap())
        .with(&LABELS, Annotations::new(vec!["a".into(), "b".into()], rows, yes).unwrap())
        .with(&DIRECTIONS, ActivationStore::from_rows(directions, WIDTH).unwrap())
}

fn run(inputs: &Inputs, given: &[(&str, &str)], profile: Profile) -> Result<Scores> {
    testing::scores(&Absorption, inputs, given, profile, 2)
}

#[test]
fn fractions_are_zero_without_absorption() {
    let scores = run(&world(|_| false), &[], Profile::Paper).unwrap();
    let keys = ["absorption_fraction", "absorption_fraction_january", "absorption_fraction_paper", "full_absorption"];
    for key in keys {
        assert!(scores.value(key).unwrap() < 1e-3, "{key}: {scores:?}");
    }
    assert_eq!(scores.value("split_features"), Some(1.0));
    let table = scores.table("concept").unwrap();
    assert_eq!(table.column("latents"), Some(&Cells::WholeLists(vec![vec![0], vec![1]])));
}

#[test]
fn planted_absorption_is_found() {
    // Latent 2 absorbs one of ten rows of the first class, too few for a second main latent.
    let scores = run(&world(|row: usize| row.is_multiple_of(30)), &[("jump", "0.2")], Profile::Paper).unwrap();
    let table = scores.table("concept").unwrap();
    let rows = table.column("rows").unwrap().number(0).unwrap();
    let full = table.column("fully_absorbed").unwrap().number(0).unwrap();
    assert!(full > 0.0);
    // In these rows the main latent carries 0, the other 0.8 of about 1: full absorption in every variant.
    for key in ["absorption_fraction", "absorption_fraction_january", "absorption_fraction_paper", "full_absorption"] {
        let found = table.column(key).unwrap().number(0).unwrap();
        assert!((found - full / rows).abs() < 1e-9, "{key}: {found} for {full} of {rows}");
        assert_eq!(table.column(key).unwrap().number(1), Some(0.0));
    }
    // With a small jump latent 2 becomes a second main latent, and nothing is absorbed.
    let scores = run(&world(|row: usize| row.is_multiple_of(30)), &[], Profile::Paper).unwrap();
    let table = scores.table("concept").unwrap();
    assert_eq!(table.column("split_features").unwrap().number(0), Some(2.0));
    assert_eq!(scores.value("full_absorption"), Some(0.0));
}

#[test]
fn too_few_classes_are_undefined() {
    let scores = run(&world(|_| false), &[], Profile::Reference).unwrap();
    assert!(scores.headline.iter().all(|headline| headline.value.is_none()));
    assert!(scores.notes.iter().any(|note| note.contains("too few")));
    let scores = run(&world(|_| false), &[("fewest_classes", "2")], Profile::Reference).unwrap();
    assert!(scores.value("full_absorption").is_some());
}

#[test]
fn classes_without_a_useful_probe_are_left_out() {
    let rows = 600;
    let label = |row: usize, class: usize| match class {
        0 if row.is_multiple_of(3) => Label::Yes,
        // No row, all rows, and unknown.
        2 => Label::Yes,
        3 => Label::Unknown,
        _ => Label::No,
    };
    let names = ["a", "none", "all", "unknown"].map(String::from).to_vec();
    let inputs = world(|_| false).with(&LABELS, Annotations::new(names, rows, label).unwrap());
    let scores = run(&inputs, &[], Profile::Paper).unwrap();
    assert_eq!(scores.headline[0].n, 1);
    assert!(scores.notes[0].contains("3 of 4 classes"));
}

#[test]
fn rows_are_those_of_the_released_program() {
    let golden =
        |name: &str| PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../tests/golden/interventions").join(name);
    let bytes = std::fs::read(golden("absorption/expected.json")).unwrap();
    let expected: Value = serde_json::from_slice(&bytes).unwrap();
    let numbers = |key: &str| -> Vec<f64> { serde_json::from_value(expected[key].clone()).unwrap() };
    let context = Context::silent(1, 1 << 24).unwrap();
    let source = Source::parse(&golden("absorption/x.npy").display().to_string()).unwrap();
    let x = read_rows(&source, Finite::Refuse, &Budget::new(1 << 20)).unwrap();
    let (values, width) = (x.values.clone(), x.width);
    let dictionary = checkpoint::load(&golden("sae"), context.budget()).unwrap().dictionary;
    let store = ActivationStore::from_rows(values.clone(), width).unwrap();
    let codes = encode_store(&*dictionary, &store, &context).unwrap();
    let codes = codes.all().unwrap();
    let probe: Vec<f32> = numbers("probe_direction_unnormalised").iter().map(|&weight| weight as f32).collect();
    let length = dot(&probe, &probe).sqrt();
    let direction: Vec<f32> = probe.iter().map(|weight| (f64::from(*weight) / length) as f32).collect();
    let main: Vec<u32> = serde_json::from_value(expected["main_latents"].clone()).unwrap();
    let (projections, fractions) = (numbers("probe_projection"), numbers("absorption_fraction"));
    let full: Vec<bool> = serde_json::from_value(expected["full_absorption"].clone()).unwrap();
    assert_eq!(values.len() / width, projections.len());
    for (row, x) in values.chunks_exact(width).enumerate() {
        let carried = Carried::of(codes.row(row), &main, dictionary.directions(), &direction);
        let whole = dot(x, &direction);
        let projection = carried.projection(whole);
        assert!((whole - projections[row]).abs() < 1e-5, "{row}: {whole}");
        let fraction = projection.fraction(&CURRENT);
        assert!((fraction - fractions[row]).abs() < 1e-5, "{row}: {fraction} instead of {}", fractions[row]);
        assert_eq!(projection.is_full(), full[row], "{row}");
    }
}
