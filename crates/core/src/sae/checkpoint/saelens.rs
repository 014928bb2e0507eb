//! SAELens: `cfg.json` and `sae_weights.safetensors`.

use std::path::Path;

use serde_json::{Map, Value, json};

use super::config::Config;
use super::weights::{Weights, transposed};
use super::{DetectedCheckpoint, Loaded, Tensors, fold, linear, site, transcoder, write_settings, write_tensors};
use crate::context::Budget;
use crate::error::{InFile, InputError, Result};
use crate::sae::activation::Activation;
use crate::sae::dictionary::Dictionary;
use crate::sae::linear::{Linear, Parts};
use crate::sae::normalise::Normalisation;

const WEIGHTS: &str = "sae_weights.safetensors";
const SETTINGS: &str = "cfg.json";

/// The version whose files we write: the first whose settings have this shape.
const VERSION: &str = "6.0.0";

const ARCHITECTURES: &str = "standard, topk, jumprelu, gated, batchtopk or matryoshka_batchtopk";

pub(super) fn find(path: &Path) -> Option<DetectedCheckpoint> {
    DetectedCheckpoint::pair(path, WEIGHTS, SETTINGS)
}

pub(super) fn read(found: &DetectedCheckpoint, budget: &Budget) -> Result<Loaded> {
    let config = Config::read_if_there(found.config.as_deref())?;
    let metadata = config.section("metadata");
    let version = metadata.text("sae_lens_version")?.or(config.text("sae_lens_version")?);
    let major = version.and_then(|version| version.split('.').next()?.parse::<u32>().ok());
    let mut weights = Weights::read(&found.weights, budget)?;
    let (width, latents) = weights.matrix("W_enc")?;
    for (key, there) in [("d_in", width), ("d_sae", latents)] {
        if config.count(key)?.is_some_and(|count| count != there) {
            return Err(config.wrong(key, "the settings do not fit the tensor `W_enc`", &there.to_string()).into());
        }
    }
    let (arch, k) = architecture(&config)?;
    if arch.ends_with("transcoder") {
        return Err(transcoder(&found.weights).into());
    }
    let mut notes = Vec::new();
    let mut parts = Parts {
        arch: arch.clone(),
        encoder: weights.take_transposed("W_enc", latents, width)?,
        encoder_bias: if arch == "gated" { vec![0.0; latents] } else { weights.take("b_enc", &[latents])? },
        decoder: weights.take("W_dec", &[latents, width])?,
        bias: weights.take("b_dec", &[width])?,
        subtract_bias: config.flag("apply_b_dec_to_input")?.unwrap_or(true),
        input: Normalisation::None,
        activation: Activation::Relu,
    };
    // While training, selection sees activations times the norm of their direction; saved dictionaries say so.
    let training = matches!(arch.as_str(), "batchtopk" | "matryoshka_batchtopk");
    if config.flag("rescale_acts_by_decoder_norm")?.unwrap_or(training) {
        fold::unit_directions(&mut parts);
    }
    parts.activation = match arch.as_str() {
        "standard" => Activation::Relu,
        "topk" => Activation::TopK(k.map_or_else(|| config.needed_count("k"), Ok)?),
        "batchtopk" | "matryoshka_batchtopk" if !weights.has("threshold") => {
            Activation::Threshold(vec![weights.take_number("topk_threshold")?; latents])
        }
        "jumprelu" if weights.has("log_threshold") => {
            Activation::Threshold(weights.take("log_threshold", &[latents])?.iter().map(|log| log.exp()).collect())
        }
        "jumprelu" | "batchtopk" | "matryoshka_batchtopk" => {
            Activation::Threshold(weights.take("threshold", &[latents])?)
        }
        "gated" => Activation::Gated {
            gate_bias: weights.take("b_gate", &[latents])?,
            magnitude_scale: weights.take("r_mag", &[latents])?.iter().map(|log| log.exp()).collect(),
            magnitude_bias: weights.take("b_mag", &[latents])?,
        },
        _ => return Err(config.wrong("architecture", "this architecture is not known", ARCHITECTURES).into()),
    };
    finetuning(&mut parts, &mut weights, &config)?;
    normalisation(&mut parts, &config, found, &mut notes)?;
    let reshaped = config.text("reshape_activations")? == Some("hook_z");
    let hook = config.text("hook_name")?.or(config.text("hook_point")?).or(metadata.text("hook_name")?);
    if reshaped || hook.is_some_and(|hook| hook.contains("hook_z")) {
        notes.push("it reads all heads of a layer, one after the other in one row".into());
    }
    let name = match major {
        Some(major) if major >= 6 => format!("SAELens {major}"),
        _ => "SAELens (settings from before version 6)".into(),
    };
    let dictionary = Linear::new(parts).in_file(&found.weights)?.at_site(site(config.fields()));
    let mut loaded = Loaded::new(&name, dictionary);
    loaded.notes = notes;
    loaded.about = config.fields().clone();
    Ok(loaded)
}

