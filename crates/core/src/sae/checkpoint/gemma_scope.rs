//! Gemma Scope: `params.npz` with W_enc, W_dec, b_enc, b_dec and threshold. There are no settings.

use std::path::Path;

use super::weights::Weights;
use super::{DetectedCheckpoint, Loaded};
use crate::context::Budget;
use crate::error::{InFile, Result};
use crate::sae::activation::Activation;
use crate::sae::linear::{Linear, Parts};
use crate::sae::normalise::Normalisation;

pub(super) fn find(path: &Path) -> Option<DetectedCheckpoint> {
    DetectedCheckpoint::file(path, &["params.npz"], |name| name.ends_with(".npz"))
}

/// `f = [p > θ] · ReLU(p)`, `p = x · W_enc + b_enc`.
pub(super) fn read(detected: &DetectedCheckpoint, budget: &Budget) -> Result<Loaded> {
    let weights = Weights::read(&detected.weights, budget)?;
    // Some releases write w_enc and w_dec.
    let mut weights = weights.renamed(|name| Some(name.replacen("w_", "W_", usize::from(name.starts_with("w_")))));
    let (width, latents) = weights.matrix("W_enc")?;
    let parts = Parts {
        arch: "jumprelu".into(),
        encoder: weights.take_transposed("W_enc", latents, width)?,
        encoder_bias: weights.take("b_enc", &[latents])?,
        decoder: weights.take("W_dec", &[latents, width])?,
        bias: weights.take("b_dec", &[width])?,
        subtract_bias: false,
        input: Normalisation::None,
        activation: Activation::Threshold(weights.take("threshold", &[latents])?),
    };
    let mut loaded = Loaded::new("Gemma Scope", Linear::new(parts).in_file(&detected.weights)?);
    // Only the path records which model and layer it is.
    let directories: Vec<String> =
        detected.weights.iter().rev().skip(1).take(3).map(|part| part.to_string_lossy().into()).collect();
    let path = directories.into_iter().rev().collect::<Vec<_>>().join("/");
    if path.contains("embedding") {
        loaded
            .notes
            .push("embedding dictionaries of Gemma Scope read embeddings before they are multiplied by √width".into());
    }
    loaded.about.insert("place".into(), path.into());
    Ok(loaded)
}
