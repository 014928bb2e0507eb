//! What a training changes: the weights, and Adam's two moments of each.
//!
//! The encoder lives packed, as the product wants it; Adam does not mind the order. Rows are padded with zeros to a
//! multiple of the vector length, latents to whole panels, and the padding stays zero.

use rand_distr::{Distribution, StandardNormal};
use rayon::prelude::*;

use super::objective::{Form, Rules, Scalar};
use super::settings::TrainingSettings;
use crate::error::{InputError, Key, Result};
use crate::input::{Tensor, Tensors};
use etalon_kernel::aligned::Aligned;
use etalon_kernel::packed::{PANEL, Panels, fill_panel};
use etalon_kernel::random::{stream, unit};
use etalon_kernel::vector::{LANES, dot, scale};

/// Numbers in the shape of the weights: the weights themselves, a moment, or a gradient.
#[derive(Clone, Debug)]
pub(super) struct Shaped {
    /// Panel by panel, inner index first; nothing, where the directions are the encoder too.
    pub encoder: Aligned,
    /// One row per latent.
    pub decoder: Aligned,
    /// All numbers of a latent, then those of the next.
    pub scalars: Vec<f32>,
    /// The decoder's bias.
    pub bias: Vec<f32>,
}

impl Shaped {
    pub fn zeros(size: Size) -> Shaped {
        Shaped {
            encoder: Aligned::zeros(if size.tied { 0 } else { size.padded * size.stride }),
            decoder: Aligned::zeros(size.padded * size.stride),
            scalars: vec![0.0; size.padded * size.scalars],
            bias: vec![0.0; size.stride],
        }
    }
}

/// How large everything is.
#[derive(Clone, Copy, Debug)]
pub(super) struct Size {
    pub width: usize,
    pub latents: usize,
    pub scalars: usize,
    /// Whether the directions are the encoder too.
    pub tied: bool,
    /// The width, padded.
    pub stride: usize,
    /// The latents, padded.
    pub padded: usize,
}

impl Size {
    pub fn new(settings: &TrainingSettings, rules: &Rules) -> Size {
        let (width, latents) = (settings.width, settings.latents);
        let (stride, padded) = (width.next_multiple_of(LANES), latents.next_multiple_of(PANEL));
        Size { width, latents, scalars: rules.scalars.len(), tied: rules.form == Form::Tied, stride, padded }
    }

    /// Numbers in one panel of a matrix.
    pub fn panel(&self) -> usize {
        PANEL * self.stride
    }
}

/// The weights.
#[derive(Clone, Debug)]
pub(super) struct Weights {
    pub size: Size,
    pub encoder: Panels,
    pub decoder: Aligned,
    pub scalars: Vec<f32>,
    pub bias: Vec<f32>,
}

impl Weights {
    /// Random directions, the encoder their copy.
    pub fn initial(settings: &TrainingSettings, rules: &Rules) -> Weights {
        let size = Size::new(settings, rules);
        let mut decoder = Aligned::zeros(size.padded * size.stride);
        let mut random = stream(settings.seed, "initial dictionary", 0);
        let mut uniform = Vec::new();
        for row in decoder.chunks_exact_mut(size.stride).take(size.latents) {
            let draws: Vec<f64> = match settings.uniform_encoder {
                None => (0..size.width).map(|_| StandardNormal.sample(&mut random)).collect(),
                Some(bound) => {
                    let draws: Vec<f64> =
                        (0..size.width).map(|_| f64::from(bound) * (2.0 * unit(&mut random) - 1.0)).collect();
                    uniform.extend(padded(&draws, size.stride));
                    draws
                }
            };
            let norm = draws.iter().map(|v| v * v).sum::<f64>().sqrt().max(f64::MIN_POSITIVE);
            let scale = f64::from(settings.initial_norm) / norm;
            row.iter_mut().zip(draws).for_each(|(into, draw)| *into = (draw * scale) as f32);
        }
        let mut numbers = vec![0.0; size.padded * size.scalars];
        for latent in numbers.chunks_exact_mut(size.scalars).take(size.latents) {
            latent.iter_mut().zip(&rules.scalars).for_each(|(into, scalar)| *into = scalar.initial);
            latent[0] += settings.initial_bias * (2.0 * unit(&mut random) as f32 - 1.0);
        }
        uniform.resize(if uniform.is_empty() || size.tied { 0 } else { decoder.len() }, 0.0);
        let encoder = packed(if uniform.is_empty() { &decoder } else { &uniform }, size);
        Weights { size, encoder, decoder, scalars: numbers, bias: vec![0.0; size.stride] }
    }

