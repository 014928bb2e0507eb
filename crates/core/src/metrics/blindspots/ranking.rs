//! Rankings of concepts: what people look at first.

use std::cmp::Ordering;

use super::measured::Measured;
use crate::results::{Interval, Table};

/// A way to order concepts; the side that comes first.
const RANKINGS: [(&str, bool, By); 6] = [
    ("suppressed by gap", false, By::Gap),
    ("exaggerated by gap", true, By::Gap),
    ("suppressed by relative gap", false, By::Relative),
    ("exaggerated by relative gap", true, By::Relative),
    ("confidently suppressed", false, By::NearEnd),
    ("confidently exaggerated", true, By::NearEnd),
];

#[derive(Clone, Copy)]
enum By {
    Gap,
    Relative,
    /// The end of the interval that is nearer to 0.
    NearEnd,
}

/// Sorts the first `keep` of a list and drops the others, which need not be sorted for it.
pub(super) fn keep_first<T>(list: &mut Vec<T>, keep: usize, compare: impl Fn(&T, &T) -> Ordering + Copy) {
    if keep < list.len() {
        list.select_nth_unstable_by(keep, compare);
        list.truncate(keep);
    }
    list.sort_unstable_by(compare);
}

/// The first `keep` concepts of every ranking in every model.
pub(super) fn table(measured: &Measured, keep: usize) -> Table {
    let (mut models, mut names, mut ranks) = (Vec::new(), Vec::new(), Vec::new());
    let (mut latents, mut values) = (Vec::new(), Vec::new());
    for (model, concepts) in measured.models.iter().enumerate() {
        for (name, upward, by) in RANKINGS {
            let sign = if upward { -1.0 } else { 1.0 };
            let key = |latent: usize| {
                let concept = concepts[latent].as_ref()?;
                let near = |interval: Interval| if upward { interval.low } else { interval.high };
                let value = match by {
                    By::Gap => concept.gap(),
                    By::Relative => concept.relative()?,
                    By::NearEnd => concept.interval().map(near)?,
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
            for (rank, (value, _, latent)) in order.into_iter().enumerate() {
                models.push(model);
                names.push(name);
                ranks.push(rank + 1);
                latents.push(latent);
                values.push(Some(value));
            }
        }
    }
    Table::new("ranking")
        .counts("model", models)
        .words("ranking", names)
        .counts("rank", ranks)
        .counts("latent", latents)
        .numbers("value", values)
}
