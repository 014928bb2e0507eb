//! Dictionaries with one encoder matrix and an [`Activation`].

mod encode;
mod standardise;
#[cfg(test)]
mod tests;

use std::sync::{Mutex, OnceLock};

use super::activation::Activation;
use super::dictionary::{ContentHash, Dictionary, SaeCard};
use super::normalise::Normalisation;
use super::precision::Precision;
use super::selector::WarmStart;
use crate::codes::{CodesBuilder, CodesView, Latent};
use crate::context::Reservation;
use crate::error::{Error, InputError, Result};
use crate::store::Tile;
use encode::Scratch;
use etalon_kernel::int8::Columns;
use etalon_kernel::packed::{PANEL, Panels};

/// The weights and settings of a [`Linear`]. Matrices have one row per latent.
#[derive(Clone, Debug, PartialEq)]
pub struct Parts {
    /// The name of the architecture.
    pub arch: String,
    /// Latents × width.
    pub encoder: Vec<f32>,
    /// One value per latent.
    pub encoder_bias: Vec<f32>,
    /// Latents × width.
    pub decoder: Vec<f32>,
    /// One value per input dimension, added to the reconstruction.
    pub bias: Vec<f32>,
    /// Whether the bias is subtracted before encoding.
    pub subtract_bias: bool,
    /// The normalisation of rows before encoding.
    pub input: Normalisation,
    /// The activation function.
    pub activation: Activation,
}

/// A dictionary with `codes = activation((n(x) − bias) · Wᵀ + encoder_bias)` and `x̂ = n⁻¹(codes · D + bias)`, where
/// `n` is the normalisation of rows. `bias` is subtracted only if [`Parts::subtract_bias`].
#[derive(Debug)]
pub struct Linear {
    card: SaeCard,
    encoder: Panels,
    /// One per latent, padded to whole panels.
    encoder_bias: Vec<f32>,
    /// The floor of each latent, which pre-activations must exceed; infinite in the padding.
    floors: Vec<f32>,
    /// Bias of the gate, scale and bias of the magnitude, padded; empty without gates.
    gates: [Vec<f32>; 3],
    decoder: Vec<f32>,
    bias: Vec<f32>,
    subtract_bias: bool,
    input: Normalisation,
    activation: Activation,
    warm_start: WarmStart,
    /// The encoder in int8, made when a pre-filter first needs it.
    rounded: OnceLock<Columns>,
    /// Buffers to reuse.
    spare: Mutex<Vec<Scratch>>,
    precision: Precision,
    _reservation: Option<Reservation>,
}

impl Linear {
    /// Builds a dictionary; checks that the sizes of the parts agree.
    pub fn new(parts: Parts) -> Result<Linear> {
        let Parts { arch, encoder, encoder_bias, decoder, bias, subtract_bias, input, activation } = parts;
        let (latents, width) = (encoder_bias.len(), bias.len());
        let weights =
            latents.checked_mul(width).ok_or_else(|| Error::Bug("the size of a dictionary overflows".into()))?;
        if width == 0 || latents == 0 || u32::try_from(latents).is_err() {
            return Err(InputError::new("the size of the dictionary is out of range")
                .expected(format!("a width of at least 1, and 1 to {} latents", u32::MAX))
                .found(format!("width {width}, {latents} latents"))
                .into());
        }
        activation.check(latents)?;
        let matrices = [("encoder", encoder.len(), weights), ("decoder", decoder.len(), weights)];
        let lists = activation.lists().into_iter().map(|(name, values)| (name, values.len(), latents));
        for (what, length, expected) in matrices.into_iter().chain(lists) {
            if length != expected {
                return Err(InputError::new(format!(
                    "the size of the {what} does not match the biases of the dictionary"
                ))
                .expected(format!("{expected} values, for {latents} latents and width {width}"))
                .found(length)
                .into());
            }
        }
        let floors = match activation.innermost() {
            // Nothing below 0 fires, whatever the threshold.
            Activation::Threshold(thresholds) => thresholds.iter().map(|threshold| threshold.max(0.0)).collect(),
            _ => vec![0.0; latents],
        };
        let gates = match &activation {
            Activation::Gated { gate_bias, magnitude_scale, magnitude_bias } => {
                [gate_bias, magnitude_scale, magnitude_bias].map(|values| padded(values.clone(), 0.0))
            }
            _ => Default::default(),
        };
        Ok(Linear {
            card: SaeCard::new(arch, width, latents, activation.k()),
            encoder: Panels::pack(&encoder, width),
            encoder_bias: padded(encoder_bias, 0.0),
            floors: padded(floors, f32::INFINITY),
            gates,
            decoder,
            bias,
            subtract_bias,
            input,
            activation,
            warm_start: WarmStart::default(),
            rounded: OnceLock::new(),
            spare: Mutex::default(),
            precision: Precision::default(),
            _reservation: None,
        })
    }

