//! What becomes of the pre-activations of a row.

use super::dictionary::ContentHash;
use super::matching_pursuit::MatchingPursuit;
use crate::error::{InputError, Result};

/// What becomes of the pre-activations of a row.
#[derive(Clone, Debug, PartialEq)]
pub enum Activation {
    /// Positive values stay.
    Relu,
    /// The k largest stay, if they are positive; among equals the lower latent.
    TopK(usize),
    /// Positive values above the threshold of their latent stay (JumpReLU, and BatchTopK when it is not training).
    Threshold(Vec<f32>),
    /// A latent fires where `p + gate_bias` is positive, with the value `p · magnitude_scale + magnitude_bias` if that
    /// is positive.
    Gated {
        /// Added before the gate.
        gate_bias: Vec<f32>,
        /// Multiplies the pre-activation.
        magnitude_scale: Vec<f32>,
        /// Added after that.
        magnitude_bias: Vec<f32>,
    },
    /// The k largest by absolute value stay, with their sign; among equals the lower latent (PCA).
    Largest(usize),
    /// Only the largest fires, whatever its sign, with the value 1; among equals the lower latent (k-means).
    Nearest,
    /// Everything stays, negative values too (PCA, neurons).
    Signed,
    /// Latents are chosen one after the other by their products with what is left over; what each choice takes away is its
    /// direction in the decoder. Biases of the encoder are not used.
    Pursuit(MatchingPursuit),
}

impl Activation {
    /// How many latents a row keeps at most, if that is fixed.
    pub fn k(&self) -> Option<usize> {
        match self {
            Activation::TopK(k) | Activation::Largest(k) | Activation::Pursuit(MatchingPursuit { k, .. }) => Some(*k),
            Activation::Nearest => Some(1),
            Activation::Relu | Activation::Signed | Activation::Threshold(_) | Activation::Gated { .. } => None,
        }
    }

    /// Its numbers per latent, by name.
    pub(super) fn lists(&self) -> Vec<(&'static str, &[f32])> {
        match self {
            Activation::Threshold(thresholds) => vec![("threshold", thresholds)],
            Activation::Gated { gate_bias, magnitude_scale, magnitude_bias } => vec![
                ("bias of the gate", gate_bias),
                ("scale of the magnitude", magnitude_scale),
                ("bias of the magnitude", magnitude_bias),
            ],
            _ => Vec::new(),
        }
    }

    /// Refuses a number of latents that cannot be kept.
    pub(super) fn check(&self, latents: usize) -> Result<()> {
        match self.k() {
            Some(k) if !(1..=latents).contains(&k) => {
                Err(InputError::new("a dictionary cannot keep that many latents per row")
                    .expected(format!("k from 1 to {latents}"))
                    .found(k)
                    .into())
            }
            _ => Ok(()),
        }
    }

    pub(super) fn hash(&self, hash: &mut ContentHash) {
        match self {
            Activation::Relu => hash.name("relu"),
            Activation::Signed => hash.name("signed"),
            Activation::TopK(k) => hash.name(&format!("top {k}")),
            Activation::Pursuit(MatchingPursuit { k, signed }) => {
                let rule = if *signed { "signed pursuit" } else { "pursuit" };
                hash.name(&format!("{rule} {k}"));
            }
            Activation::Threshold(thresholds) => hash.list("threshold", thresholds),
            Activation::Gated { gate_bias, magnitude_scale, magnitude_bias } => {
                hash.list("gate bias", gate_bias);
                hash.list("magnitude scale", magnitude_scale);
                hash.list("magnitude bias", magnitude_bias);
            }
            Activation::Nearest => hash.name("nearest"),
            Activation::Largest(k) => hash.name(&format!("largest {k}")),
        }
    }
}
