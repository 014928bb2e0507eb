//! Optimal one-to-one assignment.
