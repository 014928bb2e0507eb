//! Generation of text, one token at a time.

use etalon::context::Context;
use etalon::error::{InputError, Result};
use etalon::network::{Generation, LanguageModel, Network, Tap};
use etalon_kernel::neural;
use etalon_kernel::random;
use rand::RngExt;

use crate::language::Decoder;

/// Continues a prompt.
pub(crate) fn generate(
    network: &Decoder,
    prompt: &[u32],
    settings: &Generation,
    tap: &mut dyn Tap,
    context: &Context,
) -> Result<Vec<u32>> {
    if prompt.is_empty() {
        return Err(InputError::new("the prompt has no tokens").expected("at least one token").into());
    }
    let mut cache = network.cache();
    let mut random = random::stream(settings.seed, "generation", 0);
    let mut logits = vec![0.0; network.card().vocabulary];
    let mut generated: Vec<u32> = Vec::new();
    let mut state = network.extend(prompt, &mut cache, tap, context)?;
    while generated.len() < settings.tokens {
        let last = state.layout.rows - 1;
        network.logits(&state, last..last + 1, &mut logits)?;
        let token = choose(&mut logits, settings, random.random::<f64>());
        if settings.stop.contains(&token) {
            break;
        }
        generated.push(token);
        if generated.len() == settings.tokens || cache.length() >= network.card().context {
            break;
        }
        state = network.extend(&[token], &mut cache, tap, context)?;
    }
    Ok(generated)
}

/// The most probable token, or a sampled one. Of equal logits, the lower token comes first.
fn choose(logits: &mut [f32], settings: &Generation, uniform: f64) -> u32 {
    let by_logit =
        |a: &u32, b: &u32, logits: &[f32]| logits[*b as usize].total_cmp(&logits[*a as usize]).then(a.cmp(b));
    if settings.temperature <= 0.0 {
        return (0..logits.len() as u32).min_by(|a, b| by_logit(a, b, logits)).unwrap_or(0);
    }
    logits.iter_mut().for_each(|logit| *logit /= settings.temperature);
    let mut order: Vec<u32> = (0..logits.len() as u32).collect();
    order.sort_unstable_by(|a, b| by_logit(a, b, logits));
    if settings.top_k > 0 {
        order.truncate(settings.top_k);
    }
    neural::softmax(logits);
    let mut kept: Vec<(u32, f64)> = Vec::new();
    let mut total = 0.0;
    for token in order {
        if total >= f64::from(settings.top_p) && !kept.is_empty() {
            break;
        }
        let probability = f64::from(logits[token as usize]);
        total += probability;
        kept.push((token, probability));
    }
    let mut left = uniform * total;
    for (token, probability) in &kept {
        left -= probability;
        if left < 0.0 {
            return *token;
        }
    }
    kept.last().map_or(0, |(token, _)| *token)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tokens_are_chosen_by_their_probability() {
        let logits = [1.0f32.ln(), 2.0f32.ln(), 2.0f32.ln(), 5.0f32.ln()];
        let settings = |temperature, top_k, top_p| Generation { temperature, top_k, top_p, ..Generation::default() };
        let chosen = |settings: &Generation, uniform| choose(&mut logits.clone(), settings, uniform);
        assert_eq!(chosen(&settings(0.0, 0, 1.0), 0.9), 3);
        // Probabilities 0.5, 0.2, 0.2, 0.1 of tokens 3, 1, 2, 0.
        let all = settings(1.0, 0, 1.0);
        assert_eq!([0.4, 0.6, 0.8, 0.95].map(|uniform| chosen(&all, uniform)), [3, 1, 2, 0]);
        // Two tokens: 5/7 and 2/7.
        let two = settings(1.0, 2, 1.0);
        assert_eq!([0.7, 0.72, 0.99].map(|uniform| chosen(&two, uniform)), [3, 1, 1]);
        let most = settings(1.0, 0, 0.5);
        assert_eq!([0.0, 0.99].map(|uniform| chosen(&most, uniform)), [3, 3]);
    }
}
