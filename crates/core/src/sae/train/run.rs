//! Whole trainings: several dictionaries in one pass over a store, with a log, and with states on disk to go on from.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

use serde::Serialize;
use serde_json::{Map, Value, json};

use super::archetypes::SAMPLE;
use super::files::{Files, Index, Stop};
use super::order::{Order, Rows};
use super::{Record, Settings, Step, Trainer};
use crate::budget::Budget;
use crate::error::{Complaint, Error, Result};
use crate::input::Tensors;
use crate::kernel::kmeans::{Wanted, kmeans};
use crate::kernel::random::{permutation, stream};
use crate::progress::{Progress, Watch};
use crate::sae::{Linear, Normalisation, Precision, checkpoint};
use crate::store::ActivationStore;

/// Batches that the unit of the activations is measured on, as in dictionary_learning.
const UNIT_BATCHES: u64 = 101;

/// Rounds of k-means for the candidates of archetypal directions.
const ROUNDS: usize = 10;

/// One dictionary to train.
#[derive(Debug)]
pub struct TrainJob {
    /// How.
    pub settings: Settings,
    /// Weights to start from.
    pub initial: Option<Tensors>,
    /// The directory of the finished dictionary.
    pub out: PathBuf,
}

/// When to stop before the last step.
#[derive(Debug)]
pub struct Early<'a> {
    /// Rows that are not trained on.
    pub held_out: &'a ActivationStore,
    /// Steps between two looks.
    pub every: u64,
    /// Looks in a row without a smaller error after which training stops; the best weights are kept.
    pub patience: u32,
}

/// What all dictionaries of one pass share.
#[derive(Debug)]
pub struct TrainOptions<'a> {
    /// The order of rows.
    pub order: Order,
    /// Rows that are shuffled together.
    pub window: usize,
    /// The seed of the order.
    pub seed: u64,
    /// Steps between two states on disk; 0 for none but the last.
    pub save_every: u64,
    /// Steps between two lines of the log.
    pub log_every: u64,
    /// Steps after which a copy of the dictionary is kept, for the dynamics of training.
    pub snapshots: Vec<u64>,
    /// When to stop before the last step.
    pub early: Option<Early<'a>>,
    /// Stop after so many steps, though schedules go on to the last.
    pub stop_after: Option<u64>,
    /// How the encoder product is searched: no result depends on it, so that it is no part of the recipe.
    pub precision: Precision,
}

impl Default for TrainOptions<'_> {
    fn default() -> Self {
        TrainOptions {
            order: Order::default(),
            window: 1 << 18,
            seed: 0,
            save_every: 1000,
            log_every: 100,
            snapshots: Vec::new(),
            early: None,
            stop_after: None,
            precision: Precision::default(),
        }
    }
}

/// One line of the log.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Line {
    /// Which dictionary.
    pub job: usize,
    /// Steps before this one.
    pub step: u64,
    /// Parts of the loss by name.
    pub terms: Map<String, Value>,
    /// The share of the batch's variance that is reconstructed; none if the batch has no variance.
    pub explained_variance: Option<f64>,
    /// Active latents per row.
    pub l0: f64,
    /// The share of latents that have been silent for too long.
    pub dead: f64,
    /// The learning rate.
    pub rate: f64,
    /// Rows per second since the last line; the only number here that differs from run to run.
    pub rows_per_second: f64,
}

/// Told how a training goes.
pub trait Log {
    /// The training starts, or goes on, before this step: lines from there on will come again.
    fn begin(&mut self, step: u64) -> Result<()>;
    /// A step was done.
    fn line(&mut self, line: &Line) -> Result<()>;
}

/// A finished training.
#[derive(Debug)]
pub struct Trained {
    /// The dictionary, as it was written.
    pub dictionary: Linear,
    /// What inputs were divided by during training.
    pub unit: f32,
    /// The step whose weights they are.
    pub steps: u64,
    /// How the encoder product was searched, in words.
    pub precision: String,
    /// It was there already.
    pub kept: bool,
}

