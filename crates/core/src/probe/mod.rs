//! Probes: classifiers trained on codes or activations, shared by the metrics.

mod adam;
pub mod boosting;
pub mod confusion;
mod conjugate_gradients;
pub mod design;
pub mod dual;
pub mod logistic;
pub mod mlp;
pub mod newton;
pub mod preconditioner;
pub mod released_probe;
pub mod ridge;
pub mod saebench_probe;
pub mod single_svc;
pub mod softmax_regression;
pub mod tree;
pub mod tree_accuracy;
