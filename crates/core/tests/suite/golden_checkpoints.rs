//! Checkpoints that other programs wrote, encoded and decoded like those programs do it; and what happens to files that
//! are wrong. `tests/golden/checkpoints/README.md` says where they are from.

use std::fs;
use std::path::{Path, PathBuf};

use etalon::codes::{Codes, CodesBuilder};
use etalon::context::Budget;
use etalon::input::{Finite, Source, read_rows};
use etalon::sae::checkpoint::{FORMATS, Loaded, load, save};
use etalon::sae::{Activation, Dictionary, Linear, MatchingPursuit, Normalisation, Parts};
use etalon::store::ActivationStore;
use serde_json::{Map, Value, json};

/// Folder, path of the checkpoint in it, and the recognised format.
const GOLDEN: [(&str, &str, &str); 13] = [
    ("dl_batchtopk", "", "dictionary_learning, batchtopk, 24 → 64"),
    ("dl_gated", "", "dictionary_learning, gated, 24 → 64"),
    ("dl_jumprelu", "", "dictionary_learning, jumprelu, 24 → 64"),
    ("dl_matryoshka", "", "dictionary_learning, matryoshka, 24 → 64"),
    ("dl_relu", "", "dictionary_learning, standard, 24 → 64"),
    ("dl_topk", "", "dictionary_learning, topk, 24 → 64, k 6"),
    ("gemma_scope", "layer_3/width_16k/average_l0_20", "Gemma Scope, jumprelu, 24 → 64"),
    ("sl_gated", "", "SAELens 6, gated, 24 → 64"),
    ("sl_jumprelu", "", "SAELens 6, jumprelu, 24 → 64"),
    ("sl_standard", "", "SAELens 6, standard, 24 → 64"),
    ("sl_standard_layer_norm", "", "SAELens 6, standard, 24 → 64"),
    ("sl_topk", "", "SAELens 6, topk, 24 → 64, k 6"),
    ("sparsify", "layers.3", "sparsify, topk, 24 → 64, k 6"),
];

fn golden(name: &str) -> PathBuf {
    crate::golden("checkpoints").join(name)
}

fn budget() -> Budget {
    Budget::new(1 << 28)
}

fn array(path: &Path) -> Vec<f32> {
    let source = Source { path: path.to_path_buf(), key: None };
    read_rows(&source, Finite::Refuse, &budget()).unwrap().values
}

fn activations() -> ActivationStore {
    ActivationStore::from_rows(array(&golden("x.npy")), 24).unwrap()
}

fn encode(dictionary: &dyn Dictionary, store: &ActivationStore) -> Codes {
    let mut out = CodesBuilder::new(dictionary.card().latents);
    dictionary.encode(&store.tile(0..store.rows()).unwrap(), &mut out).unwrap();
    out.finish()
}

fn dense(codes: &Codes) -> Vec<f32> {
    let mut dense = vec![0.0; codes.rows() * codes.latents()];
    for (row, latents, values) in codes.all().unwrap().iter() {
        for (&latent, &value) in latents.iter().zip(values) {
            dense[row * codes.latents() + latent as usize] = value;
        }
    }
    dense
}

fn decode(dictionary: &dyn Dictionary, codes: &Codes, store: &ActivationStore) -> Vec<f32> {
    let mut out = vec![0.0; store.rows() * store.width()];
    let tile = store.tile(0..store.rows()).unwrap();
    dictionary.decode(&codes.all().unwrap(), Some(&tile), &mut out).unwrap();
    out
}

/// The largest difference, in units of the largest value.
fn distance(found: &[f32], expected: &[f32]) -> f32 {
    assert_eq!(found.len(), expected.len());
    let scale = expected.iter().fold(1.0f32, |scale, value| scale.max(value.abs()));
    found.iter().zip(expected).fold(0.0f32, |far, (a, b)| far.max((a - b).abs())) / scale
}

