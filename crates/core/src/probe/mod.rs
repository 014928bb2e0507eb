//! Probes: classifiers trained on codes or activations, shared by the metrics.

pub mod adam;
pub mod adamw;
pub mod design;
pub mod few;
pub mod levels;
pub mod logistic;
pub mod mlp;
pub mod ridge;
pub mod span;
pub mod spectrum;
pub mod tree;
pub mod verdict;
