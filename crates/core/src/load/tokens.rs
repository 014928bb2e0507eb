//! Codes of tokens, before the tokens of a sample became one row.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::codes::Codes;
use crate::error::Result;

/// The tokens of the real rows and of what every model made, in the order of the models; none where rows are samples.
#[derive(Debug, Default)]
pub struct TokensOfSets {
    /// Of the rows of the codes.
    pub real: Option<Tokens>,
    /// Of what each generator made.
    pub models: Vec<Tokens>,
}

/// Codes of tokens, before the tokens of a sample became one row.
#[derive(Debug)]
pub struct Tokens {
    /// One row per token.
    pub codes: Arc<Codes>,
    /// The sample of each token.
    pub samples: Arc<[u32]>,
}

impl Tokens {
    /// The rows of the tokens of some samples, in their order.
    pub(crate) fn of(&self, samples: &[usize]) -> Vec<Vec<usize>> {
        let places: BTreeMap<usize, usize> =
            samples.iter().enumerate().map(|(place, &sample)| (sample, place)).collect();
        let mut found = vec![Vec::new(); samples.len()];
        for (row, sample) in self.samples.iter().enumerate() {
            if let Some(&place) = places.get(&(*sample as usize)) {
                found[place].push(row);
            }
        }
        found
    }

    /// The values of some latents (ascending) on some tokens, with three digits; a latent that is silent on all of them
    /// has none.
    pub(crate) fn values(&self, tokens: &[usize], latents: &[u32]) -> Result<BTreeMap<u32, Vec<f32>>> {
        let mut found: BTreeMap<u32, Vec<f32>> = BTreeMap::new();
        for (place, &row) in tokens.iter().enumerate() {
            let (active, values) = self.codes.view(row..row + 1)?.row(0);
            for (latent, &value) in
                active.iter().zip(values).filter(|(latent, _)| latents.binary_search(latent).is_ok())
            {
                found.entry(*latent).or_insert_with(|| vec![0.0; tokens.len()])[place] = three_digits(value);
            }
        }
        Ok(found)
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
