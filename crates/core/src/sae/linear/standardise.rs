//! Pre-activations that are standardised over the latents of a row before the activation function (a layer norm at the
//! end of the encoder).

use super::Linear;
use crate::sae::activation::Activation;
use crate::sae::selector::Entries;

/// Added to the variance.
const EPSILON: f64 = 1e-5;

impl Linear {
    /// Replaces the products of a row by its codes, if pre-activations are standardised. `entries` are all products that
    /// are not zero; `values` is a buffer.
    pub(super) fn standardise(&self, entries: &mut Entries, values: &mut Vec<f32>) {
        let Activation::Standardised { gain, bias, inner } = &self.activation else { return };
        values.clear();
        values.resize(self.card.latents, 0.0);
        entries.iter().for_each(|&(value, latent)| values[latent as usize] = value);
        let count = values.len() as f64;
        let mean = values.iter().map(|&value| f64::from(value)).sum::<f64>() / count;
        let variance = values.iter().map(|&value| (f64::from(value) - mean).powi(2)).sum::<f64>() / count;
        let scale = 1.0 / (variance + EPSILON).sqrt();
        for ((value, gain), bias) in values.iter_mut().zip(gain).zip(bias) {
            *value = ((f64::from(*value) - mean) * scale * f64::from(*gain) + f64::from(*bias)) as f32;
        }
        entries.clear();
        // NaN is kept for the caller to refuse.
        let all = (0u32..).zip(&*values).map(|(latent, &value)| (value, latent));
        entries.extend(all.filter(|&(value, latent)| value.is_nan() || value > self.floors[latent as usize]));
        if let Activation::TopK(k) = **inner
            && entries.len() > k
        {
            entries.select_nth_unstable_by(k - 1, |a, b| b.0.total_cmp(&a.0).then(a.1.cmp(&b.1)));
            entries.truncate(k);
            entries.sort_unstable_by_key(|entry| entry.1);
        }
    }
}
