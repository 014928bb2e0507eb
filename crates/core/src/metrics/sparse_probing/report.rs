//! The averages of all tasks and repeats.

use super::task::{Probing, TaskResult};
use crate::error::Result;
use crate::metrics::probing::summary::{Grid, columns};
use crate::metrics::probing::tasks::note_absent;
use crate::results::{Cells, Scores, Table};
use crate::run::{CODES, EMBEDDINGS};

/// Makes the scores of what was found: one result per task and repeat, repeat by repeat.
pub fn report(probing: &Probing<'_>, found: &[TaskResult]) -> Result<Scores> {
    let Probing { job, protocol, tasks, .. } = *probing;
    let (sizes, ratio) = (&protocol.sizes, protocol.shares.ratio());
    let grid = |repeats: usize, value: &dyn Fn(&TaskResult) -> Option<f64>| {
        Grid::new(repeats, tasks.count(), |repeat, task| value(&found[repeat * tasks.count() + task]))
    };
    let by_size = |values: fn(&TaskResult) -> &[Option<f64>]| -> Vec<Grid> {
        (0..sizes.len()).map(|size| grid(protocol.repeats, &|result| values(result)[size])).collect()
    };
    let (latents, channels) = (by_size(|result| &result.latents), by_size(|result| &result.channels));
    let all_latents = grid(protocol.full_repeats, &|result| result.all_latents);
    let all_channels = grid(protocol.full_repeats, &|result| result.all_channels);
    let mut scores = Scores::default();
    for (grids, whole, kind) in [(&latents, &all_latents, ""), (&channels, &all_channels, "channels_")] {
        for size in [1, 2, 5] {
            let key = format!("top_{size}_{kind}accuracy");
            match sizes.iter().position(|&other| other == size).map(|index| &grids[index]) {
                Some(grid) => {
                    grid.headline(&mut scores, &key, &grid.repeats(tasks, ratio), (0.0, 1.0), job.seed);
                }
                None => {
                    scores.headline(&key, None, None, 0);
                    scores.note(format!("size {size} is not among `sizes`: `{key}` is undefined"));
                }
            }
        }
        let key = if kind.is_empty() { "all_latents_accuracy" } else { "all_channels_accuracy" };
        whole.headline(&mut scores, key, &whole.repeats(tasks, ratio), (0.0, 1.0), job.seed);
    }
    add_notes(&mut scores, probing, latents.first())?;
    let each = || 0..tasks.count();
    let chosen = |task: usize| found[task].chosen.iter().map(|&latent| i64::from(latent)).collect();
    scores.tables.push(
        Table::new("concept")
            .words("name", tasks.labels.names().iter().map(String::as_str))
            .words("group", each().map(|task| tasks.group_of(task).name.as_str()))
            .counts("positives", each().map(|task| tasks.positive_count(task)))
            .numbers("accuracy", each().map(|task| latents.first().and_then(|grid| grid.task(task))))
            .with("accuracy_by_size", Grid::lists(&latents, tasks.count()))
            .with("channels_by_size", Grid::lists(&channels, tasks.count()))
            .numbers("all_latents", each().map(|task| all_latents.task(task)))
            .numbers("all_channels", each().map(|task| all_channels.task(task)))
            .with("latents", Cells::WholeLists(each().map(chosen).collect())),
    );
    let groups = || 0..tasks.groups().len();
    let by_group = |grids: &[Grid]| {
        let of_group = |group: usize| grids.iter().map(|grid| grid.group(tasks, group)).collect();
        Cells::NumberLists(groups().map(of_group).collect())
    };
    scores.tables.push(
        Table::new("group")
            .words("name", tasks.groups().iter().map(|group| group.name.as_str()))
            .counts("tasks", tasks.groups().iter().map(|group| group.tasks.len()))
            .with("accuracy_by_size", by_group(&latents))
            .with("channels_by_size", by_group(&channels))
            .numbers("all_latents", groups().map(|group| all_latents.group(tasks, group)))
            .numbers("all_channels", groups().map(|group| all_channels.group(tasks, group))),
    );
    let mut table = Table::new("size").counts("size", sizes.iter().copied());
    for (grids, name) in [(&latents, "accuracy"), (&channels, "channels")] {
        let repeats: Vec<_> = grids.iter().map(|grid| grid.repeats(tasks, ratio)).collect();
        table = columns(table, name, &repeats, (0.0, 1.0));
    }
    scores.tables.push(table);
    Ok(scores)
}

/// Says what is undefined, and why.
fn add_notes(scores: &mut Scores, probing: &Probing<'_>, smallest: Option<&Grid>) -> Result<()> {
    let Probing { job, protocol, tasks, .. } = *probing;
    let (count, latents) = (tasks.count(), job.get(&CODES)?.latents());
    let undefined = count - smallest.map_or(0, Grid::defined);
    if undefined > 0 || count == 0 {
        scores.note(format!("{undefined} of {count} concepts lack training or test rows of one kind: undefined"));
    }
    let incomplete = smallest.map_or(0, |grid| {
        let lacks_some = |task: &usize| grid.cells.iter().any(|row| row[*task].is_none());
        (0..count).filter(lacks_some).count()
    });
    if incomplete > undefined {
        scores.note(format!("{} concepts are undefined in some repeats only", incomplete - undefined));
    }
    note_absent(scores, tasks.absent);
    if !job.has(&EMBEDDINGS) {
        scores.note("there are no embeddings: accuracies on channels are undefined");
    }
    if protocol.full_repeats == 0 {
        scores.note("no probes on all latents and all channels were asked for (`full_repeats` = 0)");
    }
    if let Some(largest) = protocol.sizes.last().filter(|size| **size > latents) {
        scores.note(format!("size {largest} is more than the {latents} latents: probes see all of them there"));
    }
    Ok(())
}
