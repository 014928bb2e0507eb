//! Etalon's own format: `weights.safetensors`, and `sae.json`, which is written last and names their content.

use std::path::Path;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::config::Config;
use super::weights::Weights;
use super::{DetectedCheckpoint, Loaded, Tensors, linear, site, write_settings, write_tensors};
use crate::context::Budget;
use crate::error::{Error, InFile, InputError, Result};
use crate::sae::activation::Activation;
use crate::sae::baseline::RandomDictionary;
use crate::sae::dictionary::Dictionary;
use crate::sae::linear::{Linear, Parts};
use crate::sae::matching_pursuit::MatchingPursuit;
use crate::sae::normalise::Normalisation;

const WEIGHTS: &str = "weights.safetensors";
/// The name of the settings.
pub(super) const SETTINGS: &str = "sae.json";

const FORMAT: &str = "etalon-sae";
const VERSION: u64 = 1;

/// What `sae.json` says.
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

impl EtalonSettings {
    /// What every dictionary has.
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

pub(super) fn read(found: &DetectedCheckpoint, budget: &Budget) -> Result<Loaded> {
    let config = Config::read_if_there(found.config.as_deref())?;
    if config.text("format")? != Some(FORMAT) {
        return Err(config.wrong("format", "these are not the settings of a dictionary of Etalon", FORMAT).into());
    }
    if config.count("version")? != Some(VERSION as usize) {
        let expected = format!("version {VERSION} or older");
        return Err(config.wrong("version", "this dictionary was written by a newer program", &expected).into());
    }
    let settings: EtalonSettings = serde_json::from_value(Value::Object(config.fields().clone())).map_err(|error| {
        let complaint = InputError::new("the settings of the dictionary are damaged").found(error);
        complaint.file(found.config.as_deref().unwrap_or(&found.weights))
    })?;
    let weights = Weights::read(&found.weights, budget)?;
    let loaded = match settings.activation {
        Kind::Random => Loaded::new("Etalon", read_random(&settings, &config, weights).in_file(&found.weights)?),
        _ => Loaded::new("Etalon", read_linear(&settings, &config, weights).in_file(&found.weights)?),
    };
    let id = loaded.dictionary.id();
    if id != settings.id {
        return Err(InputError::new("the weights are not those that the settings name")
            .expected(settings.id)
            .found(id)
            .advice("a file is damaged, or belongs to another dictionary; copy both again")
            .file(&found.weights)
            .into());
    }
    Ok(Loaded { about: settings.about, ..loaded })
}

fn read_linear(settings: &EtalonSettings, config: &Config, mut weights: Weights) -> Result<Linear> {
    let (latents, width) = (settings.latents, settings.width);
    let k = || config.needed_count("k");
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

/// Only the directions count: the encoder and the biases of the file are 0.
fn read_random(settings: &EtalonSettings, config: &Config, mut weights: Weights) -> Result<RandomDictionary> {
    let missing = || config.wrong("seed", "codes are drawn, and no seed says which", "a whole number");
    let (k, seed) = (config.needed_count("k")?, settings.seed.ok_or_else(missing)?);
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
    write_tensors(&directory.join(WEIGHTS), tensors)?;
    write_settings(&directory.join(SETTINGS), &settings)
}

/// The tensors of a random dictionary, as those of a linear one.
fn random_parts(dictionary: &RandomDictionary) -> (Tensors, EtalonSettings) {
    let card = dictionary.card();
    let (latents, width) = (card.latents, card.width);
    let tensors = vec![
        ("encoder", vec![latents, width], vec![0.0; latents * width]),
        ("encoder_bias", vec![latents], vec![0.0; latents]),
        ("decoder", vec![latents, width], dictionary.directions().to_vec()),
        ("bias", vec![width], vec![0.0; width]),
    ];
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
    let mut tensors: Tensors = vec![
        ("encoder", vec![latents, width], encoder),
        ("encoder_bias", vec![latents], encoder_bias),
        ("decoder", vec![latents, width], decoder),
        ("bias", vec![width], bias),
    ];
    // The number of a nearest centre is always 1, and has never been written.
    let k = activation.k().filter(|_| activation != Activation::Nearest);
    let kind = match activation {
        Activation::Relu => Kind::Relu,
        Activation::Signed => Kind::Signed,
        Activation::TopK(_) => Kind::TopK,
        Activation::Pursuit(MatchingPursuit { signed: true, .. }) => Kind::SignedPursuit,
        Activation::Pursuit(_) => Kind::Pursuit,
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
        Activation::Largest(_) => Kind::Largest,
    };
    (tensors, EtalonSettings { k, subtract_bias, normalisation: input, ..EtalonSettings::new(dictionary, kind) })
}
