//! What is known about a latent before it is used: its largest code, the windows of text in which it is active, and the tokens that
//! it promotes.

use std::ops::Range;

use etalon_kernel::product::dot;
use etalon_kernel::random::{index, permutation, stream};
use rand_distr::{Distribution, StandardNormal};
use serde::{Deserialize, Serialize};

use crate::codes::{Columns, Latent};
use crate::context::Context;
use crate::error::{Error, Result};
use crate::metrics::windows::latent_stream;
use crate::network::{SentenceEncoder, TextRun};
use crate::run::{Job, TokenTexts};
use crate::sae::Dictionary;

/// Tokens of a window.
const WINDOW: usize = 32;

/// Windows of each kind at most.
const WINDOWS: usize = 20;

/// Promoted tokens that count as an echo.
const ECHO: usize = 20;

/// A latent to steer with.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct Steered {
    pub latent: u32,
    /// Its largest code.
    pub largest: f32,
    /// From the vectors of random windows to those of its windows, of length 1.
    pub concept: Option<Vec<f32>>,
    /// The shift at strength 1: of the latent, of a random direction, of another latent.
    pub shifts: Vec<Vec<f32>>,
    /// The tokens that the latent promotes most, ascending.
    pub promoted: Vec<u32>,
}

/// The windows of texts: consecutive positions of a sequence.
pub(super) fn windows(tokens: &TokenTexts) -> Vec<Range<usize>> {
    let mut windows = Vec::new();
    for sequence in 0..tokens.sequences() {
        let Range { start, end } = tokens.sequence(sequence);
        let length = WINDOW.min(end - start);
        if length > 0 {
            windows.extend((start..=end - length).step_by(length).map(|first| first..first + length));
        }
    }
    windows
}

/// The windows in which a latent is active, the strongest first, ties in order.
fn active(columns: &Columns, latent: usize, tokens: &TokenTexts, windows: &[Range<usize>]) -> Vec<usize> {
    let (rows, values) = columns.latent(Latent(latent as u32));
    let mut strongest: std::collections::BTreeMap<usize, f32> = std::collections::BTreeMap::new();
    for (row, value) in rows.iter().zip(values).filter(|(_, value)| **value > 0.0) {
        let Some(position) = tokens.position_of(*row as usize) else { continue };
        let after = windows.partition_point(|window| window.start <= position as usize);
        let Some(window) = after.checked_sub(1).filter(|window| windows[*window].contains(&(position as usize))) else {
            continue;
        };
        let most = strongest.entry(window).or_insert(0.0);
        *most = most.max(*value);
    }
    let mut windows: Vec<(usize, f32)> = strongest.into_iter().collect();
    windows.sort_by(|a, b| b.1.total_cmp(&a.1).then(a.0.cmp(&b.0)));
    windows.into_iter().map(|(window, _)| window).collect()
}

/// The direction from the mean of some vectors to the mean of others; `None` if both are the same.
fn difference(from: &[Vec<f32>], to: &[Vec<f32>]) -> Option<Vec<f32>> {
    let width = to.first()?.len();
    let mean = |vectors: &[Vec<f32>], at: usize| {
        vectors.iter().map(|vector| f64::from(vector[at])).sum::<f64>() / vectors.len().max(1) as f64
    };
    let direction: Vec<f64> = (0..width).map(|at| mean(to, at) - mean(from, at)).collect();
    let length = direction.iter().map(|value| value * value).sum::<f64>().sqrt();
    (length > 1e-9).then(|| direction.iter().map(|value| (value / length) as f32).collect())
}

/// What the windows of a latent have and random ones have not, as a direction of the encoder.
fn concept(
    job: &Job<'_>,
    columns: &Columns,
    latent: usize,
    tokens: &TokenTexts,
    encoder: &dyn SentenceEncoder,
) -> Result<Option<Vec<f32>>> {
    let windows = windows(tokens);
    let active = active(columns, latent, tokens, &windows);
    let own: Vec<usize> = active[..active.len().div_ceil(10).min(WINDOWS)].to_vec();
    let mut random = latent_stream(job.seed, "steer/windows", columns, latent);
    let order = permutation(windows.len(), &mut random);
    let others: Vec<usize> = order.into_iter().filter(|window| !own.contains(window)).take(WINDOWS).collect();
    let embed = |chosen: &[usize]| -> Result<Vec<Vec<f32>>> {
        chosen.iter().map(|window| encoder.embed(&text(tokens, &windows[*window]), job.context)).collect()
    };
    Ok(if others.is_empty() { None } else { difference(&embed(&others)?, &embed(&own)?) })
}

fn text(tokens: &TokenTexts, window: &Range<usize>) -> String {
    window.clone().map(|position| tokens.text(position)).collect()
}