    /// Sets the network site that the dictionary reads.
    #[must_use]
    pub fn at_site(mut self, site: Option<&str>) -> Linear {
        self.card.site = site.map(str::to_string);
        self
    }

    /// Stores a memory reservation in the dictionary.
    #[must_use]
    pub fn holding(mut self, memory: Reservation) -> Linear {
        self.hold(memory);
        self
    }

    /// Bytes of a dictionary of this size: two matrices, and the encoder in int8.
    pub fn bytes(latents: usize, width: usize) -> u64 {
        (latents as u64).saturating_mul(width as u64).saturating_mul(9)
    }

    /// A copy of the weights and settings.
    pub fn parts(&self) -> Parts {
        Parts {
            arch: self.card.arch.clone(),
            encoder: self.encoder.unpack(),
            encoder_bias: self.encoder_bias[..self.card.latents].to_vec(),
            decoder: self.decoder.clone(),
            bias: self.bias.clone(),
            subtract_bias: self.subtract_bias,
            input: self.input,
            activation: self.activation.clone(),
        }
    }

    /// The activation function.
    pub fn activation(&self) -> &Activation {
        &self.activation
    }

    /// The normalisation of rows before encoding.
    pub fn input(&self) -> Normalisation {
        self.input
    }
}

/// Pads values to whole panels.
fn padded(mut values: Vec<f32>, padding: f32) -> Vec<f32> {
    values.resize(values.len().next_multiple_of(PANEL), padding);
    values
}

impl Dictionary for Linear {
    fn card(&self) -> &SaeCard {
        &self.card
    }

    fn id(&self) -> String {
        let mut hash = ContentHash::new(&self.card.arch);
        hash.list("encoder", &self.encoder.unpack());
        hash.list("encoder bias", &self.encoder_bias[..self.card.latents]);
        hash.list("decoder", &self.decoder);
        hash.list("bias", &self.bias);
        hash.name(if self.subtract_bias { "centred" } else { "as it is" });
        hash.name(self.input.name());
        self.activation.hash(&mut hash);
        hash.finish()
    }

    fn encode(&self, tile: &Tile<'_>, out: &mut CodesBuilder) -> Result<()> {
        self.card.check_input(tile.width)?;
        self.encode_rows(tile, out)
    }

    fn decode(&self, codes: &CodesView<'_>, source: Option<&Tile<'_>>, out: &mut [f32]) -> Result<()> {
        self.card.check_output(codes, source, out)?;
        for (row, into) in out.chunks_exact_mut(self.card.width).enumerate() {
            into.copy_from_slice(&self.bias);
            let (latents, values) = codes.row(row);
            for (&latent, &value) in latents.iter().zip(values) {
                let direction = self.direction(Latent(latent));
                into.iter_mut().zip(direction).for_each(|(into, part)| *into += value * part);
            }
            if self.input != Normalisation::None {
                let source = source.ok_or_else(|| {
                    InputError::new("codes of this dictionary cannot be decoded without the activations")
                        .expected("the encoded rows, whose mean and scale the decoder restores")
                })?;
                self.input.of(source.row(row)).undo(into);
            }
        }
        Ok(())
    }

    fn decoder_scale(&self, source: &[f32]) -> f64 {
        self.input.of(source).scale()
    }

    fn directions(&self) -> &[f32] {
        &self.decoder
    }

    fn encoder_row(&self, latent: Latent, into: &mut [f32]) {
        self.encoder.column(latent.0 as usize, into);
    }

    fn encoder_bias(&self) -> &[f32] {
        match &self.activation {
            Activation::Gated { magnitude_bias, .. } => magnitude_bias,
            _ => &self.encoder_bias[..self.card.latents],
        }
    }

    fn encode_memory(&self, rows: usize) -> u64 {
        self.memory_of_rows(rows)
    }

    fn set_precision(&mut self, precision: Precision) {
        self.precision = precision;
    }

    fn precision(&self) -> &'static str {
        self.precision.used(self.can_prefilter())
    }

    fn hold(&mut self, memory: Reservation) {
        self._reservation = Some(memory);
    }
}
