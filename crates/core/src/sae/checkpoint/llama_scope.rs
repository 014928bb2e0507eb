//! Llama Scope: `hyperparams.json` and `checkpoints/final.safetensors`.

use std::path::Path;

use serde_json::Map;

use super::config::Config;
use super::weights::Weights;
use super::{DetectedCheckpoint, Loaded, fold, transcoder};
use crate::context::Budget;
use crate::error::{InFile, Result};
use crate::sae::activation::Activation;
use crate::sae::linear::{Linear, Parts};
use crate::sae::normalise::Normalisation;

const SETTINGS: &str = "hyperparams.json";

pub(super) fn find(path: &Path) -> Option<DetectedCheckpoint> {
    let directory = match path.is_file() {
        true if path.file_name()? == SETTINGS => path.parent()?,
        true => path.parent()?.parent()?,
        false => path,
    };
    let weights = if path.extension().is_some_and(|end| end == "safetensors") {
        path.to_path_buf()
    } else {
        directory.join("checkpoints/final.safetensors")
    };
    let config = directory.join(SETTINGS);
    (config.is_file() && weights.is_file()).then_some(DetectedCheckpoint {
        weights,
        config: Some(config),
        given: Map::new(),
    })
}

/// A JumpReLU dictionary of `x · √width / average norm`. The threshold in the settings is in units of `x`, the weights
/// are not.
pub(super) fn read(detected: &DetectedCheckpoint, budget: &Budget) -> Result<Loaded> {
    let config = Config::read_optional(detected.config.as_deref())?;
    if config.text("hook_point_in")? != config.text("hook_point_out")? {
        return Err(transcoder(&detected.weights).into());
    }
    let mut weights = Weights::read(&detected.weights, budget)?;
    let (latents, width) = weights.matrix("encoder.weight")?;
    config.check_size("d_model", width, "encoder.weight")?;
    config.check_size("d_sae", latents, "encoder.weight")?;
    let norm = config.section("dataset_average_activation_norm").positive("in")?;
    let scale = norm.map_or(1.0, |norm| (width as f64).sqrt() / norm);
    let activation = match config.text("act_fn")?.unwrap_or("jumprelu") {
        "jumprelu" => match weights.with_suffix("log_jumprelu_threshold") {
            Some(name) => Activation::Threshold(weights.take(&name, &[latents])?.iter().map(|log| log.exp()).collect()),
            None => {
                let threshold = config.positive("jump_relu_threshold")?.ok_or_else(|| {
                    config.wrong("jump_relu_threshold", "a setting of the checkpoint is missing", "a positive number")
                })?;
                Activation::Threshold(vec![(threshold * scale) as f32; latents])
            }
        },
        "topk" => Activation::TopK(config.required_count("top_k")?),
        "relu" => Activation::Relu,
        _ => {
            return Err(config.wrong("act_fn", "unknown activation", "jumprelu, topk or relu").into());
        }
    };
    let bias = match weights.has("decoder.bias") {
        true => weights.take("decoder.bias", &[width])?,
        false => vec![0.0; width],
    };
    let mut parts = Parts {
        arch: config.text("act_fn")?.unwrap_or("jumprelu").into(),
        encoder: weights.take("encoder.weight", &[latents, width])?,
        encoder_bias: weights.take("encoder.bias", &[latents])?,
        decoder: weights.take_transposed("decoder.weight", latents, width)?,
        bias,
        subtract_bias: config.flag("apply_decoder_bias_to_pre_encoder")?.unwrap_or(false),
        input: Normalisation::None,
        activation,
    };
    fold::input_scale(&mut parts, scale);
    let mut loaded = Loaded::new("Llama Scope", Linear::new(parts).in_file(&detected.weights)?);
    loaded.about = config.fields().clone();
    Ok(loaded)
}