/// The steps of so many epochs.
pub fn steps_of_epochs(rows: usize, batch: usize, epochs: f64) -> u64 {
    (rows as f64 * epochs / batch.max(1) as f64).ceil() as u64
}

/// Trains dictionaries together, on the threads of the caller's pool. Run again after a kill, it goes on and ends with the
/// same bytes.
pub fn train(
    store: &ActivationStore,
    jobs: &[TrainJob],
    options: &TrainOptions<'_>,
    budget: &Budget,
    progress: &dyn Progress,
    log: &mut dyn Log,
    cancel: &AtomicBool,
) -> Result<Vec<Trained>> {
    let Some(first) = jobs.first() else { return Ok(Vec::new()) };
    check(store, jobs)?;
    let recipe = recipe(store, jobs, options)?;
    if let Some(finished) = finished(jobs, &recipe, budget)? {
        return Ok(finished);
    }
    let memory: u64 = jobs.iter().map(|job| Trainer::memory(&job.settings)).sum();
    let _memory = budget.take(memory, format!("the training of {} dictionaries", jobs.len()))?;
    let files = Files::open(&first.out)?;
    let mut pass = Pass::start(store, jobs, options, (&files, &recipe), budget, &Watch { progress, cancel })?;
    log.begin(pass.index.step)?;
    let last = jobs.iter().map(|job| job.settings.steps).max().unwrap_or(0).min(options.stop_after.unwrap_or(u64::MAX));
    progress.start("training", last, "steps");
    progress.advance(pass.index.step);
    while pass.index.step < last && !pass.index.stops.iter().all(|stop| stop.stopped) {
        if cancel.load(Ordering::Relaxed) {
            pass.save(&files)?;
            return Err(Error::Cancelled);
        }
        pass.step(log)?;
        pass.snapshots()?;
        pass.look(&files)?;
        if options.save_every > 0 && pass.index.step.is_multiple_of(options.save_every) && pass.index.step < last {
            pass.save(&files)?;
        }
        progress.advance(1);
    }
    progress.finish();
    let trained = pass.finish(&files, &recipe, budget)?;
    files.finish()?;
    Ok(trained)
}

fn check(store: &ActivationStore, jobs: &[TrainJob]) -> Result<()> {
    if store.rows() == 0 {
        return Err(Complaint::new("there are no rows to train on").into());
    }
    for job in jobs {
        if job.settings.width != store.width() || job.settings.batch != jobs[0].settings.batch {
            return Err(Complaint::new(
                "dictionaries that are trained together must fit the activations and each other",
            )
            .expected(format!("width {} and batch {}", store.width(), jobs[0].settings.batch))
            .found(format!("width {} and batch {}", job.settings.width, job.settings.batch))
            .into());
        }
    }
    Ok(())
}

/// The name of what is trained on what.
fn recipe(store: &ActivationStore, jobs: &[TrainJob], options: &TrainOptions<'_>) -> Result<String> {
    let mut hash = blake3::Hasher::new_derive_key("etalon training v1");
    for job in jobs {
        hash.update(json!(job.settings).to_string().as_bytes());
        for (name, tensor) in job.initial.iter().flatten() {
            hash.update(name.as_bytes()).update(bytemuck::cast_slice(&tensor.values));
        }
    }
    let early = match &options.early {
        Some(early) => json!([early.held_out.id()?, early.every, early.patience]),
        None => Value::Null,
    };
    let rest = json!([store.id()?, options.order, options.window, options.seed, early, options.stop_after]);
    hash.update(rest.to_string().as_bytes());
    Ok(format!("blake3:{}", hash.finalize().to_hex()))
}