#[test]
fn every_program_agrees() {
    let store = activations();
    for (folder, below, recognised) in GOLDEN {
        let loaded = load(&golden(folder).join(below), &budget()).unwrap();
        assert_eq!(loaded.recognised, recognised);
        let codes = encode(&*loaded.dictionary, &store);
        assert!(codes.entries() > 64, "{folder} is almost silent");
        let far = distance(&dense(&codes), &array(&golden(folder).join("codes.npy")));
        assert!(far < 1e-5, "{folder}: codes differ by {far}");
        let far = distance(&decode(&*loaded.dictionary, &codes, &store), &array(&golden(folder).join("recon.npy")));
        assert!(far < 1e-5, "{folder}: reconstructions differ by {far}");
    }
}

#[test]
fn the_file_of_weights_is_as_good_as_its_directory() {
    for (folder, below, recognised) in GOLDEN {
        let directory = golden(folder).join(below);
        for name in ["ae.pt", "sae_weights.safetensors", "sae.safetensors", "params.npz", "cfg.json"] {
            if directory.join(name).is_file() {
                assert_eq!(load(&directory.join(name), &budget()).unwrap().recognised, recognised);
            }
        }
    }
}

#[test]
fn converted_dictionaries_are_the_same() {
    let store = activations();
    let scratch = tempfile::tempdir().unwrap();
    for (folder, below, _) in GOLDEN {
        let original = load(&golden(folder).join(below), &budget()).unwrap();
        let codes = encode(&*original.dictionary, &store);
        let own = scratch.path().join(folder).join("own");
        save(&*original.dictionary, &original.about, "etalon", &own).unwrap();
        // A second time changes nothing.
        save(&*original.dictionary, &original.about, "etalon", &own).unwrap();
        let again = load(&own, &budget()).unwrap();
        assert_eq!(again.dictionary.id(), original.dictionary.id());
        assert_eq!(again.about, original.about);
        assert_eq!(encode(&*again.dictionary, &store).id().unwrap(), codes.id().unwrap());

        let theirs = scratch.path().join(folder).join("saelens");
        save(&*original.dictionary, &original.about, "saelens", &theirs).unwrap();
        let again = load(&theirs, &budget()).unwrap();
        assert!(again.recognised.starts_with("SAELens 6, "), "{}", again.recognised);
        assert!(again.notes.is_empty());
        let there = encode(&*again.dictionary, &store);
        assert!(distance(&dense(&there), &dense(&codes)) < 1e-6, "{folder}");
        let (one, two) = (decode(&*original.dictionary, &codes, &store), decode(&*again.dictionary, &there, &store));
        assert!(distance(&two, &one) < 1e-6, "{folder}");
    }
}

#[test]
fn signed_dictionaries_keep_their_sign() {
    let scratch = tempfile::tempdir().unwrap();
    let store = activations();
    // Half of the identity, and back: codes are x / 2, negative ones too.
    let identity: Vec<f32> = (0..24 * 24).map(|i| if i / 24 == i % 24 { 1.0 } else { 0.0 }).collect();
    let pca = Linear::new(Parts {
        arch: "pca".into(),
        encoder: identity.iter().map(|value| value / 2.0).collect(),
        encoder_bias: vec![0.0; 24],
        decoder: identity.iter().map(|value| value * 2.0).collect(),
        bias: vec![0.0; 24],
        subtract_bias: true,
        input: Normalisation::None,
        activation: Activation::Signed,
    })
    .unwrap();
    let codes = encode(&pca, &store);
    assert!(codes.all().unwrap().iter().any(|(_, _, values)| values.iter().any(|value| *value < 0.0)));
    assert_eq!(decode(&pca, &codes, &store), store.tile(0..store.rows()).unwrap().values.to_vec());
    save(&pca, &Map::new(), "etalon", &scratch.path().join("own")).unwrap();
    let again = load(&scratch.path().join("own"), &budget()).unwrap();
    assert_eq!(again.dictionary.id(), pca.id());
    let error = save(&pca, &Map::new(), "saelens", &scratch.path().join("theirs")).unwrap_err().to_string();
    assert!(error.contains("negative codes"), "{error}");
}

