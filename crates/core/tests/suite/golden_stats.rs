//! Kernels against the numbers of SciPy and scikit-learn in `tests/golden/stats.json`.

use etalon_kernel::assignment::assign;
use etalon_kernel::statistics::{area_under_curve, pearson, spearman};
use serde_json::Value;

fn golden(section: &str) -> Value {
    crate::golden_json("stats.json")[section].clone()
}

fn list(value: &Value) -> Vec<f64> {
    value.as_array().unwrap().iter().map(|number| number.as_f64().unwrap()).collect()
}

fn close(found: Option<f64>, expected: &Value) {
    let (found, expected) = (found.unwrap(), expected.as_f64().unwrap());
    assert!((found - expected).abs() < 1e-12, "expected {expected}, found {found}");
}

#[test]
fn correlations() {
    let linear = golden("pearson");
    close(pearson(&list(&linear["x"]), &list(&linear["y"])), &linear["r"]);
    let ranked = golden("spearman_ties");
    close(spearman(&list(&ranked["x"]), &list(&ranked["y"])), &ranked["r"]);
}

#[test]
fn area_under_the_curve_with_ties() {
    let curve = golden("auc_ties");
    let positive: Vec<bool> = list(&curve["y"]).into_iter().map(|label| label == 1.0).collect();
    close(area_under_curve(&positive, &list(&curve["score"])), &curve["auc"]);
}

#[test]
fn optimal_assignment() {
    let case = golden("hungarian");
    let rows: Vec<Vec<f64>> = case["cost"].as_array().unwrap().iter().map(list).collect();
    let columns = rows[0].len();
    let costs: Vec<f64> = rows.concat();
    let found = assign(&costs, rows.len(), columns);
    let expected: Vec<Option<usize>> = list(&case["cols"]).into_iter().map(|column| Some(column as usize)).collect();
    assert_eq!(found, expected);
    let total = found.iter().enumerate().map(|(row, column)| costs[row * columns + column.unwrap()]).sum();
    close(Some(total), &case["total"]);
}
