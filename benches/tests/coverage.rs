//! A fast form of `cargo xtask coverage`: few data sets, wide limits, fixed seeds. The full table is in docs/coverage.md.
#![allow(clippy::unwrap_used, reason = "tests")]

use etalon_bench::coverage::{CASES, Case, simulate};

/// The coverage of every number of a metric in some data sets of 600 rows.
fn coverage(metric: &str, replications: usize) -> Vec<(String, f64)> {
    let case = CASES.iter().find(|case| case.metric == metric).unwrap();
    let lines = simulate(&Case { replications, large: 0, ..*case }, 600, 2).unwrap();
    lines.into_iter().map(|line| (line.number, line.coverage)).collect()
}

#[test]
fn quick_metrics_cover_the_expected_value() {
    // A true coverage of 95 % is below 85 % of 80 data sets once in 5,000; one of 75 % nearly always is.
    for metric in ["core", "match", "absorption", "mdl", "fid", "divergence", "cooccurrence", "cknna"] {
        let found = coverage(metric, 80);
        assert!(!found.is_empty(), "`{metric}` has no intervals");
        for (number, coverage) in found {
            assert!(coverage >= 0.85, "{metric}: {number} {coverage}");
        }
    }
}

#[test]
fn purity_and_units_cover_the_expected_value() {
    for metric in ["sap", "mig", "ctl", "mis"] {
        let found = coverage(metric, 60);
        assert!(!found.is_empty(), "`{metric}` has no intervals");
        for (number, coverage) in found {
            assert!(coverage >= 0.85, "{metric}: {number} {coverage}");
        }
    }
}

#[test]
fn gaps_of_rare_concepts_are_covered() {
    // Hundreds of intervals per line.
    for (number, coverage) in coverage("blindspots", 60) {
        assert!(coverage >= 0.92, "{number}: {coverage}");
    }
}

#[test]
fn probes_on_all_columns_cover_the_expected_value() {
    // With intervals over tasks these were 75 %.
    for (number, coverage) in coverage("sparse_probing", 40) {
        assert!(coverage >= 0.85, "{number}: {coverage}");
    }
}

#[test]
fn slow_probes_cover_the_expected_value() {
    // A true coverage of 95 % is below 80 % of 20 data sets once in 400; the totals of `tpp` had 60 to 80 %.
    for metric in ["sae_probes", "scr", "tpp"] {
        let found = coverage(metric, 20);
        assert!(!found.is_empty(), "`{metric}` has no intervals");
        for (number, coverage) in found {
            assert!(coverage >= 0.8, "{metric}: {number} {coverage}");
        }
    }
}