#[test]
fn pursuits_keep_their_rule() {
    let scratch = tempfile::tempdir().unwrap();
    let store = activations();
    let identity: Vec<f32> = (0..24 * 24).map(|i| if i / 24 == i % 24 { 1.0 } else { 0.0 }).collect();
    let mut ids = Vec::new();
    for signed in [false, true] {
        let dictionary = Linear::new(Parts {
            arch: "mp".into(),
            encoder: identity.clone(),
            encoder_bias: vec![0.0; 24],
            decoder: identity.clone(),
            bias: vec![0.0; 24],
            subtract_bias: true,
            input: Normalisation::None,
            activation: Activation::Pursuit(MatchingPursuit { k: 3, signed }),
        })
        .unwrap();
        let codes = encode(&dictionary, &store);
        // In the directions of the axes, a pursuit keeps the values that are farthest from 0, or the largest.
        let tile = store.tile(0..store.rows()).unwrap();
        for (row, values) in tile.values.chunks_exact(24).enumerate() {
            let mut order: Vec<u32> = (0..24).collect();
            let size = |latent: u32| if signed { values[latent as usize] } else { values[latent as usize].abs() };
            order.sort_by(|&a, &b| size(b).total_cmp(&size(a)));
            let mut best = order[..3].to_vec();
            best.sort_unstable();
            assert_eq!(codes.all().unwrap().row(row).0, best);
        }
        let out = scratch.path().join(format!("own-{signed}"));
        save(&dictionary, &Map::new(), "etalon", &out).unwrap();
        let again = load(&out, &budget()).unwrap().dictionary;
        let kept = again.downcast_ref::<Linear>().unwrap().activation();
        assert_eq!((again.id(), kept), (dictionary.id(), dictionary.activation()));
        let error = save(&dictionary, &Map::new(), "saelens", &scratch.path().join("theirs")).unwrap_err().to_string();
        assert!(error.contains("matching pursuit"), "{error}");
        ids.push(again.id());
    }
    assert_ne!(ids[0], ids[1]);
}

/// A copy of a golden checkpoint whose settings are changed.
fn changed(folder: &str, below: &str, settings: &str, change: impl Fn(&mut Map<String, Value>)) -> tempfile::TempDir {
    let scratch = tempfile::tempdir().unwrap();
    for entry in fs::read_dir(golden(folder).join(below)).unwrap() {
        let path = entry.unwrap().path();
        fs::copy(&path, scratch.path().join(path.file_name().unwrap())).unwrap();
    }
    let file = scratch.path().join(settings);
    let mut value: Value = serde_json::from_slice(&fs::read(&file).unwrap()).unwrap();
    change(value.as_object_mut().unwrap());
    fs::write(file, value.to_string()).unwrap();
    scratch
}

fn saelens(folder: &str, change: impl Fn(&mut Map<String, Value>)) -> Result<Loaded, String> {
    let scratch = changed(folder, "", "cfg.json", change);
    load(scratch.path(), &budget()).map_err(|error| error.to_string())
}

#[test]
fn settings_of_old_saelens_mean_the_same() {
    let store = activations();
    for folder in ["sl_standard", "sl_topk", "sl_jumprelu", "sl_gated"] {
        let new = load(&golden(folder), &budget()).unwrap();
        let old = saelens(folder, |cfg| {
            cfg.remove("metadata");
            cfg.remove("reshape_activations");
            cfg.insert("hook_point".into(), json!("blocks.3.hook_resid_pre"));
            cfg.insert("activation_fn_str".into(), json!("relu"));
            cfg.insert("normalize_activations".into(), Value::Null);
            if cfg["architecture"] == "topk" {
                cfg.remove("architecture");
                let k = cfg.remove("k").unwrap();
                cfg.insert("activation_fn_str".into(), json!("topk"));
                cfg.insert("activation_fn_kwargs".into(), json!({"k": k}));
            }
        })
        .unwrap();
        assert!(old.recognised.starts_with("SAELens (settings from before version 6)"), "{}", old.recognised);
        assert_eq!(encode(&*old.dictionary, &store).id().unwrap(), encode(&*new.dictionary, &store).id().unwrap());
    }
}

