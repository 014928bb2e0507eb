//! Trains several dictionaries in one pass over a store, with a log, and with saved states to resume from.

mod batches;
#[cfg(test)]
mod tests;

use std::path::Path;
use std::time::Instant;

use serde_json::{Map, json};

use super::aside::{self, Aside, ThresholdRows};
use super::files::{Files, Index, Stop};
use super::input_scale::{InputScale, prepare};
use super::job::{Early, TrainJob, TrainOptions, Trained, check, check_outputs, finished, recipe, sets_aside};
use super::log::{Line, Log};
use super::prepare::candidates;
use super::record::Record;
use super::trainer::Trainer;
use crate::context::{Budget, Context, Monitor, Reservation};
use crate::error::{Error, InputError, Key, Result};
use crate::sae::checkpoint;
use crate::sae::linear::Linear;
use crate::sae::normalise::Normalisation;
use crate::store::ActivationStore;
use batches::Batches;

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
    let Some(first) = jobs.first() else { return Ok(Vec::new()) };
    check(store, jobs)?;
    let aside = Aside::draw(store.rows(), options.seed);
    let recipe = recipe(store, &aside, jobs, options)?;
    if let Some(finished) = finished(jobs, &recipe, context.budget())? {
        return Ok(finished);
    }
    check_outputs(jobs, &recipe, context.budget())?;
    let files = Files::open(&first.out)?;
    let mut run = TrainingRun::start((store, &aside), jobs, options, (&files, &recipe), context)?;
    log.begin(run.index.step)?;
    let last = jobs.iter().map(|job| job.settings.steps).max().unwrap_or(0).min(options.stop_after.unwrap_or(u64::MAX));
    context.start("training", last, "steps");
    context.advance(run.index.step);
    while run.index.step < last && !run.index.stops.iter().all(|stop| stop.stopped) {
        if context.is_cancelled() {
            run.save(&files)?;
            return Err(Error::Cancelled);
        }
        run.step(log)?;
        run.snapshots()?;
        run.check_early_stopping(&files)?;
        if run.last_saved.elapsed() >= options.save_every && run.index.step < last {
            run.save(&files)?;
        }
        context.advance(1);
    }
    context.finish();
    let trained = run.finish(&files, &recipe)?;
    files.finish()?;
    Ok(trained)
}

/// A training in progress.
struct TrainingRun<'a> {
    store: &'a ActivationStore,
    aside: &'a Aside,
    jobs: &'a [TrainJob],
    options: &'a TrainOptions<'a>,
    batches: Batches<'a>,
    trainers: Vec<Trainer>,
    index: Index,
    /// How rows are prepared, one per dictionary.
    scales: Vec<InputScale>,
    scaled: Vec<f32>,
    /// Time and step of the last log line.
    last_logged: (Instant, u64),
    /// When the state was last saved.
    last_saved: Instant,
    budget: &'a Budget,
    /// The memory of batches and their order.
    _memory: Reservation,
}

/// Reserves the memory to write the largest state or dictionary: weights and moments as tensors and as a file.
fn reserve_write(jobs: &[TrainJob], budget: &Budget) -> Result<Reservation> {
    let matrix = |job: &TrainJob| (job.settings.latents as u64).saturating_mul(job.settings.width as u64);
    let bytes = jobs.iter().map(matrix).max().unwrap_or(0).saturating_mul(4 * 12);
    budget.reserve(bytes, "writing the state of a training")
}

impl<'a> TrainingRun<'a> {
    fn start(
        (store, aside): (&'a ActivationStore, &'a Aside),
        jobs: &'a [TrainJob],
        options: &'a TrainOptions<'a>,
        (files, recipe): (&Files, &str),
        context: &'a Context,
    ) -> Result<TrainingRun<'a>> {
        let budget = context.budget();
        let mut batches = Batches::new(store, aside, jobs, options);
        let memory = budget.reserve(batches.memory(store, options), "batches of activations")?;
        let mut trainers =
            jobs.iter().map(|job| Trainer::within(job.settings.clone(), budget)).collect::<Result<Vec<_>>>()?;
        // Fails now rather than at the end if there is too little memory to write the result.
        drop(reserve_write(jobs, budget)?);
        trainers.iter_mut().for_each(|trainer| trainer.set_precision(options.precision));
        let index = match files.index(recipe, jobs.len())? {
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
                let scales = batches.scales(store, jobs)?;
                candidates(store, jobs, &mut trainers, &scales, context)?;
                let (stops, records) = (vec![Stop::default(); jobs.len()], vec![Record::default(); jobs.len()]);
                let (units, centres) = scales.into_iter().map(|scale| (scale.unit, scale.centre)).unzip();
                Index { recipe: recipe.into(), step: 0, units, centres, stops, records }
            }
        };
        let scale = |(job, &unit): (usize, &f32)| {
            let centre = index.centres.get(job).cloned().unwrap_or_default();
            InputScale { unit, centre }
        };
        let scales = index.units.iter().enumerate().map(scale).collect();
        let last_logged = (Instant::now(), index.step);
        Ok(TrainingRun {
            store,
            aside,
            jobs,
            options,
            batches,
            trainers,
            index,
            scales,
            scaled: Vec::new(),
            last_logged,
            last_saved: Instant::now(),
            budget,
            _memory: memory,
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
        let speed =
            (step - self.last_logged.1) as f64 * size as f64 / self.last_logged.0.elapsed().as_secs_f64().max(1e-9);
        let running: Vec<bool> = (0..self.jobs.len()).map(|job| self.is_running(job)).collect();
        self.batches.read(step, &running)?;
        for job in (0..self.jobs.len()).filter(|&job| running[job]) {
            let (scale, batch) = (&self.scales[job], self.batches.of(job));
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
                let line = Line::new(job, step, &self.jobs[job].settings, &report, rows, speed);
                if recorded {
                    self.index.records[job].push(&line);
                }
                if logged {
                    log.line(&line)?;
                }
            }
        }
        if logged {
            self.last_logged = (Instant::now(), step + 1);
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

    /// Sets the threshold of a dictionary that selects over batches: on held-out rows, on rows that were set aside or, if
    /// there are too few for that, on rows of the training. Returns the rows that were used.
    fn calibrate(&self, job: usize, trainer: &mut Trainer) -> Result<Option<ThresholdRows>> {
        if !trainer.is_calibrated() {
            return Ok(None);
        }
        let settings = &self.jobs[job].settings;
        let early = self.options.early.as_ref();
        let store = early.map_or(self.store, |early| early.held_out);
        let set_aside = sets_aside(&self.jobs[job], self.options) && !self.aside.rows().is_empty();
        let rows = match set_aside {
            true => self.aside.rows().to_vec(),
            false => aside::spread(store.rows(), settings.seed),
        };
        let (values, _memory) = aside::read(store, &rows, settings, &self.scales[job], self.budget)?;
        trainer.calibrate(&values)?;
        Ok(Some(ThresholdRows { rows: rows.len(), held_out: set_aside || early.is_some() }))
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
        about.insert("order".into(), json!(self.options.order));
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
