//! Trains several dictionaries in one pass over a store or a stream, with a log, and with saved states to resume from.

mod rows;
mod store_rows;
mod stream_rows;
#[cfg(test)]
mod tests;

use std::path::Path;
use std::time::Instant;

use serde_json::{Map, json};

use super::aside::{Aside, ThresholdRows};
use super::files::{Files, Index, Stop};
use super::input_scale::{InputScale, prepare};
use super::job::{Early, TrainJob, TrainOptions, Trained, check, check_outputs, finished, recipe, stream_recipe};
use super::log::{Line, Log, NetworkSpeed};
use super::record::Record;
use super::row_stream::RowStream;
use super::trainer::Trainer;
use crate::context::{Budget, Context, Monitor, Reservation};
use crate::error::{Error, InputError, Key, Result};
use crate::sae::checkpoint;
use crate::sae::linear::Linear;
use crate::sae::normalise::Normalisation;
use crate::store::ActivationStore;
use rows::TrainingRows;
use store_rows::StoreRows;
use stream_rows::StreamRows;

/// Trains dictionaries together, on the threads of the caller's pool. Called again after an interruption, it resumes
/// and writes the same bytes.
///
/// A dictionary that sets aside rows for its threshold ([`TrainingSettings::set_aside`](super::TrainingSettings)) is trained
/// on the others; so every dictionary is the same as if it were trained alone.
pub fn train(
    store: &ActivationStore,
    jobs: &[TrainJob],
    options: &TrainOptions<'_>,
    log: &mut dyn Log,
    context: &Context,
) -> Result<Vec<Trained>> {
    if store.rows() == 0 {
        return Err(InputError::new("there are no rows to train on").into());
    }
    check(store.width(), jobs)?;
    let aside = Aside::draw(store.rows(), options.seed);
    let recipe = recipe(store, &aside, jobs, options)?;
    let open = |_: &Files, _: Option<&Index>| -> Result<Box<dyn TrainingRows + '_>> {
        Ok(Box::new(StoreRows::new((store, &aside), jobs, options, context.budget())?))
    };
    train_rows(open, &recipe, jobs, options, log, context)
}

/// Trains dictionaries as [`train`] does, on the rows of a stream, which wait in a shuffle buffer for `buffer` rows. Passes
/// over the stream are repeated until the last step.
///
/// One row in ten of the first filled buffer, at most 8,192, is held out: no dictionary is trained on them, and thresholds are
/// set on them. The mean and the scale of rows are those of the others.
pub fn train_stream(
    stream: &mut dyn RowStream,
    buffer: usize,
    jobs: &[TrainJob],
    options: &TrainOptions<'_>,
    log: &mut dyn Log,
    context: &Context,
) -> Result<Vec<Trained>> {
    check(stream.width(), jobs)?;
    let batch = jobs.first().map_or(1, |job| job.settings.batch);
    if buffer < batch {
        return Err(InputError::new(format!("{} must not be smaller than a batch", Key("buffer")))
            .expected(format!("at least {batch} rows"))
            .found(buffer)
            .into());
    }
    if options.early.is_some() {
        return Err(Error::Bug("early stopping of a stream".into()));
    }
    let recipe = stream_recipe(stream.id(), buffer, jobs, options);
    train_rows(
        |files, index| Ok(Box::new(StreamRows::open((stream, buffer), jobs, options.seed, (files, index), context)?)),
        &recipe,
        jobs,
        options,
        log,
        context,
    )
}

/// Trains dictionaries on rows that `open` opens, after the files of an interrupted training.
fn train_rows<'a>(
    open: impl FnOnce(&Files, Option<&Index>) -> Result<Box<dyn TrainingRows + 'a>>,
    recipe: &str,
    jobs: &'a [TrainJob],
    options: &'a TrainOptions<'a>,
    log: &mut dyn Log,
    context: &'a Context,
) -> Result<Vec<Trained>> {
    let Some(first) = jobs.first() else { return Ok(Vec::new()) };
    if let Some(finished) = finished(jobs, recipe, context.budget())? {
        return Ok(finished);
    }
    check_outputs(jobs, recipe, context.budget())?;
    let files = Files::open(&first.out)?;
    let mut run = TrainingRun::start(open, jobs, options, (&files, recipe), context)?;
    log.begin(run.index.step)?;
    let last = jobs.iter().map(|job| job.settings.steps).max().unwrap_or(0).min(options.stop_after.unwrap_or(u64::MAX));
    context.start("training", last, "steps");
    context.advance(run.index.step);
    while run.index.step < last && !run.index.stops.iter().all(|stop| stop.stopped) {
        if context.is_cancelled() {
            run.save(&files)?;
            return Err(Error::Cancelled);
        }
        match run.step(log) {
            // A stream was interrupted before the step.
            Err(Error::Cancelled) => {
                run.save(&files)?;
                return Err(Error::Cancelled);
            }
            step => step?,
        }
        run.snapshots()?;
        run.check_early_stopping(&files)?;
        if run.last_saved.elapsed() >= options.save_every && run.index.step < last {
            run.save(&files)?;
        }
        context.advance(1);
    }
    context.finish();
    let trained = run.finish(&files, recipe)?;
    files.finish()?;
    Ok(trained)
}

