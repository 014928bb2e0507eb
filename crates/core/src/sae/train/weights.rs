//! The weights of a training, and buffers of their shape for gradients and Adam moments.
//!
//! The encoder is stored packed, in the layout of the product; Adam works in any layout. Rows are padded with zeros to
//! a multiple of the vector length, latents to whole panels, and the padding remains zero.

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

/// Buffers in the shape of the weights: a gradient, or an Adam moment.
#[derive(Clone, Debug)]
pub(super) struct WeightBuffers {
    /// Packed panels; empty if the encoder is tied to the decoder.
    pub encoder: Aligned,
    /// One row per latent.
    pub decoder: Aligned,
    /// The scalars of all latents, latent by latent.
    pub scalars: Vec<f32>,
    /// The decoder bias.
    pub bias: Vec<f32>,
}

impl WeightBuffers {
    pub fn zeros(size: Size) -> WeightBuffers {
        WeightBuffers {
            encoder: Aligned::zeros(if size.tied { 0 } else { size.padded * size.stride }),
            decoder: Aligned::zeros(size.padded * size.stride),
            scalars: vec![0.0; size.padded * size.scalars],
            bias: vec![0.0; size.stride],
        }
    }
}

/// The sizes of the weights.
#[derive(Clone, Copy, Debug)]
pub(super) struct Size {
    pub width: usize,
    pub latents: usize,
    /// Scalars per latent.
    pub scalars: usize,
    /// Whether the encoder is tied to the decoder.
    pub tied: bool,
    /// The padded width.
    pub stride: usize,
    /// The padded number of latents.
    pub padded: usize,
}

impl Size {
    pub fn new(settings: &TrainingSettings, rules: &Rules) -> Size {
        let (width, latents) = (settings.width, settings.latents);
        let (stride, padded) = (width.next_multiple_of(LANES), latents.next_multiple_of(PANEL));
        Size { width, latents, scalars: rules.scalars.len(), tied: rules.form == Form::Tied, stride, padded }
    }

    /// Values in one panel of a matrix.
    pub fn panel(&self) -> usize {
        PANEL * self.stride
    }
}

/// The weights of a dictionary in training; see [`WeightBuffers`] for the layout.
#[derive(Clone, Debug)]
pub(super) struct Weights {
    pub size: Size,
    pub encoder: Panels,
    pub decoder: Aligned,
    pub scalars: Vec<f32>,
    pub bias: Vec<f32>,
}

impl Weights {
    /// Random initial weights.
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
        let mut scalars = vec![0.0; size.padded * size.scalars];
        for latent in scalars.chunks_exact_mut(size.scalars).take(size.latents) {
            latent.iter_mut().zip(&rules.scalars).for_each(|(into, scalar)| *into = scalar.initial / scalar.unit);
            latent[0] += settings.initial_bias * (2.0 * unit(&mut random) as f32 - 1.0);
        }
        uniform.resize(if uniform.is_empty() || size.tied { 0 } else { decoder.len() }, 0.0);
        let encoder = Panels::pack(if uniform.is_empty() { &decoder } else { &uniform }, size.stride);
        Weights { size, encoder, decoder, scalars, bias: vec![0.0; size.stride] }
    }

    /// The weights under Etalon's names, one row per latent.
    pub fn tensors(&self, names: &[Scalar]) -> Tensors {
        let copy = WeightBuffers {
            encoder: self.encoder.values().into(),
            decoder: self.decoder.clone(),
            scalars: self.scalars.clone(),
            bias: self.bias.clone(),
        };
        buffers_to_tensors(&copy, self.size, names, "")
    }

    /// Reads weights under Etalon's names or those of dictionary_learning.
    pub fn read(&mut self, tensors: &Tensors, names: &[Scalar]) -> Result<()> {
        let mut buffers = WeightBuffers::zeros(self.size);
        read_buffers(&mut buffers, self.size, names, "", tensors)?;
        (self.decoder, self.scalars, self.bias) = (buffers.decoder, buffers.scalars, buffers.bias);
        if self.size.tied {
            self.tie();
        } else {
            self.encoder.values_mut().copy_from_slice(&buffers.encoder);
        }
        Ok(())
    }

    /// Multiplies all weights by a factor.
    pub fn decay(&mut self, factor: f64) {
        if factor != 1.0 {
            let (factor, panel) = (factor as f32, self.size.panel());
            self.encoder.values_mut().par_chunks_mut(panel).for_each(|part| scale(part, factor));
            self.decoder.par_chunks_mut(panel).for_each(|part| scale(part, factor));
            scale(&mut self.scalars, factor);
            scale(&mut self.bias, factor);
        }
    }

    /// Sets the encoder so that every direction has the code 1.
    pub fn encode_directions(&mut self) {
        let size = self.size;
        let mut rows = self.decoder.clone();
        rows.par_chunks_exact_mut(size.stride).for_each(|row| {
            let square = dot(row, row);
            if square > 0.0 {
                scale(row, 1.0 / square);
            }
        });
        self.encoder = Panels::pack(&rows, size.stride);
    }

    /// Copies the directions to the encoder.
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

