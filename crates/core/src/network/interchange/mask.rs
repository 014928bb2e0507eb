//! A mask over the latents of a dictionary (MDBM: multi-task differential binary masking).

use super::adam::AdamParameters;
use super::{EncodedRow, Gates, gate};
use crate::codes::{CodesBuilder, Latent};
use crate::context::{Budget, Context};
use crate::error::Result;
use crate::sae::Dictionary;
use crate::store::ActivationStore;

/// Replaces codes of the base by those of the source, latent by latent, and decodes the mixture. What the dictionary does not
/// reconstruct is lost.
pub struct LatentMask<'a> {
    dictionary: &'a dyn Dictionary,
    budget: Budget,
    /// One value per latent.
    mask: AdamParameters,
}

impl<'a> LatentMask<'a> {
    /// Continues with a mask.
    pub fn new(dictionary: &'a dyn Dictionary, mask: AdamParameters, budget: &Budget) -> LatentMask<'a> {
        LatentMask { dictionary, budget: budget.clone(), mask }
    }

    /// A mask before training: zeros.
    pub fn start(dictionary: &dyn Dictionary) -> AdamParameters {
        AdamParameters::new(vec![0.0; dictionary.card().latents])
    }
}

/// Calls a function with every latent of two rows, ascending, and its two codes.
fn for_each_latent(base: &EncodedRow, source: &EncodedRow, mut see: impl FnMut(u32, f32, f32)) {
    let (mut left, mut right) = (0, 0);
    loop {
        let (a, b) = (base.latents.get(left).copied(), source.latents.get(right).copied());
        let Some(latent) = a.into_iter().chain(b).min() else { return };
        let (mut code, mut other) = (0.0, 0.0);
        if a == Some(latent) {
            code = base.values[left];
            left += 1;
        }
        if b == Some(latent) {
            other = source.values[right];
            right += 1;
        }
        see(latent, code, other);
    }
}

impl Gates for LatentMask<'_> {
    fn mix(&self, base: &EncodedRow, source: &EncodedRow, temperature: Option<f64>) -> Result<Vec<f32>> {
        let (mut latents, mut values) = (Vec::new(), Vec::new());
        for_each_latent(base, source, |latent, base, source| {
            let gate = gate(self.mask.values[latent as usize], temperature);
            let code = ((1.0 - gate) * f64::from(base) + gate * f64::from(source)) as f32;
            if code != 0.0 {
                latents.push(latent);
                values.push(code);
            }
        });
        let mut codes = CodesBuilder::within(self.dictionary.card().latents, &self.budget);
        codes.push(&latents, &values)?;
        let codes = codes.finish();
        let store = ActivationStore::from_rows(base.row.clone(), base.row.len())?;
        let mut row = vec![0.0; base.row.len()];
        self.dictionary.decode(&codes.all()?, Some(&store.tile(0..1)?), &mut row)?;
        Ok(row)
    }

    fn parameters(&self) -> usize {
        self.mask.values.len()
    }

    fn add_gradient(
        &self,
        (base, source): (&EncodedRow, &EncodedRow),
        temperature: f64,
        slope: &[f32],
        weight: f64,
        into: &mut [f64],
    ) {
        let scale = weight * self.dictionary.decoder_scale(&base.row) / temperature;
        for_each_latent(base, source, |latent, base, source| {
            let gate = gate(self.mask.values[latent as usize], Some(temperature));
            let direction = self.dictionary.direction(Latent(latent));
            let along: f64 = slope.iter().zip(direction).map(|(a, b)| f64::from(*a) * f64::from(*b)).sum();
            let change = f64::from(source) - f64::from(base);
            into[latent as usize] += scale * along * change * gate * (1.0 - gate);
        });
    }

    fn update(&mut self, gradient: &[f64], learning_rate: f64, _: &Context) -> Result<()> {
        self.mask.step(gradient, learning_rate);
        Ok(())
    }

