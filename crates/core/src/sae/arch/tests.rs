//! Cards, options and stored settings of all architectures.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use super::*;

/// Settings as version 0.1.0 stored them: those of topk, and the differences of the others.
#[test]
fn stored_settings_equal_those_of_version_0_1_0() {
    let file = concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/golden/training/settings.json");
    let golden: Value = serde_json::from_str(&std::fs::read_to_string(file).unwrap()).unwrap();
    let others = golden["others"].as_object().unwrap();
    assert_eq!(others.len(), ARCHS.len() * Preset::NAMES.len());
    for (name, preset) in Preset::NAMES {
        for arch in ARCHS {
            let mut expected = golden["topk"].clone();
            for (key, value) in others[&format!("{name} {}", arch.card().name)].as_object().unwrap() {
                expected[key] = value.clone();
            }
            let settings = TrainingSettings { k: 4, steps: 25, batch: 64, ..arch.settings(preset, 24, 126) };
            // Later versions centre rows and set some aside, but not in the presets.
            assert!(preset == Preset::Etalon || !(settings.centre || settings.set_aside));
            let settings = TrainingSettings { centre: false, set_aside: false, ..settings };
            // Compared as text, because recipes hash the text.
            assert_eq!(json!(settings).to_string(), expected.to_string());
        }
    }
}

#[test]
fn parameters_of_the_same_name_are_the_same() {
    for option in options() {
        let card = option.param.card();
        for (_, other) in &option.users {
            assert_eq!(
                (other.card().option, other.card().value, other.card().doc),
                (card.option, card.value, card.doc)
            );
            assert_eq!(other.is_list(), option.param.is_list());
        }
    }
    let names: Vec<&str> = options().iter().filter_map(|option| option.param.card().option).collect();
    assert_eq!(names.len(), names.iter().collect::<BTreeSet<_>>().len());
    assert!(names.contains(&"k-anneal") && names.contains(&"l1") && names.contains(&"radius"));
}

#[test]
fn cards_show_parameters_with_the_defaults_of_presets() {
    let card = find("jumprelu").unwrap().card();
    let text = card.to_text();
    assert!(
        text.contains("--bandwidth WIDTH: Width of the window around thresholds [default: 0.001; saelens: 0.05]"),
        "{text}"
    );
    assert!(text.contains("jump (by preset)"), "{text}");
    assert_eq!(card.to_json()["params"][0]["presets"]["saelens"], json!("0.001"));
    for arch in ARCHS {
        assert!(!arch.card().to_text().is_empty());
    }
}

#[test]
fn settings_contain_the_parameters_of_their_architecture() {
    for arch in ARCHS {
        for (_, preset) in Preset::NAMES {
            let settings = arch.settings(preset, 16, 126);
            for param in arch.card().params {
                let card = param.card();
                assert_eq!(settings.params.values()[card.name], param.default_json(preset), "{}", card.name);
                if card.option.is_some() {
                    assert!(param.parse("nonsense").is_err());
                }
            }
            settings.objective().unwrap();
        }
    }
}
