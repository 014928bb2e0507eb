//! Checkpoints of overcomplete: state dicts and whole modules. `tests/golden/checkpoints-overcomplete/README.md` has the
//! definitions.

use std::fs;
use std::path::{Path, PathBuf};

use etalon::codes::CodesBuilder;
use etalon::context::Budget;
use etalon::input::{Finite, Source, read_rows};
use etalon::sae::checkpoint::{Loaded, load, load_with, parse_settings, save};
use etalon::store::ActivationStore;

fn golden(name: &str) -> PathBuf {
    crate::golden("checkpoints-overcomplete").join(name)
}

fn budget() -> Budget {
    Budget::new(1 << 28)
}

fn array(path: &Path) -> Vec<f32> {
    let source = Source { path: path.to_path_buf(), key: None };
    read_rows(&source, Finite::Refuse, &budget()).unwrap().values
}

fn with(file: &str, settings: &str) -> etalon::error::Result<Loaded> {
    let settings: Vec<String> = settings.split(',').filter(|text| !text.is_empty()).map(String::from).collect();
    load_with(&golden(file), parse_settings(&settings)?, &budget())
}

fn check(loaded: &Loaded, folder: &str) {
    let store = ActivationStore::from_rows(array(&golden("x.npy")), 24).unwrap();
    let tile = store.tile(0..store.rows()).unwrap();
    let dictionary = &*loaded.dictionary;
    let mut codes = CodesBuilder::new(dictionary.card().latents);
    dictionary.encode(&tile, &mut codes).unwrap();
    let codes = codes.finish();
    let mut dense = vec![0.0; codes.rows() * codes.latents()];
    for (row, latents, values) in codes.all().unwrap().iter() {
        latents.iter().zip(values).for_each(|(&latent, &value)| dense[row * 40 + latent as usize] = value);
    }
    let mut decoded = vec![0.0; store.rows() * store.width()];
    dictionary.decode(&codes.all().unwrap(), Some(&tile), &mut decoded).unwrap();
    for (file, found) in [("codes.npy", &dense), ("recon.npy", &decoded)] {
        let expected = array(&golden(folder).join(file));
        let scale = expected.iter().fold(0.0f32, |scale, value| scale.max(value.abs()));
        let far = found.iter().zip(&expected).fold(0.0f32, |far, (a, b)| far.max((a - b).abs())) / scale;
        assert!(far < 1e-5, "{folder}/{file} differs by {far}");
        let support = |values: &[f32]| values.iter().map(|&value| value != 0.0).collect::<Vec<bool>>();
        assert!(file != "codes.npy" || support(found) == support(&expected), "{folder}: other latents fire");
    }
    let directions = array(&golden(folder).join("dictionary.npy"));
    let far = dictionary.directions().iter().zip(&directions).fold(0.0f32, |far, (a, b)| far.max((a - b).abs()));
    assert!(far < 1e-5, "{folder}: directions differ by {far}");
}

/// Folder, the settings that its state dict does not contain, and what is recognised.
const STATE_DICTS: [(&str, &str, &str); 7] = [
    ("topk", "k=6", "overcomplete, topk, 24 → 40, k 6"),
    ("batch_topk", "threshold=0.78961580991745", "overcomplete, batch_topk, 24 → 40"),
    ("jump", "", "overcomplete, jumprelu, 24 → 40"),
    ("mp", "arch=mp,k=6", "overcomplete, mp, 24 → 40, k 6"),
    ("ra_topk", "k=6,delta=0.5", "overcomplete, ra_topk, 24 → 40, k 6"),
    ("ra_jump", "delta=1", "overcomplete, ra_jumprelu, 24 → 40"),
    ("topk_bn", "k=6", "overcomplete, topk, 24 → 40, k 6"),
];

#[test]
fn state_dicts_are_projected_and_read() {
    for (folder, settings, recognised) in STATE_DICTS {
        let loaded = with(&format!("{folder}/state_dict.pt"), settings).unwrap();
        assert_eq!(loaded.recognised, recognised);
        check(&loaded, folder);
        // Settings may follow the path, wherever a dictionary is read.
        if !settings.is_empty() {
            check(&load(&golden(&format!("{folder}/state_dict.pt:{settings}")), &budget()).unwrap(), folder);
        }
    }
}

#[test]
fn whole_modules_are_read_without_settings() {
    for (folder, settings, recognised) in STATE_DICTS {
        for path in [format!("{folder}/sae.pt"), folder.to_string()] {
            let loaded = load(&golden(&path), &budget()).unwrap();
            assert_eq!((loaded.recognised.as_str(), loaded.notes.len()), (recognised, 0), "{path}");
            check(&loaded, folder);
        }
        // Settings that agree with the module are accepted.
        check(&with(&format!("{folder}/sae.pt"), settings).unwrap(), folder);
    }
}

/// A module that was saved on a GPU machine while it was trained: the threshold is in config.json.
#[test]
fn a_module_in_training_takes_its_threshold_from_its_settings() {
    let loaded = load(&golden("paper5_like"), &budget()).unwrap();
    assert_eq!(loaded.recognised, "overcomplete, ra_batch_topk, 24 → 40");
    check(&loaded, "paper5_like");
    // The layer norm over latents survives a conversion.
    let scratch = tempfile::tempdir().unwrap();
    save(&*loaded.dictionary, &loaded.about, "etalon", &scratch.path().join("own")).unwrap();
    let again = load(&scratch.path().join("own"), &budget()).unwrap();
    assert_eq!(again.dictionary.id(), loaded.dictionary.id());
    check(&again, "paper5_like");
    assert!(save(&*loaded.dictionary, &loaded.about, "saelens", &scratch.path().join("lens")).is_err());
    let alone = scratch.path().join("RA-SAE.pth");
    fs::copy(golden("paper5_like/RA-SAE.pth"), &alone).unwrap();
    let error = load(&alone, &budget()).unwrap_err().to_string();
    assert!(error.contains("`threshold`") && error.contains("saved in training"), "{error}");
    let given = parse_settings(&["threshold=0.417".to_string()]).unwrap();
    check(&load_with(&alone, given, &budget()).unwrap(), "paper5_like");
}

#[test]
fn missing_and_contradicting_settings_are_named() {
    let why = |file: &str, settings: &str| with(file, settings).unwrap_err().to_string();
    assert!(why("topk/state_dict.pt", "").contains("k=.. (TopKSAE)"));
    assert!(why("mp/state_dict.pt", "k=6").contains("arch=mp"));
    assert!(why("mp/state_dict.pt", "arch=mp").contains("`k`"));
    assert!(why("mp/state_dict.pt", "arch=mp").contains("FILE:k=.."));
    assert!(why("ra_topk/state_dict.pt", "k=6").contains("`delta`"));
    assert!(why("topk/sae.pt", "k=7").contains("two values for the setting `k`"));
    assert!(why("topk/sae.pt", "arch=jump").contains("two values"));
    assert!(why("jump/state_dict.pt", "arch=topk,k=6").contains("does not match the tensors"));
    assert!(why("topk/state_dict.pt", "depth=6").contains("unknown setting `depth`"));
    assert!(why("topk/state_dict.pt", "k").contains("KEY=VALUE"));
    let other =
        load_with(&crate::golden("checkpoints").join("dl_topk"), parse_settings(&["k=6".into()]).unwrap(), &budget());
    assert!(other.unwrap_err().to_string().contains("`settings`"));
}
