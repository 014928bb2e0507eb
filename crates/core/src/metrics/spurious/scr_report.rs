//! Spurious correlation removal: averages over couples and repeats.

use etalon_kernel::bits::Bits;

use super::quadrants::Couple;
use super::removal::{CoupleResult, Removal};
use crate::labels::Annotations;
use crate::metrics::probing::summary::{Average, Grid};
use crate::metrics::probing::tasks::{Group, note_absent};
use crate::results::{Scores, Table};

/// Computes the scores from one result per block.
pub fn report(
    removal: &Removal<'_>,
    labels: &Annotations,
    couples: &[Couple],
    absent: &Bits,
    results: &[Option<CoupleResult>],
) -> Scores {
    let protocol = removal.protocol;
    let count = couples.len();
    let grid = |value: &dyn Fn(&CoupleResult) -> Option<f64>| {
        Grid::new(protocol.repeats, count, |block| results[block].as_ref().and_then(value))
    };
    let by_count = |values: fn(&CoupleResult) -> &[Option<f64>]| -> Vec<Grid> {
        (0..protocol.counts.len()).map(|index| grid(&|result| values(result)[index])).collect()
    };
    let (first, second) = (by_count(|result| &result.first), by_count(|result| &result.second));
    let score = by_count(|result| &result.score);
    let groups = [Group { name: String::new(), tasks: (0..count).collect() }];
    let bounds = (f64::NEG_INFINITY, f64::INFINITY);
    let average = Average { groups: &groups, ratio: protocol.shares.ratio(), bounds };
    let mut scores = Scores::default();
    let twenty = protocol.at(20).map(|index| &score[index]);
    average.headline(&mut scores, "scr_20", twenty);
    average.headline(&mut scores, "scr_10", protocol.at(10).map(|index| &score[index]));
    protocol.add_noise(&mut scores, "scr", &average, twenty);
    let undefined = count - twenty.map_or(0, Grid::defined);
    if couples.is_empty() {
        scores.note("no couple of concepts has enough rows in every quadrant (`quadrant_rows`)");
    } else if undefined > 0 {
        scores.note(format!(
            "{undefined} of {count} couples are undefined: a quadrant lacks rows, or the probe has no bias"
        ));
    }
    note_absent(&mut scores, absent);
    let each = |value: fn(&CoupleResult) -> f64| grid(&|result| Some(value(result))).tasks();
    let name = |couple: &Couple| format!("{}:{}", labels.name(couple.task), labels.name(couple.attribute));
    scores.tables.push(
        Table::new("couple")
            .words("name", couples.iter().map(name))
            .numbers("scr_20", twenty.map_or_else(|| vec![None; count], Grid::tasks))
            .numbers("rows_trained", each(|result| result.trained as f64))
            .numbers("rows_tested", each(|result| result.tested as f64))
            .numbers("biased_on_task", each(|result| result.biased_on_task))
            .numbers("task_accuracy", each(|result| result.task_accuracy))
            .numbers("biased_on_attribute", each(|result| result.biased_on_attribute))
            .numbers("attribute_accuracy", each(|result| result.attribute_accuracy))
            .with("score_by_count", Grid::lists(&score, count))
            .with("dir1_by_count", Grid::lists(&first, count))
            .with("dir2_by_count", Grid::lists(&second, count)),
    );
    let series: [(&str, &[Grid]); 3] = [("score", &score), ("dir1", &first), ("dir2", &second)];
    scores.tables.push(average.table("count", &protocol.counts, &series));
    scores
}
