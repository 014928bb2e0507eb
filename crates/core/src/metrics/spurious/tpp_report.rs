//! Targeted probe perturbation: the averages of all tasks and repeats.

use super::tpp::{Perturbation, TaskResult};
use crate::metrics::probing::summary::{Grid, columns};
use crate::metrics::probing::tasks::note_absent;
use crate::results::{Repeats, Scores, Table};

/// Makes the scores of what was found, one result per task and repeat, repeat by repeat; `asked` tasks were looked at.
pub fn report(perturbation: &Perturbation<'_>, asked: usize, found: &[Option<TaskResult>]) -> Scores {
    let Perturbation { job, protocol, tasks, .. } = *perturbation;
    let grid = |value: &dyn Fn(&TaskResult) -> Option<f64>| {
        Grid::new(protocol.repeats, tasks.count(), |repeat, task| {
            found[repeat * tasks.count() + task].as_ref().and_then(value)
        })
    };
    // All three are defined only where the group has other probes.
    let by_count = |value: fn(f64, f64) -> f64| -> Vec<Grid> {
        let of = |count: usize| grid(&|result| Some(value(result.intended[count], result.unintended[count]?)));
        (0..protocol.counts.len()).map(of).collect()
    };
    let total = by_count(|intended, unintended| intended - unintended);
    let (intended, unintended) = (by_count(|intended, _| intended), by_count(|_, unintended| unintended));
    let accuracy = grid(&|result| Some(result.accuracy));
    let repeats = |grid: &Grid| grid.repeats(tasks, protocol.shares.ratio());
    let mut scores = Scores::default();
    let at = |count: usize| protocol.counts.iter().position(|&other| other == count);
    for (key, grids, count, bound) in [
        ("tpp_10", &total, 10, 2.0),
        ("tpp_20", &total, 20, 2.0),
        ("tpp_20_intended", &intended, 20, 1.0),
        ("tpp_20_unintended", &unintended, 20, 1.0),
    ] {
        match at(count).map(|index| &grids[index]) {
            Some(grid) => grid.headline(&mut scores, key, &repeats(grid), (-bound, bound), job.seed),
            None => scores.headline(key, None, None, 0),
        }
    }
    let twenty = at(20).map(|index| repeats(&total[index]));
    let defined = at(20).map_or(0, |index| total[index].defined());
    scores.headline("tpp_noise", twenty.as_ref().and_then(Repeats::noise), None, defined);
    scores.headline("tpp_detectable", twenty.as_ref().and_then(Repeats::detectable), None, defined);
    if at(10).is_none() || at(20).is_none() {
        scores.note("`ablated` has no 10 or no 20: the headline for it is undefined");
    }
    if protocol.repeats < 2 {
        scores.note("one repeat has no noise: `tpp_noise` and `tpp_detectable` are undefined");
    }
    if asked < tasks.count() {
        scores.note(format!("{asked} of {} concepts are looked at (`most_tasks`)", tasks.count()));
    }
    let lost = asked - total.first().map_or(0, Grid::defined);
    if lost > 0 || asked == 0 {
        scores.note(format!("{lost} of {asked} concepts lack rows of one kind, or company in their group: undefined"));
    }
    note_absent(&mut scores, tasks.absent);
    scores.tables.push(
        Table::new("concept")
            .words("name", tasks.labels.names().iter().map(String::as_str))
            .words("group", (0..tasks.count()).map(|task| tasks.group_of(task).name.as_str()))
            .numbers("accuracy", (0..tasks.count()).map(|task| accuracy.task(task)))
            .with("total_by_count", Grid::lists(&total, tasks.count()))
            .with("intended_by_count", Grid::lists(&intended, tasks.count()))
            .with("unintended_by_count", Grid::lists(&unintended, tasks.count())),
    );
    let mut table = Table::new("count").counts("count", protocol.counts.iter().copied());
    for (name, grids) in [("total", &total), ("intended", &intended), ("unintended", &unintended)] {
        table = columns(table, name, &grids.iter().map(&repeats).collect::<Vec<_>>(), (-2.0, 2.0));
    }
    scores.tables.push(table);
    scores
}
