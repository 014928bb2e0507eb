//! The batches of a step from a stream: the same for all dictionaries.
//!
//! Rows of the first filled buffer that are held out are in no batch, whatever the architecture, so that every dictionary is
//! the same as if it were trained alone.

use std::borrow::Cow;

use serde_json::{Map, Value, json};

use super::super::aside::ThresholdRows;
use super::super::files::{Files, Index};
use super::super::input_scale::{InputScale, prepare};
use super::super::job::{TrainJob, TrainOptions};
use super::super::prepare::{RowMoments, candidates};
use super::super::row_stream::{RowStream, StreamWork};
use super::super::shuffle_buffer::{BufferState, ShuffleBuffer};
use super::super::trainer::Trainer;
use super::rows::TrainingRows;
use crate::context::{Budget, Context, Reservation, Reserved};
use crate::error::Result;

/// The batches of a stream.
pub(super) struct StreamRows<'a> {
    buffer: ShuffleBuffer<'a>,
    /// What the buffer can be rebuilt from, as it was after the last batch was drawn completely.
    state: BufferState,
    width: usize,
    capacity: usize,
    size: usize,
    batch: Vec<f32>,
    /// The memory of a batch and its prepared copy.
    _memory: Reservation,
}

impl<'a> StreamRows<'a> {
    /// Fills the buffer, or fills it again after an interruption.
    pub fn open(
        (stream, capacity): (&'a mut (dyn RowStream + 'a), usize),
        jobs: &[TrainJob],
        seed: u64,
        (files, index): (&Files, Option<&Index>),
        context: &'a Context,
    ) -> Result<StreamRows<'a>> {
        let (width, size) = (stream.width(), jobs.first().map_or(1, |job| job.settings.batch));
        let bytes = (size as u64).saturating_mul(width as u64).saturating_mul(8);
        let memory = context.budget().reserve(bytes, "batches of activations")?;
        let mut buffer = match index.and_then(|index| index.stream.as_ref()) {
            None => ShuffleBuffer::fill(stream, capacity, seed, context)?,
            Some(state) => {
                let held_out = files.load_held_out(context.budget())?;
                ShuffleBuffer::rebuild(stream, (capacity, seed), (state, held_out), context)?
            }
        };
        let state = buffer.state();
        Ok(StreamRows { buffer, state, width, capacity, size, batch: Vec::new(), _memory: memory })
    }
}

impl TrainingRows for StreamRows<'_> {
    fn scales(&mut self, jobs: &[TrainJob]) -> Result<Vec<InputScale>> {
        if !jobs.iter().any(|job| job.settings.normalise || job.settings.centre) {
            return Ok(vec![InputScale { unit: 1.0, centre: Vec::new() }; jobs.len()]);
        }
        let moments = RowMoments::of_rows(self.buffer.first_rows(), self.width);
        Ok(jobs.iter().map(|job| moments.scale(&job.settings)).collect())
    }

    fn candidates(
        &self,
        jobs: &[TrainJob],
        trainers: &mut [Trainer],
        scales: &[InputScale],
        context: &Context,
    ) -> Result<()> {
        let rows = self.buffer.first_rows();
        let row = |row: usize| Ok(Cow::Borrowed(&rows[row * self.width..(row + 1) * self.width]));
        candidates((rows.len() / self.width, &row), jobs, trainers, scales, context)
    }

    fn read(&mut self, _step: u64, _running: &[bool]) -> Result<()> {
        self.buffer.draw(self.size, &mut self.batch)?;
        self.state = self.buffer.state();
        Ok(())
    }

    fn of(&self, _job: usize) -> &[f32] {
        &self.batch
    }

    fn threshold(
        &self,
        job: &TrainJob,
        scale: &InputScale,
        _options: &TrainOptions<'_>,
        budget: &Budget,
    ) -> Result<(Reserved<Vec<f32>>, ThresholdRows)> {
        let rows = self.buffer.held_out();
        let memory = budget.reserve(rows.len() as u64 * 4, "the rows that set a threshold")?;
        let mut values = Vec::with_capacity(rows.len());
        prepare(rows, &job.settings, scale, &mut values);
        let about = ThresholdRows { rows: rows.len() / self.width, held_out: self.buffer.is_held_out() };
        Ok((Reserved::new(values, memory), about))
    }

    fn describe(&self, _options: &TrainOptions<'_>, about: &mut Map<String, Value>) {
        let mut stream = self.buffer.stream().about();
        let held_out = if self.buffer.is_held_out() { self.buffer.held_out().len() / self.width } else { 0 };
        stream.insert("buffer".into(), json!(self.capacity));
        // What was computed before the first step: threshold rows, and the mean and unit of rows.
        stream.insert("first_rows".into(), json!(self.buffer.first_count()));
        stream.insert("held_out_rows".into(), json!(held_out));
        about.insert("stream".into(), Value::Object(stream));
    }

    fn state(&self) -> Option<&BufferState> {
        Some(&self.state)
    }

    fn held_out(&self) -> Option<&[f32]> {
        Some(self.buffer.held_out())
    }

    fn work(&self) -> Option<StreamWork> {
        Some(self.buffer.stream().work())
    }
}
