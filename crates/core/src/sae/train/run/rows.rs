//! Where the rows of a training come from.

use serde_json::{Map, Value};

use super::super::aside::ThresholdRows;
use super::super::input_scale::InputScale;
use super::super::job::{TrainJob, TrainOptions};
use super::super::row_stream::StreamWork;
use super::super::shuffle_buffer::BufferState;
use super::super::trainer::Trainer;
use crate::context::{Budget, Context, Reserved};
use crate::error::Result;

/// The rows of a training.
pub(super) trait TrainingRows {
    /// How the rows of every dictionary are prepared. Called before the first batch is read.
    fn scales(&mut self, jobs: &[TrainJob]) -> Result<Vec<InputScale>>;
    /// Gives candidates to archetypal directions. Called before the first batch is read.
    fn candidates(
        &self,
        jobs: &[TrainJob],
        trainers: &mut [Trainer],
        scales: &[InputScale],
        context: &Context,
    ) -> Result<()>;
    /// Reads the batches of a step for the dictionaries that are still in training. Nothing has changed if it is cancelled.
    fn read(&mut self, step: u64, running: &[bool]) -> Result<()>;
    /// The batch of a dictionary.
    fn of(&self, job: usize) -> &[f32];
    /// The rows that set the threshold of a dictionary, as its trainer reads them.
    fn threshold(
        &self,
        job: &TrainJob,
        scale: &InputScale,
        options: &TrainOptions<'_>,
        budget: &Budget,
    ) -> Result<(Reserved<Vec<f32>>, ThresholdRows)>;
    /// Adds what is recorded in a dictionary.
    fn describe(&self, options: &TrainOptions<'_>, about: &mut Map<String, Value>);
    /// What must be saved to continue with the next step, besides its number.
    fn state(&self) -> Option<&BufferState> {
        None
    }
    /// Rows that must be saved once.
    fn held_out(&self) -> Option<&[f32]> {
        None
    }
    /// What a network has computed for the rows.
    fn work(&self) -> Option<StreamWork> {
        None
    }
}
