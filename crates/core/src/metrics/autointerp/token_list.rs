//! An explanation without a language model: a list of tokens. What a judge adds to it is what it understood beyond single tokens.

use std::collections::BTreeMap;

use super::positions::LatentValues;
use super::select::Examples;
use crate::run::TokenTexts;

/// Tokens in a list at most.
const TOKENS: usize = 5;

/// The tokens that explain best: those with the largest sum of activations in the windows that explain, times the share of their
/// occurrences there that are active. Ties are ordered by the first occurrence of the token in the texts.
pub(super) fn best_tokens(
    tokens: &TokenTexts,
    examples: &Examples,
    values: &LatentValues,
    window: impl Fn(u32) -> std::ops::Range<u32>,
) -> Vec<u32> {
    // Sum of activations, active occurrences, all occurrences.
    let mut seen: BTreeMap<u32, (f64, f64, f64)> = BTreeMap::new();
    for position in examples.explaining.iter().flat_map(|centre| window(*centre)) {
        let entry = seen.entry(tokens.token(position as usize)).or_default();
        if values.is_active(position, examples.threshold) {
            entry.0 += f64::from(values.at(position));
            entry.1 += 1.0;
        }
        entry.2 += 1.0;
    }
    let weight = |(token, (sum, active, all)): (u32, (f64, f64, f64))| (sum * active / all, token);
    let mut weights: Vec<(f64, u32)> = seen.into_iter().map(weight).filter(|(weight, _)| *weight > 0.0).collect();
    weights.sort_by(|a, b| b.0.total_cmp(&a.0).then(a.1.cmp(&b.1)));
    weights.into_iter().take(TOKENS).map(|(_, token)| token).collect()
}

/// Predicts that the latent is active in windows with one of the tokens.
pub(super) fn predict(
    tokens: &TokenTexts,
    list: &[u32],
    examples: &Examples,
    window: impl Fn(u32) -> std::ops::Range<u32>,
) -> Vec<bool> {
    let has = |centre: u32| window(centre).any(|position| list.contains(&tokens.token(position as usize)));
    examples.scored.iter().map(|(_, centre)| has(*centre)).collect()
}
