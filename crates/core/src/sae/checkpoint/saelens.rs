//! SAELens: `cfg.json` and `sae_weights.safetensors`.

use std::path::Path;

use serde_json::{Map, Value, json};

use super::config::Config;
use super::weights::{Weights, transposed};
use super::{DetectedCheckpoint, Loaded, fold, insert, linear, site, transcoder, write_settings, write_tensors};
use crate::context::Budget;
use crate::error::{Error, InFile, InputError, Result};
use crate::input::Tensors;
use crate::sae::activation::Activation;
use crate::sae::dictionary::Dictionary;
use crate::sae::linear::{Linear, Parts};
use crate::sae::normalise::Normalisation;

const WEIGHTS: &str = "sae_weights.safetensors";
const SETTINGS: &str = "cfg.json";

/// The version of the files that Etalon writes: the first with this layout of settings.
const VERSION: &str = "6.0.0";

/// Tensors of architectures whose latents have a threshold.
const THRESHOLDS: [&str; 3] = ["threshold", "log_threshold", "topk_threshold"];

const ARCHITECTURES: &str = "standard, topk, jumprelu, gated, batchtopk or matryoshka_batchtopk";

pub(super) fn find(path: &Path) -> Option<DetectedCheckpoint> {
    DetectedCheckpoint::pair(path, WEIGHTS, SETTINGS)
}

pub(super) fn read(detected: &DetectedCheckpoint, budget: &Budget) -> Result<Loaded> {
    let config = Config::read_optional(detected.config.as_deref())?;
    let metadata = config.section("metadata");
    let version = metadata.text("sae_lens_version")?.or(config.text("sae_lens_version")?);
    let major = version.and_then(|version| version.split('.').next()?.parse::<u32>().ok());
    let mut weights = Weights::read(&detected.weights, budget)?;
    let (width, latents) = weights.matrix("W_enc")?;
    config.check_size("d_in", width, "W_enc")?;
    config.check_size("d_sae", latents, "W_enc")?;
    let (arch, k) = architecture(&config)?;
    if let ("standard" | "topk", Some(name)) = (arch.as_str(), THRESHOLDS.into_iter().find(|name| weights.has(name))) {
        return Err(config
            .wrong("architecture", "the settings contradict the weights, which have thresholds", "jumprelu")
            .found(format!("{arch}, and a tensor `{name}`"))
            .advice("set the architecture that the dictionary was trained with in cfg.json")
            .into());
    }
    if arch.ends_with("transcoder") {
        return Err(transcoder(&detected.weights).into());
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
    // In training, selection uses activations times the norm of their direction; the settings record whether encoding
    // does. Thresholds are in these units. Other architectures do not have the setting, and SAELens ignores it there.
    let training = matches!(arch.as_str(), "batchtopk" | "matryoshka_batchtopk");
    let rescaled = config.flag("rescale_acts_by_decoder_norm")?.unwrap_or(training);
    if rescaled && (training || arch == "topk") {
        fold::unit_directions(&mut parts);
    }
    parts.activation = match arch.as_str() {
        "standard" => Activation::Relu,
        "topk" => Activation::TopK(k.map_or_else(|| config.required_count("k"), Ok)?),
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
        _ => return Err(config.wrong("architecture", "unknown architecture", ARCHITECTURES).into()),
    };
    finetuning_scales(&mut parts, &mut weights, &config)?;
    normalisation(&mut parts, &config, detected, &mut notes)?;
    let reshaped = config.text("reshape_activations")? == Some("hook_z");
    let hook = config.text("hook_name")?.or(config.text("hook_point")?).or(metadata.text("hook_name")?);
    if reshaped || hook.is_some_and(|hook| hook.contains("hook_z")) {
        notes.push("it reads the concatenated heads of a layer".into());
    }
    let name = match major {
        Some(major) if major >= 6 => format!("SAELens {major}"),
        _ => "SAELens (settings from before version 6)".into(),
    };
    let dictionary = Linear::new(parts).in_file(&detected.weights)?.at_site(site(config.fields()));
    let mut loaded = Loaded::new(&name, dictionary);
    loaded.notes = notes;
    loaded.about = config.fields().clone();
    Ok(loaded)
}

/// The architecture, and the `k` of old settings.
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
            Err(config.wrong(key, "unsupported activation of SAELens", "relu or topk").into())
        }
    }
}

