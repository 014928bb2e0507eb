//! overcomplete: a torch state dict, or a whole pickled module, of which only tensors and plain attributes are read.

use std::collections::BTreeMap;
use std::path::Path;

use rayon::prelude::*;

use super::config::Config;
use super::overcomplete_settings::{Class, OvercompleteSettings};
use super::weights::Weights;
use super::{DetectedCheckpoint, Loaded};
use crate::context::Budget;
use crate::error::{Error, InFile, InputError, Result};
use crate::input::{TorchModule, read_torch_module, torch_tensor_names};
use crate::sae::activation::Activation;
use crate::sae::linear::{Linear, Parts};
use crate::sae::matching_pursuit::MatchingPursuit;
use crate::sae::normalise::Normalisation;

/// Files of these names in a directory are tried first.
const FILES: [&str; 2] = ["sae.pt", "state_dict.pt"];

/// The prefix of the tensors of a module that was trained on several devices.
const PARALLEL: &str = "module.";

/// Added to norms and sums before a division, as in the library.
const GUARD: f64 = 1e-8;

/// Memory to look at the names of the tensors.
const NAMES_BUDGET: u64 = 1 << 30;

const ENCODER: &str = "encoder.final_block.0";
const NORM: &str = "encoder.final_block.1";

pub(super) fn find(path: &Path) -> Option<DetectedCheckpoint> {
    let is_torch = |name: &str| name.ends_with(".pt") || name.ends_with(".pth");
    let mut detected = match path.is_dir() {
        true => DetectedCheckpoint::file(path, &FILES, |_| false).or_else(|| {
            let names = super::names_in(path);
            let mut torch = names.iter().filter(|name| is_torch(name));
            let only = torch.next().filter(|_| torch.next().is_none())?;
            DetectedCheckpoint::file(&path.join(only), &[], |_| true)
        }),
        false => DetectedCheckpoint::file(path, &[], is_torch),
    }?;
    // Other programs use the same file names.
    let names = torch_tensor_names(&detected.weights, &Budget::new(NAMES_BUDGET)).ok()?;
    let ours = ["dictionary._weights", "dictionary.W"];
    names.iter().find(|name| ours.contains(&name.strip_prefix(PARALLEL).unwrap_or(name)))?;
    detected.config = Some(detected.weights.with_file_name("config.json")).filter(|config| config.is_file());
    Some(detected)
}

pub(super) fn read(detected: &DetectedCheckpoint, budget: &Budget) -> Result<Loaded> {
    let config = Config::read_optional(detected.config.as_deref())?;
    let mut module = without_prefix(read_torch_module(&detected.weights, budget)?);
    let settings_of = |module: &TorchModule| {
        let settings = OvercompleteSettings::new(module, &config, &detected.given)?;
        let has = |name: &str| module.tensors.contains_key(name);
        let class = settings.class(has(&format!("{ENCODER}.weight")), has("thresholds"))?;
        let k = matches!(class, Class::TopK | Class::MatchingPursuit).then(|| settings.k()).transpose()?;
        let threshold = (class == Class::BatchTopK).then(|| settings.threshold()).transpose()?;
        let delta = has("dictionary.W").then(|| settings.delta()).transpose()?;
        Ok::<_, Error>((class, k, threshold, delta))
    };
    let (class, k, threshold, delta) = settings_of(&module).in_file(&detected.weights)?;
    module.tensors.remove("running_threshold");
    let mut weights = Weights::new(&detected.weights, std::mem::take(&mut module.tensors));
    let parts = read_parts(&mut weights, class, delta).in_file(&detected.weights)?;
    let activation = match (k, threshold) {
        (Some(k), _) if class == Class::MatchingPursuit => Activation::Pursuit(MatchingPursuit { k, signed: true }),
        (Some(k), _) => Activation::TopK(k),
        (None, Some(threshold)) => Activation::Threshold(vec![at_least(threshold); parts.encoder_bias.len()]),
        (None, None) => parts.activation,
    };
    let activation = match read_norm(&mut weights, parts.encoder_bias.len())? {
        Some((gain, bias)) => Activation::Standardised { gain, bias, inner: Box::new(activation) },
        None => activation,
    };
    if let Some(name) = weights.rest().find(|name| name.starts_with("encoder.")) {
        return Err(InputError::new("this encoder of overcomplete is not supported")
            .expected("one linear layer, with a batch norm, a layer norm or no norm")
            .found(format!("the tensor `{name}`"))
            .file(&detected.weights)
            .into());
    }
    let dictionary = Linear::new(Parts { activation, ..parts }).in_file(&detected.weights)?;
    let mut loaded = Loaded::new("overcomplete", dictionary);
    if delta.is_none() && module.functions.is_empty() {
        loaded.notes.push("read with directions of unit L2 norm: the file does not say how they are normalised".into());
    }
    loaded.about = config.fields().clone();
    Ok(loaded)
}

/// Removes the wrapper of a module that was trained on several devices.
fn without_prefix(module: TorchModule) -> TorchModule {
    fn strip<T>(names: BTreeMap<String, T>) -> BTreeMap<String, T> {
        let rename = |name: String| name.strip_prefix(PARALLEL).map(str::to_string).unwrap_or(name);
        names.into_iter().map(|(name, value)| (rename(name), value)).collect()
    }
    let mut classes = module.classes;
    if let Some(class) = classes.remove("module") {
        classes.insert(String::new(), class);
    }
    TorchModule {
        tensors: strip(module.tensors),
        classes: strip(classes),
        numbers: strip(module.numbers),
        functions: strip(module.functions),
    }
}

