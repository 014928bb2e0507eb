//! Training runs: interruption, standardised rows, early stopping, refused settings.

use std::time::Duration;

use super::*;
use crate::sae::arch;
use crate::sae::preset::Preset;
use crate::sae::train::numbers::Numbers;
use crate::sae::train::{TrainingSettings, steps_of_epochs};
use etalon_kernel::random::{stream, unit as uniform};

struct Lines(Vec<Line>, Option<u64>);

impl Log for Lines {
    fn begin(&mut self, step: u64) -> Result<()> {
        self.0.retain(|line| line.step < step);
        Ok(())
    }

    fn line(&mut self, line: &Line) -> Result<()> {
        self.0.push(Line { rows_per_second: 0.0, network: None, ..line.clone() });
        if Some(line.step) == self.1 {
            return Err(Error::Bug("killed".into()));
        }
        Ok(())
    }
}

fn world(rows: usize) -> ActivationStore {
    let mut random = stream(5, "run test", 0);
    ActivationStore::from_rows((0..rows * 12).map(|_| uniform(&mut random) as f32).collect(), 12).unwrap()
}

fn jobs(directory: &Path, normalise: bool) -> Vec<TrainJob> {
    let job = |name: &str, steps: u64| {
        let settings = arch::find(name).unwrap().settings(Preset::Etalon, 12, 40);
        let settings = TrainingSettings { k: 3, batch: 32, steps, warmup: 2, normalise, rate: 0.01, ..settings };
        // The state of the controller is part of the saved state.
        let control = ["relu", "jumprelu", "gated"].contains(&name).then_some(5.0);
        let settings = TrainingSettings { control, ..settings };
        TrainJob { settings, initial: None, out: directory.join(name) }
    };
    let names = ["topk", "batch_topk", "relu", "ra_topk", "mp", "jumprelu", "gated"];
    names.into_iter().zip([40, 25, 40, 40, 20, 40, 40]).map(|(name, steps)| job(name, steps)).collect()
}

fn options<'a>() -> TrainOptions<'a> {
    TrainOptions { save_every: Duration::ZERO, log_every: 5, snapshots: vec![10], ..TrainOptions::default() }
}

fn run_training(
    store: &ActivationStore,
    directory: &Path,
    options: &TrainOptions<'_>,
    lines: &mut Lines,
) -> Result<Vec<Trained>> {
    let context = Context::silent(2, 1 << 30).unwrap();
    train(store, &jobs(directory, true), options, lines, &context)
}