/// The architecture, and `k` where old settings hide it.
fn architecture(config: &Config) -> Result<(String, Option<usize>)> {
    let arch = config.text("architecture")?.unwrap_or("standard");
    let function = config.text("activation_fn")?.or(config.text("activation_fn_str")?).unwrap_or("relu");
    match (arch, function) {
        ("standard" | "topk", "topk") => {
            let k = config.section("activation_fn_kwargs").count("k")?.or(config.count("k")?);
            Ok(("topk".into(), k))
        }
        (_, "relu" | "topk" | "jumprelu") => Ok((arch.into(), None)),
        _ => {
            let key = if config.get("activation_fn").is_some() { "activation_fn" } else { "activation_fn_str" };
            Err(config.wrong(key, "this activation of SAELens is not read", "relu or topk").into())
        }
    }
}

/// Old dictionaries may have one more factor per latent, used on decoding.
fn finetuning(parts: &mut Parts, weights: &mut Weights, config: &Config) -> Result<()> {
    if !weights.has("scaling_factor") {
        return Ok(());
    }
    let scales = weights.take("scaling_factor", &[parts.encoder_bias.len()])?;
    if scales.iter().all(|&scale| scale == 1.0) {
        return Ok(());
    }
    if !config.flag("finetuning_scaling_factor")?.unwrap_or(false) {
        return Err(config
            .wrong(
                "finetuning_scaling_factor",
                "the dictionary has scaling factors, and its settings do not say that they are used",
                "true",
            )
            .into());
    }
    fold::direction_scale(parts, &scales);
    Ok(())
}

fn normalisation(
    parts: &mut Parts,
    config: &Config,
    found: &DetectedCheckpoint,
    notes: &mut Vec<String>,
) -> Result<()> {
    let key = "normalize_activations";
    let rule = match config.get(key) {
        None | Some(Value::Bool(false)) => "none",
        Some(Value::Bool(true)) => "expected_average_only_in",
        Some(_) => config.text(key)?.unwrap_or("none"),
    };
    match rule {
        "none" => {}
        "layer_norm" => parts.input = Normalisation::LayerNorm,
        "constant_norm_rescale" => parts.input = Normalisation::ConstantNorm,
        "expected_average_only_in" => {
            let beside = found.weights.with_file_name("activation_scaler.json");
            let beside = Config::read_if_there(beside.is_file().then_some(beside.as_path()))?;
            let scale = match beside.positive("scaling_factor")? {
                Some(scale) => Some(scale),
                None => config.positive("norm_scaling_factor")?.or(config.positive("scaling_factor")?),
            };
            match scale {
                Some(scale) => {
                    fold::input_scale(parts, scale);
                    notes.push(format!("the scale of its inputs, {scale}, was multiplied into the weights"));
                }
                None => notes.push(
                    "it was trained on activations of the mean norm √width, and the factor is not in the checkpoint: \
                     give it activations of that norm, or add norm_scaling_factor to cfg.json"
                        .into(),
                ),
            }
        }
        _ => {
            let known = "none, layer_norm, constant_norm_rescale or expected_average_only_in";
            return Err(config.wrong(key, "this normalisation is not known", known).into());
        }
    }
    Ok(())
}

