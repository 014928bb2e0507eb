//! Dictionaries with one encoder matrix: everything between the product and the codes is an [`Activation`].

use super::{Dictionary, SaeCard};
use crate::codes::{CodesBuilder, CodesView, Latent};
use crate::error::{Complaint, Error, Result};
use crate::kernel::product::rows_by_rows;
use crate::kernel::top::largest;
use crate::store::Tile;

/// What becomes of the pre-activations of a row.
#[derive(Clone, Debug, PartialEq)]
pub enum Activation {
    /// Positive values stay.
    Relu,
    /// The k largest stay, if they are positive.
    TopK(usize),
}

/// `codes = activation((x − bias) · Wᵀ + encoder_bias)`, `x̂ = codes · D + bias`.
#[derive(Debug)]
pub struct Linear {
    card: SaeCard,
    /// One row per latent.
    encoder: Vec<f32>,
    encoder_bias: Vec<f32>,
    /// One row per latent.
    decoder: Vec<f32>,
    bias: Vec<f32>,
    activation: Activation,
}

/// Rows of one product. Tiles are cut and padded to exactly this, so that every row meets the same sequence of
/// operations whatever stands beside it.
const BLOCK: usize = 128;

impl Linear {
    /// Checks that the parts fit together.
    pub fn new(
        arch: &str,
        encoder: Vec<f32>,
        encoder_bias: Vec<f32>,
        decoder: Vec<f32>,
        bias: Vec<f32>,
        activation: Activation,
    ) -> Result<Linear> {
        let (latents, width) = (encoder_bias.len(), bias.len());
        for (what, length) in [("encoder", encoder.len()), ("decoder", decoder.len())] {
            if length != latents * width {
                return Err(Complaint::new(format!("the {what} does not fit the biases of this dictionary"))
                    .expected(format!("{latents} latents × {width} = {} weights", latents * width))
                    .found(length)
                    .into());
            }
        }
        let card = SaeCard { arch: arch.into(), width, latents };
        Ok(Linear { card, encoder, encoder_bias, decoder, bias, activation })
    }

    /// The decoder: one direction per latent.
    pub fn directions(&self) -> &[f32] {
        &self.decoder
    }

    fn activate(&self, row: &mut [f32], scratch: &mut Vec<(f32, u32)>, out: &mut CodesBuilder) -> Result<()> {
        row.iter_mut().zip(&self.encoder_bias).for_each(|(value, bias)| *value = (*value + bias).max(0.0));
        if let Activation::TopK(k) = self.activation {
            largest(row, k, scratch);
            scratch.sort_unstable_by_key(|entry| entry.1);
            let (latents, values): (Vec<u32>, Vec<f32>) =
                scratch.iter().map(|&(value, latent)| (latent, value)).unzip();
            return out.push(&latents, &values);
        }
        out.push_dense(row)
    }
}

impl Dictionary for Linear {
    fn card(&self) -> &SaeCard {
        &self.card
    }

    fn encode(&self, tile: &Tile<'_>, out: &mut CodesBuilder) -> Result<()> {
        let (width, latents) = (self.card.width, self.card.latents);
        if tile.width != width {
            return Err(Complaint::new("the activations do not fit the dictionary")
                .expected(format!("width {width}"))
                .found(format!("width {}", tile.width))
                .into());
        }
        let (mut input, mut product, mut scratch) = (vec![0.0; BLOCK * width], vec![0.0; BLOCK * latents], Vec::new());
        for first in (0..tile.rows()).step_by(BLOCK) {
            let rows = BLOCK.min(tile.rows() - first);
            input.fill(0.0);
            for (place, into) in input.chunks_exact_mut(width).take(rows).enumerate() {
                let row = tile.row(first + place).iter().zip(&self.bias);
                into.iter_mut().zip(row).for_each(|(into, (value, bias))| *into = value - bias);
            }
            rows_by_rows(&input, &self.encoder, width, &mut product);
            for row in product.chunks_exact_mut(latents).take(rows) {
                self.activate(row, &mut scratch, out)?;
            }
        }
        Ok(())
    }

    fn decode(&self, codes: &CodesView<'_>, out: &mut [f32]) -> Result<()> {
        let width = self.card.width;
        if out.len() != codes.rows() * width {
            return Err(Error::Bug("reconstruction of another shape than the codes".into()));
        }
        for (row, into) in out.chunks_exact_mut(width).enumerate() {
            into.copy_from_slice(&self.bias);
            let (latents, values) = codes.row(row);
            for (&latent, &value) in latents.iter().zip(values) {
                let direction = self.direction(Latent(latent));
                into.iter_mut().zip(direction).for_each(|(into, part)| *into += value * part);
            }
        }
        Ok(())
    }

    fn direction(&self, latent: Latent) -> &[f32] {
        &self.decoder[latent.0 as usize * self.card.width..][..self.card.width]
    }
}

#[cfg(test)]
mod tests {
    use std::borrow::Cow;

    use super::*;

    /// Two latents read the two coordinates; x − bias = (2, 1).
    fn example(activation: Activation) -> Linear {
        let (encoder, decoder) = (vec![1.0, 0.0, 0.0, 1.0], vec![1.0, 0.0, 0.0, 2.0]);
        Linear::new("test", encoder, vec![0.0, 0.5], decoder, vec![1.0, 1.0], activation).unwrap()
    }

    #[test]
    fn encode_and_decode_by_hand() {
        let tile = Tile { first_row: 0, width: 2, values: Cow::Borrowed(&[3.0, 2.0, 0.0, 0.0]) };
        let mut out = CodesBuilder::new(2);
        let dictionary = example(Activation::Relu);
        dictionary.encode(&tile, &mut out).unwrap();
        let codes = out.finish();
        let view = codes.all().unwrap();
        // (2, 1 + 0.5); the second row gives (−1, −0.5), so nothing fires.
        assert_eq!(view.row(0), (&[0u32, 1][..], &[2.0f32, 1.5][..]));
        assert_eq!(view.row(1).0.len(), 0);
        let mut back = vec![0.0; 4];
        dictionary.decode(&view, &mut back).unwrap();
        assert_eq!(back, [3.0, 4.0, 1.0, 1.0]);
    }

    #[test]
    fn top_k_keeps_the_largest() {
        let tile = Tile { first_row: 0, width: 2, values: Cow::Borrowed(&[3.0, 2.0]) };
        let mut out = CodesBuilder::new(2);
        example(Activation::TopK(1)).encode(&tile, &mut out).unwrap();
        assert_eq!(out.finish().all().unwrap().row(0), (&[0u32][..], &[2.0f32][..]));
    }
}