#[test]
fn an_interrupted_training_ends_with_the_same_bytes() {
    let (store, whole, parts) = (world(300), tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let mut log = Lines(Vec::new(), None);
    let trained = run_training(&store, whole.path(), &options(), &mut log).unwrap();
    assert_eq!(trained.iter().map(|one| one.steps).collect::<Vec<_>>(), [40, 25, 40, 40, 20, 40, 40]);
    assert!(trained[0].unit > 1.0 && !trained[0].kept);
    let mut again = Lines(Vec::new(), Some(15));
    assert!(run_training(&store, parts.path(), &options(), &mut again).is_err());
    again.1 = Some(30);
    assert!(run_training(&store, parts.path(), &options(), &mut again).is_err());
    again.1 = None;
    run_training(&store, parts.path(), &options(), &mut again).unwrap();
    assert_eq!(log.0, again.0);
    let snapshots = ["topk-step-10", "ra_topk-step-10", "batch_topk-step-10"];
    for name in ["topk", "batch_topk", "relu", "ra_topk", "mp", "jumprelu", "gated"].into_iter().chain(snapshots) {
        for file in ["weights.safetensors", "sae.json"] {
            let read = |base: &Path| std::fs::read(base.join(name).join(file)).unwrap();
            assert!(read(whole.path()) == read(parts.path()), "{name}/{file}");
        }
    }
    assert!(!parts.path().join("topk.training").exists());
    // A second call finds the finished result; other options are another training.
    assert!(run_training(&store, parts.path(), &options(), &mut again).unwrap()[0].kept);
    let other = TrainOptions { seed: 1, ..options() };
    assert!(
        run_training(&store, parts.path(), &other, &mut again).unwrap_err().to_string().contains("another dictionary")
    );
}

#[test]
fn presets_standardise_rows() {
    use crate::codes::CodesBuilder;

    let (store, directory) = (world(200), tempfile::tempdir().unwrap());
    let job = |name: &str| {
        let settings = arch::find(name).unwrap().settings(Preset::SaeConceptEval, 12, 63);
        let settings = TrainingSettings { k: 4, batch: 50, steps: 200, rate: 0.003, ..settings };
        TrainJob { settings, initial: None, out: directory.path().join(name) }
    };
    let jobs = ["topk", "matryoshka", "jumprelu", "ra_topk", "mp"].map(job);
    let mut log = Lines(Vec::new(), None);
    let context = Context::silent(2, 1 << 30).unwrap();
    let options = TrainOptions { log_every: 1, ..TrainOptions::default() };
    let trained = train(&store, &jobs, &options, &mut log, &context).unwrap();
    let tile = store.tile(0..200).unwrap();
    for (job, trained) in jobs.iter().zip(trained) {
        let dictionary = trained.dictionary;
        assert_eq!(dictionary.downcast_ref::<Linear>().unwrap().input(), Normalisation::LayerNorm);
        let mut codes = CodesBuilder::new(63);
        dictionary.encode(&tile, &mut codes).unwrap();
        let mut back = vec![0.0; 200 * 12];
        dictionary.decode(&codes.finish().all().unwrap(), Some(&tile), &mut back).unwrap();
        let squares = |f: &dyn Fn(usize) -> f32| (0..back.len()).map(|i| f64::from(f(i)).powi(2)).sum::<f64>();
        let error = squares(&|i| back[i] - tile.values[i]);
        // Rows are uniform with standard deviation √(1/12); decoding restores the mean of each row.
        assert!(error < 0.8 * squares(&|i| tile.values[i] - 0.5), "{}: {error}", job.settings.arch);
    }
    let twice = TrainJob { settings: TrainingSettings { normalise: true, ..job("topk").settings }, ..job("topk") };
    let error = train(&store, &[twice], &options, &mut log, &context).unwrap_err().to_string();
    assert!(error.contains("normalised twice") || error.contains("another dictionary"), "{error}");
}

#[test]
fn early_stopping_keeps_the_best_weights() {
    let (store, held_out, directory) = (world(64), world(40), tempfile::tempdir().unwrap());
    let early = Some(Early { held_out: &held_out, every: 2, patience: 2 });
    let options = TrainOptions { early, ..options() };
    let mut log = Lines(Vec::new(), None);
    let mut wild = jobs(directory.path(), false).remove(0);
    // The rate is so large that errors soon grow.
    wild.settings = TrainingSettings { rate: 2.0, steps: 400, ..wild.settings };
    let context = Context::silent(2, 1 << 30).unwrap();
    let trained = train(&store, &[wild], &options, &mut log, &context).unwrap();
    assert!(trained[0].steps < 400, "{}", trained[0].steps);
    assert!(trained[0].steps.is_multiple_of(2));
}

#[test]
fn invalid_stores_are_refused() {
    let directory = tempfile::tempdir().unwrap();
    let mut log = Lines(Vec::new(), None);
    let narrow = ActivationStore::from_rows(vec![0.0; 30], 3).unwrap();
    assert!(run_training(&narrow, directory.path(), &options(), &mut log).is_err());
    let none = ActivationStore::from_rows(Vec::new(), 12).unwrap();
    assert!(run_training(&none, directory.path(), &options(), &mut log).is_err());
    assert_eq!(steps_of_epochs(100, 30, 1.5), 5);
}

fn run_stream(
    rows: usize,
    jobs: &[TrainJob],
    options: &TrainOptions<'_>,
    lines: &mut Lines,
    threads: usize,
) -> Result<Vec<Trained>> {
    let context = Context::silent(threads, 1 << 30).unwrap();
    let mut stream = Numbers::new(rows, 12, 24);
    context.install(|| train_stream(&mut stream, 200, jobs, options, lines, &context))
}

#[test]
fn an_interrupted_stream_ends_with_the_same_bytes() {
    // An input that fits into the buffer, and one that does not.
    for rows in [150, 700] {
        let (whole, parts) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let mut log = Lines(Vec::new(), None);
        let trained = run_stream(rows, &jobs(whole.path(), true), &options(), &mut log, 1).unwrap();
        let held_out = if rows == 150 { 15 } else { 20 };
        assert_eq!(trained[1].threshold, Some(ThresholdRows { rows: held_out, held_out: true }));
        assert!(trained[0].unit > 1.0);
        let mut again = Lines(Vec::new(), Some(5));
        for stop in [5, 15, 30] {
            again.1 = Some(stop);
            assert!(run_stream(rows, &jobs(parts.path(), true), &options(), &mut again, 2).is_err());
            assert!(parts.path().join("topk.training/held-out.safetensors").exists());
        }
        again.1 = None;
        run_stream(rows, &jobs(parts.path(), true), &options(), &mut again, 7).unwrap();
        assert_eq!(log.0, again.0);
        for name in ["topk", "batch_topk", "relu", "ra_topk", "mp", "jumprelu", "gated", "batch_topk-step-10"] {
            for file in ["weights.safetensors", "sae.json"] {
                let read = |base: &Path| std::fs::read(base.join(name).join(file)).unwrap();
                assert!(read(whole.path()) == read(parts.path()), "{name}/{file}");
            }
        }
        assert!(!parts.path().join("topk.training").exists());
        // Alone as together.
        let alone = tempfile::tempdir().unwrap();
        for index in [0, 1, 5] {
            let job = jobs(alone.path(), true).remove(index);
            let name = job.settings.arch.clone();
            run_stream(rows, &[job], &options(), &mut Lines(Vec::new(), None), 2).unwrap();
            let read = |base: &Path| std::fs::read(base.join(&name).join("weights.safetensors")).unwrap();
            assert!(read(whole.path()) == read(alone.path()), "{name}");
        }
        assert!(run_stream(rows, &jobs(parts.path(), true), &options(), &mut again, 2).unwrap()[0].kept);
    }
}

#[test]
fn streams_that_do_not_fit_are_refused() {
    let directory = tempfile::tempdir().unwrap();
    let mut large = jobs(directory.path(), false).remove(0);
    large.settings.batch = 201;
    let mut log = Lines(Vec::new(), None);
    let error = run_stream(700, &[large], &options(), &mut log, 1).unwrap_err().to_string();
    assert!(error.contains("`buffer`") && error.contains("at least 201 rows"), "{error}");
    let error = run_stream(0, &jobs(directory.path(), false), &options(), &mut log, 1).unwrap_err().to_string();
    assert!(error.contains("no rows"), "{error}");
    assert_eq!(std::fs::read_dir(directory.path()).unwrap().count(), 0);
}
