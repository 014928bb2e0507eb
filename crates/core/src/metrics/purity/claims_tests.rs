//! Ordinal claims of the purity paper that need no trained network.

use std::collections::BTreeMap;

use super::{Mig, Modularity, Nis, Ois, Sap};
use crate::context::Context;
use crate::labels::worlds;
use crate::metrics::Metric;
use crate::metrics::testing::{self, codes, column};
use crate::results::{Profile, Scores};
use crate::run::{CODES, Inputs, LABELS};

fn world(mode: &str, covariance: &str, seed: u64) -> Inputs {
    let rows = 2000;
    let given = [("mode", mode), ("covariance", covariance), ("rows", &rows.to_string())]
        .map(|(name, value)| (name.to_string(), value.to_string()));
    let world =
        worlds::make("impure-codes", &BTreeMap::from(given), seed, &Context::silent(2, 1 << 30).unwrap()).unwrap();
    let tile = world.activations.tile(0..rows).unwrap();
    let dense: Vec<f32> = (0..rows).flat_map(|row| tile.row(row).to_vec()).collect();
    Inputs::default().with(&CODES, codes(&dense, 5)).with(&LABELS, world.labels)
}

fn run(metric: &dyn Metric, inputs: &Inputs, given: &[(&str, &str)], profile: Profile) -> Scores {
    testing::scores(metric, inputs, given, profile, 2).unwrap()
}

#[test]
fn only_ois_sees_hidden_concepts_whatever_the_correlation() {
    let mut pure_modularity = Vec::new();
    for covariance in ["0", "0.25", "0.5"] {
        let [pure, impure] = ["pure", "impure"].map(|mode| world(mode, covariance, 7));
        let both = |metric: &dyn Metric, key: &str| {
            let given: &[(&str, &str)] = if key == "ois" { &[("repeats", "1")] } else { &[] };
            [&pure, &impure].map(|inputs| run(metric, inputs, given, Profile::Reference).value(key).unwrap())
        };
        let [low, high] = both(&Ois, "ois");
        assert!(high > 2.0 * low && low < 0.1, "covariance {covariance}: {low} {high}");
        for [a, b] in [both(&Sap, "sap"), both(&Mig, "mig")] {
            assert!((a - b).abs() < 0.03, "covariance {covariance}: {a} {b}");
        }
        pure_modularity.push(both(&Modularity, "modularity")[0]);
    }
    // Pure codes of correlated concepts are punished by modularity, but not by OIS.
    assert!(pure_modularity[0] > pure_modularity[1] && pure_modularity[1] > pure_modularity[2], "{pure_modularity:?}");
}

#[test]
fn scores_are_flat_beyond_the_published_size_of_helpers() {
    let impure = world("impure", "0", 8);
    let ois = run(&Ois, &impure, &[("hidden", "32,64,128"), ("repeats", "2")], Profile::Paper);
    let found: Vec<f64> = column(&ois, "helper", "ois").into_iter().flatten().collect();
    assert!(found.iter().all(|score| (score / found[0] - 1.0).abs() < 0.35), "{found:?}");
    let nis = run(&Nis, &impure, &[("hidden", "16,20,40"), ("repeats", "2")], Profile::Paper);
    let found: Vec<f64> = column(&nis, "helper", "nis").into_iter().flatten().collect();
    assert!(found.iter().all(|score| (score - found[0]).abs() < 0.12), "{found:?}");
}
