//! The sound number beside the published one: latents are chosen on one half of the rows and scored on the other.

use rayon::prelude::*;

use super::Strategy;
use super::concepts::{Field, match_all};
use super::firing::f1;
use crate::error::Result;
use crate::kernel::random::{permutation, stream};
use crate::labels::Concept;

/// F1 of every concept on rows that did not choose its latents, by strategy: the mean of both directions. Undefined for a
/// concept that is missing from a half.
pub(super) fn held_out(field: &Field<'_>, strategies: &[Strategy], seed: u64) -> Result<Vec<Vec<Option<f64>>>> {
    let rows = field.codes.rows();
    let mut order = permutation(rows, &mut stream(seed, "match/halves", 0));
    let mut second = order.split_off(rows / 2);
    order.sort_unstable();
    second.sort_unstable();
    let _memory = field.settings.budget.take(8 * field.codes.entries() as u64, "the codes of both halves")?;
    let codes = [field.codes.select(&order)?, field.codes.select(&second)?];
    let labels = [field.labels.select(&order), field.labels.select(&second)];
    let concepts = labels[0].concepts();
    let tested: Vec<bool> =
        (0..concepts as u32).map(|concept| labels.iter().all(|half| half.yes(Concept(concept)).count() > 0)).collect();
    let mut sums = vec![vec![0.0; concepts]; strategies.len()];
    let halves = [
        Field::new(&codes[0], &labels[0], field.settings, strategies)?,
        Field::new(&codes[1], &labels[1], field.settings, strategies)?,
    ];
    for (choose, score) in [(&halves[0], &halves[1]), (&halves[1], &halves[0])] {
        let matchings = match_all(choose, strategies)?;
        for (sums, matching) in sums.iter_mut().zip(&matchings) {
            let f1 = |concept: usize| {
                let predicted = matching.predicted(concept, score)?;
                let yes = score.labels.yes(Concept(concept as u32));
                Ok(f1(predicted.count_and(yes), yes.count(), predicted.count()))
            };
            let scores: Vec<f64> = (0..concepts).into_par_iter().map(f1).collect::<Result<_>>()?;
            sums.iter_mut().zip(scores).for_each(|(sum, score)| *sum += score);
        }
    }
    let mean = |sums: Vec<f64>| sums.iter().zip(&tested).map(|(sum, &tested)| tested.then_some(sum / 2.0)).collect();
    Ok(sums.into_iter().map(mean).collect())
}
