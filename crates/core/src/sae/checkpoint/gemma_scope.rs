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
pub(super) fn read(found: &DetectedCheckpoint, budget: &Budget) -> Result<Loaded> {
    let weights = Weights::read(&found.weights, budget)?;
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
    let mut loaded = Loaded::new("Gemma Scope", Linear::new(parts).in_file(&found.weights)?);
    // The only place that says which model and layer it is.
    let place: Vec<String> =
        found.weights.iter().rev().skip(1).take(3).map(|part| part.to_string_lossy().into()).collect();
    let place = place.into_iter().rev().collect::<Vec<_>>().join("/");
    if place.contains("embedding") {
        loaded
            .notes
            .push("embedding dictionaries of Gemma Scope read embeddings before their multiplication by √width".into());
    }
    loaded.about.insert("place".into(), place.into());
    Ok(loaded)
}
