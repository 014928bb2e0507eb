//! Dictionaries: encode activations to sparse codes and decode codes to activations.
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
