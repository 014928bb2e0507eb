//! Etalon's own format: `weights.safetensors`, and `sae.json`, which is written last and contains the id of the
//! dictionary.

use std::path::Path;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::config::Config;
use super::weights::Weights;
use super::{DetectedCheckpoint, Loaded, insert, linear, site, write_settings, write_tensors};
use crate::context::Budget;
use crate::error::{Error, InFile, InputError, Result};
use crate::input::Tensors;
use crate::sae::activation::Activation;
use crate::sae::baseline::RandomDictionary;
use crate::sae::dictionary::Dictionary;
use crate::sae::linear::{Linear, Parts};
use crate::sae::matching_pursuit::MatchingPursuit;
use crate::sae::normalise::Normalisation;

/// The name of the file of weights.
pub(super) const WEIGHTS: &str = "weights.safetensors";
/// The name of the settings file.
pub(super) const SETTINGS: &str = "sae.json";

const FORMAT: &str = "etalon-sae";
const VERSION: u64 = 1;

/// The contents of `sae.json`.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct EtalonSettings {
    format: String,
    version: u64,
    arch: String,
    width: usize,
    latents: usize,
    activation: Kind,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    k: Option<usize>,
    /// The seed of random codes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    seed: Option<u64>,
    normalisation: Normalisation,
    /// Whether pre-activations are standardised over the latents of a row.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    standardised: bool,
    subtract_bias: bool,
    /// The content hash of the dictionary.
    id: String,
    /// Metadata: training settings, seed, model.
    #[serde(default)]
    about: Map<String, Value>,
}

impl EtalonSettings {
    /// The settings that every dictionary has.
    fn new(dictionary: &dyn Dictionary, activation: Kind) -> EtalonSettings {
        let card = dictionary.card();
        EtalonSettings {
            format: FORMAT.into(),
            version: VERSION,
            arch: card.arch.clone(),
            width: card.width,
            latents: card.latents,
            activation,
            k: None,
            seed: None,
            normalisation: Normalisation::None,
            standardised: false,
            subtract_bias: false,
            id: dictionary.id(),
            about: Map::new(),
        }
    }
}

/// The names of the activations.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
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

pub(super) fn find(path: &Path) -> Option<DetectedCheckpoint> {
    DetectedCheckpoint::pair(path, WEIGHTS, SETTINGS)
}

pub(super) fn read(detected: &DetectedCheckpoint, budget: &Budget) -> Result<Loaded> {
    let config = Config::read_optional(detected.config.as_deref())?;
    if config.text("format")? != Some(FORMAT) {
        return Err(config.wrong("format", "these are not the settings of an Etalon dictionary", FORMAT).into());
    }
    if config.count("version")? != Some(VERSION as usize) {
        let expected = format!("version {VERSION} or older");
        return Err(config.wrong("version", "this dictionary was written by a newer program", &expected).into());
    }
    let settings: EtalonSettings = serde_json::from_value(Value::Object(config.fields().clone())).map_err(|error| {
        let damaged = InputError::new("the settings of the dictionary are damaged").found(error);
        damaged.file(detected.config.as_deref().unwrap_or(&detected.weights))
    })?;
    let weights = Weights::read(&detected.weights, budget)?;
    let loaded = match settings.activation {
        Kind::Random => Loaded::new("Etalon", read_random(&settings, &config, weights).in_file(&detected.weights)?),
        _ => Loaded::new("Etalon", read_linear(&settings, &config, weights).in_file(&detected.weights)?),
    };
    let id = loaded.dictionary.id();
    if id != settings.id {
        return Err(InputError::new("the weights do not match the id in the settings")
            .expected(settings.id)
            .found(id)
            .advice("a file is damaged, or belongs to another dictionary; copy both again")
            .file(&detected.weights)
            .into());
    }
    Ok(Loaded { about: settings.about, ..loaded })
}

fn read_linear(settings: &EtalonSettings, config: &Config, mut weights: Weights) -> Result<Linear> {
    let (latents, width) = (settings.latents, settings.width);
    let k = || config.required_count("k");
    let activation = match settings.activation {
        Kind::Relu => Activation::Relu,
        Kind::Signed => Activation::Signed,
        Kind::TopK => Activation::TopK(k()?),
        Kind::Pursuit => Activation::Pursuit(MatchingPursuit { k: k()?, signed: false }),
        Kind::SignedPursuit => Activation::Pursuit(MatchingPursuit { k: k()?, signed: true }),
        Kind::Threshold => Activation::Threshold(weights.take("threshold", &[latents])?),
        Kind::Gated => Activation::Gated {
            gate_bias: weights.take("gate_bias", &[latents])?,
            magnitude_scale: weights.take("magnitude_scale", &[latents])?,
            magnitude_bias: weights.take("magnitude_bias", &[latents])?,
        },
        Kind::Nearest => Activation::Nearest,
        Kind::Largest => Activation::Largest(k()?),
        Kind::Random => return Err(Error::Bug("random codes have no activation".into())),
    };
    let activation = match settings.standardised {
        true => Activation::Standardised {
            gain: weights.take("standardised_gain", &[latents])?,
            bias: weights.take("standardised_bias", &[latents])?,
            inner: Box::new(activation),
        },
        false => activation,
    };
    let dictionary = Linear::new(Parts {
        arch: settings.arch.clone(),
        encoder: weights.take("encoder", &[latents, width])?,
        encoder_bias: weights.take("encoder_bias", &[latents])?,
        decoder: weights.take("decoder", &[latents, width])?,
        bias: weights.take("bias", &[width])?,
        subtract_bias: settings.subtract_bias,
        input: settings.normalisation,
        activation,
    })?;
    Ok(dictionary.at_site(site(&settings.about)))
}