/// The dictionaries, if an earlier run has finished all of them.
fn finished(jobs: &[TrainJob], recipe: &str, budget: &Budget) -> Result<Option<Vec<Trained>>> {
    if !jobs.iter().all(|job| job.out.join("sae.json").is_file()) {
        return Ok(None);
    }
    let mut finished = Vec::new();
    for job in jobs {
        let loaded = checkpoint::load(&job.out, budget)?;
        if loaded.about.get("recipe").and_then(Value::as_str) != Some(recipe) {
            return Err(Complaint::new("the output directory holds another dictionary")
                .expected("a new directory, or the result of the same training")
                .advice("choose another --out")
                .file(&job.out)
                .into());
        }
        let number = |name: &str| loaded.about.get(name).and_then(Value::as_f64);
        let (unit, steps) = (number("unit").unwrap_or(1.0) as f32, number("steps").unwrap_or(0.0) as u64);
        let precision = loaded.about.get("precision").and_then(Value::as_str).unwrap_or("f32").to_string();
        finished.push(Trained { dictionary: loaded.dictionary, unit, steps, precision, kept: true });
    }
    Ok(Some(finished))
}

/// A training under way.
struct Pass<'a> {
    jobs: &'a [TrainJob],
    options: &'a TrainOptions<'a>,
    rows: Rows<'a>,
    trainers: Vec<Trainer>,
    index: Index,
    batch: Vec<f32>,
    scaled: Vec<f32>,
    since: (Instant, u64),
}

