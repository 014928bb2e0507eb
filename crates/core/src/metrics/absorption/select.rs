//! The ranking of latents for a class: an L1-penalised probe on all latents, solved exactly.
//!
//! The released code minimises the mean loss, positive rows weighted by negatives / positives, plus 0.01 Σ|w| with Adam. The
//! problem is convex with few nonzero weights, so it is solved on a growing set of latents until no other latent violates
//! the optimality conditions.

use crate::codes::{Columns, Latent};
use crate::context::Context;
use crate::error::Result;
use crate::probe::logistic::{Logistic, Probe, sigmoid};
use crate::probe::newton::{LabelledTable, Penalty};

/// Latents added per round.
const ADDED: usize = 32;
/// Maximum number of rounds.
const ROUNDS: usize = 12;
/// Relative tolerance of the optimality conditions.
const SLACK: f64 = 1e-3;

/// The latents with a positive weight, the largest first; ties to the lower latent.
pub(super) fn ranked_latents(
    columns: &Columns,
    positive: &[bool],
    penalty: f64,
    context: &Context,
) -> Result<Vec<u32>> {
    let rows = positive.len();
    let yes = positive.iter().filter(|yes| **yes).count();
    if yes == 0 || yes == rows {
        return Ok(Vec::new());
    }
    // The mean loss with these weights is `share` times the sum with balanced weights.
    let share = 2.0 * (rows - yes) as f64 / (rows as f64).powi(2);
    let probe = Logistic { c: share / penalty, balanced: true, tolerance: 1e-4, steps: 60 };
    let class_weights = probe.class_weights(rows as f64, yes as f64);
    let (mut selected, mut table, mut fitted): (Vec<u32>, Vec<f32>, Option<Probe>) = (Vec::new(), Vec::new(), None);
    let bytes = |selected: usize| 16 * columns.latents() as u64 + 16 * rows as u64 + table_bytes(rows, selected);
    let mut memory = context.budget().reserve(bytes(0), "the ranking of latents")?;
    for _ in 0..ROUNDS {
        context.check()?;
        let scores = match &fitted {
            Some(fitted) => labelled(&table, selected.len(), positive).scores(fitted),
            None => vec![0.0; rows],
        };
        let gradient = gradient(columns, positive, &scores, class_weights);
        let limit = (1.0 + SLACK) / probe.c;
        let mut violating: Vec<(f64, u32)> = gradient
            .iter()
            .enumerate()
            .map(|(latent, slope)| (slope.abs(), latent as u32))
            .filter(|(slope, latent)| *slope > limit && !selected.contains(latent))
            .collect();
        if violating.is_empty() {
            break;
        }
        violating.sort_by(|a, b| b.0.total_cmp(&a.0).then(a.1.cmp(&b.1)));
        // Appended, so that the next fit starts from the weights of the last.
        selected.extend(violating.iter().take(ADDED).map(|(_, latent)| *latent));
        memory.resize(bytes(selected.len()), "the ranking of latents")?;
        table = dense(columns, &selected, rows);
        let prepared = labelled(&table, selected.len(), positive).prepare_all();
        fitted = probe.fit_prepared(&prepared, Penalty::Absolute, fitted.as_ref(), context)?;
    }
    let weights = fitted.map(|fitted| fitted.weights).unwrap_or_default();
    let mut ranked: Vec<(f64, u32)> = weights.into_iter().zip(selected).filter(|(weight, _)| *weight > 0.0).collect();
    ranked.sort_by(|a, b| b.0.total_cmp(&a.0).then(a.1.cmp(&b.1)));
    Ok(ranked.into_iter().map(|(_, latent)| latent).collect())
}

/// Some latents as a row-major table.
pub(super) fn dense(columns: &Columns, latents: &[u32], rows: usize) -> Vec<f32> {
    let mut table = vec![0.0; rows * latents.len()];
    for (column, &latent) in latents.iter().enumerate() {
        let (firing, values) = columns.latent(Latent(latent));
        firing.iter().zip(values).for_each(|(&row, &value)| table[row as usize * latents.len() + column] = value);
    }
    table
}

/// Bytes of a table of some latents and a fit on it.
pub(super) fn table_bytes(rows: usize, latents: usize) -> u64 {
    20 * rows as u64 * latents as u64 + 16 * (latents as u64).pow(2)
}

/// A table with all its columns.
pub(super) fn labelled<'a>(table: &'a [f32], width: usize, positive: &'a [bool]) -> LabelledTable<'a> {
    LabelledTable { values: table, stride: width, width, positive }
}

/// The derivative of the loss by the weight of every latent, for the weights of positive and negative rows.
fn gradient(columns: &Columns, positive: &[bool], scores: &[f64], (for_yes, for_no): (f64, f64)) -> Vec<f64> {
    let slope =
        |(&yes, &score): (&bool, &f64)| if yes { for_yes * (sigmoid(score) - 1.0) } else { for_no * sigmoid(score) };
    let slopes: Vec<f64> = positive.iter().zip(scores).map(slope).collect();
    let of_latent = |latent: usize| {
        let (rows, values) = columns.latent(Latent(latent as u32));
        rows.iter().zip(values).map(|(&row, &value)| f64::from(value) * slopes[row as usize]).sum()
    };
    (0..columns.latents()).map(of_latent).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::codes::Codes;
    use etalon_kernel::random::{stream, unit};

    #[test]
    fn the_latent_of_the_class_is_ranked_first() {
        let (rows, latents) = (300, 60);
        let mut random = stream(1, "absorption select test", 0);
        let positive: Vec<bool> = (0..rows).map(|row| row % 5 == 0).collect();
        let mut values = vec![0.0f32; rows * latents];
        for row in 0..rows {
            for latent in 0..latents {
                // Latent 18 fires on the other rows, so its weight is negative.
                let chance = match (latent, positive[row]) {
                    (17, true) => 0.95,
                    (17, false) | (18, true) => 0.02,
                    (18, false) => 0.9,
                    _ => 0.1,
                };
                if unit(&mut random) < chance {
                    values[row * latents + latent] = 0.5 + unit(&mut random) as f32;
                }
            }
        }
        let codes = Codes::from_dense(&values, latents).unwrap();
        let context = Context::silent(1, 1 << 20).unwrap();
        let ranked = |positive: &[bool], penalty: f64| {
            ranked_latents(codes.columns().unwrap(), positive, penalty, &context).unwrap()
        };
        let latents_of_class = ranked(&positive, 0.01);
        assert_eq!(latents_of_class.first(), Some(&17));
        assert!(!latents_of_class.contains(&18) && latents_of_class.len() < latents);
        assert!(ranked(&vec![false; rows], 0.01).is_empty());
        // All weights are zero with a large penalty.
        assert!(ranked(&positive, 100.0).is_empty());
    }
}
