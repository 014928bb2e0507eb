//! From the sums of blocks to numbers with intervals.

use super::run::Totals;
use crate::error::Result;
use crate::metrics::resamples::{Draws, resamples};
use crate::results::{Scores, percentile_interval};
use crate::run::{Job, Work};

/// The numbers, in the order of the card.
const KEYS: [&str; 11] = [
    "ce_loss_score",
    "kl_div_score",
    "ce_loss_score_mean",
    "kl_div_score_mean",
    "ce_loss_without_sae",
    "ce_loss_with_sae",
    "ce_loss_with_ablation",
    "ce_loss_with_mean",
    "kl_div_with_sae",
    "kl_div_with_ablation",
    "kl_div_with_mean",
];

type Numbers = [Option<f64>; KEYS.len()];

/// The numbers of some blocks.
fn numbers<'a>(blocks: impl Iterator<Item = &'a Totals>) -> Numbers {
    let (mut targets, mut rows, mut losses, mut divergences) = (0.0, 0.0, [0.0; 4], [0.0; 3]);
    for block in blocks {
        targets += block.targets;
        rows += block.rows;
        losses.iter_mut().zip(block.losses).for_each(|(sum, value)| *sum += value);
        divergences.iter_mut().zip(block.divergences).for_each(|(sum, value)| *sum += value);
    }
    let [clean, spliced, zero, mean] = losses.map(|sum| quotient(sum, targets));
    // Rounding can leave a divergence of 0 slightly below it.
    let [kl_spliced, kl_zero, kl_mean] = divergences.map(|sum| quotient(sum, rows).map(|kl: f64| kl.max(0.0)));
    let of_loss = |worst: Option<f64>| quotient(worst? - spliced?, worst? - clean?);
    let of_divergence = |worst: Option<f64>| quotient(worst? - kl_spliced?, worst?);
    [
        of_loss(zero),
        of_divergence(kl_zero),
        of_loss(mean),
        of_divergence(kl_mean),
        clean,
        spliced,
        zero,
        mean,
        kl_spliced,
        kl_zero,
        kl_mean,
    ]
}

fn quotient(above: f64, below: f64) -> Option<f64> {
    (below != 0.0).then(|| above / below).filter(|value| value.is_finite())
}

/// Adds all numbers.
pub(super) fn put(job: &Job<'_>, work: &mut Work<'_>, blocks: &[Totals], scores: &mut Scores) -> Result<()> {
    let values = numbers(blocks.iter());
    let rows: f64 = blocks.iter().map(|block| block.rows).sum();
    let draw = |draws: Draws<'_>| numbers(draws.map(|index| &blocks[index]));
    let replicates =
        if blocks.len() < 2 { Vec::new() } else { resamples(job, work, "loss_recovered", blocks.len(), draw)? };
    let of_key = |key: usize| replicates.iter().map(move |numbers| numbers[key]);
    for (key, value) in values.into_iter().enumerate() {
        let interval = percentile_interval(of_key(key).flatten().collect()).filter(|_| value.is_some());
        scores.headline(KEYS[key], value, interval, if value.is_some() { rows as usize } else { 0 });
        if value.is_none() {
            scores.note(format!("`{}` is undefined: its denominator is 0", KEYS[key]));
        }
    }
    scores.put_replicates((0..KEYS.len()).map(|key| (KEYS[key].to_string(), of_key(key).collect())));
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scores_by_hand() {
        // Two blocks: 4 targets and 5 rows, 6 targets and 7 rows.
        let block = |targets: f64, by: f64| Totals {
            targets,
            rows: targets + 1.0,
            losses: [2.0, 2.5, 6.0, 4.0].map(|loss| loss * targets),
            divergences: [0.5, 2.0, 1.0].map(|kl| by * kl * (targets + 1.0)),
        };
        let numbers = numbers([block(4.0, 1.0), block(6.0, 1.0)].iter());
        let expected = [0.875, 0.75, 0.75, 0.5, 2.0, 2.5, 6.0, 4.0, 0.5, 2.0, 1.0];
        assert!(numbers.iter().zip(expected).all(|(found, expected)| (found.unwrap() - expected).abs() < 1e-12));
        assert_eq!(super::numbers([].iter()), [None; KEYS.len()]);
    }
}