impl<'a> Pass<'a> {
    fn start(
        store: &'a ActivationStore,
        jobs: &'a [TrainJob],
        options: &'a TrainOptions<'a>,
        (files, recipe): (&Files, &str),
        budget: &Budget,
        watch: &Watch<'_>,
    ) -> Result<Pass<'a>> {
        let mut rows = Rows::new(store, options.order, options.window, options.seed);
        let mut trainers = jobs.iter().map(|job| Trainer::new(job.settings.clone())).collect::<Result<Vec<_>>>()?;
        trainers.iter_mut().for_each(|trainer| trainer.set_precision(options.precision));
        let index = match files.index(recipe)? {
            Some(index) => {
                for (job, trainer) in trainers.iter_mut().enumerate() {
                    trainer.restore(&files.load(job, index.step, false, budget)?)?;
                }
                index
            }
            None => {
                for (job, trainer) in jobs.iter().zip(&mut trainers) {
                    job.initial.iter().try_for_each(|initial| trainer.start_from(initial))?;
                }
                let unit = if jobs.iter().any(|job| job.settings.normalise) {
                    unit(&mut rows, jobs[0].settings.batch, store)?
                } else {
                    1.0
                };
                let units: Vec<f32> = jobs.iter().map(|job| if job.settings.normalise { unit } else { 1.0 }).collect();
                candidates(store, jobs, &mut trainers, &units, watch)?;
                let (stops, records) = (vec![Stop::default(); jobs.len()], vec![Record::default(); jobs.len()]);
                Index { recipe: recipe.into(), step: 0, units, stops, records }
            }
        };
        let since = (Instant::now(), index.step);
        Ok(Pass { jobs, options, rows, trainers, index, batch: Vec::new(), scaled: Vec::new(), since })
    }

    fn runs(&self, job: usize) -> bool {
        !self.index.stops[job].stopped && self.index.step < self.jobs[job].settings.steps
    }

    /// One step of every dictionary on the same rows.
    fn step(&mut self, log: &mut dyn Log) -> Result<()> {
        let (step, size) = (self.index.step, self.jobs[0].settings.batch);
        self.rows.batch(step, size, &mut self.batch)?;
        let every = self.options.log_every.max(1);
        let logged = step.is_multiple_of(every);
        let speed = (step - self.since.1) as f64 * size as f64 / self.since.0.elapsed().as_secs_f64().max(1e-9);
        for job in 0..self.jobs.len() {
            if !self.runs(job) {
                continue;
            }
            let unit = self.index.units[job];
            let rows = if unit == 1.0 && self.jobs[job].settings.input == Normalisation::None {
                &self.batch
            } else {
                prepare(&self.batch, &self.jobs[job].settings, unit, &mut self.scaled);
                &self.scaled
            };
            let done = self.trainers[job].step(rows)?;
            if !done.term("loss").is_some_and(f64::is_finite) {
                return Err(diverged(job, step).into());
            }
            let steps = self.jobs[job].settings.steps;
            let (logged, recorded) = (logged || step + 1 == steps, Record::wants(step, steps));
            if logged || recorded {
                let line = line(job, step, &self.jobs[job].settings, &done, rows, speed);
                if recorded {
                    self.index.records[job].push(&line);
                }
                if logged {
                    log.line(&line)?;
                }
            }
        }
        if logged {
            self.since = (Instant::now(), step + 1);
        }
        self.index.step += 1;
        Ok(())
    }

    /// Copies for the dynamics of training.
    fn snapshots(&self) -> Result<()> {
        let step = self.index.step;
        if !self.options.snapshots.contains(&step) {
            return Ok(());
        }
        for ((job, trainer), &unit) in self.jobs.iter().zip(&self.trainers).zip(&self.index.units) {
            let mut name = job.out.file_name().unwrap_or_default().to_os_string();
            name.push(format!("-step-{step}"));
            self.write(trainer, unit, step, &job.out.with_file_name(name), None)?;
        }
        Ok(())
    }

    /// Looks at held-out rows, if it is time.
    fn look(&mut self, files: &Files) -> Result<()> {
        let Some(early) = &self.options.early else { return Ok(()) };
        if !self.index.step.is_multiple_of(early.every.max(1)) {
            return Ok(());
        }
        for job in 0..self.jobs.len() {
            if self.index.stops[job].stopped || self.trainers[job].steps() < self.index.step {
                continue;
            }
            let error = self.held_out_error(job, early)?;
            let stop = &mut self.index.stops[job];
            if stop.best.is_none_or(|(best, _)| error < best) {
                (stop.best, stop.misses) = (Some((error, self.index.step)), 0);
                files.save(job, self.index.step, true, &self.trainers[job].to_tensors())?;
            } else {
                stop.misses += 1;
                stop.stopped = stop.misses >= early.patience;
            }
        }
        Ok(())
    }

    fn held_out_error(&mut self, job: usize, early: &Early<'_>) -> Result<f64> {
        let (rows, size) = (early.held_out.rows(), self.jobs[job].settings.batch);
        let (mut sum, mut scaled) = (0.0, Vec::new());
        for first in (0..rows).step_by(size) {
            let tile = early.held_out.tile(first..(first + size).min(rows))?;
            prepare(&tile.values, &self.jobs[job].settings, self.index.units[job], &mut scaled);
            sum += self.trainers[job].error_on(&scaled)? * tile.rows() as f64;
        }
        Ok(sum / rows.max(1) as f64)
    }

    fn save(&self, files: &Files) -> Result<()> {
        for (job, trainer) in self.trainers.iter().enumerate() {
            files.save(job, self.index.step, false, &trainer.to_tensors())?;
        }
        files.commit(&self.index)
    }

    /// Writes a dictionary; a finished one says by which recipe it was made, and how that went.
    fn write(
        &self,
        trainer: &Trainer,
        unit: f32,
        step: u64,
        out: &Path,
        finished: Option<(&str, &Record)>,
    ) -> Result<Linear> {
        let dictionary = trainer.finish(unit)?;
        let mut about = Map::new();
        about.insert("training".into(), json!(trainer.settings()));
        about.insert("order".into(), json!(self.options.order));
        about.insert("steps".into(), step.into());
        about.insert("unit".into(), unit.into());
        about.insert("precision".into(), trainer.precision().into());
        if let Some((recipe, record)) = finished {
            about.insert("recipe".into(), recipe.into());
            record.keep(&mut about);
        }
        checkpoint::save(&dictionary, &about, "etalon", out)?;
        Ok(dictionary)
    }

    /// Writes every dictionary: the best weights where training looked for them, else the last.
    fn finish(mut self, files: &Files, recipe: &str, budget: &Budget) -> Result<Vec<Trained>> {
        // A kill while the outputs are written must find the last state.
        self.save(files)?;
        let mut trained = Vec::new();
        for (job, wanted) in self.jobs.iter().enumerate() {
            if let Some((_, step)) = self.index.stops[job].best {
                let best = files.load(job, step, true, budget)?;
                self.trainers[job].restore(&best)?;
            }
            let (trainer, unit) = (&self.trainers[job], self.index.units[job]);
            let steps = trainer.steps();
            let finished = Some((recipe, &self.index.records[job]));
            let dictionary = self.write(trainer, unit, steps, &wanted.out, finished)?;
            let precision = self.trainers[job].precision().to_string();
            trained.push(Trained { dictionary, unit, steps, precision, kept: false });
        }
        Ok(trained)
    }
}

