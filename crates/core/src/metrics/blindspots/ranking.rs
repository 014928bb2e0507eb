//! Rankings of concepts.

use std::cmp::Ordering;

use super::measured::Measured;
use crate::results::{Interval, Table};

/// Name, whether the largest values come first, and what is ranked.
const RANKINGS: [(&str, bool, RankedBy); 6] = [
    ("suppressed by gap", false, RankedBy::Gap),
    ("exaggerated by gap", true, RankedBy::Gap),
    ("suppressed by relative gap", false, RankedBy::Relative),
    ("exaggerated by relative gap", true, RankedBy::Relative),
    ("confidently suppressed", false, RankedBy::NearEnd),
    ("confidently exaggerated", true, RankedBy::NearEnd),
];

#[derive(Clone, Copy)]
enum RankedBy {
    Gap,
    Relative,
    /// The end of the interval that is nearer to 0.
    NearEnd,
}

/// Keeps the first `keep` of a list in order, without sorting the rest.
pub(super) fn keep_first<T>(list: &mut Vec<T>, keep: usize, compare: impl Fn(&T, &T) -> Ordering + Copy) {
    if keep < list.len() {
        list.select_nth_unstable_by(keep, compare);
        list.truncate(keep);
    }
    list.sort_unstable_by(compare);
}

/// The first `keep` concepts of every ranking in every model.
pub(super) fn table(measured: &Measured, keep: usize) -> Table {
    // Model, ranking, rank, latent, value.
    let mut lines: Vec<(usize, &str, usize, usize, f64)> = Vec::new();
    for (model, concepts) in measured.models.iter().enumerate() {
        for (name, descending, by) in RANKINGS {
            let sign = if descending { -1.0 } else { 1.0 };
            let key = |latent: usize| {
                let concept = concepts[latent].as_ref()?;
                let near = |interval: Interval| if descending { interval.low } else { interval.high };
                let value = match by {
                    RankedBy::Gap => concept.gap(),
                    RankedBy::Relative => concept.relative()?,
                    RankedBy::NearEnd => concept.interval().map(near)?,
                };
                // Ties by the lower end of the interval, without one by the gap.
                let tie = concept.interval().map_or(concept.gap(), |interval| interval.low);
                (value * sign < 0.0).then_some((value, tie, latent))
            };
            let compare = |a: &(f64, f64, usize), b: &(f64, f64, usize)| {
                (a.0 * sign).total_cmp(&(b.0 * sign)).then(a.1.total_cmp(&b.1)).then(a.2.cmp(&b.2))
            };
            let mut order: Vec<(f64, f64, usize)> = (0..concepts.len()).filter_map(key).collect();
            keep_first(&mut order, keep, compare);
            lines.extend((1..).zip(order).map(|(rank, (value, _, latent))| (model, name, rank, latent, value)));
        }
    }
    Table::new("ranking")
        .counts("model", lines.iter().map(|line| line.0))
        .words("ranking", lines.iter().map(|line| line.1))
        .counts("rank", lines.iter().map(|line| line.2))
        .counts("latent", lines.iter().map(|line| line.3))
        .numbers("value", lines.iter().map(|line| Some(line.4)))
}
