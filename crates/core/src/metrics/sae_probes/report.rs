//! The scores of SAE probes: averages over tasks and repeats.

use etalon_kernel::statistics::mean;

use super::Protocol;
use super::task::{Quality, TaskQuality};
use crate::metrics::probing::Probing;
use crate::metrics::probing::summary::{Average, Grid, note_undefined};
use crate::metrics::probing::tasks::note_absent;
use crate::metrics::probing::test_rows::TestScore;
use crate::results::Scores;
use crate::run::EMBEDDINGS;

/// Sizes with a headline number. The first is that of the other headline scores.
const HEADLINES: [usize; 4] = [20, 1, 5, 100];

/// A score of a probe.
type Score = fn(&Quality) -> &Option<TestScore>;

const AUC: Score = |quality| &quality.auc;
const F1: Score = |quality| &quality.f1;
const ACCURACY: Score = |quality| &quality.accuracy;

/// Computes the scores from one result per block.
pub fn report(probing: &Probing<'_, Protocol>, results: &[Option<TaskQuality>]) -> Scores {
    let Probing { job, protocol, tasks, .. } = *probing;
    let (sizes, count) = (&protocol.sizes, tasks.count());
    let grid = |repeats: usize, value: &dyn Fn(&TaskQuality) -> Option<f64>| {
        Grid::new(repeats, count, |block| results[block].as_ref().and_then(value))
    };
    let by_size = |value: &dyn Fn(&Quality) -> Option<f64>| -> Vec<Grid> {
        (0..sizes.len()).map(|size| grid(protocol.repeats, &|result| value(&result.by_size[size]))).collect()
    };
    let value = |score: &Option<TestScore>| score.as_ref().map(|score| score.value);
    let channels = |score: Score| grid(protocol.full_repeats, &|result| value(score(&result.channels)));
    let [auc, f1, accuracy] = [AUC, F1, ACCURACY].map(|score| by_size(&|quality| value(score(quality))));
    let channels_auc = channels(AUC);
    let ratios: Vec<f64> =
        results.iter().flatten().map(|result| result.tested as f64 / result.trained as f64).collect();
    let ratio = mean(&ratios).unwrap_or(0.0);
    let average = Average { groups: tasks.groups(), ratio, bounds: (0.0, 1.0) };
    let mut scores = Scores::default();
    let index_of = |size: usize| sizes.iter().position(|&other| other == size);
    let headlines = HEADLINES
        .map(|size| (size, format!("probes_{size}_auc"), &auc, AUC))
        .into_iter()
        .chain([(20, "probes_20_f1".into(), &f1, F1), (20, "probes_20_accuracy".into(), &accuracy, ACCURACY)]);
    for (size, key, grids, score) in headlines {
        let index = index_of(size);
        let parts = |task: usize| score(&results[task].as_ref()?.by_size[index?]).as_ref()?.parts.as_ref();
        average.headline_of(&mut scores, &key, index.map(|index| &grids[index]), parts);
    }
    let parts = |task: usize| AUC(&results[task].as_ref()?.channels).as_ref()?.parts.as_ref();
    average.headline_of(&mut scores, "probes_channels_auc", Some(&channels_auc), parts);
    if HEADLINES.iter().any(|size| !sizes.contains(size)) {
        scores.note("some headline numbers are undefined: 1, 5, 20 or 100 is not among `sizes`");
    }
    note_undefined(&mut scores, count, auc.first());
    note_absent(&mut scores, tasks.absent);
    if !job.has(&EMBEDDINGS) || protocol.full_repeats == 0 {
        scores.note("probes on channels are undefined: there are no embeddings, or `full_repeats` is 0");
    }
    let at_twenty = index_of(20).map_or_else(|| vec![None; count], |index| auc[index].tasks());
    let rows = |value: fn(&TaskQuality) -> usize| grid(protocol.repeats, &|result| Some(value(result) as f64)).tasks();
    scores.tables.push(
        tasks
            .table()
            .numbers("rows_trained", rows(|result| result.trained))
            .numbers("rows_tested", rows(|result| result.tested))
            .numbers("probes_20_auc", at_twenty)
            .numbers("auc", (0..count).map(|task| auc.first().and_then(|grid| grid.task(task))))
            .with("auc_by_size", Grid::lists(&auc, count))
            .with("f1_by_size", Grid::lists(&f1, count))
            .with("accuracy_by_size", Grid::lists(&accuracy, count))
            .with("held_back_auc_by_size", Grid::lists(&by_size(&|quality| quality.held_out_auc), count))
            .with("c_by_size", Grid::lists(&by_size(&|quality| quality.c), count))
            .numbers("channels_auc", channels_auc.tasks())
            .numbers("channels_f1", channels(F1).tasks())
            .numbers("channels_accuracy", channels(ACCURACY).tasks()),
    );
    scores.tables.push(average.table("size", sizes, &[("auc", &auc), ("f1", &f1), ("accuracy", &accuracy)]));
    scores
}
