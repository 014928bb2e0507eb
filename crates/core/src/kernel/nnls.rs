//! Least squares with weights that are not negative.
