//! Dictionaries: encode activations to sparse codes and decode codes to activations.
//!
//! ```
//! use etalon::context::Context;
//! use etalon::sae::{encode_store, untrained};
//! use etalon::store::ActivationStore;
//!
//! let store = ActivationStore::from_rows((0..20).map(|i| (i * i % 7) as f32).collect(), 4)?;
//! // Eight random directions, at most two active per row, seed 0.
//! let dictionary = untrained(&store, 8, 2, 0)?;
//! let codes = encode_store(&dictionary, &store, &Context::silent(1, 1 << 24)?)?;
//! assert_eq!((codes.rows(), codes.latents()), (5, 8));
//! assert!(codes.entries() <= 5 * 2);
//! # Ok::<(), etalon::error::Error>(())
//! ```
//!
//! A module uses only those to its left: `normalise`, `precision`, `preset`, `param`, `card`, `dictionary`,
//! `matching_pursuit`, `activation`, `selector`, `linear`, `baseline`, `encode`, `checkpoint`, `train`, `arch`.

mod activation;
pub mod arch;
pub mod baseline;
mod card;
pub mod checkpoint;
mod dictionary;
mod encode;
mod linear;
mod matching_pursuit;
mod normalise;
mod param;
mod precision;
mod preset;
mod selector;
pub mod train;

pub use activation::Activation;
pub use baseline::{random_codes, random_codes_within, untrained};
pub use dictionary::{Dictionary, OutputSite, SaeCard};
pub use encode::{Encoded, encode_store, encode_to_disk};
pub use linear::{Linear, Parts};
pub use matching_pursuit::MatchingPursuit;
pub use normalise::Normalisation;
pub use precision::Precision;