    /// The weights in our names, one row per latent.
    pub fn tensors(&self, names: &[Scalar]) -> Tensors {
        let shaped = Shaped {
            encoder: self.encoder.values().into(),
            decoder: self.decoder.clone(),
            scalars: self.scalars.clone(),
            bias: self.bias.clone(),
        };
        shaped_tensors(&shaped, self.size, names, "")
    }

    /// Takes weights that were written by [`Weights::tensors`] or by dictionary_learning.
    pub fn take(&mut self, tensors: &Tensors, names: &[Scalar]) -> Result<()> {
        let mut shaped = Shaped::zeros(self.size);
        read_shaped(&mut shaped, self.size, names, "", tensors)?;
        (self.decoder, self.scalars, self.bias) = (shaped.decoder, shaped.scalars, shaped.bias);
        if self.size.tied {
            self.tie();
        } else {
            self.encoder.values_mut().copy_from_slice(&shaped.encoder);
        }
        Ok(())
    }

    /// Multiplies everything by a number.
    pub fn decay(&mut self, by: f64) {
        if by != 1.0 {
            let (by, panel) = (by as f32, self.size.panel());
            self.encoder.values_mut().par_chunks_mut(panel).for_each(|part| scale(part, by));
            self.decoder.par_chunks_mut(panel).for_each(|part| scale(part, by));
            scale(&mut self.scalars, by);
            scale(&mut self.bias, by);
        }
    }

    /// Encoder rows such that every direction has a code of 1 by itself.
    pub fn encode_directions(&mut self) {
        let size = self.size;
        let mut rows = self.decoder.clone();
        rows.par_chunks_exact_mut(size.stride).for_each(|row| {
            let square = dot(row, row);
            if square > 0.0 {
                scale(row, 1.0 / square);
            }
        });
        self.encoder = packed(&rows, size);
    }

    /// Makes the encoder a copy of the directions.
    pub fn tie(&mut self) {
        let (size, decoder) = (self.size, &self.decoder);
        let panels: Vec<&mut [f32]> = self.encoder.panels_mut().collect();
        panels
            .into_par_iter()
            .zip(decoder.par_chunks(size.panel()))
            .for_each(|(panel, rows)| fill_panel(panel, rows, size.stride));
    }
}

/// A row of draws, padded with zeros.
fn padded(draws: &[f64], stride: usize) -> impl Iterator<Item = f32> {
    draws.iter().map(|&draw| draw as f32).chain(std::iter::repeat(0.0)).take(stride)
}

/// Packs padded rows.
fn packed(rows: &[f32], size: Size) -> Panels {
    Panels::pack(rows, size.stride)
}

/// Numbers in the shape of the weights, under names with a prefix.
pub(super) fn shaped_tensors(shaped: &Shaped, size: Size, names: &[Scalar], prefix: &str) -> Tensors {
    let rows = |padded: &[f32]| -> Tensor {
        let rows = padded.chunks_exact(size.stride).take(size.latents);
        let values = rows.flat_map(|row| row[..size.width].iter().copied()).collect();
        Tensor { shape: vec![size.latents, size.width], values }
    };
    let list = |values: Vec<f32>| Tensor { shape: vec![values.len()], values };
    let mut tensors = Tensors::new();
    if !shaped.encoder.is_empty() {
        let mut panels = Panels::new(size.padded, size.stride);
        panels.values_mut().copy_from_slice(&shaped.encoder);
        tensors.insert(format!("{prefix}encoder"), rows(&panels.unpack()));
    }
    tensors.insert(format!("{prefix}decoder"), rows(&shaped.decoder));
    tensors.insert(format!("{prefix}bias"), list(shaped.bias[..size.width].to_vec()));
    for (which, scalar) in names.iter().enumerate() {
        let values = shaped.scalars.iter().skip(which).step_by(size.scalars).take(size.latents).copied().collect();
        tensors.insert(format!("{prefix}{}", scalar.name), list(values));
    }
    tensors
}

