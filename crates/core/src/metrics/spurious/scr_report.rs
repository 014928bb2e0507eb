//! Spurious correlation removal: the averages of all couples and repeats.

use etalon_kernel::bits::Bits;
use etalon_kernel::statistics::mean;

use super::Protocol;
use super::quadrants::Couple;
use super::scr::CoupleResult;
use crate::labels::Annotations;
use crate::metrics::probing::summary::{Grid, columns};
use crate::metrics::probing::tasks::note_absent;
use crate::results::{Repeats, Scores, Table};
use crate::run::Job;

/// Scores have no bounds.
const BOUNDS: (f64, f64) = (f64::NEG_INFINITY, f64::INFINITY);

/// Makes the scores of what was found: one result per couple and repeat, repeat by repeat.
pub fn report(
    job: &Job<'_>,
    protocol: &Protocol,
    labels: &Annotations,
    couples: &[Couple],
    absent: &Bits,
    found: &[Option<CoupleResult>],
) -> Scores {
    let grid = |value: &dyn Fn(&CoupleResult) -> Option<f64>| {
        Grid::new(protocol.repeats, couples.len(), |repeat, couple| {
            found[repeat * couples.len() + couple].as_ref().and_then(value)
        })
    };
    let by_count = |values: fn(&CoupleResult) -> &[Option<f64>]| -> Vec<Grid> {
        (0..protocol.counts.len()).map(|count| grid(&|result| values(result)[count])).collect()
    };
    let (first, second) = (by_count(|result| &result.first), by_count(|result| &result.second));
    let score = by_count(|result| &result.score);
    let repeats = |grid: &Grid| {
        let of_repeat = |row: &Vec<Option<f64>>| mean(&row.iter().flatten().copied().collect::<Vec<_>>());
        Repeats { values: grid.cells.iter().filter_map(of_repeat).collect(), ratio: protocol.shares.ratio() }
    };
    let mut scores = Scores::default();
    let at = |count: usize| protocol.counts.iter().position(|&other| other == count).map(|index| &score[index]);
    for (key, count) in [("scr_10", 10), ("scr_20", 20)] {
        match at(count) {
            Some(grid) => grid.headline(&mut scores, key, &repeats(grid), BOUNDS, job.seed),
            None => scores.headline(key, None, None, 0),
        }
    }
    let twenty = at(20).map(&repeats);
    let defined = at(20).map_or(0, Grid::defined);
    scores.headline("scr_noise", twenty.as_ref().and_then(Repeats::noise), None, defined);
    scores.headline("scr_detectable", twenty.as_ref().and_then(Repeats::detectable), None, defined);
    if at(10).is_none() || at(20).is_none() {
        scores.note("`ablated` has no 10 or no 20: the headline for it is undefined");
    }
    if protocol.repeats < 2 {
        scores.note("one repeat has no noise: `scr_noise` and `scr_detectable` are undefined");
    }
    let undefined = couples.len() - defined;
    if couples.is_empty() {
        scores.note("no couple of concepts has enough rows in every quadrant (`quadrant_rows`)");
    } else if undefined > 0 {
        scores.note(format!(
            "{undefined} of {} couples lack rows in a quadrant, or have no bias that could be removed: undefined",
            couples.len()
        ));
    }
    note_absent(&mut scores, absent);
    let each = |value: fn(&CoupleResult) -> f64| {
        let grid = grid(&|result| Some(value(result)));
        (0..couples.len()).map(|couple| grid.task(couple)).collect::<Vec<Option<f64>>>()
    };
    let name = |couple: &Couple| format!("{}:{}", labels.name(couple.task), labels.name(couple.attribute));
    scores.tables.push(
        Table::new("couple")
            .words("name", couples.iter().map(name))
            .numbers("rows_trained", each(|result| result.trained as f64))
            .numbers("rows_tested", each(|result| result.tested as f64))
            .numbers("biased_on_task", each(|result| result.biased_on_task))
            .numbers("task_accuracy", each(|result| result.task_accuracy))
            .numbers("biased_on_attribute", each(|result| result.biased_on_attribute))
            .numbers("attribute_accuracy", each(|result| result.attribute_accuracy))
            .with("score_by_count", Grid::lists(&score, couples.len()))
            .with("dir1_by_count", Grid::lists(&first, couples.len()))
            .with("dir2_by_count", Grid::lists(&second, couples.len())),
    );
    let mut table = Table::new("count").counts("count", protocol.counts.iter().copied());
    for (name, grids) in [("score", &score), ("dir1", &first), ("dir2", &second)] {
        table = columns(table, name, &grids.iter().map(&repeats).collect::<Vec<_>>(), BOUNDS);
    }
    scores.tables.push(table);
    scores
}