    fn trained(&self) -> &AdamParameters {
        &self.mask
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sae::{Activation, Linear, Normalisation, Parts};

    /// Two latents that read the two values of a row, with directions (2, 0) and (0, 3) and bias (1, 1).
    fn dictionary(input: Normalisation) -> Linear {
        Linear::new(Parts {
            arch: "relu".into(),
            encoder: vec![1.0, 0.0, 0.0, 1.0],
            encoder_bias: vec![0.0; 2],
            decoder: vec![2.0, 0.0, 0.0, 3.0],
            bias: vec![1.0; 2],
            subtract_bias: false,
            input,
            activation: Activation::Relu,
        })
        .unwrap()
    }

    #[test]
    fn mixtures_by_hand() {
        let (dictionary, budget) = (dictionary(Normalisation::None), Budget::new(1 << 20));
        let [base, source] =
            [vec![1.0, -1.0], vec![-1.0, 2.0]].map(|row| EncodedRow::new(row, &dictionary, &budget).unwrap());
        assert_eq!((base.latents.as_slice(), source.values.as_slice()), ([0u32].as_slice(), [2.0f32].as_slice()));
        let mask = |values: Vec<f32>| LatentMask::new(&dictionary, AdamParameters::new(values), &budget);
        // Hard gates: base codes (1, 0) give (3, 1); source codes (0, 2) give (1, 7). A mask of 0 keeps the base.
        assert_eq!(mask(vec![0.0, 0.0]).mix(&base, &source, None).unwrap(), [3.0, 1.0]);
        assert_eq!(mask(vec![0.1, 0.1]).mix(&base, &source, None).unwrap(), [1.0, 7.0]);
        assert_eq!(mask(vec![-1.0, 0.1]).mix(&base, &source, None).unwrap(), [3.0, 7.0]);
        // At mask 0 gates are a half: codes (0.5, 1).
        let half = mask(vec![0.0, 0.0]);
        assert_eq!(half.mix(&base, &source, Some(0.5)).unwrap(), [2.0, 4.0]);
        // Slope (1, 10): latent 0 has direction · slope = 2, change −1, latent 1 has 30, change 2; g (1 − g) / T = 0.5.
        let mut gradient = vec![0.0; 2];
        half.add_gradient((&base, &source), 0.5, &[1.0, 10.0], 2.0, &mut gradient);
        assert_eq!(gradient, [-2.0, 60.0]);
    }

    #[test]
    fn gradients_are_slopes_also_where_rows_are_normalised() {
        let budget = Budget::new(1 << 20);
        for input in [Normalisation::None, Normalisation::LayerNorm, Normalisation::ConstantNorm] {
            let dictionary = dictionary(input);
            let [base, source] =
                [vec![3.0, 1.0], vec![1.0, 7.0]].map(|row| EncodedRow::new(row, &dictionary, &budget).unwrap());
            let row = |values: [f32; 2]| {
                let mask = LatentMask::new(&dictionary, AdamParameters::new(values.to_vec()), &budget);
                let row = mask.mix(&base, &source, Some(0.7)).unwrap();
                f64::from(row[0]) - 2.0 * f64::from(row[1])
            };
            let mask = LatentMask::new(&dictionary, AdamParameters::new(vec![0.2, -0.3]), &budget);
            let mut gradient = vec![0.0; 2];
            mask.add_gradient((&base, &source), 0.7, &[1.0, -2.0], 1.0, &mut gradient);
            let [first, second] = [[0.201, -0.3], [0.2, -0.299]].map(&row);
            let [before, below] = [[0.199, -0.3], [0.2, -0.301]].map(&row);
            for (found, expected) in gradient.iter().zip([(first - before) / 0.002, (second - below) / 0.002]) {
                assert!((found - expected).abs() < 2e-3 * expected.abs().max(1.0), "{input:?}: {found} {expected}");
            }
        }
    }
}
