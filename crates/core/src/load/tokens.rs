//! Codes of tokens before pooling.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::codes::Codes;
use crate::error::Result;

/// The tokens of the real rows and of every generator; none where every row is a sample.
#[derive(Debug, Default)]
pub struct TokensOfSets {
    /// Of the real rows.
    pub real: Option<Tokens>,
    /// Of the generators, in their order.
    pub models: Vec<Tokens>,
}

/// Codes of tokens before pooling.
#[derive(Debug)]
pub struct Tokens {
    /// One row per token.
    pub codes: Arc<Codes>,
    /// The sample of each token.
    pub samples: Arc<[u32]>,
}

impl Tokens {
    /// The token rows of each of some samples, ascending.
    pub(crate) fn of(&self, samples: &[usize]) -> Vec<Vec<usize>> {
        let index_of: BTreeMap<usize, usize> =
            samples.iter().enumerate().map(|(index, &sample)| (sample, index)).collect();
        let mut rows = vec![Vec::new(); samples.len()];
        for (row, sample) in self.samples.iter().enumerate() {
            if let Some(&index) = index_of.get(&(*sample as usize)) {
                rows[index].push(row);
            }
        }
        rows
    }

    /// The values of some latents (ascending) on some tokens, rounded to three digits. Latents that fire on none of the
    /// tokens are left out.
    pub(crate) fn values(&self, tokens: &[usize], latents: &[u32]) -> Result<BTreeMap<u32, Vec<f32>>> {
        let mut by_latent: BTreeMap<u32, Vec<f32>> = BTreeMap::new();
        for (index, &row) in tokens.iter().enumerate() {
            let (active, values) = self.codes.view(row..row + 1)?.row(0);
            for (latent, &value) in
                active.iter().zip(values).filter(|(latent, _)| latents.binary_search(latent).is_ok())
            {
                by_latent.entry(*latent).or_insert_with(|| vec![0.0; tokens.len()])[index] = three_digits(value);
            }
        }
        Ok(by_latent)
    }
}

fn three_digits(value: f32) -> f32 {
    format!("{value:.2e}").parse().unwrap_or(value)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tokens_of_samples_in_the_order_of_rows() {
        // Tokens × latents: 1 0 | 0 2 | 3 0.12345; rows 0 and 2 are of sample 5, row 1 of sample 0.
        let codes = Codes::from_dense(&[1.0, 0.0, 0.0, 2.0, 3.0, 0.12345], 2).unwrap();
        let tokens = Tokens { codes: Arc::new(codes), samples: vec![5, 0, 5].into() };
        assert_eq!(tokens.of(&[0, 1, 5]), [vec![1], vec![], vec![0, 2]]);
        let values = tokens.values(&[0, 2], &[0, 1]).unwrap();
        assert_eq!(values, BTreeMap::from([(0, vec![1.0, 3.0]), (1, vec![0.0, 0.123])]));
        assert_eq!(tokens.values(&[1], &[0]).unwrap(), BTreeMap::new());
    }
}
