//! Which latents tell a class: a sparse probe on all of them, solved exactly.
//!
//! The reference descends by Adam on the mean loss, positive rows weighed by negatives / positives, plus 0.01 Σ|w|. That is
//! a convex problem of which only few weights are not zero, so it is solved on a growing set of latents until no latent
//! outside could help.

use crate::codes::{Columns, Latent};
use crate::context::Context;
use crate::error::Result;
use crate::probe::logistic::{Logistic, Probe, sigmoid};
use crate::probe::newton::{Few, Penalty};

/// Latents that are added at a time.
const MORE: usize = 32;
/// Rounds after which the set is taken as it is.
const ROUNDS: usize = 12;
/// How far a latent outside may pull beyond the penalty before it is let in, as a share of it.
const SLACK: f64 = 1e-3;

/// The latents with a positive weight, the largest first; the lower latent among equals.
pub(super) fn telling_latents(
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
    // The mean loss with such weights is this many times the sum with balanced ones.
    let share = 2.0 * (rows - yes) as f64 / (rows as f64).powi(2);
    let probe = Logistic { c: share / penalty, balanced: true, tolerance: 1e-4, steps: 60 };
    let weigh = Weigh { for_yes: rows as f64 / (2.0 * yes as f64), for_no: rows as f64 / (2.0 * (rows - yes) as f64) };
    let (mut chosen, mut table, mut fitted): (Vec<u32>, Vec<f32>, Option<Probe>) = (Vec::new(), Vec::new(), None);
    let bytes = |chosen: usize| 16 * columns.latents() as u64 + 16 * rows as u64 + table_bytes(rows, chosen);
    let mut memory = context.budget().reserve(bytes(0), "the latents that tell a class")?;
    for _ in 0..ROUNDS {
        context.check()?;
        let scores = match &fitted {
            Some(fitted) => few(&table, chosen.len(), positive).scores(fitted),
            None => vec![0.0; rows],
        };
        let pulls = weigh.pulls(columns, positive, &scores);
        let limit = (1.0 + SLACK) / probe.c;
        let mut outside: Vec<(f64, u32)> = pulls
            .iter()
            .enumerate()
            .map(|(latent, pull)| (pull.abs(), latent as u32))
            .filter(|(pull, latent)| *pull > limit && !chosen.contains(latent))
            .collect();
        if outside.is_empty() {
            break;
        }
        outside.sort_by(|a, b| b.0.total_cmp(&a.0).then(a.1.cmp(&b.1)));
        // Behind those that are there, so that the next fit goes on from the last.
        chosen.extend(outside.iter().take(MORE).map(|(_, latent)| *latent));
        memory.resize(bytes(chosen.len()), "the latents that tell a class")?;
        table = dense(columns, &chosen, rows);
        let ready = few(&table, chosen.len(), positive).ready_all();
        fitted = probe.fit_ready(&ready, Penalty::Absolute, fitted.as_ref(), context)?;
    }
    let weights = fitted.map(|fitted| fitted.weights).unwrap_or_default();
    let mut telling: Vec<(f64, u32)> = weights.into_iter().zip(chosen).filter(|(weight, _)| *weight > 0.0).collect();
    telling.sort_by(|a, b| b.0.total_cmp(&a.0).then(a.1.cmp(&b.1)));
    Ok(telling.into_iter().map(|(_, latent)| latent).collect())
}

/// Some latents as a table of rows.
pub(super) fn dense(columns: &Columns, latents: &[u32], rows: usize) -> Vec<f32> {
    let mut table = vec![0.0; rows * latents.len()];
    for (column, &latent) in latents.iter().enumerate() {
        let (at, values) = columns.latent(Latent(latent));
        at.iter().zip(values).for_each(|(&row, &value)| table[row as usize * latents.len() + column] = value);
    }
    table
}

/// Bytes that a table of some latents and a fit on it need.
pub(super) fn table_bytes(rows: usize, latents: usize) -> u64 {
    20 * rows as u64 * latents as u64 + 16 * (latents as u64).pow(2)
}

/// A table whose columns are all used.
pub(super) fn few<'a>(table: &'a [f32], width: usize, positive: &'a [bool]) -> Few<'a> {
    Few { values: table, stride: width, width, positive }
}

struct Weigh {
    for_yes: f64,
    for_no: f64,
}

impl Weigh {
    /// How strongly the loss pulls at the weight of every latent.
    fn pulls(&self, columns: &Columns, positive: &[bool], scores: &[f64]) -> Vec<f64> {
        let slopes: Vec<f64> = positive
            .iter()
            .zip(scores)
            .map(
                |(&yes, &score)| if yes { self.for_yes * (sigmoid(score) - 1.0) } else { self.for_no * sigmoid(score) },
            )
            .collect();
        let pull = |latent: usize| {
            let (rows, values) = columns.latent(Latent(latent as u32));
            rows.iter().zip(values).map(|(&row, &value)| f64::from(value) * slopes[row as usize]).sum()
        };
        (0..columns.latents()).map(pull).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::codes::Codes;
    use etalon_kernel::random::{stream, unit};

    #[test]
    fn the_latent_that_fires_with_the_class_is_found_among_noise() {
        let (rows, latents) = (300, 60);
        let mut random = stream(1, "absorption select test", 0);
        let positive: Vec<bool> = (0..rows).map(|row| row % 5 == 0).collect();
        let mut values = vec![0.0f32; rows * latents];
        for row in 0..rows {
            for latent in 0..latents {
                let chance = match latent {
                    17 => {
                        if positive[row] {
                            0.95
                        } else {
                            0.02
                        }
                    }
                    // It says the opposite, so it has no place among those that tell the class.
                    18 => {
                        if positive[row] {
                            0.02
                        } else {
                            0.9
                        }
                    }
                    _ => 0.1,
                };
                if unit(&mut random) < chance {
                    values[row * latents + latent] = 0.5 + unit(&mut random) as f32;
                }
            }
        }
        let codes = Codes::from_dense(&values, latents).unwrap();
        let context = Context::silent(1, 1 << 20).unwrap();
        let telling = |positive: &[bool], penalty: f64| {
            telling_latents(codes.columns().unwrap(), positive, penalty, &context).unwrap()
        };
        let found = telling(&positive, 0.01);
        assert_eq!(found.first(), Some(&17));
        assert!(!found.contains(&18) && found.len() < latents);
        assert!(telling(&vec![false; rows], 0.01).is_empty());
        // So large a penalty lets nobody in.
        assert!(telling(&positive, 100.0).is_empty());
    }
}
