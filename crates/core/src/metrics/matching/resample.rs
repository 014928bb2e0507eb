//! The bootstrap over rows: how much would the score of the same coalitions move with other rows?
//!
//! Every resample draws as many rows as there are, with replacement. How often each row was drawn is kept side by side
//! for many resamples, so one walk over a set of rows sums all of them.

use rayon::prelude::*;

use super::firing::f1;
use crate::kernel::bits::Bits;
use crate::kernel::random::{index, stream};
use crate::labels::{Annotations, Concept};
use crate::results::{Interval, percentile_interval};

/// How many times rows are drawn.
pub(super) const ROW_RESAMPLES: usize = 200;

/// Bytes that the counts of one batch of resamples may take.
const BATCH_BYTES: usize = 64 << 20;

/// The interval of the mean F1 over concepts for every strategy; `predicted` are known rows by strategy and concept.
pub(super) fn row_intervals(labels: &Annotations, predicted: &[Vec<Bits>], seed: u64) -> Vec<Option<Interval>> {
    let (rows, concepts) = (labels.rows(), labels.concepts());
    if rows < 2 || concepts == 0 {
        return vec![None; predicted.len()];
    }
    let width = (BATCH_BYTES / rows).clamp(1, ROW_RESAMPLES);
    let mut replicates = vec![Vec::with_capacity(ROW_RESAMPLES); predicted.len()];
    for first in (0..ROW_RESAMPLES).step_by(width) {
        let width = width.min(ROW_RESAMPLES - first);
        let drawn = draw(rows, first, width, seed);
        let sums = |set: &mut dyn Iterator<Item = usize>| {
            let mut sums = vec![0u32; width];
            for row in set {
                sums.iter_mut().zip(&drawn[row * width..][..width]).for_each(|(sum, &drawn)| *sum += u32::from(drawn));
            }
            sums
        };
        let one_concept = |concept: usize| -> Vec<f64> {
            let yes = labels.yes(Concept(concept as u32));
            let positives = sums(&mut yes.rows());
            let scores = |predicted: &Vec<Bits>| {
                let predicted = &predicted[concept];
                let all = sums(&mut predicted.rows());
                let hits = sums(&mut predicted.rows().filter(|&row| yes.contains(row)));
                (0..width)
                    .map(|place| f1(hits[place] as usize, positives[place] as usize, all[place] as usize))
                    .collect::<Vec<f64>>()
            };
            predicted.iter().flat_map(scores).collect()
        };
        let scores: Vec<Vec<f64>> = (0..concepts).into_par_iter().map(one_concept).collect();
        for (strategy, replicates) in replicates.iter_mut().enumerate() {
            for place in strategy * width..(strategy + 1) * width {
                replicates.push(scores.iter().map(|scores| scores[place]).sum::<f64>() / concepts as f64);
            }
        }
    }
    replicates.into_iter().map(percentile_interval).collect()
}

/// How often each row was drawn in each of some resamples, row-major. A row drawn more than 255 times in one resample
/// would need odds that no generator offers.
fn draw(rows: usize, first: usize, width: usize, seed: u64) -> Vec<u8> {
    let resample = |number: usize| {
        let mut random = stream(seed, "match/rows", number as u64);
        let mut drawn = vec![0u8; rows];
        for _ in 0..rows {
            let row = index(rows, &mut random);
            drawn[row] = drawn[row].saturating_add(1);
        }
        drawn
    };
    let resamples: Vec<Vec<u8>> = (first..first + width).into_par_iter().map(resample).collect();
    let mut drawn = vec![0u8; rows * width];
    for (row, drawn) in drawn.chunks_exact_mut(width).enumerate() {
        drawn.iter_mut().zip(&resamples).for_each(|(drawn, resample)| *drawn = resample[row]);
    }
    drawn
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::labels::Label;

    #[test]
    fn a_perfect_coalition_does_not_move_and_a_coin_does() {
        let rows = 400;
        let label = |row: usize, _: usize| if row.is_multiple_of(2) { Label::Yes } else { Label::No };
        let labels = Annotations::new(vec!["even".into()], rows, label).unwrap();
        let perfect = vec![labels.yes(Concept(0)).clone()];
        let coin = vec![Bits::of(rows, (0..rows).filter(|row| row % 4 < 2))];
        let intervals = row_intervals(&labels, &[perfect, coin], 7);
        assert_eq!(intervals[0], Some(Interval { low: 1.0, high: 1.0 }));
        // F1 is 2 · 100 / (200 + 200) = 0.5, and its standard deviation over resamples of 400 rows is about 0.03.
        let coin = intervals[1].unwrap();
        assert!(coin.low > 0.40 && coin.low < 0.48 && coin.high > 0.52 && coin.high < 0.60, "{coin:?}");
    }

    #[test]
    fn every_resample_has_as_many_rows_as_there_are() {
        let drawn = draw(50, 3, 4, 0);
        for place in 0..4 {
            assert_eq!((0..50).map(|row| u32::from(drawn[row * 4 + place])).sum::<u32>(), 50);
        }
        // The same resample whatever batch it falls into.
        assert!((0..50).all(|row| draw(50, 5, 1, 0)[row] == drawn[row * 4 + 2]));
    }
}