/// Folds the decoder scale per latent that old dictionaries may have.
fn finetuning_scales(parts: &mut Parts, weights: &mut Weights, config: &Config) -> Result<()> {
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
                "the dictionary has scaling factors, but its settings do not enable them",
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
    detected: &DetectedCheckpoint,
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
            let scaler = detected.weights.with_file_name("activation_scaler.json");
            let scaler = Config::read_optional(scaler.is_file().then_some(scaler.as_path()))?;
            let scale = match scaler.positive("scaling_factor")? {
                Some(scale) => Some(scale),
                None => config.positive("norm_scaling_factor")?.or(config.positive("scaling_factor")?),
            };
            match scale {
                Some(scale) => {
                    fold::input_scale(parts, scale);
                    notes.push(format!("the input scale {scale} was folded into the weights"));
                }
                None => notes.push(
                    "it was trained on activations scaled to mean norm √width, and the checkpoint does not record the \
                     factor: scale the activations to that norm, or add norm_scaling_factor to cfg.json"
                        .into(),
                ),
            }
        }
        _ => {
            let known = "none, layer_norm, constant_norm_rescale or expected_average_only_in";
            return Err(config.wrong(key, "unknown normalisation", known).into());
        }
    }
    Ok(())
}

/// Writes a dictionary that SAELens 6 loads for inference.
pub(super) fn write(dictionary: &dyn Dictionary, about: &Map<String, Value>, directory: &Path) -> Result<()> {
    let Parts { encoder, encoder_bias, decoder, bias, subtract_bias, input, activation, .. } =
        linear(dictionary, "SAELens")?.parts();
    let (latents, width) = (encoder_bias.len(), bias.len());
    let mut tensors = Tensors::new();
    insert(&mut tensors, "W_dec", &[latents, width], decoder);
    insert(&mut tensors, "W_enc", &[width, latents], transposed(&encoder, width));
    insert(&mut tensors, "b_dec", &[width], bias);
    let mut settings = Map::new();
    let mut per_latent = |name, values| insert(&mut tensors, name, &[latents], values);
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
                return Err(unsupported(
                    "SAELens stores the logarithm of the magnitude scale, but one scale is not positive",
                ));
            }
            let add = |one: &[f32], two: &[f32]| one.iter().zip(two).map(|(one, two)| one + two).collect::<Vec<f32>>();
            let scaled: Vec<f32> = encoder_bias.iter().zip(&magnitude_scale).map(|(b, scale)| b * scale).collect();
            per_latent("b_gate", add(&gate_bias, &encoder_bias));
            per_latent("b_mag", add(&magnitude_bias, &scaled));
            per_latent("r_mag", magnitude_scale.iter().map(|scale| scale.ln()).collect());
            "gated"
        }
        Activation::Pursuit(_) => {
            return Err(unsupported("SAELens does not support matching pursuit with a fixed number of choices"));
        }
        Activation::Standardised { .. } => {
            return Err(unsupported("SAELens does not support standardised pre-activations"));
        }
        Activation::Nearest => {
            return Err(unsupported("SAELens does not support one-hot codes"));
        }
        Activation::Largest(_) | Activation::Signed => {
            return Err(unsupported("SAELens does not support negative codes"));
        }
    };
    if architecture != "gated" {
        insert(&mut tensors, "b_enc", &[latents], encoder_bias);
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
    write_tensors(&directory.join(WEIGHTS), &tensors)?;
    write_settings(&directory.join(SETTINGS), &settings)
}

fn unsupported(what: &str) -> Error {
    InputError::new(what).advice("choose another format, such as etalon").into()
}

/// Metadata about the model of the dictionary.
fn metadata(about: &Map<String, Value>) -> Map<String, Value> {
    let mut metadata = Map::new();
    metadata.insert("sae_lens_version".into(), VERSION.into());
    let inner = about.get("metadata").or(about.get("config")).and_then(Value::as_object);
    let keys = ["model_name", "hook_name", "hook_head_index", "prepend_bos", "context_size", "dataset_path"];
    for key in keys.into_iter().chain(["model_class_name", "model_from_pretrained_kwargs"]) {
        if let Some(value) = inner.and_then(|inner| inner.get(key)).or(about.get(key)) {
            metadata.insert(key.into(), value.clone());
        }
    }
    metadata
}