/// The threshold that values of at least `threshold` exceed.
fn at_least(threshold: f32) -> f32 {
    if threshold > 0.0 { threshold.next_down() } else { 0.0 }
}

/// Encoder, directions and the learned thresholds.
fn read_parts(weights: &mut Weights, class: Class, delta: Option<f64>) -> Result<Parts> {
    let decoder_name = if delta.is_some() { "dictionary.Relax" } else { "dictionary._weights" };
    let (latents, width) = weights.matrix(decoder_name)?;
    let decoder = match delta {
        Some(delta) => archetypal(weights, latents, width, delta)?,
        None => unit_directions(weights, latents, width)?,
    };
    let (encoder, encoder_bias) = match class {
        Class::MatchingPursuit => (decoder.clone(), vec![0.0; latents]),
        _ => linear_layer(weights, latents, width)?,
    };
    let activation = match class {
        Class::Jump => {
            let logarithms = weights.take("thresholds", &[latents])?;
            Activation::Threshold(logarithms.iter().map(|log| at_least(log.exp())).collect())
        }
        _ => Activation::Relu,
    };
    let arch = arch(class);
    Ok(Parts {
        arch: if delta.is_some() { format!("ra_{arch}") } else { arch.into() },
        encoder,
        encoder_bias,
        decoder,
        bias: vec![0.0; width],
        subtract_bias: false,
        input: Normalisation::None,
        activation,
    })
}

fn arch(class: Class) -> &'static str {
    match class {
        Class::Relu => "relu",
        Class::TopK => "topk",
        Class::BatchTopK => "batch_topk",
        Class::Jump => "jumprelu",
        Class::MatchingPursuit => "mp",
    }
}

/// Weights and biases of the encoder. A batch norm is folded into them.
fn linear_layer(weights: &mut Weights, latents: usize, width: usize) -> Result<(Vec<f32>, Vec<f32>)> {
    let mut encoder = weights.take(&format!("{ENCODER}.weight"), &[latents, width])?;
    let mut bias = weights.take(&format!("{ENCODER}.bias"), &[latents])?;
    if weights.has(&format!("{NORM}.running_var")) {
        let mut take = |name: &str| weights.take(&format!("{NORM}.{name}"), &[latents]);
        let (gain, shift, mean, variance) =
            (take("weight")?, take("bias")?, take("running_mean")?, take("running_var")?);
        weights.take_number(&format!("{NORM}.num_batches_tracked"))?;
        for latent in 0..latents {
            let scale = f64::from(gain[latent]) / (f64::from(variance[latent]) + 1e-5).sqrt();
            encoder[latent * width..][..width].iter_mut().for_each(|value| *value = (f64::from(*value) * scale) as f32);
            let centred = f64::from(bias[latent]) - f64::from(mean[latent]);
            bias[latent] = (centred * scale + f64::from(shift[latent])) as f32;
        }
    }
    Ok((encoder, bias))
}

/// Gain and bias of a layer norm over the latents.
fn read_norm(weights: &mut Weights, latents: usize) -> Result<Option<(Vec<f32>, Vec<f32>)>> {
    if !weights.has(&format!("{NORM}.weight")) {
        return Ok(None);
    }
    let mut take = |name: &str| weights.take(&format!("{NORM}.{name}"), &[latents]);
    Ok(Some((take("weight")?, take("bias")?)))
}

/// The learned factor of all directions.
fn multiplier(weights: &mut Weights) -> Result<f64> {
    Ok(f64::from(weights.take_number("dictionary.multiplier")?).exp())
}

/// D = weights / (norm + 1e-8) · e^m, by rows. A state dict is one step of the optimiser away from unit norm.
fn unit_directions(weights: &mut Weights, latents: usize, width: usize) -> Result<Vec<f32>> {
    let factor = multiplier(weights)?;
    let mut directions = weights.take("dictionary._weights", &[latents, width])?;
    for direction in directions.chunks_exact_mut(width.max(1)) {
        let scale = factor / (norm(direction) + GUARD);
        direction.iter_mut().for_each(|value| *value = (f64::from(*value) * scale) as f32);
    }
    Ok(directions)
}

/// D = (W C + Relax) · e^m, where the rows of W are made convex and those of Relax are cut to the norm delta.
fn archetypal(weights: &mut Weights, latents: usize, width: usize, delta: f64) -> Result<Vec<f32>> {
    let factor = multiplier(weights)?;
    let (_, points) = weights.matrix("dictionary.W")?;
    let mixtures = weights.take("dictionary.W", &[latents, points])?;
    let candidates = weights.take("dictionary.C", &[points, width])?;
    let mut directions = weights.take("dictionary.Relax", &[latents, width])?;
    let rows = directions.par_chunks_exact_mut(width.max(1)).zip(mixtures.par_chunks_exact(points.max(1)));
    rows.for_each(|(direction, mixture)| {
        let length = norm(direction);
        if length > delta {
            direction.iter_mut().for_each(|value| *value = (f64::from(*value) * delta / length) as f32);
        }
        let sum = mixture.iter().map(|&weight| f64::from(weight.max(0.0))).sum::<f64>() + GUARD;
        for (weight, point) in mixture.iter().zip(candidates.chunks_exact(width.max(1))).filter(|pair| *pair.0 > 0.0) {
            let weight = (f64::from(*weight) / sum) as f32;
            direction.iter_mut().zip(point).for_each(|(value, part)| *value += weight * part);
        }
        direction.iter_mut().for_each(|value| *value = (f64::from(*value) * factor) as f32);
    });
    Ok(directions)
}

fn norm(direction: &[f32]) -> f64 {
    direction.iter().map(|&value| f64::from(value).powi(2)).sum::<f64>().sqrt()
}
