//! The batches of a step: of all rows, and of those that are not set aside.

use super::super::aside::Aside;
use super::super::input_scale::InputScale;
use super::super::job::{TrainJob, TrainOptions, sets_aside};
use super::super::order::RowOrder;
use super::super::prepare::RowMoments;
use crate::error::Result;
use crate::store::ActivationStore;

/// The batches of all dictionaries.
pub(super) struct Batches<'a> {
    sources: Vec<Source<'a>>,
    /// Rows of a batch.
    size: usize,
}

/// Batches that some dictionaries share.
struct Source<'a> {
    rows: RowOrder<'a>,
    batch: Vec<f32>,
    jobs: Vec<usize>,
}

impl<'a> Batches<'a> {
    /// No batch yet.
    pub fn new(
        store: &'a ActivationStore,
        aside: &'a Aside,
        jobs: &[TrainJob],
        options: &TrainOptions<'_>,
    ) -> Batches<'a> {
        let source = |sets: bool| {
            let of = (0..jobs.len()).filter(|&job| sets_aside(&jobs[job], options) == sets).collect();
            let rows = RowOrder::new(store, sets.then_some(aside), options.order, options.window, options.seed);
            Source { rows, batch: Vec::new(), jobs: of }
        };
        let sources = [false, true].map(source).into_iter().filter(|source| !source.jobs.is_empty()).collect();
        Batches { sources, size: jobs.first().map_or(1, |job| job.settings.batch) }
    }

    /// Bytes of the batches, their prepared copy and their order.
    pub fn memory(&self, store: &ActivationStore, options: &TrainOptions<'_>) -> u64 {
        let batch = (self.size as u64).saturating_mul(store.width() as u64).saturating_mul(8);
        // The row indices of a window, in order and shuffled.
        let order = 16 * options.window.min(store.rows()) as u64;
        batch.saturating_add(order).saturating_mul(self.sources.len() as u64)
    }

    /// How the rows of every dictionary are prepared.
    pub fn scales(&mut self, store: &ActivationStore, jobs: &[TrainJob]) -> Result<Vec<InputScale>> {
        let mut scales = vec![InputScale { unit: 1.0, centre: Vec::new() }; jobs.len()];
        for source in &mut self.sources {
            let is_changed = |&job: &usize| jobs[job].settings.normalise || jobs[job].settings.centre;
            if source.jobs.iter().any(is_changed) {
                let moments = RowMoments::of(&mut source.rows, self.size, store)?;
                source.jobs.iter().for_each(|&job| scales[job] = moments.scale(&jobs[job].settings));
            }
        }
        Ok(scales)
    }

    /// Reads the batches of a step for the dictionaries that are still in training.
    pub fn read(&mut self, step: u64, running: &[bool]) -> Result<()> {
        for source in self.sources.iter_mut().filter(|source| source.jobs.iter().any(|&job| running[job])) {
            source.rows.batch(step, self.size, &mut source.batch)?;
        }
        Ok(())
    }

    /// The batch of a dictionary.
    pub fn of(&self, job: usize) -> &[f32] {
        self.sources.iter().find(|source| source.jobs.contains(&job)).map_or(&[], |source| &source.batch)
    }
}
