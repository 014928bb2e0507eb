//! sparsify: `cfg.json` and `sae.safetensors`.

use std::path::Path;

use super::config::Config;
use super::weights::Weights;
use super::{DetectedCheckpoint, Loaded, transcoder};
use crate::context::Budget;
use crate::error::{InFile, InputError, Result};
use crate::sae::activation::Activation;
use crate::sae::linear::{Linear, Parts};
use crate::sae::normalise::Normalisation;

pub(super) fn find(path: &Path) -> Option<DetectedCheckpoint> {
    DetectedCheckpoint::pair(path, "sae.safetensors", "cfg.json")
}

/// The k largest of `ReLU((x − b_dec) · Wᵀ + b)`.
pub(super) fn read(detected: &DetectedCheckpoint, budget: &Budget) -> Result<Loaded> {
    let config = Config::read_optional(detected.config.as_deref())?;
    let mut weights = Weights::read(&detected.weights, budget)?;
    if config.flag("transcode")?.unwrap_or(false)
        || config.flag("skip_connection")?.unwrap_or(false)
        || weights.has("W_skip")
    {
        return Err(transcoder(&detected.weights).into());
    }
    if config.text("activation")?.is_some_and(|name| name != "topk") {
        return Err(config.wrong("activation", "unsupported activation of sparsify", "topk").into());
    }
    if config.flag("signed")?.unwrap_or(false) {
        return Err(InputError::new(
            "old dictionaries of sparsify that select latents by absolute value are not supported",
        )
        .expected("false")
        .found("true")
        .at("key `signed`")
        .file(&detected.weights)
        .into());
    }
    let (latents, width) = weights.matrix("encoder.weight")?;
    for (key, size) in [("d_in", width), ("num_latents", latents)] {
        // 0 means that the size follows from other settings.
        if config.count(key)? != Some(0) {
            config.check_size(key, size, "encoder.weight")?;
        }
    }
    let parts = Parts {
        arch: "topk".into(),
        encoder: weights.take("encoder.weight", &[latents, width])?,
        encoder_bias: weights.take("encoder.bias", &[latents])?,
        decoder: weights.take("W_dec", &[latents, width])?,
        bias: weights.take("b_dec", &[width])?,
        subtract_bias: true,
        input: Normalisation::None,
        activation: Activation::TopK(config.required_count("k")?),
    };
    let mut loaded = Loaded::new("sparsify", Linear::new(parts).in_file(&detected.weights)?);
    loaded.about = config.fields().clone();
    Ok(loaded)
}
