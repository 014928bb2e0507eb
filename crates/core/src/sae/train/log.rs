//! The training log.

use serde::Serialize;
use serde_json::{Map, Value, json};

use super::settings::TrainingSettings;
use super::trainer::Step;
use crate::error::Result;

/// One line of the log.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Line {
    /// Index of the dictionary.
    pub job: usize,
    /// The step, from 0.
    pub step: u64,
    /// Terms of the loss by name.
    pub terms: Map<String, Value>,
    /// Explained variance of the batch; none if the batch has no variance.
    pub explained_variance: Option<f64>,
    /// Active latents per row.
    pub l0: f64,
    /// Share of dead latents.
    pub dead: f64,
    /// Learning rate.
    pub rate: f64,
    /// Rows per second since the last line. Speeds are the only numbers that differ from run to run.
    pub rows_per_second: f64,
    /// The speed of the network since the last line, if it runs during the training.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub network: Option<NetworkSpeed>,
}

/// How fast a network runs while dictionaries train; both take the same time.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct NetworkSpeed {
    /// Tokens or images per second.
    pub per_second: f64,
    /// What is counted.
    pub unit: &'static str,
}

/// Receives the log of a training.
pub trait Log {
    /// The training starts or resumes at this step. Lines from this step on will be repeated.
    fn begin(&mut self, step: u64) -> Result<()>;
    /// A logged step.
    fn line(&mut self, line: &Line) -> Result<()>;
}

impl Line {
    /// The log line of a step on a batch of rows.
    pub(super) fn new(
        job: usize,
        step: u64,
        settings: &TrainingSettings,
        report: &Step,
        rows: &[f32],
        (speed, network): (f64, Option<NetworkSpeed>),
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
            terms: report.terms.iter().map(|&(name, value)| (name.to_string(), json!(value))).collect(),
            explained_variance: (variance > 0.0).then(|| 1.0 - report.squared_error / variance),
            l0: report.l0,
            dead: report.dead as f64 / settings.latents as f64,
            rate: settings.rate_at(step),
            rows_per_second: speed,
            network,
        }
    }
}