#[test]
fn every_normalisation_of_saelens() {
    let store = activations();
    let plain = load(&golden("sl_standard"), &budget()).unwrap();
    let expected = |scale: f32| {
        let tile = store.tile(0..store.rows()).unwrap();
        let values = tile.values.iter().map(|value| value * scale).collect();
        let scaled = ActivationStore::from_rows(values, 24).unwrap();
        let codes = encode(&*plain.dictionary, &scaled);
        let back = decode(&*plain.dictionary, &codes, &scaled).iter().map(|value| value / scale).collect::<Vec<f32>>();
        (dense(&codes), back)
    };
    let warned = saelens("sl_standard", |cfg| {
        cfg.insert("normalize_activations".into(), json!(true));
    })
    .unwrap();
    assert!(warned.notes[0].contains("norm_scaling_factor"), "{:?}", warned.notes);
    assert_eq!(warned.dictionary.id(), plain.dictionary.id());

    let scaled = saelens("sl_standard", |cfg| {
        cfg.insert("normalize_activations".into(), json!("expected_average_only_in"));
        cfg.insert("norm_scaling_factor".into(), json!(1.5));
    })
    .unwrap();
    let (codes, back) = expected(1.5);
    let found = encode(&*scaled.dictionary, &store);
    assert!(distance(&dense(&found), &codes) < 1e-6);
    assert!(distance(&decode(&*scaled.dictionary, &found, &store), &back) < 1e-6);

    let constant = saelens("sl_standard", |cfg| {
        cfg.insert("normalize_activations".into(), json!("constant_norm_rescale"));
    })
    .unwrap();
    // One row by hand: x · √24 / ‖x‖ through the plain dictionary, and back.
    let row = store.tile(5..6).unwrap().values.to_vec();
    let scale = 24f32.sqrt() / row.iter().map(|value| value * value).sum::<f32>().sqrt();
    let (codes, back) = expected(scale);
    let found = encode(&*constant.dictionary, &store);
    assert!(distance(&dense(&found)[5 * 64..6 * 64], &codes[5 * 64..6 * 64]) < 1e-6);
    let found = decode(&*constant.dictionary, &found, &store);
    assert!(distance(&found[5 * 24..6 * 24], &back[5 * 24..6 * 24]) < 1e-6);

    let error = saelens("sl_standard", |cfg| {
        cfg.insert("normalize_activations".into(), json!("softly"));
    })
    .unwrap_err();
    assert!(error.contains("layer_norm") && error.contains("softly") && error.contains("cfg.json"), "{error}");
}

#[test]
fn selection_by_the_norm_of_directions_is_folded_in() {
    let store = activations();
    let plain = load(&golden("sl_topk"), &budget()).unwrap().dictionary;
    let plain = plain.downcast_ref::<Linear>().unwrap().parts();
    let folded = saelens("sl_topk", |cfg| {
        cfg.insert("rescale_acts_by_decoder_norm".into(), json!(true));
    })
    .unwrap();
    let codes = encode(&*folded.dictionary, &store);
    // Pre-activations times the norm, the six largest; decoded with directions of norm 1.
    let tile = store.tile(0..store.rows()).unwrap();
    for row in 0..store.rows() {
        let mut scores: Vec<(f64, u32)> = (0..64)
            .map(|latent| {
                let range = latent * 24..(latent + 1) * 24;
                let norm = plain.decoder[range.clone()].iter().map(|v| f64::from(*v).powi(2)).sum::<f64>().sqrt();
                let centred = tile.row(row).iter().zip(&plain.bias).map(|(x, b)| f64::from(x - b));
                let sum: f64 = centred.zip(&plain.encoder[range]).map(|(x, w)| x * f64::from(*w)).sum();
                ((sum + f64::from(plain.encoder_bias[latent])) * norm, latent as u32)
            })
            .collect();
        scores.sort_by(|a, b| b.0.total_cmp(&a.0));
        scores.truncate(6);
        scores.sort_by_key(|score| score.1);
        let view = codes.view(row..row + 1).unwrap();
        let (latents, values) = view.row(0);
        assert_eq!(latents, scores.iter().map(|score| score.1).collect::<Vec<_>>());
        assert!(values.iter().zip(&scores).all(|(value, score)| (f64::from(*value) - score.0).abs() < 1e-5));
    }
    assert!(folded.dictionary.directions().chunks(24).all(|direction| {
        (direction.iter().map(|value| f64::from(*value).powi(2)).sum::<f64>() - 1.0).abs() < 1e-6
    }));
}

