//! The held-out score: latents are selected on one half of the rows and scored on the other.

use etalon_kernel::random::{permutation, stream};

use super::prepared::PreparedCodes;
use super::row_order::RowOrder;
use super::strategy::Strategy;
use super::target::f1;
use crate::context::Reserved;
use crate::error::Result;
use crate::run::{CODES, Job, LABELS, Lazy, Work};

/// The held-out F1 by concept and strategy: the mean of both directions. Undefined if a half has no positive row.
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
        for (selection, scoring) in [(0, 1), (1, 0)] {
            let truth = &rows[scoring];
            for (sum, choice) in sums.iter_mut().zip(halves[selection].choose(&rows[selection])?) {
                let predicted = halves[scoring].predicted(&choice, truth)?;
                *sum += f1(predicted.count_and(&truth.yes), truth.yes.count(), predicted.count());
            }
        }
        Ok(sums.into_iter().map(|sum| Some(sum / 2.0)).collect())
    })
}
