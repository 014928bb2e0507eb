//! One task in one repeat.

use etalon_kernel::statistics::area_under_curve;
use serde::{Deserialize, Serialize};

use super::Protocol;
use super::search::{Chosen, Table};
use crate::error::Result;
use crate::metrics::probing::dense::fit_bytes;
use crate::metrics::probing::draw::{Drawn, Part, Pools, Shares};
use crate::metrics::probing::space::{Measure, Space, largest, whole_rows};
use crate::metrics::probing::tasks::Tasks;
use crate::probe::confusion::Verdict;
use crate::probe::design::Design;
use crate::probe::preconditioner::Spectrum;
use crate::results::Profile;
use crate::run::{CODES, EMBEDDINGS, Job};
use crate::store::ActivationStore;

/// How a probe does.
#[derive(Clone, Copy, Default, Serialize, Deserialize)]
pub struct Quality {
    /// The AUC on the test rows.
    pub area: Option<f64>,
    /// F1 of either class, weighed by rows, on the test rows.
    pub f1: Option<f64>,
    /// The accuracy on the test rows.
    pub accuracy: Option<f64>,
    /// The AUC on the rows that were held back.
    pub held_back: Option<f64>,
    /// The inverse strength of the penalty.
    pub strength: Option<f64>,
}

impl Quality {
    fn of(chosen: &Chosen, scores: &[f64], truth: &[bool]) -> Quality {
        let verdict = Verdict::of(truth, scores);
        Quality {
            area: area_under_curve(truth, scores),
            f1: verdict.weighted_f1(),
            accuracy: verdict.accuracy(),
            held_back: chosen.held_back,
            strength: Some(chosen.c),
        }
    }
}

/// A task with rows of both kinds.
#[derive(Serialize, Deserialize)]
pub struct TaskResult {
    /// Rows trained on.
    pub trained: usize,
    /// Rows tested on.
    pub tested: usize,
    /// Of probes on the best latents.
    pub by_size: Vec<Quality>,
    /// Of a probe on all channels.
    pub channels: Quality,
}

/// What all tasks share.
pub struct Probing<'a> {
    pub job: &'a Job<'a>,
    pub protocol: &'a Protocol,
    pub tasks: &'a Tasks<'a>,
    /// Of the channels, if there are probes on them.
    pub spectrum: Option<&'a Spectrum>,
}

impl Probing<'_> {
    /// Makes the probes of a block, a task in a repeat; `None` if a class is missing.
    pub fn run(&self, block: usize) -> Result<Option<TaskResult>> {
        let (repeat, task) = (block / self.tasks.count(), block % self.tasks.count());
        let [train, test] = self.draw(task, repeat)?;
        if !train.has_both() || !test.has_both() {
            return Ok(None);
        }
        let channels = match (self.job.find(&EMBEDDINGS), self.spectrum) {
            (Some(store), Some(spectrum)) if repeat < self.protocol.full_repeats => {
                self.channels(store, spectrum, &train, &test)?
            }
            _ => Quality::default(),
        };
        let by_size = self.by_size(&train, &test)?;
        Ok(Some(TaskResult { trained: train.rows.len(), tested: test.rows.len(), by_size, channels }))
    }

    /// Rows to train on and to test on.
    fn draw(&self, task: usize, repeat: usize) -> Result<[Drawn; 2]> {
        let (job, protocol) = (self.job, self.protocol);
        let shares = Shares { test: 0.0, validation: 0.0, most: protocol.most_positives };
        let pools = Pools::new(self.tasks, task, repeat, job.seed, &shares, job.budget())?;
        let mut train = pools.draw(Part::Train, 0);
        let rows = train.rows.len();
        let trained = match job.profile {
            Profile::Paper if rows < 200 => rows * 4 / 5,
            _ => rows.saturating_sub(100),
        };
        let at = trained.min(protocol.most_trained);
        let test = Drawn { rows: train.rows.split_off(at), positive: train.positive.split_off(at) };
        Ok([train, test])
    }

    /// Probes on the best latents.
    fn by_size(&self, train: &Drawn, test: &Drawn) -> Result<Vec<Quality>> {
        let (job, sizes) = (self.job, &self.protocol.sizes);
        let space = Space::Codes(job.get(&CODES)?);
        let most = sizes.last().copied().unwrap_or(0).min(space.width());
        let differences = space.differences(train, Measure::Normalised, job.budget())?;
        let chosen = largest(differences.iter().map(|difference| difference.abs()), most);
        drop(differences);
        let fitted = space.table(&train.rows, &chosen, job.budget())?;
        let scored = space.table(&test.rows, &chosen, job.budget())?;
        let mut qualities: Vec<Quality> = Vec::with_capacity(sizes.len());
        let mut width_before = None;
        for &size in sizes {
            let width = size.min(most);
            let quality = match qualities.last() {
                // Sizes beyond the number of latents ask the same question again.
                Some(quality) if width_before == Some(width) => *quality,
                _ => {
                    let table = |values| Table::Few { values, stride: most, width, penalty: self.protocol.penalty };
                    self.quality(&table(&fitted), &table(&scored), train, test)?
                }
            };
            qualities.push(quality);
            width_before = Some(width);
        }
        Ok(qualities)
    }

    /// A probe on all channels.
    fn channels(&self, store: &ActivationStore, spectrum: &Spectrum, train: &Drawn, test: &Drawn) -> Result<Quality> {
        let (budget, width) = (self.job.budget(), store.width());
        let (fitted, scored) = (whole_rows(store, &train.rows, budget)?, whole_rows(store, &test.rows, budget)?);
        // The rows of a fold are copied once more.
        let bytes = fit_bytes(&Design::Dense { values: &fitted, width }) + 4 * fitted.len() as u64;
        let _memory = budget.reserve(bytes, "the fit of a probe on all channels")?;
        let table = |values| Table::Whole { values, width, spectrum };
        self.quality(&table(&fitted), &table(&scored), train, test)
    }

    /// Searches a probe on some rows and tests it on others.
    fn quality(&self, fitted: &Table<'_>, scored: &Table<'_>, train: &Drawn, test: &Drawn) -> Result<Quality> {
        let weakest = self.job.profile == Profile::Reference;
        let Some(chosen) = fitted.search(&train.positive, weakest, self.job.context)? else {
            return Ok(Quality::default());
        };
        let rows: Vec<usize> = (0..test.rows.len()).collect();
        Ok(Quality::of(&chosen, &scored.scores(&rows, &chosen.probe), &test.positive))
    }
}