/// The names that other programs use: ours, theirs, and whether theirs has one column per latent.
const FOREIGN: [(&str, &str, bool); 14] = [
    ("encoder", "encoder.weight", false),
    ("encoder", "W_enc", true),
    ("decoder", "decoder.weight", true),
    ("decoder", "W_dec", false),
    ("bias", "b_dec", false),
    ("bias", "decoder_bias", false),
    ("encoder_bias", "encoder.bias", false),
    ("encoder_bias", "encoder_bias", false),
    ("encoder_bias", "b_enc", false),
    ("gate_bias", "b_gate", false),
    ("magnitude_bias", "mag_bias", false),
    ("magnitude_bias", "b_mag", false),
    ("magnitude_log_scale", "r_mag", false),
    ("threshold", "thresholds", false),
];

/// Finds a tensor under our name or another program's, and turns it to one row per latent.
pub(super) fn find(tensors: &Tensors, prefix: &str, name: &str, shape: &[usize]) -> Result<Vec<f32>> {
    let own = tensors.get(&format!("{prefix}{name}")).map(|tensor| (tensor, false));
    let foreign = || {
        let known = FOREIGN.iter().filter(|(ours, ..)| *ours == name && prefix.is_empty());
        known.filter_map(|(_, theirs, columns)| Some((tensors.get(*theirs)?, *columns))).next()
    };
    let Some((tensor, columns)) = own.or_else(foreign) else {
        let names: Vec<&str> = tensors.keys().map(String::as_str).collect();
        return Err(InputError::new(format!("the file has no tensor `{prefix}{name}`"))
            .expected("weights of this architecture, as Etalon or dictionary_learning name them")
            .found(names.join(", "))
            .into());
    };
    let wanted: Vec<usize> = if columns { shape.iter().rev().copied().collect() } else { shape.to_vec() };
    if tensor.shape != wanted {
        return Err(InputError::new(format!("the tensor `{name}` has another shape"))
            .expected(format!("{wanted:?}"))
            .found(format!("{:?}", tensor.shape))
            .advice(format!("{} and the width of {} must be those of the file", Key("latents"), Key("store")))
            .into());
    }
    if !columns {
        return Ok(tensor.values.clone());
    }
    let (rows, width) = (shape[0], shape[1]);
    Ok((0..rows * width).map(|index| tensor.values[index % width * rows + index / width]).collect())
}

/// Reads what [`shaped_tensors`] wrote.
pub(super) fn read_shaped(
    into: &mut Shaped,
    size: Size,
    names: &[Scalar],
    prefix: &str,
    tensors: &Tensors,
) -> Result<()> {
    let matrix = [size.latents, size.width];
    let mut rows = vec![0.0; size.padded * size.stride];
    let spread = |values: &[f32], rows: &mut [f32]| {
        for (from, to) in values.chunks_exact(size.width).zip(rows.chunks_exact_mut(size.stride)) {
            to[..size.width].copy_from_slice(from);
        }
    };
    if !size.tied {
        spread(&find(tensors, prefix, "encoder", &matrix)?, &mut rows);
        into.encoder.copy_from_slice(packed(&rows, size).values());
    }
    spread(&find(tensors, prefix, "decoder", &matrix)?, &mut into.decoder);
    into.bias[..size.width].copy_from_slice(&find(tensors, prefix, "bias", &[size.width])?);
    for (which, scalar) in names.iter().enumerate() {
        let values = find(tensors, prefix, scalar.name, &[size.latents])?;
        into.scalars.iter_mut().skip(which).step_by(size.scalars).zip(values).for_each(|(into, value)| *into = value);
    }
    Ok(())
}