#[test]
fn wrong_settings_are_named() {
    for (folder, key, value, expected) in [
        ("sl_standard", "architecture", json!("new_thing"), &["architecture", "new_thing", "jumprelu"][..]),
        ("sl_standard", "architecture", json!("skip_transcoder"), &["transcoder", "sae_weights.safetensors"]),
        ("sl_standard", "architecture", json!(7), &["architecture", "a string"]),
        ("sl_standard", "d_sae", json!(65), &["d_sae", "64", "65", "W_enc"]),
        ("sl_standard", "activation_fn", json!("tanh-relu"), &["activation_fn", "tanh-relu"]),
        ("sl_standard", "architecture", json!("jumprelu"), &["`threshold`", "W_dec", "missing"]),
        ("sl_standard", "architecture", json!("gated"), &["`b_gate`", "missing"]),
        ("sl_topk", "k", json!(65), &["k from 1 to 64", "65"]),
        ("sl_topk", "k", json!(0), &["k from 1 to 64"]),
        ("sl_topk", "k", json!(-3), &["key `k`", "-3"]),
        ("sl_topk", "k", json!(null), &["key `k`", "missing"]),
    ] {
        let error = saelens(folder, |cfg| {
            cfg.insert(key.into(), value.clone());
        })
        .unwrap_err();
        assert!(expected.iter().all(|part| error.contains(part)), "{key} = {value}: {error}");
    }
    for (key, value, expected) in [
        ("activation", json!("groupmax"), "groupmax"),
        ("transcode", json!(true), "transcoder"),
        ("signed", json!(true), "signed"),
        ("k", json!(null), "key `k`"),
        ("num_latents", json!(32), "num_latents"),
    ] {
        let scratch = changed("sparsify", "layers.3", "cfg.json", |cfg| {
            cfg.insert(key.into(), value.clone());
        });
        let error = load(scratch.path(), &budget()).unwrap_err().to_string();
        assert!(error.contains(expected), "{key}: {error}");
    }
    for (key, value, expected) in [
        ("dict_class", json!("Mystery"), &["Mystery", "AutoEncoderTopK"][..]),
        ("dict_class", json!("AutoEncoder"), &["`bias`", "missing"]),
        ("dict_class", json!("JumpReluAutoEncoder"), &["`W_enc`", "missing"]),
        ("dict_size", json!(32), &["dict_size", "32", "64"]),
    ] {
        let scratch = changed("dl_topk", "", "config.json", |config| {
            config["trainer"][key] = value.clone();
        });
        let error = load(scratch.path(), &budget()).unwrap_err().to_string();
        assert!(expected.iter().all(|part| error.contains(part)), "{key}: {error}");
    }
    for folder in ["dl_topk", "dl_batchtopk", "dl_matryoshka"] {
        let scratch = changed(folder, "", "config.json", |config| config["trainer"]["k"] = json!(7));
        let error = load(scratch.path(), &budget()).unwrap_err().to_string();
        for part in ["differs between settings and weights", "7, as in config.json", "tensor `k`"] {
            assert!(error.contains(part), "{folder}: {error}");
        }
    }
}

#[test]
fn without_settings_the_tensors_tell() {
    for (folder, recognised) in [
        ("dl_gated", "gated"),
        ("dl_jumprelu", "jumprelu"),
        ("dl_matryoshka", "matryoshka"),
        ("dl_relu", "standard"),
        ("dl_topk", "topk"),
    ] {
        let scratch = tempfile::tempdir().unwrap();
        fs::copy(golden(folder).join("ae.pt"), scratch.path().join("ae.pt")).unwrap();
        let loaded = load(scratch.path(), &budget()).unwrap();
        assert!(loaded.recognised.contains(&format!(", {recognised}, ")), "{}", loaded.recognised);
    }
}

#[test]
fn directories_that_hold_no_checkpoint() {
    let why = |path: &Path| load(path, &budget()).unwrap_err().to_string();
    let error = why(&golden("sparsify"));
    assert!(error.contains("layers.3") && error.contains("help"), "{error}");
    assert!(why(&golden("gemma_scope")).contains("layer_3/width_16k/average_l0_20"));
    assert!(why(&golden("absent")).contains("nothing of this name"));
    assert!(why(&golden("x.npy")).contains("SAELens (cfg.json + sae_weights.safetensors)"));
    let scratch = tempfile::tempdir().unwrap();
    assert!(why(scratch.path()).contains("an empty directory"));
    // Settings without weights.
    fs::copy(golden("sl_topk/cfg.json"), scratch.path().join("cfg.json")).unwrap();
    assert!(why(scratch.path()).contains("cfg.json"));
}