/// Reads only the directions: the encoder and the biases of the file are 0.
fn read_random(settings: &EtalonSettings, config: &Config, mut weights: Weights) -> Result<RandomDictionary> {
    let missing = || config.wrong("seed", "the seed of the random codes is missing", "a whole number");
    let (k, seed) = (config.required_count("k")?, settings.seed.ok_or_else(missing)?);
    let directions = weights.take("decoder", &[settings.latents, settings.width])?;
    RandomDictionary::new(settings.arch.clone(), directions, settings.width, k, seed)
}

pub(super) fn write(dictionary: &dyn Dictionary, about: &Map<String, Value>, directory: &Path) -> Result<()> {
    let (tensors, settings) = match dictionary.downcast_ref::<RandomDictionary>() {
        Some(random) => random_parts(random),
        None => linear_parts(linear(dictionary, "Etalon")?),
    };
    let settings = EtalonSettings { about: about.clone(), ..settings };
    let Ok(Value::Object(settings)) = serde_json::to_value(settings) else {
        return Err(Error::Bug("the settings of a dictionary cannot be written".into()));
    };
    write_tensors(&directory.join(WEIGHTS), &tensors)?;
    write_settings(&directory.join(SETTINGS), &settings)
}

/// The tensors of a random dictionary, in the layout of a linear one.
fn random_parts(dictionary: &RandomDictionary) -> (Tensors, EtalonSettings) {
    let card = dictionary.card();
    let (latents, width) = (card.latents, card.width);
    let mut tensors = Tensors::new();
    insert(&mut tensors, "encoder", &[latents, width], vec![0.0; latents * width]);
    insert(&mut tensors, "encoder_bias", &[latents], vec![0.0; latents]);
    insert(&mut tensors, "decoder", &[latents, width], dictionary.directions().to_vec());
    insert(&mut tensors, "bias", &[width], vec![0.0; width]);
    let settings = EtalonSettings {
        k: Some(dictionary.k()),
        seed: Some(dictionary.seed()),
        ..EtalonSettings::new(dictionary, Kind::Random)
    };
    (tensors, settings)
}

fn linear_parts(dictionary: &Linear) -> (Tensors, EtalonSettings) {
    let Parts { encoder, encoder_bias, decoder, bias, subtract_bias, input, activation, .. } = dictionary.parts();
    let (latents, width) = (encoder_bias.len(), bias.len());
    let mut tensors = Tensors::new();
    insert(&mut tensors, "encoder", &[latents, width], encoder);
    insert(&mut tensors, "encoder_bias", &[latents], encoder_bias);
    insert(&mut tensors, "decoder", &[latents, width], decoder);
    insert(&mut tensors, "bias", &[width], bias);
    let mut per_latent = |name, values| insert(&mut tensors, name, &[latents], values);
    // The k of `Nearest` is always 1 and is not stored.
    let k = activation.k().filter(|_| activation != Activation::Nearest);
    let standardised = matches!(activation, Activation::Standardised { .. });
    let activation = match activation {
        Activation::Standardised { gain, bias, inner } => {
            per_latent("standardised_gain", gain);
            per_latent("standardised_bias", bias);
            *inner
        }
        other => other,
    };
    let kind = match activation {
        Activation::Standardised { .. } | Activation::Relu => Kind::Relu,
        Activation::Signed => Kind::Signed,
        Activation::TopK(_) => Kind::TopK,
        Activation::Pursuit(MatchingPursuit { signed: true, .. }) => Kind::SignedPursuit,
        Activation::Pursuit(_) => Kind::Pursuit,
        Activation::Threshold(thresholds) => {
            per_latent("threshold", thresholds);
            Kind::Threshold
        }
        Activation::Gated { gate_bias, magnitude_scale, magnitude_bias } => {
            per_latent("gate_bias", gate_bias);
            per_latent("magnitude_scale", magnitude_scale);
            per_latent("magnitude_bias", magnitude_bias);
            Kind::Gated
        }
        Activation::Nearest => Kind::Nearest,
        Activation::Largest(_) => Kind::Largest,
    };
    let settings = EtalonSettings::new(dictionary, kind);
    (tensors, EtalonSettings { k, standardised, subtract_bias, normalisation: input, ..settings })
}