/// Latents with a positive code, drawn at random.
pub(super) fn draw(job: &Job<'_>, columns: &Columns, count: usize) -> Result<Vec<u32>> {
    let mut alive: Vec<(f64, u32)> = Vec::new();
    for latent in 0..columns.latents() {
        job.check()?;
        if largest(columns, latent) > 0.0 {
            let mut random = latent_stream(job.seed, "steer/latents", columns, latent);
            alive.push((etalon_kernel::random::unit(&mut random), latent as u32));
        }
    }
    alive.sort_unstable_by(|a, b| a.0.total_cmp(&b.0).then(a.1.cmp(&b.1)));
    let mut latents: Vec<u32> = alive.into_iter().take(count).map(|(_, latent)| latent).collect();
    latents.sort_unstable();
    Ok(latents)
}

fn largest(columns: &Columns, latent: usize) -> f32 {
    columns.latent(Latent(latent as u32)).1.iter().copied().fold(0.0, f32::max)
}

/// A vector of a length.
fn scaled(vector: &[f32], length: f64) -> Vec<f32> {
    let own = dot(vector, vector).sqrt();
    let by = if own > 0.0 { length / own } else { 0.0 };
    vector.iter().map(|value| (f64::from(*value) * by) as f32).collect()
}

/// Prepares a latent.
pub(super) fn prepare(
    job: &Job<'_>,
    (run, dictionary): (&TextRun, &dyn Dictionary),
    (columns, tokens): (&Columns, &TokenTexts),
    latent: u32,
    encoder: Option<&dyn SentenceEncoder>,
) -> Result<Steered> {
    let largest = largest(columns, latent as usize);
    let direction = dictionary.direction(Latent(latent));
    let own: Vec<f32> = direction.iter().map(|value| value * largest).collect();
    let length = dot(&own, &own).sqrt();
    let mut random = stream(job.seed, "steer/controls", u64::from(latent));
    let noise: Vec<f32> = (0..own.len()).map(|_| StandardNormal.sample(&mut random)).collect();
    let others = dictionary.card().latents.saturating_sub(1);
    let other = if others == 0 {
        vec![0.0; own.len()]
    } else {
        let drawn = index(others, &mut random) as u32;
        dictionary.direction(Latent(drawn + u32::from(drawn >= latent))).to_vec()
    };
    let shifts = vec![own, scaled(&noise, length), scaled(&other, length)];
    let concept = encoder.map(|encoder| concept(job, columns, latent as usize, tokens, encoder)).transpose()?.flatten();
    let promoted = promoted(run, direction, job.context)?;
    Ok(Steered { latent, largest, concept, shifts, promoted })
}

/// The tokens with the largest logit effects of a direction; none for sites that do not write to the stream.
fn promoted(run: &TextRun, direction: &[f32], context: &Context) -> Result<Vec<u32>> {
    let network = &*run.network;
    let Some(mut vector) = network.written(run.site, direction, true)? else { return Ok(Vec::new()) };
    network.last_norm().apply(&mut vector);
    let mut row = vec![0.0; network.card().width];
    if row.len() != vector.len() {
        return Err(Error::Bug("the width of the head".into()));
    }
    let mut effects: Vec<(f64, u32)> = Vec::new();
    for token in 0..network.card().vocabulary as u32 {
        if token.is_multiple_of(4096) {
            context.check()?;
        }
        if !run.tokenizer.is_special(token) {
            network.unembedding(token, &mut row)?;
            effects.push((dot(&row, &vector), token));
        }
    }
    effects.sort_unstable_by(|a, b| b.0.total_cmp(&a.0).then(a.1.cmp(&b.1)));
    let mut tokens: Vec<u32> = effects.into_iter().take(ECHO).map(|(_, token)| token).collect();
    tokens.sort_unstable();
    Ok(tokens)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::context::Budget;
    use crate::metrics::testing::codes;

    #[test]
    fn windows_do_not_cross_sequences() {
        let sequence = |length: usize| vec!["a".to_string(); length];
        let tokens = TokenTexts::new(&[sequence(70), sequence(3), sequence(0)], &Budget::new(1 << 20)).unwrap();
        assert_eq!(windows(&tokens), [0..32, 32..64, 70..73]);
        // Codes of 73 tokens: latent 0 is 2 at token 40 and 1 at tokens 3 and 71; token 66 is in no window.
        let mut values = vec![0.0; 73];
        (values[40], values[3], values[71], values[66]) = (2.0, 1.0, 1.0, 9.0);
        let codes = codes(&values, 1);
        assert_eq!(active(codes.columns().unwrap(), 0, &tokens, &windows(&tokens)), [1, 0, 2]);
    }

    #[test]
    fn differences_have_length_one() {
        // From (1, 0) to the mean of (1, 1) and (1, 3).
        assert_eq!(difference(&[vec![1.0, 0.0]], &[vec![1.0, 1.0], vec![1.0, 3.0]]), Some(vec![0.0, 1.0]));
        assert_eq!(difference(&[vec![1.0]], &[vec![1.0]]), None);
        assert_eq!(difference(&[], &[]), None);
    }
}
