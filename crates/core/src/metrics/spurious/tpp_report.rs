//! Targeted probe perturbation: averages over tasks and repeats.

use super::perturbation::{AblationResult, Perturbation};
use crate::metrics::probing::summary::{Average, Grid};
use crate::metrics::probing::tasks::note_absent;
use crate::results::Scores;

/// Columns of the table by count that would be intervals too narrow to cover; see the card.
const NOT_COVERED: [&str; 6] =
    ["total_low", "total_high", "total_detectable", "unintended_low", "unintended_high", "unintended_detectable"];

/// Computes the scores from one result per block; `evaluated` is the number of tasks that `most_tasks` kept.
pub fn report(perturbation: &Perturbation<'_>, evaluated: usize, results: &[Option<AblationResult>]) -> Scores {
    let Perturbation { protocol, tasks, .. } = *perturbation;
    let count = tasks.count();
    let grid = |value: &dyn Fn(&AblationResult) -> Option<f64>| {
        Grid::new(protocol.repeats, count, |block| results[block].as_ref().and_then(value))
    };
    // All three are defined only where the group has other probes.
    let by_count = |value: fn(f64, f64) -> f64| -> Vec<Grid> {
        let of = |index: usize| grid(&|result| Some(value(result.intended[index], result.unintended[index]?)));
        (0..protocol.counts.len()).map(of).collect()
    };
    let total = by_count(|intended, unintended| intended - unintended);
    let (intended, unintended) = (by_count(|intended, _| intended), by_count(|_, unintended| unintended));
    let (ratio, bounds) = (protocol.shares.ratio(), (-2.0, 2.0));
    let average = Average { groups: tasks.groups(), ratio, bounds };
    let mut scores = Scores::default();
    let [ten, twenty] = [10, 20].map(|ablated| protocol.at(ablated));
    average.headline_alone(&mut scores, "tpp_20", twenty.map(|index| &total[index]));
    let own = Average { bounds: (-1.0, 1.0), ..average };
    own.headline(&mut scores, "tpp_20_intended", twenty.map(|index| &intended[index]));
    average.headline_alone(&mut scores, "tpp_20_unintended", twenty.map(|index| &unintended[index]));
    average.headline_alone(&mut scores, "tpp_10", ten.map(|index| &total[index]));
    protocol.add_noise(&mut scores, "tpp", &average, protocol.at(20).map(|index| &total[index]));
    if evaluated < count {
        scores.note(format!("{evaluated} of {count} concepts are evaluated (`most_tasks`)"));
    }
    let undefined = evaluated - total.first().map_or(0, Grid::defined);
    if undefined > 0 || evaluated == 0 {
        scores.note(format!(
            "{undefined} of {evaluated} concepts are undefined: a class lacks rows, or there is no other task in the group"
        ));
    }
    note_absent(&mut scores, tasks.absent);
    let at_twenty = |grids: &[Grid]| protocol.at(20).map_or_else(|| vec![None; count], |index| grids[index].tasks());
    scores.tables.push(
        tasks
            .table()
            .numbers("tpp_20", at_twenty(&total))
            .numbers("tpp_20_intended", at_twenty(&intended))
            .numbers("tpp_20_unintended", at_twenty(&unintended))
            .numbers("accuracy", grid(&|result| Some(result.accuracy)).tasks())
            .with("total_by_count", Grid::lists(&total, count))
            .with("intended_by_count", Grid::lists(&intended, count))
            .with("unintended_by_count", Grid::lists(&unintended, count)),
    );
    let series: [(&str, &[Grid]); 3] = [("total", &total), ("intended", &intended), ("unintended", &unintended)];
    let mut by_count = average.table("count", &protocol.counts, &series);
    by_count.columns.retain(|(name, _)| !NOT_COVERED.contains(&name.as_str()));
    scores.tables.push(by_count);
    scores
}
