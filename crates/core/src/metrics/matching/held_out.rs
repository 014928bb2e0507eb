//! The sound number beside the published one: latents are chosen on one half of the rows and scored on the other.

use etalon_kernel::random::{permutation, stream};

use super::Strategy;
use super::firing::f1;
use super::prepared::PreparedCodes;
use super::row_order::RowOrder;
use crate::context::Reserved;
use crate::error::Result;
use crate::run::{CODES, Job, LABELS, Lazy, Work};

/// F1 of every concept on rows that did not choose its latents, by strategy: the mean of both directions. Undefined for a
/// concept that is missing from a half.
pub(super) fn held_out(
    job: &Job<'_>,
    work: &mut Work<'_>,
    order: &RowOrder,
    strategies: &[Strategy],
) -> Result<Reserved<Vec<Vec<Option<f64>>>>> {
    let codes = job.get(&CODES)?;
    let halves = Lazy::new(|| {
        let mut first = permutation(codes.rows(), &mut stream(job.seed, "match/halves", 0));
        let mut second = first.split_off(codes.rows() / 2);
        first.sort_unstable();
        second.sort_unstable();
        let half = |rows: &[usize]| PreparedCodes::new(job, codes, order.part(rows), strategies);
        let (first, second) = rayon::join(|| half(&first), || half(&second));
        Ok([first?, second?])
    });
    let concepts = job.get(&LABELS)?.concepts();
    work.blocks_with(&halves, "concepts on held-out rows", concepts, |halves, concept| {
        let rows = halves.each_ref().map(|half| half.rows_of(concept));
        if rows.iter().any(|rows| rows.yes.count() == 0) {
            return Ok(vec![None; strategies.len()]);
        }
        let mut sums = vec![0.0; strategies.len()];
        for (choosing, scoring) in [(0, 1), (1, 0)] {
            let truth = &rows[scoring];
            for (sum, choice) in sums.iter_mut().zip(halves[choosing].choose(&rows[choosing])?) {
                let predicted = halves[scoring].predicted(&choice, truth)?;
                *sum += f1(predicted.count_and(&truth.yes), truth.yes.count(), predicted.count());
            }
        }
        Ok(sums.into_iter().map(|sum| Some(sum / 2.0)).collect())
    })
}
