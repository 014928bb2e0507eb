//! How a training goes, a line at a time.

use serde::Serialize;
use serde_json::{Map, Value, json};

use super::settings::TrainingSettings;
use super::trainer::Step;
use crate::error::Result;

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
    /// The training starts or resumes before this step: lines from there on will come again.
    fn begin(&mut self, step: u64) -> Result<()>;
    /// A step was done.
    fn line(&mut self, line: &Line) -> Result<()>;
}

impl Line {
    /// A step of a dictionary on some rows.
    pub(super) fn new(
        job: usize,
        step: u64,
        settings: &TrainingSettings,
        done: &Step,
        rows: &[f32],
        speed: f64,
    ) -> Line {
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
}
