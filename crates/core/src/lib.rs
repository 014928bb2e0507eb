//! Etalon measures how well the units of a representation (latents of a sparse autoencoder, neurons, concept
//! bottlenecks) correspond to concepts that people understand.
//!
//! Evaluate codes against labels:
//!
//! ```
//! use std::collections::BTreeMap;
//!
//! use etalon::codes::Codes;
//! use etalon::labels::{Annotations, Label};
//! use etalon::metrics::find;
//! use etalon::prelude::*;
//!
//! // Two latents on four rows; latent 1 fires where the concept is.
//! let codes = Codes::from_dense(&[1.0, 0.0, 0.0, 2.0, 0.5, 0.0, 0.0, 3.0], 2)?;
//! let striped = |row: usize, _| if row % 2 == 1 { Label::Yes } else { Label::No };
//! let labels = Annotations::new(vec!["striped".into()], 4, striped)?;
//! let inputs = Inputs::default().with(&CODES, codes).with(&LABELS, labels);
//!
//! let context = Context::silent(2, 1 << 30)?;
//! let metric = find("match").expect("`match` is a metric");
//! let recipe = recipe(metric, &inputs, &BTreeMap::new(), Profile::Paper, 0)?;
//! let result = evaluate(metric, &inputs, &recipe, &context)?;
//! assert_eq!(result.scores.value("match_score"), Some(1.0));
//! # Ok::<(), etalon::error::Error>(())
//! ```
//!
//! Modules are listed in the order of the data flow; a module uses only those above it. `ARCHITECTURE.md` follows one
//! number through them.

#![forbid(unsafe_code)]

pub mod context;
pub mod error;

pub mod input;

pub mod store;

pub mod codes;

pub mod labels;

pub mod sae;

pub mod probe;

pub mod network;

pub mod results;

pub mod run;

pub mod metrics;

pub mod load;

pub mod study;

pub mod samples;

pub mod report;

pub mod prelude;
