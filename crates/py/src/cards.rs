//! The lists of metrics, inputs and architectures, as JSON.

use etalon::metrics::METRICS;
use etalon::run::{Many, ROLES};
use etalon::sae::arch::ARCHS;
use etalon::sae::baseline::BASELINES;
use pyo3::prelude::*;
use serde_json::{Value, json};

/// The version of the package.
#[pyfunction]
pub fn version() -> &'static str {
    env!("CARGO_PKG_VERSION")
}

/// The cards of all metrics.
#[pyfunction]
pub fn metrics() -> String {
    Value::Array(METRICS.iter().map(|metric| metric.card().to_json()).collect()).to_string()
}

/// The inputs that users can give: their keys, help texts, and how many values they take.
#[pyfunction]
pub fn roles() -> String {
    let many = |many: Many| match many {
        Many::One => "one",
        Many::Several => "several",
        Many::Named => "named",
    };
    let given = ROLES.iter().filter(|role| role.is_given()).map(|role| role.card());
    let cards = given.map(|card| json!({"key": card.key, "help": card.help, "many": many(card.many)}));
    Value::Array(cards.collect()).to_string()
}

/// The cards of architectures and baselines.
#[pyfunction]
pub fn archs() -> String {
    let trained = ARCHS.iter().map(|arch| arch.card());
    let baselines = BASELINES.iter().map(|baseline| baseline.card());
    Value::Array(trained.chain(baselines).map(|card| card.to_json()).collect()).to_string()
}
