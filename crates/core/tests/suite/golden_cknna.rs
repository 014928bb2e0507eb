//! CKNNA with 10 neighbours against the paper's released program, on `tests/golden/matching`.
//!
//! Neighbours agree exactly and sums differ in their order only (about 1e-15 here), so 1e-9 is ample.

use etalon::results::Profile;

use crate::{golden_json, matching_inputs, scores};

#[test]
fn the_reference_profile_agrees() {
    let expected = golden_json("matching/expected.json")["cknna_k10"].as_f64().unwrap();
    let scores = scores("cknna", &matching_inputs(), &[], Profile::Reference);
    let value = scores.value("cknna").unwrap();
    assert!((value - expected).abs() < 1e-9, "{value} for {expected}");
    let interval = scores.headline[0].interval.unwrap();
    assert!(interval.low < expected && expected < interval.high);
}
