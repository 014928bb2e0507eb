//! dictionary_learning: `ae.pt`, a torch state dict, and `config.json`.

use std::path::Path;

use super::config::Config;
use super::weights::Weights;
use super::{DetectedCheckpoint, Loaded, fold};
use crate::context::Budget;
use crate::error::{InFile, InputError, Result};
use crate::sae::activation::Activation;
use crate::sae::linear::{Linear, Parts};
use crate::sae::normalise::Normalisation;

pub(super) fn find(path: &Path) -> Option<DetectedCheckpoint> {
    let mut detected = DetectedCheckpoint::file(path, &["ae.pt"], |name| name.ends_with(".pt"))?;
    // Intermediate checkpoints are one directory below the settings.
    let configs = detected.weights.ancestors().skip(1).take(2).map(|directory| directory.join("config.json"));
    detected.config = configs.into_iter().find(|config| config.is_file());
    Some(detected)
}

/// The classes of the library. Each names its tensors differently.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Class {
    Relu,
    ReluWithoutCentring,
    Gated,
    TopK,
    BatchTopK,
    Matryoshka,
    JumpRelu,
}

const CLASSES: [(&str, Class); 7] = [
    ("AutoEncoder", Class::Relu),
    ("AutoEncoderNew", Class::ReluWithoutCentring),
    ("GatedAutoEncoder", Class::Gated),
    ("AutoEncoderTopK", Class::TopK),
    ("BatchTopKSAE", Class::BatchTopK),
    ("MatryoshkaBatchTopKSAE", Class::Matryoshka),
    ("JumpReluAutoEncoder", Class::JumpRelu),
];

impl Class {
    fn arch(self) -> &'static str {
        match self {
            Class::Relu | Class::ReluWithoutCentring => "standard",
            Class::Gated => "gated",
            Class::TopK => "topk",
            Class::BatchTopK => "batchtopk",
            Class::Matryoshka => "matryoshka",
            Class::JumpRelu => "jumprelu",
        }
    }

    /// The class named in the settings or, without them, guessed from the tensors.
    fn of(config: &Config, weights: &Weights, notes: &mut Vec<String>) -> Result<Class> {
        let trainer = config.section("trainer");
        if let Some(name) = trainer.text("dict_class")? {
            let known = CLASSES.iter().find(|(known, _)| *known == name);
            return known.map(|(_, class)| *class).ok_or_else(|| {
                let names: Vec<&str> = CLASSES.iter().map(|(name, _)| *name).collect();
                trainer.wrong("dict_class", "unknown class of dictionary", &names.join(", ")).into()
            });
        }
        let class = if weights.has("gate_bias") {
            Class::Gated
        } else if weights.has("W_enc") {
            if weights.has("group_sizes") { Class::Matryoshka } else { Class::JumpRelu }
        } else if weights.has("decoder.bias") {
            Class::ReluWithoutCentring
        } else if weights.has("k") || weights.has("b_dec") {
            notes.push("read as TopK: without config.json, TopK and BatchTopK cannot be distinguished".into());
            Class::TopK
        } else if weights.has("encoder.weight") && weights.has("bias") {
            Class::Relu
        } else {
            return Err(InputError::new("the tensors are not those of a dictionary")
                .expected("encoder.weight and bias, or W_enc, or gate_bias")
                .advice("copy config.json to the same directory, or convert the dictionary with SAELens first")
                .file(weights.file())
                .into());
        };
        Ok(class)
    }
}

pub(super) fn read(detected: &DetectedCheckpoint, budget: &Budget) -> Result<Loaded> {
    let config = Config::read_optional(detected.config.as_deref())?;
    let weights = Weights::read(&detected.weights, budget)?;
    // With backups enabled, the library writes {step, ae, optimizer, ..} to the same file name.
    let wrapped = weights.has("ae.encoder.weight") || weights.has("ae.W_enc");
    let mut weights = weights.renamed(|name| match wrapped {
        true => name.strip_prefix("ae.").map(str::to_string),
        false => Some(name.to_string()),
    });
    let mut notes = Vec::new();
    let class = Class::of(&config, &weights, &mut notes)?;
    let parts = read_parts(class, &mut weights, &config.section("trainer"), &mut notes).in_file(&detected.weights)?;
    if class == Class::Relu && fold::max_norm_deviation(&parts) > 1e-3 {
        notes.push("directions do not have unit norm; codes keep the scale of the file".into());
    }
    let mut loaded = Loaded::new("dictionary_learning", Linear::new(parts).in_file(&detected.weights)?);
    loaded.notes = notes;
    loaded.about = config.section("trainer").fields().clone();
    Ok(loaded)
}

