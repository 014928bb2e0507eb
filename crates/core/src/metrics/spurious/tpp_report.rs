//! Targeted probe perturbation: averages over tasks and repeats.

use super::perturbation::{Perturbation, TaskResult};
use crate::metrics::probing::summary::{Average, Grid};
use crate::metrics::probing::tasks::note_absent;
use crate::results::Scores;

/// Computes the scores from one result per block; `evaluated` is the number of tasks that `most_tasks` kept.
pub fn report(perturbation: &Perturbation<'_>, evaluated: usize, results: &[Option<TaskResult>]) -> Scores {
    let Perturbation { protocol, tasks, .. } = *perturbation;
    let count = tasks.count();
    let grid = |value: &dyn Fn(&TaskResult) -> Option<f64>| {
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
    for (key, grids, ablated, bound) in [
        ("tpp_20", &total, 20, 2.0),
        ("tpp_20_intended", &intended, 20, 1.0),
        ("tpp_20_unintended", &unintended, 20, 1.0),
        ("tpp_10", &total, 10, 2.0),
    ] {
        let grid = protocol.at(ablated).map(|index| &grids[index]);
        Average { bounds: (-bound, bound), ..average }.headline(&mut scores, key, grid);
    }
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
    scores.tables.push(average.table("count", &protocol.counts, &series));
    scores
}