/// Rows as a training wants them: in its unit, or normalised by themselves.
fn prepare(rows: &[f32], settings: &Settings, unit: f32, into: &mut Vec<f32>) {
    into.clear();
    into.extend(rows.iter().map(|value| value / unit));
    if settings.input != Normalisation::None {
        for (row, into) in rows.chunks_exact(settings.width).zip(into.chunks_exact_mut(settings.width)) {
            settings.input.of(row).apply(row, into);
        }
    }
}

/// The root of the mean squared length of rows.
fn unit(rows: &mut Rows<'_>, batch: usize, store: &ActivationStore) -> Result<f32> {
    let most = UNIT_BATCHES.min((store.rows() as u64).div_ceil(batch as u64));
    let (mut sum, mut count, mut values) = (0.0f64, 0usize, Vec::new());
    for step in 0..most {
        rows.batch(step, batch, &mut values)?;
        sum += values.iter().map(|&value| f64::from(value).powi(2)).sum::<f64>();
        count += values.len() / store.width();
    }
    let unit = (sum / count.max(1) as f64).sqrt() as f32;
    Ok(if unit > 0.0 && unit.is_finite() { unit } else { 1.0 })
}

/// Finds the candidates of archetypal directions in a sample of the rows; dictionaries that want the same share them.
fn candidates(
    store: &ActivationStore,
    jobs: &[TrainJob],
    trainers: &mut [Trainer],
    units: &[f32],
    watch: &Watch<'_>,
) -> Result<()> {
    let (mut keys, mut found) = (Vec::new(), Vec::<Vec<f32>>::new());
    for ((job, trainer), &unit) in jobs.iter().zip(trainers).zip(units) {
        let Some(count) = trainer.wants_candidates() else { continue };
        let key = (count, job.settings.seed, unit, job.settings.input);
        let place = match keys.iter().position(|other| *other == key) {
            Some(place) => place,
            None => {
                let most = SAMPLE.0.saturating_mul(count).max(SAMPLE.1);
                let mut random = stream(job.settings.seed, "candidate rows", 0);
                let mut rows = permutation(store.rows(), &mut random);
                rows.truncate(most);
                rows.sort_unstable();
                let mut sample = Vec::with_capacity(rows.len() * store.width());
                let mut prepared = Vec::new();
                for row in rows {
                    prepare(&store.tile(row..row + 1)?.values, &job.settings, unit, &mut prepared);
                    sample.extend_from_slice(&prepared);
                }
                keys.push(key);
                let wanted = Wanted { centres: count, iterations: ROUNDS, seed: job.settings.seed };
                found.push(kmeans(&sample, store.width(), &wanted, watch)?);
                found.len() - 1
            }
        };
        trainer.give_candidates(&found[place])?;
    }
    Ok(())
}

fn diverged(job: usize, step: u64) -> Complaint {
    Complaint::new("the training diverged: its loss is not a finite number")
        .at(format!("step {step} of dictionary {job}"))
        .advice("use a smaller --lr, a longer --warmup or --clip 1")
}

