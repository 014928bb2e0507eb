//! One task in one repeat.

use serde::{Deserialize, Serialize};

use super::Protocol;
use super::search::{ProbeInput, SearchedProbe};
use crate::error::Result;
use crate::metrics::probing::Probing;
use crate::metrics::probing::dense::fit_bytes;
use crate::metrics::probing::draw::{DrawnRows, Part, Pools, Shares};
use crate::metrics::probing::space::{MeanContrast, Space, largest, whole_rows};
use crate::metrics::probing::test_rows::TestScore;
use crate::probe::design::Design;
use crate::probe::preconditioner::Preconditioner;
use crate::results::Profile;
use crate::run::{CODES, EMBEDDINGS};
use crate::store::ActivationStore;

/// The quality of a probe.
#[derive(Clone, Default, Serialize, Deserialize)]
pub struct Quality {
    /// The AUC on the test rows.
    pub auc: Option<TestScore>,
    /// The mean F1 of both classes, weighted by rows, on the test rows.
    pub f1: Option<TestScore>,
    /// The accuracy on the test rows.
    pub accuracy: Option<TestScore>,
    /// The AUC on the held-out rows.
    pub held_out_auc: Option<f64>,
    /// The inverse strength of the penalty.
    pub c: Option<f64>,
}

impl Quality {
    fn of(searched: &SearchedProbe, scores: &[f64], test: &DrawnRows, parts: bool) -> Quality {
        Quality {
            auc: TestScore::auc(test, scores, parts),
            f1: TestScore::weighted_f1(test, scores, parts),
            accuracy: TestScore::accuracy(test, scores, parts),
            held_out_auc: searched.held_out_auc,
            c: Some(searched.c),
        }
    }
}

/// The result of a task with rows of both classes.
#[derive(Serialize, Deserialize)]
pub struct TaskQuality {
    /// Number of training rows.
    pub trained: usize,
    /// Number of test rows.
    pub tested: usize,
    /// Of probes on the best latents, by size.
    pub by_size: Vec<Quality>,
    /// Of a probe on all channels.
    pub channels: Quality,
}

impl Probing<'_, Protocol> {
    /// Fits the probes of a block, a task in a repeat; `None` if a class is missing.
    pub fn run(&self, block: usize) -> Result<Option<TaskQuality>> {
        let (repeat, task) = (block / self.tasks.count(), block % self.tasks.count());
        let [train, test] = self.draw(task, repeat)?;
        if !train.has_both() || !test.has_both() {
            return Ok(None);
        }
        let channels = match (self.job.find(&EMBEDDINGS), self.preconditioner) {
            (Some(store), Some(preconditioner)) if repeat < self.protocol.full_repeats => {
                self.channels(store, preconditioner, &train, &test)?
            }
            _ => Quality::default(),
        };
        let by_size = self.by_size(&train, &test)?;
        Ok(Some(TaskQuality { trained: train.rows.len(), tested: test.rows.len(), by_size, channels }))
    }

    /// Draws training and test rows.
    fn draw(&self, task: usize, repeat: usize) -> Result<[DrawnRows; 2]> {
        let (job, protocol) = (self.job, self.protocol);
        let shares = Shares { test: 0.0, validation: 0.0, most: protocol.most_positives };
        let pools = Pools::new(self.tasks, task, repeat, job.seed, &shares, job.budget())?;
        let mut train = pools.draw(Part::Train, 0);
        let rows = train.rows.len();
        let trained = match job.profile {
            Profile::Paper if rows < 200 => rows * 4 / 5,
            _ => rows.saturating_sub(100),
        };
        let trained = trained.min(protocol.most_trained);
        let test = DrawnRows { rows: train.rows.split_off(trained), positive: train.positive.split_off(trained) };
        Ok([train, test])
    }

    /// Probes on the best latents.
    fn by_size(&self, train: &DrawnRows, test: &DrawnRows) -> Result<Vec<Quality>> {
        let (job, sizes) = (self.job, &self.protocol.sizes);
        let space = Space::Codes(job.get(&CODES)?, self.lengths);
        let most = sizes.last().copied().unwrap_or(0).min(space.width());
        let differences = space.differences(train, MeanContrast::Normalised, job.budget())?;
        let latents = largest(differences.iter().map(|difference| difference.abs()), most);
        drop(differences);
        let fitted = space.table(&train.rows, &latents, job.budget())?;
        let scored = space.table(&test.rows, &latents, job.budget())?;
        let mut qualities: Vec<Quality> = Vec::with_capacity(sizes.len());
        let mut last_width = None;
        for &size in sizes {
            let width = size.min(most);
            let quality = match qualities.last() {
                // Sizes beyond the number of latents give the same probe.
                Some(quality) if last_width == Some(width) => quality.clone(),
                _ => {
                    let input =
                        |values| ProbeInput::Columns { values, stride: most, width, penalty: self.protocol.penalty };
                    self.quality(&input(&fitted), &input(&scored), (train, test), self.protocol.repeats == 1)?
                }
            };
            qualities.push(quality);
            last_width = Some(width);
        }
        Ok(qualities)
    }

    /// A probe on all channels.
    fn channels(
        &self,
        store: &ActivationStore,
        preconditioner: &Preconditioner,
        train: &DrawnRows,
        test: &DrawnRows,
    ) -> Result<Quality> {
        let (budget, width) = (self.job.budget(), store.width());
        let (fitted, scored) = (whole_rows(store, &train.rows, budget)?, whole_rows(store, &test.rows, budget)?);
        // The rows of a fold are copied once more.
        let bytes = fit_bytes(&Design::Dense { values: &fitted, width }) + 4 * fitted.len() as u64;
        let _memory = budget.reserve(bytes, "the fit of a probe on all channels")?;
        let input = |values| ProbeInput::Whole { values, width, preconditioner };
        self.quality(&input(&fitted), &input(&scored), (train, test), self.protocol.full_repeats == 1)
    }

    /// Searches a probe on training rows and tests it, with the part of every test row if there is only one split.
    fn quality(
        &self,
        fitted: &ProbeInput<'_>,
        scored: &ProbeInput<'_>,
        (train, test): (&DrawnRows, &DrawnRows),
        parts: bool,
    ) -> Result<Quality> {
        let weakest = self.job.profile == Profile::Reference;
        let Some(searched) = fitted.search(&train.positive, weakest, self.job.context)? else {
            return Ok(Quality::default());
        };
        let rows: Vec<usize> = (0..test.rows.len()).collect();
        Ok(Quality::of(&searched, &scored.scores(&rows, &searched.probe), test, parts))
    }
}