/// Writes what SAELens 6 loads as an inference dictionary.
pub(super) fn write(dictionary: &dyn Dictionary, about: &Map<String, Value>, directory: &Path) -> Result<()> {
    let Parts { encoder, encoder_bias, decoder, bias, subtract_bias, input, activation, .. } =
        linear(dictionary, "SAELens")?.parts();
    let (latents, width) = (encoder_bias.len(), bias.len());
    let mut tensors: Tensors = vec![
        ("W_dec", vec![latents, width], decoder),
        ("W_enc", vec![width, latents], transposed(&encoder, width)),
        ("b_dec", vec![width], bias),
    ];
    let mut settings = Map::new();
    let mut per_latent = |name, values| tensors.push((name, vec![latents], values));
    let architecture = match activation {
        Activation::Relu => "standard",
        Activation::TopK(k) => {
            settings.insert("k".into(), json!(k));
            settings.insert("rescale_acts_by_decoder_norm".into(), json!(false));
            "topk"
        }
        Activation::Threshold(thresholds) => {
            per_latent("threshold", thresholds);
            "jumprelu"
        }
        Activation::Gated { gate_bias, magnitude_scale, magnitude_bias } => {
            if magnitude_scale.iter().any(|&scale| scale <= 0.0) {
                return Err(InputError::new(
                    "SAELens keeps the logarithm of the magnitude scale, and one is not positive",
                )
                .advice("choose another format")
                .into());
            }
            let add = |one: &[f32], two: &[f32]| one.iter().zip(two).map(|(one, two)| one + two).collect::<Vec<f32>>();
            let scaled: Vec<f32> = encoder_bias.iter().zip(&magnitude_scale).map(|(b, scale)| b * scale).collect();
            per_latent("b_gate", add(&gate_bias, &encoder_bias));
            per_latent("b_mag", add(&magnitude_bias, &scaled));
            per_latent("r_mag", magnitude_scale.iter().map(|scale| scale.ln()).collect());
            "gated"
        }
        Activation::Pursuit(_) => {
            return Err(InputError::new("the matching pursuit of SAELens ends by another rule than after k choices")
                .advice("choose another format, such as etalon")
                .into());
        }
        Activation::Nearest => {
            return Err(InputError::new("SAELens has no dictionaries that choose latents in this way")
                .advice("choose another format, such as etalon")
                .into());
        }
        Activation::Largest(_) | Activation::Signed => {
            return Err(InputError::new("SAELens has no dictionaries with negative codes")
                .advice("choose another format, such as etalon")
                .into());
        }
    };
    if architecture != "gated" {
        tensors.push(("b_enc", vec![latents], encoder_bias));
    }
    let normalisation = match input {
        Normalisation::None => "none",
        Normalisation::LayerNorm => "layer_norm",
        Normalisation::ConstantNorm => "constant_norm_rescale",
    };
    for (key, value) in [
        ("d_in", json!(width)),
        ("d_sae", json!(latents)),
        ("dtype", json!("float32")),
        ("device", json!("cpu")),
        ("apply_b_dec_to_input", json!(subtract_bias)),
        ("normalize_activations", json!(normalisation)),
        ("reshape_activations", json!("none")),
        ("metadata", json!(metadata(about))),
        ("architecture", json!(architecture)),
    ] {
        settings.insert(key.into(), value);
    }
    write_tensors(&directory.join(WEIGHTS), tensors)?;
    write_settings(&directory.join(SETTINGS), &settings)
}

/// What is known of the model that the dictionary belongs to.
fn metadata(about: &Map<String, Value>) -> Map<String, Value> {
    let mut metadata = Map::new();
    metadata.insert("sae_lens_version".into(), VERSION.into());
    let inner = about.get("metadata").or(about.get("config")).and_then(Value::as_object);
    for key in ["model_name", "hook_name", "hook_head_index", "prepend_bos", "context_size", "dataset_path"] {
        if let Some(value) = inner.and_then(|inner| inner.get(key)).or(about.get(key)) {
            metadata.insert(key.into(), value.clone());
        }
    }
    metadata
}
