//! The scores of SAE probes: averages over tasks and repeats.

use etalon_kernel::statistics::mean;

use super::task::{Probing, Quality, TaskResult};
use crate::metrics::probing::summary::{Average, Grid, note_undefined};
use crate::metrics::probing::tasks::note_absent;
use crate::results::Scores;
use crate::run::EMBEDDINGS;

/// Sizes with a headline number.
const HEADLINES: [usize; 4] = [1, 5, 20, 100];

/// Computes the scores from one result per block.
pub fn report(probing: &Probing<'_>, results: &[Option<TaskResult>]) -> Scores {
    let Probing { job, protocol, tasks, .. } = *probing;
    let (sizes, count) = (&protocol.sizes, tasks.count());
    let grid = |repeats: usize, value: &dyn Fn(&TaskResult) -> Option<f64>| {
        Grid::new(repeats, count, |block| results[block].as_ref().and_then(value))
    };
    let by_size = |value: fn(&Quality) -> Option<f64>| -> Vec<Grid> {
        (0..sizes.len()).map(|size| grid(protocol.repeats, &|result| value(&result.by_size[size]))).collect()
    };
    let channels = |value: fn(&Quality) -> Option<f64>| grid(protocol.full_repeats, &|result| value(&result.channels));
    let (auc, f1, accuracy) =
        (by_size(|quality| quality.auc), by_size(|quality| quality.f1), by_size(|quality| quality.accuracy));
    let channels_auc = channels(|quality| quality.auc);
    let ratios: Vec<f64> =
        results.iter().flatten().map(|result| result.tested as f64 / result.trained as f64).collect();
    let ratio = mean(&ratios).unwrap_or(0.0);
    let average = Average { groups: tasks.groups(), ratio, bounds: (0.0, 1.0), seed: job.seed };
    let mut scores = Scores::default();
    let index_of = |size: usize| sizes.iter().position(|&other| other == size);
    for size in HEADLINES {
        let grid = index_of(size).map(|index| &auc[index]);
        average.headline(&mut scores, &format!("probes_{size}_auc"), grid);
    }
    average.headline(&mut scores, "probes_20_f1", index_of(20).map(|index| &f1[index]));
    average.headline(&mut scores, "probes_20_accuracy", index_of(20).map(|index| &accuracy[index]));
    average.headline(&mut scores, "probes_channels_auc", Some(&channels_auc));
    if HEADLINES.iter().any(|size| !sizes.contains(size)) {
        scores.note("some headline numbers are undefined: 1, 5, 20 or 100 is not among `sizes`");
    }
    note_undefined(&mut scores, count, auc.first());
    note_absent(&mut scores, tasks.absent);
    if !job.has(&EMBEDDINGS) || protocol.full_repeats == 0 {
        scores.note("probes on channels are undefined: there are no embeddings, or `full_repeats` is 0");
    }
    let rows = |value: fn(&TaskResult) -> usize| grid(protocol.repeats, &|result| Some(value(result) as f64)).tasks();
    scores.tables.push(
        tasks
            .table()
            .numbers("rows_trained", rows(|result| result.trained))
            .numbers("rows_tested", rows(|result| result.tested))
            .numbers("auc", (0..count).map(|task| auc.first().and_then(|grid| grid.task(task))))
            .with("auc_by_size", Grid::lists(&auc, count))
            .with("f1_by_size", Grid::lists(&f1, count))
            .with("accuracy_by_size", Grid::lists(&accuracy, count))
            .with("held_back_auc_by_size", Grid::lists(&by_size(|quality| quality.held_out_auc), count))
            .with("c_by_size", Grid::lists(&by_size(|quality| quality.c), count))
            .numbers("channels_auc", channels_auc.tasks())
            .numbers("channels_f1", channels(|quality| quality.f1).tasks())
            .numbers("channels_accuracy", channels(|quality| quality.accuracy).tasks()),
    );
    scores.tables.push(average.table("size", sizes, &[("auc", &auc), ("f1", &f1), ("accuracy", &accuracy)]));
    scores
}