fn read_parts(class: Class, weights: &mut Weights, trainer: &Config, notes: &mut Vec<String>) -> Result<Parts> {
    let matrices = matches!(class, Class::Matryoshka | Class::JumpRelu);
    let (latents, width) = match matrices {
        true => weights.matrix("W_enc").map(|(width, latents)| (latents, width))?,
        false => weights.matrix("encoder.weight")?,
    };
    let encoder = if matrices { "W_enc" } else { "encoder.weight" };
    trainer.check_size("activation_dim", width, encoder)?;
    trainer.check_size("dict_size", latents, encoder)?;
    let (encoder, decoder) = match matrices {
        true => (weights.take_transposed("W_enc", latents, width)?, weights.take("W_dec", &[latents, width])?),
        false => (
            weights.take("encoder.weight", &[latents, width])?,
            weights.take_transposed("decoder.weight", latents, width)?,
        ),
    };
    let encoder_bias = match class {
        Class::Gated => vec![0.0; latents],
        _ if matrices => weights.take("b_enc", &[latents])?,
        _ => weights.take("encoder.bias", &[latents])?,
    };
    let bias = match class {
        Class::Relu => "bias",
        Class::ReluWithoutCentring => "decoder.bias",
        Class::Gated => "decoder_bias",
        // The name in older files.
        Class::TopK | Class::BatchTopK if !weights.has("b_dec") && weights.has("bias") => "bias",
        _ => "b_dec",
    };
    let bias = weights.take(bias, &[width])?;
    let activation = match class {
        Class::Relu | Class::ReluWithoutCentring => Activation::Relu,
        Class::JumpRelu => Activation::Threshold(weights.take("threshold", &[latents])?),
        Class::Gated => Activation::Gated {
            gate_bias: weights.take("gate_bias", &[latents])?,
            magnitude_scale: weights.take("r_mag", &[latents])?.iter().map(|log| log.exp()).collect(),
            magnitude_bias: weights.take("mag_bias", &[latents])?,
        },
        Class::TopK => Activation::TopK(read_k(weights, trainer)?),
        Class::BatchTopK | Class::Matryoshka => {
            let k = if weights.has("k") { Some(read_k(weights, trainer)?) } else { None };
            let threshold = match weights.has("threshold") {
                true => weights.take_number("threshold")?,
                false => -1.0,
            };
            if threshold >= 0.0 {
                Activation::Threshold(vec![threshold; latents])
            } else {
                notes.push("the threshold was never set in training: the k largest codes of each row are kept".into());
                Activation::TopK(k.map_or_else(|| read_k(weights, trainer), Ok)?)
            }
        }
    };
    let subtract_bias = !matches!(class, Class::JumpRelu | Class::ReluWithoutCentring);
    let (arch, input) = (class.arch().into(), Normalisation::None);
    Ok(Parts { arch, encoder, encoder_bias, decoder, bias, subtract_bias, input, activation })
}

/// The number of active latents per row: a tensor, or in older files a setting.
fn read_k(weights: &mut Weights, trainer: &Config) -> Result<usize> {
    if !weights.has("k") {
        return trainer.required_count("k");
    }
    let k = weights.take_number("k")?;
    if k >= 1.0 && k.fract() == 0.0 && k < 1e9 {
        let k = k as usize;
        return match trainer.count("k")?.filter(|setting| *setting != k) {
            None => Ok(k),
            Some(setting) => Err(InputError::new("the number of active latents differs between settings and weights")
                .expected(format!("{setting}, as in config.json"))
                .found(k)
                .at("tensor `k`")
                .advice("copy both files again; if the weights are right, correct `trainer.k` in config.json")
                .into()),
        };
    }
    Err(InputError::new("the number of active latents is not a positive integer")
        .expected("1, 2, ..")
        .found(k)
        .at("tensor `k`")
        .into())
}