#[test]
fn cut_and_damaged_files_are_refused() {
    for (folder, below, weights) in [
        ("dl_topk", "", "ae.pt"),
        ("sl_jumprelu", "", "sae_weights.safetensors"),
        ("sparsify", "layers.3", "sae.safetensors"),
        ("gemma_scope", "layer_3/width_16k/average_l0_20", "params.npz"),
    ] {
        let scratch = tempfile::tempdir().unwrap();
        for entry in fs::read_dir(golden(folder).join(below)).unwrap() {
            let path = entry.unwrap().path();
            fs::copy(&path, scratch.path().join(path.file_name().unwrap())).unwrap();
        }
        let file = scratch.path().join(weights);
        let whole = fs::read(&file).unwrap();
        for length in (0..whole.len()).step_by(97) {
            fs::write(&file, &whole[..length]).unwrap();
            let error = load(scratch.path(), &budget()).unwrap_err();
            assert!(error.is_input() && error.to_string().contains(weights), "{weights} cut to {length}: {error}");
        }
        fs::write(&file, &whole).unwrap();
        assert!(load(scratch.path(), &budget()).is_ok());
        for settings in ["cfg.json", "config.json"].map(|name| scratch.path().join(name)) {
            if let Ok(text) = fs::read(&settings) {
                fs::write(&settings, &text[..text.len() / 2]).unwrap();
                let error = load(scratch.path(), &budget()).unwrap_err().to_string();
                assert!(error.contains("not JSON"), "{error}");
            }
        }
        assert!(load(&golden(folder).join(below), &Budget::new(1000)).is_err());
    }
}

#[test]
fn own_dictionaries_notice_every_change() {
    let scratch = tempfile::tempdir().unwrap();
    let directory = scratch.path().join("own");
    let original = load(&golden("sl_gated"), &budget()).unwrap();
    save(&*original.dictionary, &Map::new(), "etalon", &directory).unwrap();
    let file = directory.join("weights.safetensors");
    let whole = fs::read(&file).unwrap();
    for position in (0..whole.len()).step_by(61) {
        let mut flipped = whole.clone();
        flipped[position] ^= 1;
        fs::write(&file, flipped).unwrap();
        assert!(load(&directory, &budget()).is_err(), "byte {position}");
    }
    fs::write(&file, &whole).unwrap();
    let settings = directory.join("sae.json");
    let text = fs::read_to_string(&settings).unwrap();
    for (from, to, expected) in [
        ("\"version\": 1", "\"version\": 2", "newer program"),
        ("etalon-sae", "something", "not the settings"),
        ("\"width\": 24", "\"width\": 25", "[64, 25]"),
        ("\"latents\": 64", "\"latents\": 99999999999", "shape"),
        ("\"gated\"", "\"bent\"", "bent"),
        ("\"subtract_bias\": true", "\"subtract_bias\": false", "do not match the id"),
    ] {
        assert!(text.contains(from), "{from}: {text}");
        fs::write(&settings, text.replace(from, to)).unwrap();
        let error = load(&directory, &budget()).unwrap_err().to_string();
        assert!(error.contains(expected), "{error}");
    }
    fs::write(&settings, &text).unwrap();
    // Another dictionary does not go over it, nor over anything else.
    let other = load(&golden("sl_topk"), &budget()).unwrap();
    let error = save(&*other.dictionary, &Map::new(), "etalon", &directory).unwrap_err().to_string();
    assert!(error.contains("other files"), "{error}");
    assert!(
        save(&*other.dictionary, &Map::new(), "gemma_scope", &directory).unwrap_err().to_string().contains("saelens")
    );
    // Weights without settings are the remains of a run that was stopped.
    fs::remove_file(&settings).unwrap();
    save(&*other.dictionary, &Map::new(), "etalon", &directory).unwrap();
    assert_eq!(load(&directory, &budget()).unwrap().dictionary.id(), other.dictionary.id());
}

