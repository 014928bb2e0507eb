//! The averages of all tasks and repeats.

use etalon_kernel::statistics::mean;

use super::task::{Probing, Quality, TaskResult};
use crate::metrics::probing::summary::{Grid, columns};
use crate::metrics::probing::tasks::note_absent;
use crate::results::{Scores, Table};
use crate::run::EMBEDDINGS;

/// Sizes with a headline.
const HEADLINES: [usize; 4] = [1, 5, 20, 100];

/// Makes the scores of what was found: one result per task and repeat, repeat by repeat.
pub fn report(probing: &Probing<'_>, found: &[Option<TaskResult>]) -> Scores {
    let Probing { job, protocol, tasks, .. } = *probing;
    let sizes = &protocol.sizes;
    let grid = |repeats: usize, value: &dyn Fn(&TaskResult) -> Option<f64>| {
        Grid::new(repeats, tasks.count(), |repeat, task| found[repeat * tasks.count() + task].as_ref().and_then(value))
    };
    let by_size = |value: fn(&Quality) -> Option<f64>| -> Vec<Grid> {
        (0..sizes.len()).map(|size| grid(protocol.repeats, &|result| value(&result.by_size[size]))).collect()
    };
    let (area, f1, accuracy) =
        (by_size(|quality| quality.area), by_size(|quality| quality.f1), by_size(|quality| quality.accuracy));
    let (held_back, strength) = (by_size(|quality| quality.held_back), by_size(|quality| quality.strength));
    let channels = |value: fn(&Quality) -> Option<f64>| grid(protocol.full_repeats, &|result| value(&result.channels));
    let channels_area = channels(|quality| quality.area);
    let ratios: Vec<f64> = found.iter().flatten().map(|result| result.tested as f64 / result.trained as f64).collect();
    let ratio = mean(&ratios).unwrap_or(0.0);
    let mut scores = Scores::default();
    let mut headline = |key: &str, grid: Option<&Grid>| match grid {
        Some(grid) => grid.headline(&mut scores, key, &grid.repeats(tasks, ratio), (0.0, 1.0), job.seed),
        None => scores.headline(key, None, None, 0),
    };
    let at = |size: usize| sizes.iter().position(|&other| other == size);
    for size in HEADLINES {
        headline(&format!("probes_{size}_auc"), at(size).map(|index| &area[index]));
    }
    headline("probes_20_f1", at(20).map(|index| &f1[index]));
    headline("probes_20_accuracy", at(20).map(|index| &accuracy[index]));
    headline("probes_channels_auc", Some(&channels_area));
    if HEADLINES.iter().any(|&size| at(size).is_none()) {
        scores.note("1, 5, 20 or 100 is not among `sizes`: the headline for it is undefined");
    }
    let undefined = tasks.count() - area.first().map_or(0, Grid::defined);
    if undefined > 0 || tasks.count() == 0 {
        scores.note(format!(
            "{undefined} of {} concepts lack training or test rows of one kind: undefined",
            tasks.count()
        ));
    }
    note_absent(&mut scores, tasks.absent);
    if !job.has(&EMBEDDINGS) || protocol.full_repeats == 0 {
        scores.note("there are no embeddings, or `full_repeats` is 0: probes on channels are undefined");
    }
    let each = |grid: &Grid| (0..tasks.count()).map(|task| grid.task(task)).collect::<Vec<Option<f64>>>();
    let group = |task: usize| tasks.group_of(task).name.as_str();
    scores.tables.push(
        Table::new("concept")
            .words("name", tasks.labels.names().iter().map(String::as_str))
            .words("group", (0..tasks.count()).map(group))
            .numbers("rows_trained", each(&grid(protocol.repeats, &|result| Some(result.trained as f64))))
            .numbers("rows_tested", each(&grid(protocol.repeats, &|result| Some(result.tested as f64))))
            .numbers("auc", (0..tasks.count()).map(|task| area.first().and_then(|grid| grid.task(task))))
            .with("auc_by_size", Grid::lists(&area, tasks.count()))
            .with("f1_by_size", Grid::lists(&f1, tasks.count()))
            .with("accuracy_by_size", Grid::lists(&accuracy, tasks.count()))
            .with("held_back_auc_by_size", Grid::lists(&held_back, tasks.count()))
            .with("c_by_size", Grid::lists(&strength, tasks.count()))
            .numbers("channels_auc", each(&channels_area))
            .numbers("channels_f1", each(&channels(|quality| quality.f1)))
            .numbers("channels_accuracy", each(&channels(|quality| quality.accuracy))),
    );
    let mut table = Table::new("size").counts("size", sizes.iter().copied());
    for (name, grids) in [("auc", &area), ("f1", &f1), ("accuracy", &accuracy)] {
        let repeats: Vec<_> = grids.iter().map(|grid| grid.repeats(tasks, ratio)).collect();
        table = columns(table, name, &repeats, (0.0, 1.0));
    }
    scores.tables.push(table);
    scores
}
