//! The batches of a step from a store: of all rows, and of those that are not set aside.

use serde_json::{Map, Value, json};

use super::super::aside::{self, Aside, ThresholdRows};
use super::super::input_scale::InputScale;
use super::super::job::{TrainJob, TrainOptions, sets_aside};
use super::super::order::RowOrder;
use super::super::prepare::{RowMoments, candidates};
use super::super::trainer::Trainer;
use super::rows::TrainingRows;
use crate::context::{Budget, Context, Reservation, Reserved};
use crate::error::Result;
use crate::store::ActivationStore;

/// The batches of all dictionaries.
pub(super) struct StoreRows<'a> {
    store: &'a ActivationStore,
    aside: &'a Aside,
    sources: Vec<Source<'a>>,
    /// Rows of a batch.
    size: usize,
    /// The memory of batches and their order.
    _memory: Reservation,
}

/// Batches that some dictionaries share.
struct Source<'a> {
    rows: RowOrder<'a>,
    batch: Vec<f32>,
    jobs: Vec<usize>,
}

impl<'a> StoreRows<'a> {
    /// No batch yet.
    pub fn new(
        (store, aside): (&'a ActivationStore, &'a Aside),
        jobs: &[TrainJob],
        options: &TrainOptions<'_>,
        budget: &Budget,
    ) -> Result<StoreRows<'a>> {
        let source = |sets: bool| {
            let of = (0..jobs.len()).filter(|&job| sets_aside(&jobs[job], options) == sets).collect();
            let rows = RowOrder::new(store, sets.then_some(aside), options.order, options.window, options.seed);
            Source { rows, batch: Vec::new(), jobs: of }
        };
        let sources: Vec<Source<'_>> =
            [false, true].map(source).into_iter().filter(|source| !source.jobs.is_empty()).collect();
        let size = jobs.first().map_or(1, |job| job.settings.batch);
        // The batches and their prepared copy, and the row indices of a window, in order and shuffled.
        let batch = (size as u64).saturating_mul(store.width() as u64).saturating_mul(8);
        let order = 16 * options.window.min(store.rows()) as u64;
        let bytes = batch.saturating_add(order).saturating_mul(sources.len() as u64);
        let memory = budget.reserve(bytes, "batches of activations")?;
        Ok(StoreRows { store, aside, sources, size, _memory: memory })
    }
}

impl TrainingRows for StoreRows<'_> {
    fn scales(&mut self, jobs: &[TrainJob]) -> Result<Vec<InputScale>> {
        let mut scales = vec![InputScale { unit: 1.0, centre: Vec::new() }; jobs.len()];
        for source in &mut self.sources {
            let is_changed = |&job: &usize| jobs[job].settings.normalise || jobs[job].settings.centre;
            if source.jobs.iter().any(is_changed) {
                let moments = RowMoments::of(&mut source.rows, self.size, self.store)?;
                source.jobs.iter().for_each(|&job| scales[job] = moments.scale(&jobs[job].settings));
            }
        }
        Ok(scales)
    }

    fn candidates(
        &self,
        jobs: &[TrainJob],
        trainers: &mut [Trainer],
        scales: &[InputScale],
        context: &Context,
    ) -> Result<()> {
        let row = |row: usize| self.store.tile(row..row + 1).map(|tile| tile.values);
        candidates((self.store.rows(), &row), jobs, trainers, scales, context)
    }

    fn read(&mut self, step: u64, running: &[bool]) -> Result<()> {
        for source in self.sources.iter_mut().filter(|source| source.jobs.iter().any(|&job| running[job])) {
            source.rows.batch(step, self.size, &mut source.batch)?;
        }
        Ok(())
    }

    fn of(&self, job: usize) -> &[f32] {
        self.sources.iter().find(|source| source.jobs.contains(&job)).map_or(&[], |source| &source.batch)
    }

    /// Held-out rows, rows that were set aside or, if there are too few for that, rows of the training.
    fn threshold(
        &self,
        job: &TrainJob,
        scale: &InputScale,
        options: &TrainOptions<'_>,
        budget: &Budget,
    ) -> Result<(Reserved<Vec<f32>>, ThresholdRows)> {
        let early = options.early.as_ref();
        let store = early.map_or(self.store, |early| early.held_out);
        let set_aside = sets_aside(job, options) && !self.aside.rows().is_empty();
        let rows = match set_aside {
            true => self.aside.rows().to_vec(),
            false => aside::spread(store.rows(), job.settings.seed),
        };
        let (values, memory) = aside::read(store, &rows, &job.settings, scale, budget)?;
        let about = ThresholdRows { rows: rows.len(), held_out: set_aside || early.is_some() };
        Ok((Reserved::new(values, memory), about))
    }

    fn describe(&self, options: &TrainOptions<'_>, about: &mut Map<String, Value>) {
        about.insert("order".into(), json!(options.order));
    }
}