/// A training in progress.
struct TrainingRun<'a> {
    jobs: &'a [TrainJob],
    options: &'a TrainOptions<'a>,
    rows: Box<dyn TrainingRows + 'a>,
    trainers: Vec<Trainer>,
    index: Index,
    /// How rows are prepared, one per dictionary.
    scales: Vec<InputScale>,
    scaled: Vec<f32>,
    /// Time and step of the last log line, and what the network had done.
    last_logged: (Instant, u64, u64),
    /// When the state was last saved.
    last_saved: Instant,
    budget: &'a Budget,
}

/// Reserves the memory to write the largest state or dictionary: weights and moments as tensors and as a file.
fn reserve_write(jobs: &[TrainJob], budget: &Budget) -> Result<Reservation> {
    let matrix = |job: &TrainJob| (job.settings.latents as u64).saturating_mul(job.settings.width as u64);
    let bytes = jobs.iter().map(matrix).max().unwrap_or(0).saturating_mul(4 * 12);
    budget.reserve(bytes, "writing the state of a training")
}

impl<'a> TrainingRun<'a> {
    fn start(
        open: impl FnOnce(&Files, Option<&Index>) -> Result<Box<dyn TrainingRows + 'a>>,
        jobs: &'a [TrainJob],
        options: &'a TrainOptions<'a>,
        (files, recipe): (&Files, &str),
        context: &'a Context,
    ) -> Result<TrainingRun<'a>> {
        let budget = context.budget();
        let mut trainers =
            jobs.iter().map(|job| Trainer::within(job.settings.clone(), budget)).collect::<Result<Vec<_>>>()?;
        // Fails now rather than at the end if there is too little memory to write the result.
        drop(reserve_write(jobs, budget)?);
        trainers.iter_mut().for_each(|trainer| trainer.set_precision(options.precision));
        let saved = files.index(recipe, jobs.len())?;
        let mut rows = open(files, saved.as_ref())?;
        let index = match saved {
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
                let scales = rows.scales(jobs)?;
                rows.candidates(jobs, &mut trainers, &scales, context)?;
                let (stops, records) = (vec![Stop::default(); jobs.len()], vec![Record::default(); jobs.len()]);
                let (units, centres) = scales.into_iter().map(|scale| (scale.unit, scale.centre)).unzip();
                Index { recipe: recipe.into(), step: 0, units, centres, stops, records, stream: None }
            }
        };
        let scale = |(job, &unit): (usize, &f32)| {
            let centre = index.centres.get(job).cloned().unwrap_or_default();
            InputScale { unit, centre }
        };
        let scales = index.units.iter().enumerate().map(scale).collect();
        let last_logged = (Instant::now(), index.step, rows.work().map_or(0, |work| work.done));
        Ok(TrainingRun {
            jobs,
            options,
            rows,
            trainers,
            index,
            scales,
            scaled: Vec::new(),
            last_logged,
            last_saved: Instant::now(),
            budget,
        })
    }

    /// Whether a dictionary is still in training.
    fn is_running(&self, job: usize) -> bool {
        !self.index.stops[job].stopped && self.index.step < self.jobs[job].settings.steps
    }

    /// One step of every dictionary on the same rows.
    fn step(&mut self, log: &mut dyn Log) -> Result<()> {
        let (step, size) = (self.index.step, self.jobs[0].settings.batch);
        let every = self.options.log_every.max(1);
        let logged = step.is_multiple_of(every);
        let running: Vec<bool> = (0..self.jobs.len()).map(|job| self.is_running(job)).collect();
        self.rows.read(step, &running)?;
        let seconds = self.last_logged.0.elapsed().as_secs_f64().max(1e-9);
        let speed = (step - self.last_logged.1) as f64 * size as f64 / seconds;
        let work = self.rows.work();
        let network = work.map(|work| NetworkSpeed {
            per_second: (work.done - self.last_logged.2) as f64 / seconds,
            unit: work.unit,
        });
        for job in (0..self.jobs.len()).filter(|&job| running[job]) {
            let (scale, batch) = (&self.scales[job], self.rows.of(job));
            let rows = if scale.is_identity() && self.jobs[job].settings.input == Normalisation::None {
                batch
            } else {
                prepare(batch, &self.jobs[job].settings, scale, &mut self.scaled);
                &self.scaled[..]
            };
            let report = self.trainers[job].step(rows)?;
            if !report.term("loss").is_some_and(f64::is_finite) {
                return Err(diverged(job, step).into());
            }
            let steps = self.jobs[job].settings.steps;
            let (logged, recorded) = (logged || step + 1 == steps, Record::includes(step, steps));
            if logged || recorded {
                let line = Line::new(job, step, &self.jobs[job].settings, &report, rows, (speed, network));
                if recorded {
                    self.index.records[job].push(&line);
                }
                if logged {
                    log.line(&line)?;
                }
            }
        }
        if logged {
            self.last_logged = (Instant::now(), step + 1, work.map_or(0, |work| work.done));
        }
        self.index.step += 1;
        Ok(())
    }

    /// Writes copies of the dictionaries, if the options list this step.
    fn snapshots(&mut self) -> Result<()> {
        let step = self.index.step;
        if !self.options.snapshots.contains(&step) {
            return Ok(());
        }
        let mut trainers = std::mem::take(&mut self.trainers);
        for (job, trainer) in trainers.iter_mut().enumerate() {
            let TrainJob { out, .. } = &self.jobs[job];
            let mut name = out.file_name().unwrap_or_default().to_os_string();
            name.push(format!("-step-{step}"));
            let threshold = self.calibrate(job, trainer)?;
            self.write(job, trainer, threshold, &out.with_file_name(name), None)?;
        }
        self.trainers = trainers;
        Ok(())
    }

    /// Sets the threshold of a dictionary that selects over batches. Returns the rows that were used.
    fn calibrate(&self, job: usize, trainer: &mut Trainer) -> Result<Option<ThresholdRows>> {
        if !trainer.is_calibrated() {
            return Ok(None);
        }
        let (values, rows) = self.rows.threshold(&self.jobs[job], &self.scales[job], self.options, self.budget)?;
        trainer.calibrate(&values)?;
        Ok(Some(rows))
    }

    /// Evaluates the held-out error at the steps of early stopping, and stops dictionaries that no longer improve.
    fn check_early_stopping(&mut self, files: &Files) -> Result<()> {
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
                let _memory = reserve_write(self.jobs, self.budget)?;
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
            prepare(&tile.values, &self.jobs[job].settings, &self.scales[job], &mut scaled);
            sum += self.trainers[job].error_on(&scaled)? * tile.rows() as f64;
        }
        Ok(sum / rows.max(1) as f64)
    }

    fn save(&mut self, files: &Files) -> Result<()> {
        let _memory = reserve_write(self.jobs, self.budget)?;
        for (job, trainer) in self.trainers.iter().enumerate() {
            files.save(job, self.index.step, false, &trainer.to_tensors())?;
        }
        if let Some(held_out) = self.rows.held_out() {
            files.save_held_out(held_out)?;
        }
        self.index.stream = self.rows.state().cloned();
        files.commit(&self.index)?;
        self.last_saved = Instant::now();
        Ok(())
    }

    /// Writes a dictionary; the metadata of a finished one includes its recipe and its record.
    fn write(
        &self,
        job: usize,
        trainer: &Trainer,
        threshold: Option<ThresholdRows>,
        out: &Path,
        finished: Option<(&str, &Record)>,
    ) -> Result<Linear> {
        let _memory = reserve_write(self.jobs, self.budget)?;
        let dictionary = trainer.finish_scaled(&self.scales[job])?;
        let mut about = Map::new();
        about.insert("training".into(), json!(trainer.settings()));
        self.rows.describe(self.options, &mut about);
        about.insert("steps".into(), trainer.steps().into());
        about.insert("unit".into(), self.scales[job].unit.into());
        about.extend(threshold.map(|rows| ("threshold".to_string(), json!(rows))));
        about.insert("precision".into(), trainer.precision().into());
        if let Some((recipe, record)) = finished {
            about.insert("recipe".into(), recipe.into());
            record.insert_into(&mut about);
        }
        checkpoint::save(&dictionary, &about, "etalon", out)?;
        Ok(dictionary)
    }

    /// Writes every dictionary: the best weights with early stopping, else the last.
    fn finish(mut self, files: &Files, recipe: &str) -> Result<Vec<Trained>> {
        // If the run is interrupted while it writes the outputs, it resumes from the last state.
        self.save(files)?;
        let mut trained = Vec::new();
        for (job, mut trainer) in std::mem::take(&mut self.trainers).into_iter().enumerate() {
            if let Some((_, step)) = self.index.stops[job].best {
                trainer.restore(&files.load(job, step, true, self.budget)?)?;
            }
            let TrainJob { settings, out, .. } = &self.jobs[job];
            let (unit, steps) = (self.scales[job].unit, trainer.steps());
            let finished = Some((recipe, &self.index.records[job]));
            let threshold = self.calibrate(job, &mut trainer)?;
            let dictionary = self.write(job, &trainer, threshold, out, finished)?;
            let precision = trainer.precision().to_string();
            drop(trainer);
            let memory =
                self.budget.reserve(Linear::bytes(settings.latents, settings.width), "a trained dictionary")?;
            let dictionary = Box::new(dictionary.holding(memory));
            trained.push(Trained { dictionary, unit, steps, precision, threshold, kept: false });
        }
        Ok(trained)
    }
}

fn diverged(job: usize, step: u64) -> InputError {
    InputError::new("the training diverged: the loss is not finite")
        .at(format!("step {step} of dictionary {job}"))
        .advice(format!("use a smaller {}, a longer {} or {}", Key("lr"), Key("warmup"), Key("clip 1")))
}
