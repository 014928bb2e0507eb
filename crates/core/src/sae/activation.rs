//! Activation functions: from the pre-activations of a row to its codes.

use super::dictionary::ContentHash;
use super::matching_pursuit::MatchingPursuit;
use crate::error::{Error, InputError, Result};

/// The activation function of a dictionary.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum Activation {
    /// Keeps positive values.
    Relu,
    /// Keeps the k largest values if they are positive; among equals the lower latent.
    TopK(usize),
    /// Keeps positive values above the threshold of their latent (JumpReLU, and BatchTopK after training).
    Threshold(Vec<f32>),
    /// A latent fires where `p + gate_bias` is positive, with the value `p · magnitude_scale + magnitude_bias` if that
    /// is positive.
    Gated {
        /// Bias of the gate.
        gate_bias: Vec<f32>,
        /// Scale of the magnitude.
        magnitude_scale: Vec<f32>,
        /// Bias of the magnitude.
        magnitude_bias: Vec<f32>,
    },
    /// Keeps the k largest by absolute value, with their sign; among equals the lower latent (PCA).
    Largest(usize),
    /// Sets the largest value to 1, whatever its sign, and the others to 0; among equals the lower latent (k-means).
    Nearest,
    /// Keeps every value, also negative ones (PCA, neurons).
    Signed,
    /// Matching pursuit: chooses latents one at a time by their products with the residual, and subtracts the decoder
    /// direction of each choice. Encoder biases are not used.
    Pursuit(MatchingPursuit),
    /// Standardises the pre-activations of a row over all latents, multiplies them by a gain and adds a bias (layer norm),
    /// then applies `inner`, which is [`Activation::Relu`], [`Activation::TopK`] or [`Activation::Threshold`].
    Standardised {
        /// The gain of each latent.
        gain: Vec<f32>,
        /// The bias of each latent.
        bias: Vec<f32>,
        /// The activation function.
        inner: Box<Activation>,
    },
}

impl Activation {
    /// Maximum number of active latents per row, if it is fixed.
    pub fn k(&self) -> Option<usize> {
        match self {
            Activation::TopK(k) | Activation::Largest(k) | Activation::Pursuit(MatchingPursuit { k, .. }) => Some(*k),
            Activation::Nearest => Some(1),
            Activation::Standardised { inner, .. } => inner.k(),
            Activation::Relu | Activation::Signed | Activation::Threshold(_) | Activation::Gated { .. } => None,
        }
    }

    /// The numbers per latent, by name.
    pub(super) fn lists(&self) -> Vec<(&'static str, &[f32])> {
        match self {
            Activation::Threshold(thresholds) => vec![("threshold", thresholds)],
            Activation::Gated { gate_bias, magnitude_scale, magnitude_bias } => vec![
                ("bias of the gate", gate_bias),
                ("scale of the magnitude", magnitude_scale),
                ("bias of the magnitude", magnitude_bias),
            ],
            Activation::Standardised { gain, bias, inner } => {
                let mut lists =
                    vec![("gain of the standardised values", &gain[..]), ("bias of the standardised values", bias)];
                lists.extend(inner.lists());
                lists
            }
            _ => Vec::new(),
        }
    }

    /// The activation function without a standardisation before it.
    pub(super) fn innermost(&self) -> &Activation {
        match self {
            Activation::Standardised { inner, .. } => inner,
            other => other,
        }
    }

    /// Checks k against the number of latents.
    pub(super) fn check(&self, latents: usize) -> Result<()> {
        if let Activation::Standardised { inner, .. } = self
            && !matches!(**inner, Activation::Relu | Activation::TopK(_) | Activation::Threshold(_))
        {
            return Err(Error::Bug("standardised values have an activation that is not supported".into()));
        }
        match self.k() {
            Some(k) if !(1..=latents).contains(&k) => {
                Err(InputError::new("the number of active latents per row is out of range")
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
            Activation::Standardised { gain, bias, inner } => {
                hash.list("standardised gain", gain);
                hash.list("standardised bias", bias);
                inner.hash(hash);
            }
            Activation::Nearest => hash.name("nearest"),
            Activation::Largest(k) => hash.name(&format!("largest {k}")),
        }
    }
}
