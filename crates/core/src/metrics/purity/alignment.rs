//! Which learnt representation stands for which concept.

use etalon_kernel::assignment::assign_monitored;

use crate::context::Context;
use crate::error::Result;

/// The source of every concept, by sorting all scores and taking the best pair whose source and concept are both free.
/// `scores` is `sources × concepts`. Ties go to the lower source, then the lower concept.
pub(super) fn greedy(scores: &[f64], concepts: usize) -> Vec<Option<usize>> {
    let sources = scores.len().checked_div(concepts).unwrap_or(0);
    let mut order: Vec<usize> = (0..scores.len()).collect();
    order.sort_by(|&a, &b| scores[b].total_cmp(&scores[a]).then(a.cmp(&b)));
    let (mut taken, mut source_of) = (vec![false; sources], vec![None; concepts]);
    for index in order {
        let (source, concept) = (index / concepts, index % concepts);
        if !taken[source] && source_of[concept].is_none() {
            (taken[source], source_of[concept]) = (true, Some(source));
        }
    }
    source_of
}

/// The source of every concept with the largest total score.
pub(super) fn optimal(scores: &[f64], concepts: usize, context: &Context) -> Result<Vec<Option<usize>>> {
    let sources = scores.len().checked_div(concepts).unwrap_or(0);
    let costs: Vec<f64> = (0..concepts)
        .flat_map(|concept| (0..sources).map(move |source| -scores[source * concepts + concept]))
        .collect();
    Ok(assign_monitored(&costs, concepts, sources, context)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn greedy_takes_the_best_pair_first() {
        // Sources × concepts: 0.9 0.8 / 0.7 0.1 / 0.2 0.3. Greedy: 0 → concept 0, then 0.3 of source 2 for concept 1.
        // Optimal: 0.8 + 0.7 = 1.5 instead of 1.2.
        let scores = [0.9, 0.8, 0.7, 0.1, 0.2, 0.3];
        assert_eq!(greedy(&scores, 2), [Some(0), Some(2)]);
        let context = Context::silent(1, 1 << 20).unwrap();
        assert_eq!(optimal(&scores, 2, &context).unwrap(), [Some(1), Some(0)]);
        assert_eq!(greedy(&[0.5, 0.4], 2), [Some(0), None]);
    }
}
