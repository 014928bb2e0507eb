//! Etalon's own format: `weights.safetensors`, and `sae.json`, which is written last and names their content.

use std::path::Path;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::super::{Activation, Linear, Normalisation, Parts, Pursuit};
use super::config::Config;
use super::weights::Weights;
use super::{Found, Loaded, Tensors, write_settings, write_tensors};
use crate::budget::Budget;
use crate::error::{Complaint, Error, InFile, Result};

const WEIGHTS: &str = "weights.safetensors";
/// The name of the settings.
pub(super) const SETTINGS: &str = "sae.json";

const FORMAT: &str = "etalon-sae";
const VERSION: u64 = 1;

/// What `sae.json` says.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Settings {
    format: String,
    version: u64,
    arch: String,
    width: usize,
    latents: usize,
    activation: Kind,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    k: Option<usize>,
    /// The seed of codes that are drawn.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    seed: Option<u64>,
    normalisation: Normalisation,
    subtract_bias: bool,
    /// The content address of the dictionary.
    id: String,
    /// Training parameters, seed, model, or whatever else is known.
    #[serde(default)]
    about: Map<String, Value>,
}

/// The names of the activations.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum Kind {
    Relu,
    TopK,
    Threshold,
    Gated,
    Largest,
    Nearest,
    Random,
    Signed,
    Pursuit,
    SignedPursuit,
}

pub(super) fn find(path: &Path) -> Option<Found> {
    Found::pair(path, WEIGHTS, SETTINGS)
}

pub(super) fn read(found: &Found, budget: &Budget) -> Result<Loaded> {
    let config = Config::read_if_there(found.config.as_deref())?;
    if config.text("format")? != Some(FORMAT) {
        return Err(config.wrong("format", "these are not the settings of a dictionary of Etalon", FORMAT).into());
    }
    if config.count("version")? != Some(VERSION as usize) {
        let expected = format!("version {VERSION} or older");
        return Err(config.wrong("version", "this dictionary was written by a newer program", &expected).into());
    }
    let settings: Settings = serde_json::from_value(Value::Object(config.fields().clone())).map_err(|error| {
        let complaint = Complaint::new("the settings of the dictionary are damaged").found(error);
        complaint.file(found.config.as_deref().unwrap_or(&found.weights))
    })?;
    let mut weights = Weights::read(&found.weights, budget)?;
    let (latents, width) = (settings.latents, settings.width);
    let activation = match settings.activation {
        Kind::Relu => Activation::Relu,
        Kind::Signed => Activation::Signed,
        Kind::TopK => Activation::TopK(config.needed_count("k")?),
        Kind::Pursuit => Activation::Pursuit(Pursuit { k: config.needed_count("k")?, signed: false }),
        Kind::SignedPursuit => Activation::Pursuit(Pursuit { k: config.needed_count("k")?, signed: true }),
        Kind::Threshold => Activation::Threshold(weights.take("threshold", &[latents])?),
        Kind::Gated => Activation::Gated {
            gate_bias: weights.take("gate_bias", &[latents])?,
            magnitude_scale: weights.take("magnitude_scale", &[latents])?,
            magnitude_bias: weights.take("magnitude_bias", &[latents])?,
        },
        Kind::Nearest => Activation::Nearest,
        Kind::Largest => Activation::Largest(config.needed_count("k")?),
        Kind::Random => {
            let missing = || config.wrong("seed", "codes are drawn, and no seed says which", "a whole number");
            Activation::Random { k: config.needed_count("k")?, seed: settings.seed.ok_or_else(missing)? }
        }
    };
    let dictionary = Linear::new(Parts {
        arch: settings.arch,
        encoder: weights.take("encoder", &[latents, width])?,
        encoder_bias: weights.take("encoder_bias", &[latents])?,
        decoder: weights.take("decoder", &[latents, width])?,
        bias: weights.take("bias", &[width])?,
        subtract_bias: settings.subtract_bias,
        input: settings.normalisation,
        activation,
    })
    .in_file(&found.weights)?;
    if dictionary.id() != settings.id {
        return Err(Complaint::new("the weights are not those that the settings name")
            .expected(settings.id)
            .found(dictionary.id())
            .advice("a file is damaged, or belongs to another dictionary; copy both again")
            .file(&found.weights)
            .into());
    }
    let mut loaded = Loaded::new("Etalon", dictionary);
    loaded.about = settings.about;
    Ok(loaded)
}

pub(super) fn write(dictionary: &Linear, about: &Map<String, Value>, directory: &Path) -> Result<()> {
    let id = dictionary.id();
    let Parts { arch, encoder, encoder_bias, decoder, bias, subtract_bias, input, activation } = dictionary.parts();
    let (latents, width) = (encoder_bias.len(), bias.len());
    let mut tensors: Tensors = vec![
        ("encoder", vec![latents, width], encoder),
        ("encoder_bias", vec![latents], encoder_bias),
        ("decoder", vec![latents, width], decoder),
        ("bias", vec![width], bias),
    ];
    let (mut k, mut seed) = (None, None);
    let activation = match activation {
        Activation::Relu => Kind::Relu,
        Activation::Signed => Kind::Signed,
        Activation::TopK(keep) => {
            k = Some(keep);
            Kind::TopK
        }
        Activation::Pursuit(pursuit) => {
            k = Some(pursuit.k);
            if pursuit.signed { Kind::SignedPursuit } else { Kind::Pursuit }
        }
        Activation::Threshold(thresholds) => {
            tensors.push(("threshold", vec![latents], thresholds));
            Kind::Threshold
        }
        Activation::Gated { gate_bias, magnitude_scale, magnitude_bias } => {
            tensors.push(("gate_bias", vec![latents], gate_bias));
            tensors.push(("magnitude_scale", vec![latents], magnitude_scale));
            tensors.push(("magnitude_bias", vec![latents], magnitude_bias));
            Kind::Gated
        }
        Activation::Nearest => Kind::Nearest,
        Activation::Largest(keep) => {
            k = Some(keep);
            Kind::Largest
        }
        Activation::Random { k: keep, seed: given } => {
            (k, seed) = (Some(keep), Some(given));
            Kind::Random
        }
    };
    let settings = Settings {
        format: FORMAT.into(),
        version: VERSION,
        arch,
        width,
        latents,
        activation,
        k,
        seed,
        normalisation: input,
        subtract_bias,
        id,
        about: about.clone(),
    };
    let Ok(Value::Object(settings)) = serde_json::to_value(settings) else {
        return Err(Error::Bug("the settings of a dictionary cannot be written".into()));
    };
    write_tensors(&directory.join(WEIGHTS), tensors)?;
    write_settings(&directory.join(SETTINGS), &settings)
}
