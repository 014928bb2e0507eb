//! The scores of sparse probing: averages over tasks and repeats.

use super::Protocol;
use super::task::TaskAccuracies;
use crate::error::Result;
use crate::metrics::probing::Probing;
use crate::metrics::probing::summary::{Average, Grid, note_undefined};
use crate::metrics::probing::tasks::note_absent;
use crate::metrics::probing::test_rows::TestScore;
use crate::results::{Cells, Scores, Table};
use crate::run::{CODES, EMBEDDINGS};

/// The accuracies of a task by size.
type BySize = fn(&TaskAccuracies) -> &[Option<TestScore>];

/// The accuracy of a task on all columns.
type OfAll = fn(&TaskAccuracies) -> &Option<TestScore>;

/// Computes the scores from one result per block.
pub fn report(probing: &Probing<'_, Protocol>, results: &[TaskAccuracies]) -> Result<Scores> {
    let Probing { protocol, tasks, .. } = *probing;
    let (sizes, count, groups) = (&protocol.sizes, tasks.count(), tasks.groups());
    let value = |score: &Option<TestScore>| score.as_ref().map(|score| score.value);
    let by_size = |scores: BySize| -> Vec<Grid> {
        let grid = |size: usize| Grid::new(protocol.repeats, count, |block| value(&scores(&results[block])[size]));
        (0..sizes.len()).map(grid).collect()
    };
    let of_all = |score: OfAll| Grid::new(protocol.full_repeats, count, |block| value(score(&results[block])));
    let (latents, channels) = (by_size(|result| &result.latents), by_size(|result| &result.channels));
    let (all_latents, all_channels) = (of_all(|result| &result.all_latents), of_all(|result| &result.all_channels));
    let average = Average { groups, ratio: protocol.shares.ratio(), bounds: (0.0, 1.0) };
    let mut scores = Scores::default();
    let spaces: [(&[Grid], &Grid, &str, BySize, OfAll); 2] = [
        (&latents, &all_latents, "", |result| &result.latents, |result| &result.all_latents),
        (&channels, &all_channels, "channels_", |result| &result.channels, |result| &result.all_channels),
    ];
    for (grids, all, kind, scores_by_size, score_of_all) in spaces {
        for size in [1, 2, 5] {
            let (key, index) = (format!("top_{size}_{kind}accuracy"), sizes.iter().position(|&other| other == size));
            let parts = |task: usize| scores_by_size(&results[task])[index?].as_ref()?.parts.as_ref();
            average.headline_of(&mut scores, &key, index.map(|index| &grids[index]), parts);
            if index.is_none() {
                scores.note(format!("`{key}` is undefined: size {size} is not among `sizes`"));
            }
        }
        let key = if kind.is_empty() { "all_latents_accuracy" } else { "all_channels_accuracy" };
        let parts = |task: usize| score_of_all(&results[task]).as_ref()?.parts.as_ref();
        average.headline_of(&mut scores, key, Some(all), parts);
    }
    add_notes(&mut scores, probing, latents.first())?;
    let selected = |task: usize| results[task].selected.iter().map(|&latent| i64::from(latent)).collect();
    scores.tables.push(
        tasks
            .table()
            .counts("positives", (0..count).map(|task| tasks.positive_count(task)))
            .numbers("accuracy", (0..count).map(|task| latents.first().and_then(|grid| grid.task(task))))
            .with("accuracy_by_size", Grid::lists(&latents, count))
            .with("channels_by_size", Grid::lists(&channels, count))
            .numbers("all_latents", all_latents.tasks())
            .numbers("all_channels", all_channels.tasks())
            .with("latents", Cells::WholeLists((0..count).map(selected).collect())),
    );
    let by_group = |grids: &[Grid]| {
        Cells::NumberLists(groups.iter().map(|group| grids.iter().map(|grid| grid.group(group)).collect()).collect())
    };
    scores.tables.push(
        Table::new("group")
            .words("name", groups.iter().map(|group| group.name.as_str()))
            .counts("tasks", groups.iter().map(|group| group.tasks.len()))
            .with("accuracy_by_size", by_group(&latents))
            .with("channels_by_size", by_group(&channels))
            .numbers("all_latents", groups.iter().map(|group| all_latents.group(group)))
            .numbers("all_channels", groups.iter().map(|group| all_channels.group(group))),
    );
    scores.tables.push(average.table("size", sizes, &[("accuracy", &latents), ("channels", &channels)]));
    Ok(scores)
}

/// Notes what is undefined and why.
fn add_notes(scores: &mut Scores, probing: &Probing<'_, Protocol>, smallest: Option<&Grid>) -> Result<()> {
    let Probing { job, protocol, tasks, .. } = *probing;
    let latents = job.get(&CODES)?.latents();
    note_undefined(scores, tasks.count(), smallest);
    let partly = smallest.map_or(0, |grid| {
        let in_some = |task: &usize| {
            let defined = grid.cells.iter().filter(|row| row[*task].is_some()).count();
            0 < defined && defined < grid.cells.len()
        };
        (0..tasks.count()).filter(in_some).count()
    });
    if partly > 0 {
        scores.note(format!("{partly} concepts are undefined in some repeats only"));
    }
    note_absent(scores, tasks.absent);
    if !job.has(&EMBEDDINGS) {
        scores.note("accuracies on channels are undefined: there are no embeddings");
    }
    if protocol.full_repeats == 0 {
        scores.note("no probes on all latents and all channels: `full_repeats` is 0");
    }
    if let Some(largest) = protocol.sizes.last().filter(|size| **size > latents) {
        scores.note(format!("size {largest} is more than the {latents} latents: those probes use all latents"));
    }
    Ok(())
}