/// Copies rows of a width to padded rows.
pub(super) fn copy_rows(values: &[f32], width: usize, into: &mut [f32], stride: usize) {
    for (from, to) in values.chunks_exact(width).zip(into.chunks_exact_mut(stride)) {
        to[..width].copy_from_slice(from);
    }
}

/// Buffers as tensors, under Etalon's names with a prefix.
pub(super) fn buffers_to_tensors(buffers: &WeightBuffers, size: Size, names: &[Scalar], prefix: &str) -> Tensors {
    let rows = |padded: &[f32]| -> Tensor {
        let rows = padded.chunks_exact(size.stride).take(size.latents);
        let values = rows.flat_map(|row| row[..size.width].iter().copied()).collect();
        Tensor { shape: vec![size.latents, size.width], values }
    };
    let list = |values: Vec<f32>| Tensor { shape: vec![values.len()], values };
    let mut tensors = Tensors::new();
    if !buffers.encoder.is_empty() {
        let mut panels = Panels::new(size.padded, size.stride);
        panels.values_mut().copy_from_slice(&buffers.encoder);
        tensors.insert(format!("{prefix}encoder"), rows(&panels.unpack()));
    }
    tensors.insert(format!("{prefix}decoder"), rows(&buffers.decoder));
    tensors.insert(format!("{prefix}bias"), list(buffers.bias[..size.width].to_vec()));
    for (index, scalar) in names.iter().enumerate() {
        let values = buffers.scalars.iter().skip(index).step_by(size.scalars).take(size.latents);
        tensors.insert(format!("{prefix}{}", scalar.name), list(values.map(|value| value * scalar.unit).collect()));
    }
    tensors
}

/// Etalon's name of a tensor, the name in other programs, and whether that tensor has one column per latent.
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

/// Finds a tensor under Etalon's name or that of another program, and transposes it to one row per latent if necessary.
pub(super) fn find(tensors: &Tensors, prefix: &str, name: &str, shape: &[usize]) -> Result<Vec<f32>> {
    let own = tensors.get(&format!("{prefix}{name}")).map(|tensor| (tensor, false));
    let foreign = || {
        let known = FOREIGN.iter().filter(|(ours, ..)| *ours == name && prefix.is_empty());
        known.filter_map(|(_, theirs, columns)| Some((tensors.get(*theirs)?, *columns))).next()
    };
    let Some((tensor, columns)) = own.or_else(foreign) else {
        let names: Vec<&str> = tensors.keys().map(String::as_str).collect();
        return Err(InputError::new(format!("the tensor `{prefix}{name}` is missing"))
            .expected("weights of this architecture, as Etalon or dictionary_learning name them")
            .found(names.join(", "))
            .into());
    };
    let expected: Vec<usize> = if columns { shape.iter().rev().copied().collect() } else { shape.to_vec() };
    if tensor.shape != expected {
        return Err(InputError::new(format!("the tensor `{name}` has the wrong shape"))
            .expected(format!("{expected:?}"))
            .found(format!("{:?}", tensor.shape))
            .advice(format!("{} and the width of {} must match the file", Key("latents"), Key("store")))
            .into());
    }
    if !columns {
        return Ok(tensor.values.clone());
    }
    let (rows, width) = (shape[0], shape[1]);
    Ok((0..rows * width).map(|index| tensor.values[index % width * rows + index / width]).collect())
}

/// Reads the tensors of [`buffers_to_tensors`].
pub(super) fn read_buffers(
    into: &mut WeightBuffers,
    size: Size,
    names: &[Scalar],
    prefix: &str,
    tensors: &Tensors,
) -> Result<()> {
    let matrix = [size.latents, size.width];
    let mut rows = vec![0.0; size.padded * size.stride];
    if !size.tied {
        copy_rows(&find(tensors, prefix, "encoder", &matrix)?, size.width, &mut rows, size.stride);
        into.encoder.copy_from_slice(Panels::pack(&rows, size.stride).values());
    }
    copy_rows(&find(tensors, prefix, "decoder", &matrix)?, size.width, &mut into.decoder, size.stride);
    into.bias[..size.width].copy_from_slice(&find(tensors, prefix, "bias", &[size.width])?);
    for (index, scalar) in names.iter().enumerate() {
        let values = find(tensors, prefix, scalar.name, &[size.latents])?;
        let numbers = into.scalars.iter_mut().skip(index).step_by(size.scalars);
        numbers.zip(values).for_each(|(into, value)| *into = value / scalar.unit);
    }
    Ok(())
}
