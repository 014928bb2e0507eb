//! Probes: classifiers trained on codes or activations, shared by the metrics.

pub mod adam;
pub mod design;
pub mod levels;
pub mod logistic;
pub mod spectrum;
pub mod tree;