#[test]
fn llama_scope_by_hand() {
    // Width 4, one threshold; the average norm 4 makes the scale √4 / 4 = 0.5.
    let scratch = tempfile::tempdir().unwrap();
    let tensors = [
        ("encoder.weight", vec![2, 4], vec![1.0f32, 0.0, 0.0, 0.0, 0.0, 1.0, 0.0, 0.0]),
        ("encoder.bias", vec![2], vec![0.0, 1.0]),
        ("decoder.weight", vec![4, 2], vec![1.0, 0.0, 0.0, 1.0, 0.0, 0.0, 0.0, 0.0]),
        ("decoder.bias", vec![4], vec![0.0, 0.0, 0.0, 1.0]),
    ];
    let views = tensors.iter().map(|(name, shape, values)| {
        let bytes: Vec<u8> = values.iter().flat_map(|value| value.to_le_bytes()).collect();
        (*name, (shape.clone(), bytes))
    });
    let views: Vec<_> = views.collect();
    let views = views.iter().map(|(name, (shape, bytes))| {
        (*name, safetensors::tensor::TensorView::new(safetensors::Dtype::F32, shape.clone(), bytes).unwrap())
    });
    fs::create_dir(scratch.path().join("checkpoints")).unwrap();
    fs::write(scratch.path().join("checkpoints/final.safetensors"), safetensors::serialize(views, None).unwrap())
        .unwrap();
    let settings = |out: &str| {
        let hyperparams = json!({
            "d_model": 4, "d_sae": 2, "act_fn": "jumprelu", "jump_relu_threshold": 3.0,
            "dataset_average_activation_norm": {"in": 4.0, "out": 4.0},
            "hook_point_in": "blocks.1.hook_resid_post", "hook_point_out": out,
        });
        fs::write(scratch.path().join("hyperparams.json"), hyperparams.to_string()).unwrap();
    };
    settings("blocks.1.hook_resid_post");
    let loaded = load(scratch.path(), &budget()).unwrap();
    assert_eq!(loaded.recognised, "Llama Scope, jumprelu, 4 → 2");
    // p = (0.5 · x₀, 0.5 · x₁ + 1), threshold 3 · 0.5. Decoded: twice the codes, and twice the bias.
    let store = ActivationStore::from_rows(vec![4.0, 2.0, 0.0, 0.0, 2.0, 0.0, 0.0, 0.0], 4).unwrap();
    let codes = encode(&*loaded.dictionary, &store);
    assert_eq!(dense(&codes), [2.0, 2.0, 0.0, 0.0]);
    assert_eq!(decode(&*loaded.dictionary, &codes, &store), [4.0, 4.0, 0.0, 2.0, 0.0, 0.0, 0.0, 2.0]);
    assert!(load(&scratch.path().join("checkpoints/final.safetensors"), &budget()).is_ok());
    settings("blocks.1.hook_mlp_out");
    assert!(load(scratch.path(), &budget()).unwrap_err().to_string().contains("transcoder"));
}

#[test]
fn the_list_of_formats_is_complete() {
    let names: Vec<&str> = FORMATS.iter().map(|format| format.name).collect();
    assert_eq!(
        names,
        ["etalon", "saelens", "sparsify", "llama_scope", "overcomplete", "dictionary_learning", "gemma_scope"]
    );
    assert_eq!(FORMATS.iter().filter(|format| format.is_written()).count(), 2);
}

/// SAELens has the setting for TopK dictionaries only, and ignores it elsewhere.
#[test]
fn only_topk_dictionaries_are_rescaled_by_the_norm_of_their_directions() {
    for folder in ["sl_jumprelu", "sl_gated", "sl_standard"] {
        let scratch = tempfile::tempdir().unwrap();
        fs::copy(golden(folder).join("sae_weights.safetensors"), scratch.path().join("sae_weights.safetensors"))
            .unwrap();
        let mut settings: Map<String, Value> =
            serde_json::from_str(&fs::read_to_string(golden(folder).join("cfg.json")).unwrap()).unwrap();
        settings.insert("rescale_acts_by_decoder_norm".into(), json!(true));
        fs::write(scratch.path().join("cfg.json"), json!(settings).to_string()).unwrap();
        let changed = load(scratch.path(), &budget()).unwrap();
        assert_eq!(changed.dictionary.id(), load(&golden(folder), &budget()).unwrap().dictionary.id(), "{folder}");
    }
}