fn line(job: usize, step: u64, settings: &Settings, done: &Step, rows: &[f32], speed: f64) -> Line {
    let width = settings.width;
    let count = (rows.len() / width).max(1) as f64;
    let mut mean = vec![0.0f64; width];
    let mut squares = 0.0;
    for row in rows.chunks_exact(width) {
        mean.iter_mut().zip(row).for_each(|(mean, &value)| *mean += f64::from(value) / count);
        squares += row.iter().map(|&value| f64::from(value).powi(2)).sum::<f64>() / count;
    }
    let variance = squares - mean.iter().map(|mean| mean * mean).sum::<f64>();
    Line {
        job,
        step,
        terms: done.terms.iter().map(|&(name, value)| (name.to_string(), json!(value))).collect(),
        explained_variance: (variance > 0.0).then(|| 1.0 - done.squared_error / variance),
        l0: done.l0,
        dead: done.dead as f64 / settings.latents as f64,
        rate: settings.rate_at(step),
        rows_per_second: speed,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kernel::random::unit as uniform;
    use crate::progress::Silent;
    use crate::sae::arch;
    use crate::sae::train::Preset;

    struct Lines(Vec<Line>, Option<u64>, AtomicBool);

    impl Log for Lines {
        fn begin(&mut self, step: u64) -> Result<()> {
            self.0.retain(|line| line.step < step);
            Ok(())
        }

        fn line(&mut self, line: &Line) -> Result<()> {
            self.0.push(Line { rows_per_second: 0.0, ..line.clone() });
            if Some(line.step) == self.1 {
                self.2.store(true, Ordering::Relaxed);
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
            let settings = Settings { k: 3, batch: 32, steps, warmup: 2, normalise, rate: 0.01, ..settings };
            TrainJob { settings, initial: None, out: directory.join(name) }
        };
        vec![job("topk", 40), job("batch_topk", 25), job("relu", 40), job("ra_topk", 40), job("mp", 20)]
    }

    fn options<'a>() -> TrainOptions<'a> {
        TrainOptions { save_every: 7, log_every: 5, snapshots: vec![10], ..TrainOptions::default() }
    }

    fn go(
        store: &ActivationStore,
        directory: &Path,
        options: &TrainOptions<'_>,
        lines: &mut Lines,
    ) -> Result<Vec<Trained>> {
        let (budget, cancel) = (Budget::new(1 << 30), AtomicBool::new(false));
        train(store, &jobs(directory, true), options, &budget, &Silent, lines, &cancel)
    }

    #[test]
    fn a_killed_training_ends_with_the_same_bytes() {
        let (store, whole, parts) = (world(300), tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let mut log = Lines(Vec::new(), None, AtomicBool::new(false));
        let trained = go(&store, whole.path(), &options(), &mut log).unwrap();
        assert_eq!(trained.iter().map(|one| one.steps).collect::<Vec<_>>(), [40, 25, 40, 40, 20]);
        assert!(trained[0].unit > 1.0 && !trained[0].kept);
        let mut again = Lines(Vec::new(), Some(15), AtomicBool::new(false));
        assert!(go(&store, parts.path(), &options(), &mut again).is_err());
        again.1 = Some(30);
        assert!(go(&store, parts.path(), &options(), &mut again).is_err());
        again.1 = None;
        go(&store, parts.path(), &options(), &mut again).unwrap();
        assert_eq!(log.0, again.0);
        for name in ["topk", "batch_topk", "relu", "ra_topk", "mp", "topk-step-10", "ra_topk-step-10"] {
            for file in ["weights.safetensors", "sae.json"] {
                let read = |base: &Path| std::fs::read(base.join(name).join(file)).unwrap();
                assert!(read(whole.path()) == read(parts.path()), "{name}/{file}");
            }
        }
        assert!(!parts.path().join("topk.training").exists());
        // Run again, it is done; with other options it is another training.
        assert!(go(&store, parts.path(), &options(), &mut again).unwrap()[0].kept);
        let other = TrainOptions { seed: 1, ..options() };
        assert!(go(&store, parts.path(), &other, &mut again).unwrap_err().to_string().contains("another dictionary"));
    }

    #[test]
    fn rows_are_standardised_where_the_preset_says_so() {
        use crate::codes::CodesBuilder;
        use crate::sae::Dictionary;

        let (store, directory) = (world(200), tempfile::tempdir().unwrap());
        let job = |name: &str| {
            let settings = arch::find(name).unwrap().settings(Preset::SaeConceptEval, 12, 63);
            let settings = Settings { k: 4, batch: 50, steps: 200, rate: 0.003, ..settings };
            TrainJob { settings, initial: None, out: directory.path().join(name) }
        };
        let jobs = ["topk", "matryoshka", "jumprelu", "ra_topk", "mp"].map(job);
        let mut log = Lines(Vec::new(), None, AtomicBool::new(false));
        let (budget, cancel) = (Budget::new(1 << 30), AtomicBool::new(false));
        let options = TrainOptions { log_every: 1, ..TrainOptions::default() };
        let trained = train(&store, &jobs, &options, &budget, &Silent, &mut log, &cancel).unwrap();
        let tile = store.tile(0..200).unwrap();
        for (job, trained) in jobs.iter().zip(trained) {
            let dictionary = trained.dictionary;
            assert_eq!(dictionary.input(), Normalisation::LayerNorm);
            let mut codes = CodesBuilder::new(63);
            dictionary.encode(&tile, &mut codes).unwrap();
            let mut back = vec![0.0; 200 * 12];
            dictionary.decode(&codes.finish().all().unwrap(), Some(&tile), &mut back).unwrap();
            let squares = |f: &dyn Fn(usize) -> f32| (0..back.len()).map(|i| f64::from(f(i)).powi(2)).sum::<f64>();
            let error = squares(&|i| back[i] - tile.values[i]);
            // Every row had the deviation of uniform numbers, √(1/12); all but its mean has to be reconstructed.
            assert!(error < 0.8 * squares(&|i| tile.values[i] - 0.5), "{}: {error}", job.settings.arch);
        }
        let twice = TrainJob { settings: Settings { normalise: true, ..job("topk").settings }, ..job("topk") };
        let error = train(&store, &[twice], &options, &budget, &Silent, &mut log, &cancel).unwrap_err().to_string();
        assert!(error.contains("normalised twice") || error.contains("another dictionary"), "{error}");
    }

    #[test]
    fn early_stopping_keeps_the_best_weights() {
        let (store, held_out, directory) = (world(64), world(40), tempfile::tempdir().unwrap());
        let early = Some(Early { held_out: &held_out, every: 2, patience: 2 });
        let options = TrainOptions { early, ..options() };
        let mut log = Lines(Vec::new(), None, AtomicBool::new(false));
        let mut wild = jobs(directory.path(), false).remove(0);
        // So large a rate that errors soon grow.
        wild.settings = Settings { rate: 2.0, steps: 400, ..wild.settings };
        let (budget, cancel) = (Budget::new(1 << 30), AtomicBool::new(false));
        let trained = train(&store, &[wild], &options, &budget, &Silent, &mut log, &cancel).unwrap();
        assert!(trained[0].steps < 400, "{}", trained[0].steps);
        assert!(trained[0].steps.is_multiple_of(2));
    }

    #[test]
    fn what_does_not_fit_is_refused() {
        let directory = tempfile::tempdir().unwrap();
        let mut log = Lines(Vec::new(), None, AtomicBool::new(false));
        let narrow = ActivationStore::from_rows(vec![0.0; 30], 3).unwrap();
        assert!(go(&narrow, directory.path(), &options(), &mut log).is_err());
        let none = ActivationStore::from_rows(Vec::new(), 12).unwrap();
        assert!(go(&none, directory.path(), &options(), &mut log).is_err());
        assert_eq!(steps_of_epochs(100, 30, 1.5), 5);
    }
}
