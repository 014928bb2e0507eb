//! Probes: classifiers trained on codes or activations, shared by the metrics.
