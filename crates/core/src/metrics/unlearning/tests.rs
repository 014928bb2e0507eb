//! Against the released program's selection and score, and by hand.

use serde_json::Value;

use super::numbers::score;
use super::select::select;

fn expected() -> Value {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/golden/interventions/unlearning/expected.json");
    serde_json::from_slice(&std::fs::read(path).unwrap()).unwrap()
}

fn numbers(value: &Value) -> Vec<f64> {
    value.as_array().unwrap().iter().map(|value| value.as_f64().unwrap()).collect()
}

#[test]
fn latents_are_selected_as_released() {
    let golden = &expected()["feature_selection"];
    let (forget, retain) = (numbers(&golden["forget_frequency"]), numbers(&golden["retain_frequency"]));
    for threshold in [0.01, 0.001] {
        let expected = numbers(&golden[format!("top_at_{threshold}")]);
        let found: Vec<f64> = select(&forget, &retain, threshold, usize::MAX).into_iter().map(f64::from).collect();
        assert_eq!(found, expected, "{threshold}");
        let first: Vec<f64> = select(&forget, &retain, threshold, 5).into_iter().map(f64::from).collect();
        assert_eq!(first, expected[..5]);
    }
}

#[test]
fn the_score_is_the_released_one() {
    let golden = &expected()["score"];
    let setting =
        |value: &Value| (value["wmdp-bio"].as_f64().unwrap(), value["all_side_effects_mcq"].as_f64().unwrap());
    let settings: Vec<(f64, f64)> = golden["settings"].as_array().unwrap().iter().map(setting).collect();
    assert!((score(&settings, 0.99) - golden["unlearning_score"].as_f64().unwrap()).abs() < 1e-12);
    // The setting that forgets most harms other subjects: 1 − 0.8.
    assert!((score(&[(0.1, 0.98), (0.8, 0.99), (0.9, 1.0)], 0.99) - 0.2).abs() < 1e-12);
    assert_eq!((score(&[(0.1, 0.5)], 0.99), score(&[], 0.99)), (0.0, 0.0));
}
